"""Exponential delays between attempts, with a maximum and jitter. Pure; the caller draws the jitter and waits."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Delay that doubles from ``initial_s`` to ``max_s``; the fraction ``jitter`` (0..1) of it is random."""

    initial_s: float = 0.1
    max_s: float = 10.0
    jitter: float = 0.2
    _next_s: float = 0.0

    def next_s(self, draw: float) -> float:
        """Return the seconds before the next attempt; ``draw`` is uniform in [0, 1)."""
        base = self._next_s or self.initial_s
        self._next_s = min(base * 2, self.max_s)
        return base * (1 - self.jitter * draw)

    def reset(self) -> None:
        """Start again with ``initial_s``; called after a success."""
        self._next_s = 0.0
