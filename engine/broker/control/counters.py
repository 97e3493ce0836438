"""Rates from counters: sampled by the registry's tick once a second while anything flows,
smoothed so that a console can draw them."""

_SHARE = 0.4
_QUIET = 0.05


class Rate:
    """Events per second. The hot path adds to ``total``; ``tick`` does the rest."""

    __slots__ = ("_last", "per_second", "total")

    def __init__(self) -> None:
        self.total = 0
        self._last = 0
        self.per_second = 0.0

    def tick(self, elapsed_s: float) -> bool:
        """Take a sample, ``elapsed_s`` (> 0) after the one before. False when the rate is zero: then it needs no
        sample before ``total`` grows."""
        fresh = self.total - self._last
        if fresh:
            self._last = self.total
        elif not self.per_second:
            return False
        now = self.per_second + _SHARE * (fresh / elapsed_s - self.per_second)
        self.per_second = now if fresh or now > _QUIET else 0.0
        return self.per_second != 0.0


class Traffic:
    """Messages and bytes that passed one place, and their rates per second."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = Rate()
        self.bytes = Rate()

    def tick(self, elapsed_s: float) -> bool:
        """As of a Rate."""
        moves = self.messages.tick(elapsed_s)
        return self.bytes.tick(elapsed_s) or moves

    @property
    def average_size(self) -> float:
        """Bytes per message at the present rates; 0 when nothing flows."""
        rate = self.messages.per_second
        return self.bytes.per_second / rate if rate else 0.0
