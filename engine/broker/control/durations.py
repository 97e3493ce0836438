"""How long something took that happens less often than messages come: counted, summed up, and the latest of them."""

from collections import deque

LATEST = 1000
"""So many are kept for quantiles."""
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 0.9999)


class Durations:
    """``count``, ``total_s``: since the start. ``failed``: how often it came to nothing, which has no duration."""

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
        """Of the latest ones, the nearest rank; empty when there are none."""
        ranked = sorted(self._latest)
        return {each: ranked[int(each * (len(ranked) - 1) + 0.5)] for each in QUANTILES if ranked}

    def mean_s(self) -> float | None:
        """Of the latest ones."""
        return sum(self._latest) / len(self._latest) if self._latest else None
