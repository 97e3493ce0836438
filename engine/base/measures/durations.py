"""Durations of an operation that is rarer than messages: their number, sum and the latest ones."""

from collections import deque

LATEST = 1000
"""Number of durations kept for quantiles."""
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 0.9999)


class Durations:
    """Durations since the start. ``failed``: number of operations that failed, which have no duration."""

    __slots__ = ("_latest", "count", "failed", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.total_s = 0.0
        self._latest: deque[float] = deque(maxlen=LATEST)

    def add(self, duration_s: float) -> None:
        self.count += 1
        self.total_s += duration_s
        self._latest.append(duration_s)

    def quantiles_s(self) -> dict[float, float]:
        """Return the quantiles of the latest durations by nearest rank; empty when there are none."""
        ranked = sorted(self._latest)
        return {q: ranked[int(q * (len(ranked) - 1) + 0.5)] for q in QUANTILES if ranked}

    def mean_s(self) -> float | None:
        """Return the mean of the latest durations; None when there are none."""
        return sum(self._latest) / len(self._latest) if self._latest else None
