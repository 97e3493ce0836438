"""The age of a subscription's backlog: when its first unacknowledged entry was published."""

from typing import NamedTuple

from engine.base.ids import Position
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor
from engine.managed.stats import EntrySummary


class FirstEntry(NamedTuple):
    position: Position
    summary: EntrySummary


class OldestEntry:
    """The first entry that a cursor has not acknowledged. An entry is read once; the result holds until the cursor
    moves."""

    __slots__ = ("_cursor", "_last", "_log")

    def __init__(self, log: ReadableLog, cursor: SubscriptionCursor) -> None:
        self._log = log
        self._cursor = cursor
        self._last: FirstEntry | None = None
        """The entry that was found last."""

    def at_hand(self) -> FirstEntry | None:
        """Return the entry as far as it is known or in memory; None also without a backlog."""
        if not self._cursor.backlog_entries():
            self._last = None
            return None
        position, first = self._position(), self._last
        if first is None or first.position != position:
            summary = self._log.entry_summary_at_hand(position)
            if summary is None:
                return None
            first = self._last = FirstEntry(position, summary)
        return first

    def publish_ms(self) -> int | None:
        """Return when the first unacknowledged entry was published, epoch milliseconds.

        0 when everything is acknowledged, None when it is not known. Nothing is read from storage: the result may be of
        an earlier entry, never of a later one.
        """
        first = self.at_hand()
        if first is None:
            if not self._cursor.backlog_entries():
                return 0
            first = self._last
            # A cursor that was moved back makes the last result younger than the entry: then the age is not known.
            if first is None or first.position > self._position():
                return None
        return first.summary.publish_ms

    async def find(self) -> FirstEntry:
        """Return the entry, which is read from storage unless it is known; there must be a backlog. Cancel-safe.

        Raises the log's errors.
        """
        first = self.at_hand()
        if first is None:
            position = self._position()
            first = FirstEntry(position, await self._log.entry_summary(position))
            self._last = first
        return first

    def _position(self) -> Position:
        return self._log.next_position(self._cursor.mark_delete)
