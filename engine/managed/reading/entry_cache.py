"""The tail cache: the newest entries of every topic in the buffers they arrived in, under one byte budget per broker.

Complete buffers are charged, each once however many slices lie in it. When the budget is exceeded, the oldest slices of
all topics are dropped first, down to a low mark. A slice that alone keeps a much larger buffer alive is copied instead
of dropped. Only appends enter; backlog reads neither enter nor evict.
"""

from bisect import bisect_right
from collections import deque

from engine.base.slices import Slice

LOW = 0.9
"""Part of the maximum down to which slices are evicted."""
PIN_RATIO = 8
"""A slice alone in a buffer of at least as many times its size is copied."""
COMPACT_AFTER = 1024
"""Dropped slices at the head of a tail's lists from which on the lists are shortened."""


class EntryCache:
    """The byte budget and the order by age of all topics' tails."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.inserted = 0
        """Entries inserted since the start."""
        self.evicted = 0
        """Entries dropped because the budget was exceeded."""
        self.evictions = 0
        """Number of times that the budget was exceeded."""
        self.entries = 0
        self._low = int(bytes_max * LOW)
        self._buffers: dict[int, int] = {}  # id of a live buffer -> slices in it
        # One item per slice, oldest first; after a tail's stale items, its nth item stands for its nth slice. The
        # slices themselves are not held here: those of a cleared tail would stay in memory until an eviction
        # reached them.
        self._ages: deque[TailCache] = deque()

    def resize(self, bytes_max: int) -> None:
        """Change the budget and evict at once what exceeds it."""
        self.bytes_max = bytes_max
        self._low = int(bytes_max * LOW)
        if self.bytes > self.bytes_max:
            self._evict()

    def tail(self) -> "TailCache":
        """Return a new cache for one more topic."""
        return TailCache(self)

    def hold(self, tail: "TailCache", run: Slice) -> None:
        """Count ``run``, which is now the newest slice of ``tail``."""
        buf, count = run.buf, run.count
        key = id(buf)  # ``_charge`` inlined, since this runs once for each stored run
        users = self._buffers.get(key)
        if users is None:
            self._buffers[key] = 1
            self.bytes += len(buf)
        else:
            self._buffers[key] = users + 1
        self.inserted += count
        self.entries += count
        self._ages.append(tail)
        if self.bytes > self.bytes_max:
            self._evict()

    def release(self, run: Slice) -> None:
        self.entries -= run.count
        key = id(run.buf)
        users = self._buffers[key] - 1
        if users:
            self._buffers[key] = users
        else:
            del self._buffers[key]
            self.bytes -= len(run.buf)

    def _charge(self, run: Slice) -> None:
        key = id(run.buf)  # the slice keeps the buffer alive, so nothing else can get its id
        users = self._buffers.get(key, 0)
        self._buffers[key] = users + 1
        if not users:
            self.bytes += len(run.buf)

    def _evict(self) -> None:
        ages = self._ages
        copied: list[TailCache] = []
        self.evictions += 1
        while self.bytes > self._low and ages:
            tail = ages.popleft()
            if tail.stale:
                tail.stale -= 1
                continue
            run = tail.oldest()
            if run.size * PIN_RATIO <= len(run.buf) and self._buffers[id(run.buf)] == 1:
                copy = compacted(run)
                self.release(run)
                self._charge(copy)
                self.entries += copy.count
                tail.keep_oldest(copy)
                copied.append(tail)
                continue
            for dropped in tail.pop_oldest():
                self.evicted += dropped.count
                self.release(dropped)
        # The copied slices become the oldest again, in their former order.
        for tail in reversed(copied):
            if tail.take_copy():
                ages.appendleft(tail)


class TailCache:
    """The newest slices of one topic, contiguous, by ordinal. The broker's budget evicts the oldest."""

    __slots__ = ("_cache", "_copies", "_head", "_runs", "_starts", "size", "stale")

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._runs: list[Slice | None] = []
        self._starts: list[int] = []
        self._head = 0
        self._copies = 0  # slices at the head that the eviction in progress copied; it skips them
        self.size = 0
        self.stale = 0  # items of the age order that belong to slices dropped by ``clear``

    def append(self, start: int, run: Slice) -> None:
        """Add ``run``, which begins at ordinal ``start``, directly behind the last slice."""
        self._starts.append(start)
        self._runs.append(run)
        self.size += run.size
        self._cache.hold(self, run)

    def covers(self, ordinal: int) -> bool:
        """Return whether this entry, if it was appended by now, is in memory."""
        return self._head < len(self._starts) and ordinal >= self._starts[self._head]

    @property
    def first(self) -> int:
        """Ordinal of the first entry in memory; above every ordinal when there is none."""
        return self._starts[self._head] if self._head < len(self._starts) else 1 << 63

    def runs(self, start: int, stop: int) -> list[tuple[int, Slice]]:
        """Return the slices with entries of ``[start, stop)``, each with the ordinal of its first entry, in order.

        The caller has checked ``covers(start)``.
        """
        starts, runs = self._starts, self._runs
        i = bisect_right(starts, start, self._head) - 1
        runs_from_start = []
        while i < len(starts) and starts[i] < stop:
            run = runs[i]
            assert run is not None
            runs_from_start.append((starts[i], run))
            i += 1
        return runs_from_start

    def clear(self) -> None:
        """Drop everything: the log ended, or entries that were appended will never be confirmed."""
        self.stale += len(self._runs) - self._head
        for run in self._runs[self._head :]:
            assert run is not None
            self._cache.release(run)
        self._runs.clear()
        self._starts.clear()
        self._head = 0
        self.size = 0

    # Called by the eviction

    def oldest(self) -> Slice:
        run = self._runs[self._head + self._copies]
        assert run is not None
        return run

    def keep_oldest(self, copy: Slice) -> None:
        self._runs[self._head + self._copies] = copy
        self._copies += 1

    def take_copy(self) -> bool:
        """Count a copied slice as an ordinary one again. Return False when it was dropped meanwhile."""
        if not self._copies:
            return False
        self._copies -= 1
        return True

    def pop_oldest(self) -> list[Slice]:
        """Remove and return the oldest slice and the copied ones before it, since the remaining slices must be
        contiguous."""
        stop = self._head + self._copies + 1
        dropped = [run for run in self._runs[self._head : stop] if run is not None]
        self._runs[self._head : stop] = [None] * (stop - self._head)
        self._head = stop
        self._copies = 0
        self.size -= sum(run.size for run in dropped)
        if self._head >= COMPACT_AFTER and self._head * 2 >= len(self._runs):
            del self._runs[: self._head], self._starts[: self._head]
            self._head = 0
        return dropped


def compacted(run: Slice) -> Slice:
    """Return the same entries in a buffer of their own."""
    parts = [run.entry(i) for i in range(run.count)]
    spans: list[int] = []
    at = 0
    for part in parts:
        spans += (at, at + len(part))
        at += len(part)
    copy = Slice(b"".join(parts), spans, at, run.counts, run.ledger_id, run.first)
    copy.facts = run.facts
    return copy
