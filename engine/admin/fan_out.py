"""One operation on many topics: the partitions of a partitioned topic, or the topics of a namespace."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.base.errors import NotReady, Refusal, WorldError, refusal
from engine.base.names import TopicName

IN_FLIGHT_MAX = 64

R = TypeVar("R")


async def on_each(
    topics: Sequence[TopicName],
    work: Callable[[TopicName], Awaitable[R]],
    what: str = "partitions",
) -> list[R]:
    """Run ``work`` on every topic, at most ``IN_FLIGHT_MAX`` at a time; return the results in order.

    Waits for all topics even if one fails, so that no work continues while the caller retries. The failure of a single
    topic is raised unchanged. For several topics a Refusal of the first failure's kind is raised, whose reason names
    the topic and the number of successes; ``what`` is the noun for the topics there. After cancellation, some of the
    work may have happened.
    """
    gate = asyncio.Semaphore(IN_FLIGHT_MAX)
    results: dict[int, R] = {}
    failures: dict[int, Exception] = {}

    async def run(index: int, topic: TopicName) -> None:
        async with gate:
            try:
                results[index] = await work(topic)
            except Exception as error:  # raised below, after the others have ended
                failures[index] = error

    await asyncio.gather(*(run(index, topic) for index, topic in enumerate(topics)))
    if failures:
        first = min(failures)
        error = failures[first]
        if len(topics) > 1:
            raise _naming(
                topics[first], error, f"{len(results)} of {len(topics)} {what}"
            ) from error
        raise error
    return [results[index] for index in range(len(topics))]


def _naming(topic: TopicName, error: Exception, succeeded: str) -> Exception:
    if isinstance(error, WorldError):
        error = NotReady(str(error))
    if not isinstance(error, Refusal):
        return error
    reason = f"{error.reason} ({topic}; {succeeded} succeeded)"
    return refusal(error.code, reason)
