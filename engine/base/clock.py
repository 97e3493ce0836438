"""Clock seam. Timers use the running loop (``call_later``, ``asyncio.timeout``), which the simulator replaces."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock of one node."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may step in either direction."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never steps back. Same source as the event loop's timers."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class LoopClock:
    """Both clocks derived from the running loop's time: what the simulator uses, with an offset for skew."""

    def __init__(self, epoch_ms: int = 1_700_000_000_000) -> None:
        self.epoch_ms = epoch_ms

    def wall_ms(self) -> int:
        return self.epoch_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()
