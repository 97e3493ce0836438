"""Waits of tests: for a condition, with a bound that only a hang reaches; or that a condition stays as it is.

A wait for a number of milliseconds is right on one machine and wrong on a slower one. Where the length of time itself
is what is tested, the line gives the reason behind ``# time:``; tests/unit/test_waits.py refuses all other sleeps.
"""

import asyncio
import inspect
import time
from collections.abc import Callable

BOUND_S = 60.0
"""Longest wait for a condition, in seconds. Only a condition that is never met takes as long on a busy machine."""

_POLL_S = 0.001
_BLOCKING_POLL_S = 0.02

Message = Callable[[], object] | str


async def until(
    condition: Callable[[], object], message: Message = "the condition", bound_s: float = BOUND_S
) -> None:
    """Return once ``condition()``, awaited if it can be, is true; fail with ``message`` after ``bound_s`` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + bound_s
    while not await _holds(condition):
        assert loop.time() < end, _failure(message, bound_s)
        await asyncio.sleep(_POLL_S)


def until_blocking(
    condition: Callable[[], object],
    message: Message = "the condition",
    bound_s: float = BOUND_S,
    poll_s: float = _BLOCKING_POLL_S,
) -> None:
    """Wait as ``until`` does, without an event loop; check ``condition`` every ``poll_s`` seconds."""
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end, _failure(message, bound_s)
        time.sleep(poll_s)


async def stays(condition: Callable[[], object], for_s: float) -> None:
    """Fail as soon as ``condition()`` is not true within ``for_s`` seconds. Keep it short."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while loop.time() < end:
        assert await _holds(condition), "it did not stay so"
        await asyncio.sleep(min(_POLL_S, for_s))
    assert await _holds(condition), "it did not stay so"


def stays_blocking(condition: Callable[[], object], for_s: float) -> None:
    """Check as ``stays`` does, without an event loop."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        assert condition(), "it did not stay so"
        time.sleep(min(_BLOCKING_POLL_S, for_s))
    assert condition(), "it did not stay so"


async def _holds(condition: Callable[[], object]) -> object:
    result = condition()
    return await result if inspect.isawaitable(result) else result


def _failure(message: Message, bound_s: float) -> str:
    return f"not within {bound_s:g} s: {message if isinstance(message, str) else message()}"
