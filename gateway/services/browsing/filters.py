"""Filters of browsed messages. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.schema.json_paths import ABSENT, Steps, at_path, is_written, read_json
from gateway.services.browsing.opening import BrowsedMessage


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Conditions that a message must all meet; those that are None or empty are not checked.

    ``key`` and ``producer`` are exact. ``properties``: name and value, or None where any value will do. ``text``: in
    the value, whatever its case. ``path``: steps into a JSON value that must exist there, with ``equals`` as a person
    writes it: numbers are compared by all their digits.
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
            value = read_json(text)
        except (ValueError, RecursionError):
            return False
        value = at_path(value, self.path or ())
        if value is ABSENT:
            return False
        return self.equals is None or is_written(value, self.equals)
