"""Lagging subscriptions and the figures of all of them, assembled from the brokers' incremental answers. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from gateway.services.feeds.row_list import RowChanges

Figures = tuple[int | None, int]
"""Backlog in entries (None: unknown) and messages out per second in thousandths."""
OnChange = Callable[[str, str, Figures | None, Figures | None], None]
"""Callback for each change: topic or partition, subscription, figures before and after. None stands for figures without
a backlog and without traffic."""


class Followers(Protocol):
    """An observer of the subscriptions of topics and partitions."""

    def report(self, part: str, cells: Iterable[Iterable[Any]]) -> None: ...

    def end(self, part: str) -> None: ...


class Finding(NamedTuple):
    """A lagging subscription of one topic or partition; see ``engine.admin.lag``.

    ``backlog`` in entries, ``growth`` in entries per second.
    """

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
        """Messages in the backlog; None: unknown."""
        messages = self.evidence.get("messages")
        return messages if isinstance(messages, int) else None


class Findings:
    """Findings of all brokers, for one event loop.

    ``version`` grows with every change of a finding. ``on_change`` may be set to observe the figures.
    """

    def __init__(self) -> None:
        self.version = 0
        self.moves = 0
        """Count of topics with findings that moved to another broker or to none. A new owner needs time to find again
        what its predecessor found."""
        self.on_change: OnChange | None = None
        self.followers: Followers | None = None
        """Notified of the rows that count."""
        self._rows: dict[str, dict[str, list[Any]]] = {}
        """Rows by broker and topic."""
        self._owner: dict[str, str] = {}
        """The broker whose row counts, by topic: the one that reported the topic last."""
        self._findings: dict[tuple[str, str], Finding] = {}

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings.values())

    def __contains__(self, topic: str) -> bool:
        """Return whether a broker reports figures of this topic or partition."""
        return topic in self._owner

    def reported(self, broker: str) -> Iterable[str]:
        """Return the topics and partitions with a row of this broker."""
        return self._rows.get(broker, ())

    def apply(self, broker: str, changes: RowChanges) -> None:
        """Apply changes of a broker's ``SUBSCRIPTION_ROWS``."""
        rows = self._rows.setdefault(broker, {})
        for topic, *subscriptions in changes.rows:
            if self._owner.get(topic, broker) != broker:
                self.moves += bool(self.of(topic))
            before = self._row(topic)
            rows[topic] = subscriptions
            self._owner[topic] = broker
            self._changed(topic, before, subscriptions)
            if self.followers is not None:
                self.followers.report(topic, subscriptions)
        for topic in changes.gone:
            self._remove(broker, topic)

    def forget(self, broker: str) -> None:
        """Remove a broker that has left, with everything that it reported."""
        for topic in list(self.reported(broker)):
            self._remove(broker, topic)
        self._rows.pop(broker, None)

    def of(self, topic: str) -> dict[str, Finding]:
        """Return the findings of a topic or partition by subscription."""
        findings = ((row[0], self._findings.get((topic, row[0]))) for row in self._row(topic))
        return {name: finding for name, finding in findings if finding is not None}

    def figures(self) -> Iterator[tuple[str, str, Figures]]:
        """Yield topic or partition, subscription and figures of each subscription with a backlog or traffic."""
        for topic in self._owner:
            for cell in self._row(topic):
                if (figures := _figures(cell)) is not None:
                    yield topic, cell[0], figures

    def figures_of(self, topic: str) -> dict[str, Figures]:
        """Return the figures of a topic's or partition's subscriptions that have a backlog or traffic, by name."""
        return {
            cell[0]: figures for cell in self._row(topic) if (figures := _figures(cell)) is not None
        }

    def _row(self, topic: str) -> list[Any]:
        return self._rows.get(self._owner.get(topic, ""), {}).get(topic, [])

    def _remove(self, broker: str, topic: str) -> None:
        row = self._rows[broker].pop(topic, None)
        # The previous owner's removal may arrive after the new owner's first row, which then counts.
        if row is not None and self._owner.get(topic) == broker:
            self.moves += any((topic, subscription[0]) in self._findings for subscription in row)
            del self._owner[topic]
            self._changed(topic, row, [])
            if self.followers is not None:
                self.followers.end(topic)

    def _changed(self, topic: str, before: list[Any], after: list[Any]) -> None:
        old_rows = {row[0]: row for row in before}
        for row in after:
            name, backlog, _, lag = row[:4]
            self._note(topic, name, old_rows.pop(name, None), row)
            if lag is not None:
                cause, severity, since_ms, growth, evidence = lag
                self.version += 1
                self._findings[topic, name] = Finding(
                    topic, name, backlog, cause, severity, since_ms, growth / 1000, evidence
                )
            elif self._findings.pop((topic, name), None) is not None:
                self.version += 1
        for name, old in old_rows.items():
            if self._findings.pop((topic, name), None) is not None:
                self.version += 1
            self._note(topic, name, old, None)

    def _note(self, topic: str, name: str, old: list[Any] | None, new: list[Any] | None) -> None:
        """Report a change of figures."""
        if self.on_change is not None and (before := _figures(old)) != (after := _figures(new)):
            self.on_change(topic, name, before, after)


def _figures(cell: list[Any] | None) -> Figures | None:
    """Return the figures of a ``SubscriptionCell``."""
    if cell is None or (cell[1] == 0 and cell[2] == 0):
        return None
    return cell[1], cell[2]
