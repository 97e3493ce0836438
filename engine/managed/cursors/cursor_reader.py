"""The reading half of a cursor: unacknowledged entries in order, from memory where they are there.

From the tail cache, from the topic's shared backlog, from the bookies. Nothing new is read while acknowledgements are
near what can be persisted.
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
    """Base of ``Cursor``. ``_next``: ordinal from which on nothing was read; entries before it may be read again."""

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
        """Why nothing new is read: the acknowledged ranges are near what can be persisted (M6). None: all is well.

        What lies before the last acknowledged entry is still read: it has to be acknowledged for the pause to end.
        """
        if self._persister is None or not self._persister.near_limit:
            return None
        limit, size = self._persister.limit_bytes, self._persister.state_bytes
        count = len(self._acks.holes)
        return f"{count} acknowledged ranges take {size} of {limit} bytes: acknowledge the oldest messages first"

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """Unacknowledged entries from memory, advancing ``read_position``; at least one if any.

        ``[]``: nothing to read until ``ManagedLedger.on_appended``, or ``on_unblocked`` if ``blocked``.
        ``None``: not in memory, use ``read``.
        """
        self._check()
        if self._reading:
            return None
        return self._read_memory(entries_max, bytes_max)

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Like ``read_nowait``, from the bookies where need be; ``[]`` at the end. Cancel-safe: nothing is skipped.

        Raises LedgerError when the entries cannot be read, CursorMisuseError when another read is under way.
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
        """These entries again, in order of position; acknowledged and vanished ones are left out, and those behind
        as many as keep ``bytes_max`` bytes of buffers alive, one buffer at least.

        Does not move ``read_position``. Cancel-safe.
        """
        self._check()
        return await replay(self._entries, self._acks, positions, bytes_max)

    def unacknowledged(self, first: Position, last: Position, count: int) -> list[Position]:
        """The first ``count`` unacknowledged entries from ``first`` to ``last``, both included."""
        line = self._line
        found: list[Position] = []
        for start, stop in self._acks.pending(line.ordinal(first), line.ordinal_after(last)):
            stop = min(stop, start + count - len(found))
            found += [line.position(ordinal) for ordinal in range(start, stop)]
            if len(found) == count:
                break
        return found

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry on."""
        self._next = self._acks.mark

    def pass_to(self, position: Position) -> None:
        """Read nothing up to ``position`` any more, until the next ``rewind``."""
        self._next = max(self._next, self._line.ordinal_after(position))

    def set_aside(self, spans: Iterable[tuple[int, int, int]]) -> None:
        """From now on leave these entries out, until all of them were passed: (ledger id, first, behind the last), in
        any order. They replace those of before."""
        line = self._line
        ranges: list[tuple[int, int]] = []
        for ledger_id, first, stop in spans:
            base, entries = line.extent(ledger_id)
            stop = min(stop, entries)
            if first < stop:
                ranges.append((base + first, base + stop))
        self._aside = RangeSet(sorted(ranges)) if ranges else None

    def has_more(self) -> bool:
        """Whether an entry waits at or behind ``read_position``."""
        start = max(self._next, self._acks.mark)
        return next(self._unread(start, self._line.end), None) is not None

    def _unread(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Intervals of what is to be read in ``[start, stop)``."""
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
        """``extra``: what was just fetched for this cursor, in case it is in the backlog no more."""
        entries, acks = self._entries, self._acks
        end = self._line.end
        if self._persister is not None and self._persister.near_limit:
            # What is acknowledged beyond the highest range would make the record of acknowledgements larger, what
            # fills its holes smaller; beyond its limit it could not be stored any more.
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
        # Cursors that follow each other through old entries share one read of them: it is dropped behind the last.
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
        """What follows from the first unacknowledged entry on. A rewind or reset meanwhile only makes it useless."""
        first = next(self._unread(self._next, self._line.end), None)
        if first is None:
            return None
        ledger, _ = self._line.find(first[0])
        self._behind = True
        try:
            return await self._entries.backlog.fetch(self.name, first[0], bytes_max)
        except NoSuchLedgerError:
            if self._line.first_ordinal(ledger.ledger_id) is None:
                return None  # trimmed meanwhile: this cursor has moved on
            raise
        except ManagedLedgerClosedError:
            self._check()
            raise

    def _unblock(self) -> None:
        """Acknowledgements were persisted: reads that waited for room may go on."""
        if self._held_back and self.blocked is None:
            self._held_back = False
            if self.on_unblocked is not None:
                self.on_unblocked()

    def _stop_reading(self) -> None:
        if self._behind:
            self._leave_backlog()
