"""A subscription's entries for ``readCompacted``: those that a compaction kept, then the topic behind its horizon."""

from collections.abc import Sequence
from typing import Protocol

from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.slices import Pick, View
from engine.broker.compaction.compacted_ledger import CompactedLedger, behind
from engine.broker.compaction.ports import CompactionCursor
from engine.ledger.errors import NoSuchLedgerError


class Compacted(Protocol):
    """The newest compaction of a topic."""

    @property
    def horizon(self) -> Position | None:
        """Position up to which the topic was compacted; None when it was not."""
        ...

    async def ledger(self) -> CompactedLedger | None:
        """Return its ledger; None without one. Raises LedgerError while it cannot be opened, the store's errors."""
        ...


class CompactedCursor:
    """A DispatchCursor over ``cursor`` and its acknowledgements; it skips no entry that was kept (M11).

    Each read uses the newest compaction: after a change of the compacted ledger a reader continues at its position in
    the topic. ``acknowledged`` records acknowledgements in addition to the cursor's, which has none for positions that
    have left the topic.
    """

    def __init__(self, cursor: CompactionCursor, compacted: Compacted, start: Position) -> None:
        """Create a reader at ``start``: EARLIEST for everything kept, LATEST for the cursor's read position."""
        self.name = cursor.name
        self._cursor = cursor
        self._compacted = compacted
        self._at = cursor.read_position if start == LATEST else start
        """Next position to read, in the compacted ledger or in the topic."""
        self._first = self._at
        self._mark = cursor.mark
        self._known: CompactedLedger | None = None
        """Ledger in which the entry at ``_at`` has the number ``_number``."""
        self._number = 0

    @property
    def _covered(self) -> bool:
        horizon = self._compacted.horizon
        return horizon is not None and self._at <= horizon

    @property
    def _due(self) -> Position:
        """First position that is not acknowledged cumulatively."""
        cursor = self._cursor
        # Only acknowledgements move a durable cursor's mark: entries that it needs are not trimmed.
        if cursor.durable and cursor.mark > self._mark:
            self._first = max(self._first, behind(cursor.mark_delete))
        return self._first

    def acknowledged(self, position: Position) -> None:
        """Record that all entries up to and including ``position`` are acknowledged."""
        self._first = max(self._first, behind(position))

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        if self._covered:
            return None
        views = self._cursor.read_nowait(entries_max, bytes_max)
        self._pass(views)
        return views

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Return entries as ``DispatchCursor.read`` does. Raises LedgerError, CompactedFormatError."""
        while True:
            if not self._covered:
                views = await self._cursor.read(entries_max, bytes_max)
                # A compaction that ended during the read may have let entries before these leave the topic.
                if not self._covered:
                    self._pass(views)
                    return views
            views = await self._read_compacted(entries_max, bytes_max)
            if views:
                return views

    def _pass(self, views: list[View] | None) -> None:
        if views:
            last = views[-1]
            self._at = behind(last.run.position(last.stop - 1))

    async def _read_compacted(self, entries_max: int, bytes_max: int) -> list[View]:
        ledger = await self._compacted.ledger()
        if ledger is None:
            return []  # its cursor was deleted meanwhile
        try:
            start = self._at
            number = self._number if ledger is self._known else await ledger.find(start)
            views, number, ahead = await ledger.read(number, start, entries_max, bytes_max)
        except NoSuchLedgerError:
            if await self._compacted.ledger() is ledger:
                raise
            return []  # a newer ledger replaced it
        views = [due for view in views if (due := self._unacknowledged(view)) is not None]
        self._known, self._number, self._at = ledger, number, ahead
        if ahead > ledger.horizon:  # the topic's own entries follow
            self._cursor.rewind()
            self._cursor.pass_to(ledger.horizon)
        return views

    def _unacknowledged(self, view: View) -> View | None:
        run = view.run
        due = [i for i in view.indexes if not self.is_acknowledged(run.position(i))]
        return Pick(run, due) if due else None

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        return await self._cursor.replay(positions, bytes_max)

    def rewind(self) -> None:
        """Continue at the first unacknowledged position."""
        self._cursor.rewind()
        self._known = None
        self._at = self._due
        if not self._covered:
            self._at = max(self._at, self._cursor.read_position)
            self._cursor.pass_to(Position(self._at.ledger_id, self._at.entry_id - 1))

    def is_acknowledged(self, position: Position) -> bool:
        cursor, horizon = self._cursor, self._compacted.horizon
        if horizon is None or position > horizon:
            return cursor.is_acknowledged(position)
        # Kept entries may be before the mark although the client did not acknowledge them (M11).
        if position <= cursor.mark_delete:
            return position < self._due
        return cursor.is_acknowledged(position)

    @property
    def has_partial_batches(self) -> bool:
        return self._cursor.has_partial_batches

    def ack_set(self, position: Position) -> list[int] | None:
        return self._cursor.ack_set(position)


def start_of(cursor: CompactionCursor, wanted: Position) -> Position:
    """Return where a consumer of a durable subscription starts.

    EARLIEST, with everything kept, if it wants that and nothing of the topic was acknowledged; else LATEST.
    """
    unused = wanted == EARLIEST and cursor.mark_delete.entry_id < 0
    return EARLIEST if unused else LATEST
