"""Paths into JSON values, such as ``$.order.lines[0]['unit price']``. Pure."""

import json
import re
from decimal import Decimal
from typing import Any

from engine.base.errors import InvalidField

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
PATH_MAX = 1_000
STEPS_MAX = 50
ABSENT = object()
"""The value at a path that does not exist; equal to nothing else."""

Steps = tuple[str | int, ...]
"""Names of members of objects, and indexes of arrays."""


def parse_path(text: str) -> Steps:
    """Return the steps of a path; ``$`` and the first dot may be omitted. Raises InvalidField."""
    if len(text) > PATH_MAX:
        raise InvalidField("path", f"at most {PATH_MAX} characters")
    rest = text.removeprefix("$")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None or len(steps) == STEPS_MAX:
            raise InvalidField(
                "path",
                f"expected names and indexes such as $.lines[0].price, at most {STEPS_MAX},"
                f" not {rest[at : at + 40]!r}",
            )
        name, index, *quoted = step.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(next(part for part in (name, *quoted) if part is not None))
        at = step.end()
    return tuple(steps)


def at_path(document: Any, steps: Steps) -> Any:
    """Return what a value has at a path, or ABSENT. An index is also the name of an object's member."""
    for step in steps:
        if isinstance(document, dict) and str(step) in document:
            document = document[str(step)]
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return ABSENT
    return document


class JsonNumber(str):
    """A number of a JSON document as it is written there, with all its digits."""

    __slots__ = ()


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def read_json(text: str | bytes) -> Any:
    """Return a JSON document with its numbers as they are written: a float would lose digits, and Python refuses to
    read a whole number of more than 4,300. Raises ValueError, RecursionError."""
    return json.loads(text, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=JsonNumber)


def is_written(value: Any, wanted: str) -> bool:
    """Return whether a value of ``read_json`` is what a person wrote: a text as it is, without quotes; a number by its
    exact value, so that 1.10 is 1.1; other values as JSON."""
    if isinstance(value, JsonNumber):
        return _is_same_number(value, wanted)
    if isinstance(value, str):
        return value == wanted
    try:
        return _is_same(value, read_json(wanted))
    except (ValueError, RecursionError):
        return False


def _is_same_number(value: str, wanted: str) -> bool:
    if value == wanted:
        return True
    if not (_NUMBER.fullmatch(value) and _NUMBER.fullmatch(wanted)):
        return False
    try:
        return Decimal(value) == Decimal(wanted)
    except ArithmeticError:  # an exponent beyond what Decimal has: the texts differ
        return False


def _is_same(value: Any, other: Any) -> bool:
    if isinstance(value, JsonNumber) and isinstance(other, JsonNumber):
        return _is_same_number(value, other)
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(
            _is_same(member, other[name]) for name, member in value.items()
        )
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return bool(value == other)
