"""The part of a cursor that reads: unacknowledged entries in order, from memory where they are there.

They are read up to the readable limit (I40), from the tail cache, the topic's shared backlog segments, or the bookies.
Nothing new is read while the acknowledgements are near the largest size that can be persisted.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from engine.base.ids import Position
from engine.base.ranges import RangeSet
from engine.base.slices import View
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.ack_state import AckState
from engine.managed.cursors.persister import Persister
from engine.managed.errors import (
    CursorMisuseError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
)
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.reads import Source, collect
from engine.managed.reading.replay import replay

log = logging.getLogger(__name__)


class CursorReader:
    """The base class of ``Cursor``. ``_next``: ordinal from which on nothing was read; entries before it may be read
    again."""

    __slots__ = (
        "_acks",
        "_aside",
        "_behind",
        "_entries",
        "_error",
        "_held_back",
        "_line",
        "_next",
        "_persister",
        "_reading",
        "name",
        "on_unblocked",
    )

    def __init__(
        self, name: str, acks: AckState, entries: LogEntries, persister: Persister | None
    ) -> None:
        self.name = name
        self.on_unblocked: Callable[[], None] | None = None
        self._acks = acks
        self._entries = entries
        self._line = entries.line
        self._persister = persister
        if persister is not None:
            persister.on_stored(self._unblock)
        self._error: ManagedLedgerError | None = None
        self._next = acks.mark
        self._aside: RangeSet | None = None
        self._reading = False
        self._behind = False  # counted among the backlog's readers
        self._held_back = False

    @property
    def read_position(self) -> Position:
        return self._line.position(max(self._next, self._acks.mark))

    @property
    def blocked(self) -> str | None:
        """The reason why nothing new is read: the acknowledged ranges are near the largest size that can be persisted
        (M6). None while reads are not blocked.

        Entries before the last acknowledged one are still read: they have to be acknowledged for the pause to end.
        """
        if self._persister is None or not self._persister.near_limit:
            return None
        limit, size = self._persister.limit_bytes, self._persister.state_bytes
        count = len(self._acks.holes)
        return f"{count} acknowledged ranges take {size} of {limit} bytes: acknowledge the oldest messages first"

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """Return unacknowledged entries from memory, at least one if there is any, and advance ``read_position``.

        ``[]``: nothing to read until ``ManagedLedger.on_readable``, or ``on_unblocked`` if ``blocked``. ``None``: not
        in memory, use ``read``.
        """
        self._check()
        if self._reading:
            return None
        return self._read_memory(entries_max, bytes_max)

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Read as ``read_nowait`` does, from the bookies where needed; ``[]`` at the end. Cancel-safe: nothing is
        skipped.

        Raises LedgerError when the entries cannot be read, CursorMisuseError when another read is in progress.
        """
        self._check()
        if self._reading:
            raise CursorMisuseError(f"cursor {self.name} is being read already")
        self._reading = True
        try:
            views = self._read_memory(entries_max, bytes_max)
            while views is None:
                segment = await self._fetch(bytes_max)
                self._check()
                views = self._read_memory(entries_max, bytes_max, segment)
            return views
        finally:
            self._reading = False

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        """Read these entries again, in order of position. Acknowledged and trimmed ones are omitted. The result ends
        when its buffers exceed ``bytes_max`` bytes, after one buffer at least.

        Does not move ``read_position``. Cancel-safe.
        """
        self._check()
        return await replay(self._entries, self._acks, positions, bytes_max)

    def unacknowledged(self, first: Position, last: Position, count: int) -> list[Position]:
        """Return the first ``count`` unacknowledged entries from ``first`` to ``last``, both included."""
        line = self._line
        positions: list[Position] = []
        for start, stop in self._acks.pending(line.ordinal(first), line.ordinal_after(last)):
            stop = min(stop, start + count - len(positions))
            positions += [line.position(ordinal) for ordinal in range(start, stop)]
            if len(positions) == count:
                break
        return positions

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry on."""
        self._next = self._acks.mark

    def pass_to(self, position: Position) -> None:
        """Read nothing up to ``position`` any more, until the next ``rewind``."""
        self._next = max(self._next, self._line.ordinal_after(position))

    def set_aside(self, spans: Iterable[tuple[int, int, int]]) -> None:
        """Omit these entries until all of them were passed: (ledger id, first, behind the last), in any order. They
        replace those of the previous call."""
        line = self._line
        ranges: list[tuple[int, int]] = []
        for ledger_id, first, stop in spans:
            base, entries = line.extent(ledger_id)
            stop = min(stop, entries)
            if first < stop:
                ranges.append((base + first, base + stop))
        self._aside = RangeSet(sorted(ranges)) if ranges else None

    def has_more(self) -> bool:
        """Return whether there is an entry to read at or behind ``read_position``."""
        start = max(self._next, self._acks.mark)
        return next(self._unread(start, self._line.readable_to), None) is not None

    def _unread(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the intervals in ``[start, stop)`` that are to be read."""
        pending, aside = self._acks.pending(start, stop), self._aside
        if aside is None:
            return pending
        if start >= aside.top:
            self._aside = None
            return pending
        return (gap for low, high in pending for gap in aside.gaps(low, high))

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _read_memory(
        self, entries_max: int, bytes_max: int, extra: Source | None = None
    ) -> list[View] | None:
        """Read as ``read_nowait``. ``extra``: the segment just fetched for this cursor, which the backlog may have
        released already."""
        entries, acks = self._entries, self._acks
        end = self._line.readable_to
        if self._persister is not None and self._persister.near_limit:
            # Acknowledgements behind the highest range make the stored state larger, those that fill its holes
            # smaller. Above its limit it could not be stored any more (M6).
            end = min(end, acks.top)
            self._warn_blocked()
        if self._next >= end:
            return []
        first = next(self._unread(self._next, end), None)
        if first is None:
            self._next = end
            return []
        start = first[0]
        if entries.tail.covers(start):
            if self._behind:
                self._leave_backlog()
            views, self._next = collect(
                entries.tail, self._unread(start, end), end, entries_max, bytes_max
            )
            return views
        source: Source = entries.backlog
        if not source.covers(start):
            if extra is None or not extra.covers(start):
                return None
            source = extra
        views, self._next = collect(source, self._unread(start, end), end, entries_max, bytes_max)
        # Cursors that follow each other through old entries share a segment, which is released behind the last cursor.
        self._behind = True
        entries.backlog.passed(self.name, self._next)
        return views

    def _warn_blocked(self) -> None:
        if not self._held_back:
            self._held_back = True
            log.warning("nothing new is read cursor=%s: %s", self.name, self.blocked)

    def _leave_backlog(self) -> None:
        self._behind = False
        self._entries.backlog.left(self.name)

    async def _fetch(self, bytes_max: int) -> Source | None:
        """Fetch the entries from the first unacknowledged one on. A rewind or reset meanwhile makes the result useless,
        not wrong."""
        first = next(self._unread(self._next, self._line.readable_to), None)
        if first is None:
            return None
        ledger, _ = self._line.find(first[0])
        self._behind = True
        try:
            return await self._entries.backlog.fetch(self.name, first[0], bytes_max)
        except NoSuchLedgerError:
            if self._line.first_ordinal(ledger.ledger_id) is None:
                return None  # trimmed meanwhile, which moved this cursor behind it
            raise
        except ManagedLedgerClosedError:
            self._check()
            raise

    def _unblock(self) -> None:
        """Notify that blocked reads may continue, if the state just persisted is small enough."""
        if self._held_back and self.blocked is None:
            self._held_back = False
            if self.on_unblocked is not None:
                self.on_unblocked()

    def _stop_reading(self) -> None:
        if self._behind:
            self._leave_backlog()
