"""What catch-up cursors read from the bookies: one copy of a range for all of a topic's cursors, fetched ahead.

A cursor that reads from a segment starts the fetch of the following one, so that storage works while the first is
being sent, and of several at once when it comes to their end before storage does. Where they end is guessed by the
size of what was read last; one that comes short of it leaves a gap, which is fetched when a cursor or the next look
ahead comes to it. Cursors that want what is being fetched wait for it instead of asking again. A segment goes when
every cursor that reads the backlog is behind it, or, least recently used first, when the broker's budget is passed.
None of this enters the tail cache.
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
"""A range whose end is guessed may bring so many times the bytes that it should."""


class BacklogSegment:
    """Entries ``start <= ordinal < stop`` in memory, of one ledger; ``held``: bytes of the buffers they lie in."""

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
        """Slices with entries of ``[start, stop)`` and the ordinals they begin at."""
        return [one for one in self._runs if one[0] < stop and one[0] + one[1].count > start]


class BacklogCache:
    """The broker's budget for segments of all topics, and the order of their use."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.fetching_bytes = 0
        self._uses: OrderedDict[BacklogSegment, Backlog] = OrderedDict()

    def fits(self, size: int) -> bool:
        """Whether ``size`` bytes more can be fetched without pushing anything out."""
        return self.bytes + self.fetching_bytes + size <= self.bytes_max

    def hold(self, segment: BacklogSegment, backlog: "Backlog") -> None:
        """Count a new segment and push out the least recently used ones for it."""
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
    """Segment from ``start`` on being read, which ends before ``limit`` when its size was guessed."""

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
        """``read_bytes``: what one read asks the bookies for, at least; ``ranges``: how many are read
        ahead at most."""
        self._line = line
        self._tail = tail
        self._reads = reads
        self._cache = cache
        self._tasks = tasks
        self._read_bytes = read_bytes
        self._ranges = ranges
        self._ahead = 1
        """Of ``ranges`` so many: twice as many each time that a cursor had to wait for what is read ahead."""
        self._starts: list[int] = []
        self._segments: list[BacklogSegment] = []
        self._fetches: list[_Fetch] = []
        self._readers: dict[str, int] = {}  # cursor → ordinal it reads next
        self._entry_bytes = 0.0
        """Of the segment read last, the mean; 0 before the first."""

    def covers(self, ordinal: int) -> bool:
        i = bisect_right(self._starts, ordinal) - 1
        return i >= 0 and ordinal < self._segments[i].stop

    def runs(self, start: int, stop: int) -> list[tuple[int, Slice]]:
        """Slices with entries of ``[start, stop)``, contiguous from ``start`` on as far as they are here."""
        found: list[tuple[int, Slice]] = []
        for segment in self._segments[max(bisect_right(self._starts, start) - 1, 0) :]:
            if not segment.covers(start) or start >= stop:
                break
            self._cache.used(segment)
            found += segment.runs(start, stop)
            start = segment.stop
        return found

    async def fetch(self, reader: str, start: int, bytes_wanted: int) -> BacklogSegment:
        """The segment with entry ``start`` for cursor ``reader``, read if nobody reads it already. Cancel-safe.

        It may be pushed out before the caller comes to it: read from the returned one. Raises LedgerError.
        """
        self._readers[reader] = start
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
        """Cursor ``reader`` goes on at ``ordinal``: let go what nobody needs, fetch what comes next."""
        self._readers[reader] = ordinal
        slowest = min(self._readers.values())
        while self._segments and self._segments[0].stop <= slowest:
            self.drop(self._segments[0])
        self._read_ahead(ordinal)

    def left(self, reader: str) -> None:
        """Cursor ``reader`` needs nothing of the backlog any more, or begins elsewhere."""
        if self._readers.pop(reader, None) is None:
            return
        if not self._readers:
            self._ahead = 1
        slowest = min(self._readers.values(), default=1 << 63)
        while self._segments and self._segments[0].stop <= slowest:
            self.drop(self._segments[0])

    def drop(self, segment: BacklogSegment) -> None:
        """Forget a segment; views of it live on."""
        i = bisect_right(self._starts, segment.start) - 1
        del self._starts[i], self._segments[i]
        self._cache.release(segment)

    def close(self) -> None:
        """Forget everything."""
        while self._segments:
            self.drop(self._segments[-1])
        self._readers.clear()

    def _read_ahead(self, at: int) -> None:
        """Begin what is missing of the ranges behind the segment with entry ``at``, or from ``at`` on."""
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
                if at >= min(self._line.end, self._tail.first) or self._tasks.closed:
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
        """Start to read from ``start`` on, up to where other segments, fetches, another ledger or the tail begin."""
        size = self._read_bytes
        size = max(bytes_wanted, size) if self._cache.fits(size) else bytes_wanted
        stop = min(self._line.end, max(self._tail.first, start + 1))
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
            size *= SLACK
        fetch = _Fetch(start, limit)
        self._fetches.append(fetch)
        fetch.task = self._tasks.spawn(f"read {start}", self._read(fetch, stop, size))
        return fetch

    async def _read(self, fetch: _Fetch, stop: int, size: int) -> None:
        """Errors go to whoever waits; when nobody does, the cursor that comes asks again and is told."""
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
