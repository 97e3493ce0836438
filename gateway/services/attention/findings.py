"""What brokers find behind, and each subscription's figures, by topic or partition, bit by bit. Pure."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Figures = tuple[int | None, int]
"""Backlog (None: not known) and messages out per second in thousandths."""
Heed = Callable[[str, str, Figures | None, Figures | None], None]
"""Told (topic or partition, subscription, before, after) of each change; None: nothing waits and nothing flows."""


class Finding(NamedTuple):
    """One subscription of one topic or partition that does not drain; see ``engine.admin.lag``. ``backlog`` in entries,
    ``growth`` in entries per second."""

    topic: str
    subscription: str
    backlog: int | None
    cause: str
    severity: str
    since_ms: int
    growth: float
    evidence: dict[str, Any]

    @property
    def messages(self) -> int | None:
        """In the backlog; None: not known."""
        found = self.evidence.get("messages")
        return found if isinstance(found, int) else None


class _Told:
    """What one broker told."""

    __slots__ = ("rows", "unseen")

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.unseen: dict[str, None] = {}
        """Of a list of everything that is coming: what was not named yet."""


class Findings:
    """On one event loop. ``version`` grows with every change of what is found. ``heed`` may be set by whoever keeps the
    figures."""

    def __init__(self) -> None:
        self.version = 0
        self.moves = 0
        """How often a topic of which something was found came to another broker, or to none: that one has to see first
        what this one saw."""
        self.heed: Heed | None = None
        self._told: dict[str, _Told] = {}
        self._owner: dict[str, str] = {}
        """Which broker's row counts: the one that told it last."""
        self._found: dict[tuple[str, str], Finding] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __contains__(self, topic: str) -> bool:
        """Whether a broker tells something of this topic or partition."""
        return topic in self._owner

    def hear(self, broker: str, answer: dict[str, Any]) -> None:
        """An answer to ``SUBSCRIPTION_ROWS``."""
        told = self._told.setdefault(broker, _Told())
        if answer["whole"]:
            told.unseen = dict.fromkeys(told.rows)
        for topic, *subscriptions in answer["rows"]:
            told.unseen.pop(topic, None)
            if self._owner.get(topic, broker) != broker:
                self.moves += bool(self.of(topic))
            before = self._row(topic)
            told.rows[topic] = subscriptions
            self._owner[topic] = broker
            self._changed(topic, before, subscriptions)
        for topic in answer["gone"]:
            self._leave(broker, told, topic)
        if not answer["more"]:
            for topic in told.unseen:
                self._leave(broker, told, topic)
            told.unseen = {}

    def forget(self, broker: str) -> None:
        """The broker is gone, and what it told with it."""
        told = self._told.pop(broker, _Told())
        for topic in list(told.rows):
            self._leave(broker, told, topic)

    def of(self, topic: str) -> dict[str, Finding]:
        """What is found of a topic or partition, by subscription."""
        found = ((row[0], self._found.get((topic, row[0]))) for row in self._row(topic))
        return {name: one for name, one in found if one is not None}

    def figures(self) -> Iterator[tuple[str, str, Figures]]:
        """Topic or partition, subscription, and its figures, of all where something waits or flows."""
        for topic in self._owner:
            for name, backlog, rate, _ in self._row(topic):
                yield topic, name, (backlog, rate)

    def _row(self, topic: str) -> list[Any]:
        owner = self._owner.get(topic)
        return self._told[owner].rows.get(topic, []) if owner in self._told else []

    def _leave(self, broker: str, told: _Told, topic: str) -> None:
        row = told.rows.pop(topic, None)
        if row is not None and self._owner.get(topic) == broker:
            self.moves += any((topic, one[0]) in self._found for one in row)
            del self._owner[topic]
            self._changed(topic, row, [])

    def _changed(self, topic: str, before: list[Any], after: list[Any]) -> None:
        old = {row[0]: row for row in before}
        for row in after:
            name, backlog, rate, lag = row
            was = old.pop(name, None)
            if self.heed is not None and (was is None or was[1:3] != row[1:3]):
                self.heed(topic, name, None if was is None else (was[1], was[2]), (backlog, rate))
            if lag is not None:
                cause, severity, since_ms, growth, evidence = lag
                self.version += 1
                self._found[topic, name] = Finding(
                    *(topic, name, backlog, cause, severity, since_ms, growth / 1000, evidence)
                )
            elif self._found.pop((topic, name), None) is not None:
                self.version += 1
        for name, was in old.items():
            if self._found.pop((topic, name), None) is not None:
                self.version += 1
            if self.heed is not None:
                self.heed(topic, name, (was[1], was[2]), None)
