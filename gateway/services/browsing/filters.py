"""Filters of browsed messages, and paths into JSON values. Pure."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.base.errors import InvalidField
from gateway.services.browsing.opening import BrowsedMessage

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
PATH_MAX = 1_000
STEPS_MAX = 50

Steps = tuple[str | int, ...]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Conditions that a message must all meet; those that are None or empty are not checked.

    ``key`` and ``producer`` are exact. ``properties``: name and value, or None where any value will do. ``text``: in
    the value, whatever its case. ``path``: steps into a JSON value that must exist there, with ``equals`` as its text.
    """

    key: str | None = None
    producer: str | None = None
    properties: tuple[tuple[str, str | None], ...] = ()
    text: str = ""
    path: Steps | None = None
    equals: str | None = None

    @property
    def empty(self) -> bool:
        return self == MessageFilter()

    def matches(self, browsed: BrowsedMessage, text_of: Callable[[BrowsedMessage], str]) -> bool:
        """Return whether a message meets the conditions. ``text_of`` decodes its value, if that is needed."""
        message = browsed.message
        if message is None:
            return self.empty
        if self.key is not None and message.key != self.key:
            return False
        if self.producer is not None and browsed.producer != self.producer:
            return False
        for name, value in self.properties:
            if name not in message.properties or value not in (None, message.properties[name]):
                return False
        if self.text and self.text.casefold() not in text_of(browsed).casefold():
            return False
        return self.path is None or self._at_path(text_of(browsed))

    def _at_path(self, text: str) -> bool:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return False
        for step in self.path or ():
            value = _step(value, step)
            if value is _ABSENT:
                return False
        if self.equals is None:
            return True
        return self.equals == (value if isinstance(value, str) else json.dumps(value))


def parse_path(text: str) -> Steps:
    """Return the steps of a path such as ``$.order.lines[0]['unit price']``. Raises InvalidField."""
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


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        inside = isinstance(value, list) and step < len(value)
        return value[step] if inside else _ABSENT
    return value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
