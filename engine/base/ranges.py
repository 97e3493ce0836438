"""Sets of integers kept as intervals: cost and memory go with the number of gaps, not of members. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class RangeSet:
    """Disjoint half-open intervals ``[start, stop)`` that never touch each other, in order.

    ``total`` counts members; ``len()`` counts intervals. Adding at or near the end is the fast case; elsewhere an
    insertion moves the intervals behind it (two list inserts).
    """

    __slots__ = ("_starts", "_stops", "total")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.total = 0
        for start, stop in ranges:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> int:
        """Add ``start <= x < stop``; returns how many of them are new. Empty when ``stop <= start``."""
        if stop <= start:
            return 0
        starts, stops = self._starts, self._stops
        if not stops or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
            self.total += stop - start
            return stop - start
        i = bisect_left(stops, start)
        j = bisect_right(starts, stop, i)
        if i == j:
            starts.insert(i, start)
            stops.insert(i, stop)
            self.total += stop - start
            return stop - start
        low = min(start, starts[i])
        high = max(stop, stops[j - 1])
        if j - i == 1:
            fresh = (high - low) - (stops[i] - starts[i])
            starts[i] = low
            stops[i] = high
        else:
            fresh = (high - low) - sum(stops[i:j]) + sum(starts[i:j])
            starts[i:j] = [low]
            stops[i:j] = [high]
        self.total += fresh
        return fresh

    def discard_below(self, limit: int) -> None:
        """Remove every member < ``limit``."""
        starts, stops = self._starts, self._stops
        i = bisect_right(stops, limit)
        if i:
            self.total -= sum(stops[:i]) - sum(starts[:i])
            del starts[:i], stops[:i]
        if starts and starts[0] < limit:
            self.total -= limit - starts[0]
            starts[0] = limit

    def clear(self) -> None:
        self._starts.clear()
        self._stops.clear()
        self.total = 0

    @property
    def top(self) -> int:
        """One more than the greatest member; 0 when empty."""
        return self._stops[-1] if self._stops else 0

    def first_missing(self, start: int) -> int:
        """Smallest integer >= ``start`` that is not a member."""
        i = bisect_right(self._stops, start)
        if i < len(self._starts) and self._starts[i] <= start:
            return self._stops[i]
        return start

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Intervals of ``[start, stop)`` without members, in order. The set must not change meanwhile."""
        starts, stops = self._starts, self._stops
        i = bisect_right(stops, start)
        while start < stop:
            if i == len(starts) or starts[i] >= stop:
                yield start, stop
                return
            if starts[i] > start:
                yield start, starts[i]
            start = stops[i]
            i += 1

    def columns(self) -> tuple[list[int], list[int]]:
        """Copies of all starts and all stops: a snapshot that costs some nanoseconds an interval."""
        return self._starts[:], self._stops[:]

    def count(self, start: int, stop: int) -> int:
        """Members in ``[start, stop)``."""
        if stop <= start:
            return 0
        return (stop - start) - sum(high - low for low, high in self.gaps(start, stop))

    def __contains__(self, x: int) -> bool:
        i = bisect_right(self._stops, x)
        return i < len(self._starts) and self._starts[i] <= x

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)!r})"
