"""Outcomes of steps whose entries are stored later: called back instead of awaited, so that no task waits for each."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from engine.broker.errors import BrokerError

Outcome = Callable[[BrokerError | None], None]
"""Called once: with None when a step is done and durable, or with the reason why it may not be. It must not raise."""
T = TypeVar("T")


async def waited(start: Callable[[Outcome], T]) -> T:
    """Start a step with a callback, and return what ``start`` returned when the step is done and durable.

    Raises what ``start`` raises, and the BrokerError of the outcome. Cancel-safe: the step continues.
    """
    settled: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()

    def settle(error: BrokerError | None) -> None:
        if not settled.done():
            settled.set_result(error)

    result = start(settle)
    error = await settled
    if error is not None:
        raise error
    return result
