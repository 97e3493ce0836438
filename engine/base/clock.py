"""Interface of the clocks. Timers use the running loop (``call_later``, ``asyncio.timeout``), which the simulator
replaces."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock of one node."""

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, which may step in either direction."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start, which never step back, from the source of the loop's timers."""
        ...


class SystemClock:
    """The machine's clocks."""

    monotonic_s = staticmethod(time.monotonic)  # asked for each run: without a frame of its own

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class LoopClock:
    """Clocks derived from the running loop's time, for the simulator; ``epoch_ms`` is an offset for skew."""

    def __init__(self, epoch_ms: int = 1_700_000_000_000) -> None:
        self.epoch_ms = epoch_ms

    def wall_ms(self) -> int:
        return self.epoch_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()
