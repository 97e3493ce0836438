"""Things that are due some time after they were added, all after the same time: one timer, however many there are."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")

TICK_S = 0.1
"""At least this passes before something is due, and what is due within half of it is told with it."""


class Delays(Generic[K]):
    """``on_due`` is called with keys whose ``delay_s`` is over, at least one, in the order in which they were added."""

    def __init__(self, delay_s: float, on_due: Callable[[list[K]], None]) -> None:
        self._delay_s = max(delay_s, TICK_S)
        self._on_due = on_due
        self._due: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K) -> None:
        """Due after the delay, counted from now also when it waits already."""
        self._due.pop(key, None)
        self._due[key] = self._loop.time() + self._delay_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._delay_s, self._fire)

    def discard(self, key: K) -> None:
        """Never due."""
        self._due.pop(key, None)

    def keep(self, condition: Callable[[K], bool]) -> None:
        """Never due but for those of which ``condition`` is true."""
        self._due = {key: due for key, due in self._due.items() if condition(key)}

    def hurry(self) -> None:
        """All are due now."""
        over = list(self._due)
        self.close()
        if over:
            self._on_due(over)

    def close(self) -> None:
        """Nothing is due any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        until = self._loop.time() + TICK_S / 2
        over: list[K] = []
        for key, due in self._due.items():
            if due > until:
                self._timer = self._loop.call_at(due, self._fire)
                break
            over.append(key)
        for key in over:
            del self._due[key]
        if over:
            self._on_due(over)
