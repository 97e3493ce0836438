"""One verb on many topics: the partitions of a partitioned topic."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.base.errors import AdminError, WorldError
from engine.base.names import TopicName

IN_FLIGHT_MAX = 64

R = TypeVar("R")


async def on_each(
    topics: Sequence[TopicName], work: Callable[[TopicName], Awaitable[R]]
) -> list[R]:
    """``work`` on every topic, at most ``IN_FLIGHT_MAX`` at a time; results in order.

    Waits for all of them, also when one fails: nothing goes on behind the caller's back while he tries again. Raises
    what a single topic raised; of several AdminError with the first failure's status, whose reason names the topic and
    says how many succeeded. Cancelled: some may have happened.
    """
    gate = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def one(topic: TopicName) -> R:
        async with gate:
            return await work(topic)

    outcomes = await asyncio.gather(*(one(topic) for topic in topics), return_exceptions=True)
    results: list[R] = []
    failures: list[tuple[TopicName, BaseException]] = []
    for topic, outcome in zip(topics, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            failures.append((topic, outcome))
        else:
            results.append(outcome)
    if failures:
        topic, error = failures[0]
        if len(topics) > 1:
            raise _naming(topic, error, len(results), len(topics)) from error
        raise error
    return results


def _naming(topic: TopicName, error: BaseException, succeeded: int, total: int) -> BaseException:
    if isinstance(error, AdminError):
        status, reason = error.status, error.reason
    elif isinstance(error, WorldError):
        status, reason = 503, str(error)
    else:
        return error
    return AdminError(status, f"{reason} ({topic}; {succeeded} of {total} partitions succeeded)")
