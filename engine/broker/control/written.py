"""Histograms of the entries that a topic stored in the last whole minute, by size and by latency, as Pulsar's. Pure.

Pulsar's histograms cover one period, not the time since the start, and a bucket does not include the lower ones. A
minute ends at the next write or read of the histograms: there is no timer.
"""

from bisect import bisect_left, bisect_right
from operator import sub

from engine.base.slices import Slice

LATENCIES_MS = (0.5, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 1000.0)
"""Upper bounds of the buckets, inclusive; one more bucket is above the last."""
SIZES = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""Upper bounds of the buckets of entry sizes, in bytes, likewise."""
MINUTE_S = 60
_LATENCIES_S = tuple(bound / 1000 for bound in LATENCIES_MS)


class Minute:
    """Entries stored in one minute. ``latency_s``: sum of their latencies."""

    __slots__ = ("bytes", "latencies", "latency_s", "sizes")

    def __init__(self) -> None:
        self.bytes = 0
        self.latency_s = 0.0
        self.latencies = [0] * (len(LATENCIES_MS) + 1)
        self.sizes = [0] * (len(SIZES) + 1)

    @property
    def entries(self) -> int:
        return sum(self.latencies)


NOTHING = Minute()


class Written:
    """Histograms of one topic from its first stored entry on. Times are the clock's monotonic seconds."""

    __slots__ = ("_ends", "_last", "_minute", "_now", "_since")

    def __init__(self, now_s: float) -> None:
        self._since = self._minute = int(now_s // MINUTE_S)
        self._ends = (self._minute + 1) * MINUTE_S
        self._now = Minute()
        self._last = NOTHING

    def add(
        self, now_s: float, latency_s: float, run: Slice, start: int, stop: int, size: int
    ) -> None:
        """Count entries ``start`` (inclusive) to ``stop`` of ``run``, ``size`` bytes together, which were stored."""
        if now_s >= self._ends:
            self._turn(now_s)
        minute, count = self._now, stop - start
        minute.bytes += size
        minute.latency_s += latency_s * count
        minute.latencies[bisect_left(_LATENCIES_S, latency_s)] += count
        buckets = minute.sizes
        if count == 1:
            buckets[bisect_left(SIZES, size)] += 1
            return
        spans = run.spans
        ends, starts = spans[2 * start + 1 : 2 * stop : 2], spans[2 * start : 2 * stop : 2]
        sizes = sorted(map(sub, ends, starts))
        first, last = bisect_left(SIZES, sizes[0]), bisect_left(SIZES, sizes[-1])
        counted = 0
        for bucket in range(first, last):
            below = bisect_right(sizes, SIZES[bucket])
            buckets[bucket] += below - counted
            counted = below
        buckets[last] += count - counted

    def last_minute(self, now_s: float) -> Minute | None:
        """Return the last whole minute; None in the minute of the first entry, when no minute is complete."""
        self._turn(now_s)
        return self._last if self._minute > self._since else None

    def _turn(self, now_s: float) -> None:
        minute = int(now_s // MINUTE_S)
        if minute != self._minute:
            self._last = self._now if minute == self._minute + 1 else NOTHING
            self._now = Minute()
            self._minute = minute
            self._ends = (minute + 1) * MINUTE_S
