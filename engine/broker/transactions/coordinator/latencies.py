"""Durations of transactions, counted by the bounds that Apache's brokers report. Pure."""

from bisect import bisect_left

BOUNDS_MS = (
    10,
    20,
    50,
    100,
    500,
    1000,
    5000,
    15_000,
    30_000,
    60_000,
    300_000,
    1_500_000,
    3_000_000,
)
"""Upper bounds of the counts, in milliseconds; the last count is of all that took longer."""


class Latencies:
    """Numbers of durations up to each bound that exceed the one before it."""

    __slots__ = ("counts", "total_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0

    def add(self, ms: int) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
        self.total_ms += ms
