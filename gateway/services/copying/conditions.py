"""Conditions of the messages that a copy takes, as stored with the copy. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.base.errors import InvalidField
from engine.schema.json_paths import parse_path
from engine.schema.values.letter_properties import normal, origin_of, reason_of, shape_of_value
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, Kind

TEXT_MAX = 10_000
PROPERTIES_MAX = 20
NO_CONDITION = MessageFilter()
Place = tuple[int, int, int]
"""Ledger, entry and index in the batch."""


@dataclass(frozen=True, slots=True)
class Letter:
    """The common features of a group of dead letters; empty texts are not known."""

    origin: str
    subscription: str
    reason: str
    shape: str


def letter_of(topic: str, browsed: BrowsedMessage) -> Letter:
    """Return the group of a message of ``topic``."""
    message = browsed.message
    properties = {} if message is None else message.properties
    origin, subscription = origin_of(topic, properties)
    if browsed.kind is Kind.MESSAGE and message is not None:
        shape = shape_of_value(message.value)
    else:
        shape = {Kind.CHUNK: "in chunks"}.get(browsed.kind, str(browsed.kind))
    return Letter(origin, subscription, normal(reason_of(properties)), shape)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that a message must all meet. ``since_ms`` and ``until_ms`` bound its publish time, which is before
    the latter; ``first`` and ``last`` its position in a single topic or partition, both included. ``group``: members of
    ``Letter`` that must be equal; None: any."""

    wanted: MessageFilter = NO_CONDITION
    since_ms: int | None = None
    until_ms: int | None = None
    first: Place | None = None
    last: Place | None = None
    group: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Conditions":
        """Return the conditions of a JSON object, whose members may be missing or null. Raises InvalidField."""
        texts = {name: given.get(name) for name in ("key", "producer", "text", "path", "equals")}
        for name, text in texts.items():
            if text is not None and len(text) > TEXT_MAX:
                raise InvalidField(name, f"must have at most {TEXT_MAX} characters")
        properties = given.get("properties") or []
        if len(properties) > PROPERTIES_MAX:
            raise InvalidField("properties", f"must be at most {PROPERTIES_MAX}")
        path = parse_path(texts["path"]) if texts["path"] else None
        if texts["equals"] is not None and path is None:
            raise InvalidField("equals", "needs a path")
        pairs = (text.partition("=") for text in properties)
        group = given.get("group") or {}
        return cls(
            MessageFilter(
                texts["key"],
                texts["producer"],
                tuple((name, value if mark else None) for name, mark, value in pairs),
                texts["text"] or "",
                path,
                texts["equals"],
            ),
            given.get("since"),
            given.get("until"),
            _place(given, "first"),
            _place(given, "last"),
            tuple(sorted((name, text) for name, text in group.items() if text is not None)),
        )

    def matches(
        self, topic: str, browsed: BrowsedMessage, text_of: Callable[[BrowsedMessage], str]
    ) -> bool:
        """Return whether a message of ``topic`` is taken."""
        if self.since_ms is not None and browsed.publish_ms < self.since_ms:
            return False
        if self.until_ms is not None and browsed.publish_ms >= self.until_ms:
            return False
        if self.first is not None and browsed.position < self.first:
            return False
        if self.last is not None and browsed.position > self.last:
            return False
        if self.group:
            letter = letter_of(topic, browsed)
            if any(getattr(letter, name) != text for name, text in self.group):
                return False
        return self.wanted.matches(browsed, text_of)


def _place(given: dict[str, Any], name: str) -> Place | None:
    """Return the position of a text ``ledger:entry`` or ``ledger:entry:index``; without an index, ``first`` is the
    first message of the entry and ``last`` the last one."""
    text = given.get(name)
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise InvalidField(name, "must be ledger:entry or ledger:entry:index")
    index = int(parts[2]) if len(parts) == 3 else (-1 if name == "first" else 1 << 31)
    return int(parts[0]), int(parts[1]), index
