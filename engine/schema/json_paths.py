"""Paths into JSON values, such as ``$.order.lines[0]['unit price']``. Pure."""

import re
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
