"""Entries that catch-up cursors read from the bookies: one copy of a range for all of a topic's cursors, read ahead.

A cursor that reads from a segment starts the fetch of the following one, so that storage works while the first is being
sent. It starts several at once when cursors reach the end of the segments before storage does. The end of each fetch is
estimated from the size of the entries read last. A fetch that returns fewer entries leaves a gap, which is fetched when
a cursor or the next read-ahead reaches it. Cursors that need a range that is being fetched wait for it instead of
requesting it again. A segment is released when every cursor that reads the backlog is behind it, or, least recently
used first, when the broker's budget is exceeded. No entry read here enters the tail cache.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict

from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.managed.errors import ManagedLedgerClosedError
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import TailCache
from engine.managed.reading.reads import LedgerReads

SLACK = 2
"""A fetch with an estimated end may return as many times the intended bytes."""


class BacklogSegment:
    """Entries ``start <= ordinal < stop`` of one ledger, in memory. ``held``: bytes of the buffers that they lie in."""

    __slots__ = ("_runs", "held", "start", "stop")

    def __init__(self, start: int, runs: list[Slice]) -> None:
        self.start = self.stop = start
        self.held = 0
        self._runs: list[tuple[int, Slice]] = []
        last: bytes | None = None
        for run in runs:
            self._runs.append((self.stop, run))
            self.stop += run.count
            if run.buf is not last:
                self.held += run.held
                last = run.buf

    def covers(self, ordinal: int) -> bool:
        return self.start <= ordinal < self.stop

    def runs(self, start: int, stop: int) -> list[tuple[int, Slice]]:
        """Return the slices with entries of ``[start, stop)``, each with the ordinal of its first entry."""
        return [row for row in self._runs if row[0] < stop and row[0] + row[1].count > start]


class BacklogCache:
    """The broker's byte budget for the segments of all topics, and their order of use."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.fetching_bytes = 0
        self._uses: OrderedDict[BacklogSegment, Backlog] = OrderedDict()

    def fits(self, size: int) -> bool:
        """Return whether ``size`` bytes more can be fetched without releasing any segment."""
        return self.bytes + self.fetching_bytes + size <= self.bytes_max

    def hold(self, segment: BacklogSegment, backlog: "Backlog") -> None:
        """Count a new segment, and release the least recently used ones until the budget suffices."""
        self._uses[segment] = backlog
        self.bytes += segment.held
        while self.bytes > self.bytes_max and len(self._uses) > 1:
            oldest, owner = next(iter(self._uses.items()))
            owner.drop(oldest)

    def used(self, segment: BacklogSegment) -> None:
        self._uses.move_to_end(segment)

    def release(self, segment: BacklogSegment) -> None:
        del self._uses[segment]
        self.bytes -= segment.held


class _Fetch:
    """A read in progress of the segment that begins at ``start``. It ends before ``limit`` when its size was
    estimated."""

    __slots__ = ("error", "limit", "segment", "start", "task")

    def __init__(self, start: int, limit: int) -> None:
        self.start = start
        self.limit = limit
        self.task: asyncio.Task[None] | None = None
        self.segment: BacklogSegment | None = None
        self.error: Exception | None = None


class Backlog:
    """The segments of one topic: disjoint, by ordinal. A ``Source`` for ``collect``."""

    __slots__ = (
        "_ahead",
        "_cache",
        "_entry_bytes",
        "_fetches",
        "_line",
        "_ranges",
        "_read_bytes",
        "_readers",
        "_reads",
        "_segments",
        "_starts",
        "_tail",
        "_tasks",
    )

    def __init__(
        self,
        line: LedgerLine,
        tail: TailCache,
        reads: LedgerReads,
        cache: BacklogCache,
        tasks: TaskScope,
        read_bytes: int,
        ranges: int,
    ) -> None:
        """``read_bytes``: bytes that one read requests from the bookies, at least. ``ranges``: how many segments are
        read ahead at most."""
        self._line = line
        self._tail = tail
        self._reads = reads
        self._cache = cache
        self._tasks = tasks
        self._read_bytes = read_bytes
        self._ranges = ranges
        self._ahead = 1
        """Segments read ahead now, of at most ``ranges``. Doubled each time that a cursor had to wait for a fetch in
        progress."""
        self._starts: list[int] = []
        self._segments: list[BacklogSegment] = []
        self._fetches: list[_Fetch] = []
        self._readers: dict[str, int] = {}  # cursor → ordinal it reads next
        self._entry_bytes = 0.0
        """Mean bytes of an entry in the segment read last; 0 before the first."""

    def covers(self, ordinal: int) -> bool:
        i = bisect_right(self._starts, ordinal) - 1
        return i >= 0 and ordinal < self._segments[i].stop

    def runs(self, start: int, stop: int) -> list[tuple[int, Slice]]:
        """Return the slices with entries of ``[start, stop)``, contiguous from ``start`` on as far as they are in
        memory."""
        runs: list[tuple[int, Slice]] = []
        for segment in self._segments[max(bisect_right(self._starts, start) - 1, 0) :]:
            if not segment.covers(start) or start >= stop:
                break
            self._cache.used(segment)
            runs += segment.runs(start, stop)
            start = segment.stop
        return runs

    async def fetch(self, reader: str, start: int, bytes_wanted: int) -> BacklogSegment:
        """Return the segment with entry ``start`` for cursor ``reader``, after reading it unless a fetch of it is in
        progress. Cancel-safe.

        The segment may have been released when the caller resumes, so the caller reads from the returned one. Raises
        LedgerError.
        """
        self._readers[reader] = start
        # A fetch with an estimated end may end before ``start``: the next round reads from there.
        while True:
            fetch = self._fetching(start)
            if fetch is None:
                fetch = self._begin(start, bytes_wanted)
            else:
                self._ahead = min(2 * self._ahead, self._ranges)
            assert fetch.task is not None
            await asyncio.wait([fetch.task])
            if fetch.error is not None:
                raise fetch.error
            if fetch.segment is None:
                raise ManagedLedgerClosedError("the topic ended")
            if fetch.segment.covers(start):
                return fetch.segment

    def passed(self, reader: str, ordinal: int) -> None:
        """Continue cursor ``reader`` at ``ordinal``: release segments that no cursor needs, fetch the following
        ones."""
        self._readers[reader] = ordinal
        slowest = min(self._readers.values())
        while self._segments and self._segments[0].stop <= slowest:
            self.drop(self._segments[0])
        self._read_ahead(ordinal)

    def left(self, reader: str) -> None:
        """Forget cursor ``reader``, which needs nothing of the backlog any more or begins elsewhere."""
        if self._readers.pop(reader, None) is None:
            return
        if not self._readers:
            self._ahead = 1
        slowest = min(self._readers.values(), default=1 << 63)
        while self._segments and self._segments[0].stop <= slowest:
            self.drop(self._segments[0])

    def drop(self, segment: BacklogSegment) -> None:
        """Release a segment; views of it stay valid."""
        i = bisect_right(self._starts, segment.start) - 1
        del self._starts[i], self._segments[i]
        self._cache.release(segment)

    def close(self) -> None:
        """Release all segments."""
        while self._segments:
            self.drop(self._segments[-1])
        self._readers.clear()

    def _read_ahead(self, at: int) -> None:
        """Fetch the missing ranges behind the segment with entry ``at``, or from ``at`` on when no segment has it."""
        i = bisect_right(self._starts, at) - 1
        if i >= 0 and at < self._segments[i].stop:
            at = self._segments[i].stop
        size = self._read_bytes * SLACK
        for _ in range(self._ahead):
            i += 1
            if i < len(self._starts) and self._starts[i] == at:
                at = self._segments[i].stop
                continue
            fetch = self._fetching(at)
            if fetch is None:
                if at >= min(self._line.readable_to, self._tail.first) or self._tasks.closed:
                    return
                if not self._cache.fits(size):
                    return
                fetch = self._begin(at, self._read_bytes)
            at = fetch.limit
            i -= 1

    def _fetching(self, ordinal: int) -> _Fetch | None:
        for fetch in self._fetches:
            if fetch.start <= ordinal < fetch.limit:
                return fetch
        return None

    def _begin(self, start: int, bytes_wanted: int) -> _Fetch:
        """Start a read from ``start`` on, up to where another segment, fetch or ledger, or the tail begins."""
        size = self._read_bytes
        # With an exhausted budget only what the cursor can use now is read.
        size = max(bytes_wanted, size) if self._cache.fits(size) else bytes_wanted
        stop = max(min(self._line.readable_to, self._tail.first), start + 1)
        i = bisect_right(self._starts, start)
        if i < len(self._starts):
            stop = min(stop, self._starts[i])
        for other in self._fetches:
            if other.start > start:
                stop = min(stop, other.start)
        limit = start + 1
        if self._entry_bytes:
            ledger, base = self._line.find(start)
            limit = start + max(1, int(size // self._entry_bytes))
            limit = stop = max(min(stop, limit, base + ledger.entries), start + 1)
            # The estimate may be too low, and the read should not end before ``limit``.
            size *= SLACK
        fetch = _Fetch(start, limit)
        self._fetches.append(fetch)
        fetch.task = self._tasks.spawn(f"read {start}", self._read(fetch, stop, size))
        return fetch

    async def _read(self, fetch: _Fetch, stop: int, size: int) -> None:
        """Read one segment. An error is raised in the waiting cursors; when none waits, the next cursor fetches
        again."""
        cache = self._cache
        cache.fetching_bytes += size
        try:
            segment = BacklogSegment(fetch.start, await self._reads.fetch(fetch.start, stop, size))
        except Exception as error:
            fetch.error = error
            return
        finally:
            cache.fetching_bytes -= size
            self._fetches.remove(fetch)
        fetch.segment = segment
        self._entry_bytes = max(segment.held / (segment.stop - segment.start), 1.0)
        i = bisect_right(self._starts, segment.start)
        if not self.covers(segment.start) and not self._tasks.closed:
            self._starts.insert(i, segment.start)
            self._segments.insert(i, segment)
            cache.hold(segment, self)
