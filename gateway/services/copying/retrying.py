"""Work that goes on after failures that pass by themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.base.errors import MagnetarError, NotFound
from engine.client.errors import RefusedError, ServerError
from gateway.services.engine_link import FAILURES

RETRY_S = (0.5, 1.0, 2.0, 5.0)
T = TypeVar("T")


async def until_done(
    attempt: Callable[[], Awaitable[T]],
    report: Callable[[str], Awaitable[None]],
    place: Callable[[], object] = lambda: None,
) -> T:
    """Make attempts until one ends without a failure, and return its result.

    ``report`` is awaited with each failure that passes, and may end the work by what it raises. ``place``: how far the
    work came; without progress the pauses grow. Raises the failures that do not pass.
    """
    failures = 0
    while True:
        before = place()
        try:
            return await attempt()
        except FAILURES as error:
            if not passes(error):
                raise
            failures = 0 if place() != before else failures + 1
            problem = str(error) or type(error).__name__
        await report(problem)
        await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])


def passes(error: BaseException) -> bool:
    """Return whether a failure may pass by itself."""
    if isinstance(error, RefusedError) and error.code == ServerError.ProducerBusy:
        return True  # an attempt that was lost still has its connection
    if isinstance(error, NotFound):
        return False
    return not isinstance(error, MagnetarError) or error.retriable
