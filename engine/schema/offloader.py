"""Computations that take long, run off the event loop (S4)."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

LONG_BYTES = 32 << 10
"""Size from which a definition takes the event loop some milliseconds to check."""
T = TypeVar("T")


class Offloader:
    """Runs long computations on a thread, one at a time; short ones at once."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """Return the result of ``work`` for ``size`` bytes of input. ``work`` must touch nothing but its arguments.

        After a cancellation the work is still finished before the next one begins.
        """
        if size < LONG_BYTES:
            return work(*args)
        await self._lock.acquire()
        done = asyncio.get_running_loop().run_in_executor(None, work, *args)
        done.add_done_callback(self._done)
        return await asyncio.shield(done)

    def _done(self, done: "asyncio.Future[Any]") -> None:
        self._lock.release()
        if not done.cancelled():
            done.exception()  # marks it as retrieved: the caller may have been cancelled
