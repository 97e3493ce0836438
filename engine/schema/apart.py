"""Long computations, off the event loop (S4)."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

LONG_BYTES = 32 << 10
"""What takes the event loop some milliseconds to judge."""
T = TypeVar("T")


class Apart:
    """Computes what takes long on a thread, one piece at a time; what is short, at once."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """What ``work`` makes of ``size`` bytes; it touches nothing but its arguments. Cancelled, it is finished all
        the same, before the next one begins."""
        if size < LONG_BYTES:
            return work(*args)
        await self._lock.acquire()
        done = asyncio.get_running_loop().run_in_executor(None, work, *args)
        done.add_done_callback(self._done)
        return await asyncio.shield(done)

    def _done(self, done: "asyncio.Future[Any]") -> None:
        self._lock.release()
        if not done.cancelled():
            done.exception()  # who asked may be gone
