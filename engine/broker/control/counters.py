"""Rates from counters: sampled by the registry's tick once a second while anything flows, and smoothed for charts."""

_SHARE = 0.4
"""Weight of the newest sample."""
_QUIET = 0.05
"""Events per second below which a rate without events becomes 0."""


class Rate:
    """Events per second. The hot path adds to ``total``; ``tick`` computes the rate."""

    __slots__ = ("_last", "per_second", "total")

    def __init__(self) -> None:
        self.total = 0
        self._last = 0
        self.per_second = 0.0

    def tick(self, elapsed_s: float) -> bool:
        """Take a sample, ``elapsed_s`` (> 0) after the previous one.

        Return False when the rate is 0: no sample is needed before ``total`` grows.
        """
        events = self.total - self._last
        if events:
            self._last = self.total
        elif not self.per_second:
            return False
        rate = self.per_second + _SHARE * (events / elapsed_s - self.per_second)
        self.per_second = rate if events or rate > _QUIET else 0.0
        return self.per_second != 0.0


class Traffic:
    """Messages and bytes that passed one place, and their rates per second."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = Rate()
        self.bytes = Rate()

    def tick(self, elapsed_s: float) -> bool:
        """Update both rates as ``Rate.tick`` does; return whether either is above 0."""
        is_active = self.messages.tick(elapsed_s)
        return self.bytes.tick(elapsed_s) or is_active

    @property
    def average_size(self) -> float:
        """Bytes per message at the present rates; 0 when nothing flows."""
        rate = self.messages.per_second
        return self.bytes.per_second / rate if rate else 0.0
