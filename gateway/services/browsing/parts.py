"""A topic's partitions, each read page by page and all merged by publish time, within bounds of bytes and time."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, Literal, TypeVar

from engine.base.errors import MagnetarError, NotFound, Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.engine_link import Engine

BYTES_MAX = 32 << 20
"""Bound of the bytes that one read of a topic may cost."""
TIME_S = 8.0
ANSWER_S = 3.0
"""Timeout of a partition's answer; a partition that exceeds it is left out."""
PAGE_BYTES_MAX = 4 << 20
PAGE_BYTES_MIN = 64 << 10

Stopped = Literal["limit", "end", "bytes", "time"]
"""Reason of the end: as many messages as requested, no further one, or a bound."""
M = TypeVar("M")


@dataclass(slots=True)
class BytesLeft:
    """Bytes that may still be read."""

    left: int

    def page(self, parts: int) -> int:
        """Return the bytes of the next page of one of ``parts``."""
        return max(min(self.left // parts, PAGE_BYTES_MAX), PAGE_BYTES_MIN)


class Part(ABC, Generic[M]):
    """A topic or partition. ``more``: there is a further page. ``entries``, ``read_bytes``: what was read of it."""

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.more = True
        self.error: Exception | None = None
        self.entries = 0
        self.read_bytes = 0

    @property
    @abstractmethod
    def next_ms(self) -> int | None:
        """The publish time of the next message; None when none was read yet."""

    @abstractmethod
    def take(self) -> M:
        """Remove and return the next message."""

    @abstractmethod
    async def page(self, page_bytes: int) -> None:
        """Read the next page."""

    async def read(self, budget: BytesLeft, page_bytes: int) -> None:
        """Read until a message waits, there are no more, or no bytes are left; a failure is stored in ``error``."""
        try:
            while self.more and self.next_ms is None and budget.left > 0:
                before = self.read_bytes
                async with asyncio.timeout(ANSWER_S):
                    await self.page(page_bytes)
                budget.left -= self.read_bytes - before
        except NotFound as error:  # partitions are created with their first use
            self.more = False
            self.error = None if self.name.partition >= 0 else error
        except (MagnetarError, TimeoutError, OSError) as error:
            self.more = False
            self.error = error


async def names_of(engine: Engine, topic: TopicName) -> tuple[int, list[TopicName]]:
    """Return the number of partitions, 0 without, and what to read. Raises Unsupported for a non-persistent topic."""
    if not topic.persistent:
        raise Unsupported("A non-persistent topic keeps no messages to read")
    count = await catalog.partition_count(engine.store, topic)
    return count, [topic.partition_at(index) for index in range(count)] or [topic]


async def merged(
    parts: Sequence[Part[M]],
    *,
    sign: int,
    limit: int,
    begin: Callable[[], Awaitable[None]] | None = None,
    weight: Callable[[M], int] = lambda _: 1,
) -> tuple[list[tuple[int, M]], Stopped]:
    """Return messages with their partitions until their weights reach ``limit``, and why it ended.

    ``sign``: 1 for ascending publish times, -1 for descending ones. ``begin`` prepares the parts, within the same time.
    When no part answers, the first one's error is raised.
    """
    messages: list[tuple[int, M]] = []

    def collect(partition: int, message: M) -> int:
        messages.append((partition, message))
        return weight(message)

    stopped = await collected(parts, collect, sign=sign, limit=limit, begin=begin)
    failed = [part.error for part in parts if part.error is not None]
    if len(failed) == len(parts) and not messages:
        raise failed[0]
    return messages, stopped


async def collected(
    parts: Sequence[Part[M]],
    collect: Callable[[int, M], int],
    *,
    sign: int,
    limit: int,
    begin: Callable[[], Awaitable[None]] | None = None,
) -> Stopped:
    """Give messages with their partitions to ``collect``, as ``merged`` has them, and return why it ended.

    ``collect`` returns the weight of a message. What a part raised is its ``error``.
    """
    try:
        async with asyncio.timeout(TIME_S):
            if begin:
                await begin()
            return await _merge(parts, sign, limit, collect)
    except TimeoutError:
        return "time"


async def _merge(
    parts: Sequence[Part[M]],
    sign: int,
    limit: int,
    collect: Callable[[int, M], int],
) -> Stopped:
    """Give messages to ``collect``: after a timeout the caller has what was read until then."""
    budget = BytesLeft(BYTES_MAX)
    page = budget.page(len(parts))
    await catalog.each(parts, lambda part: part.read(budget, page))
    heads = [(sign * part.next_ms, i) for i, part in enumerate(parts) if part.next_ms is not None]
    heapify(heads)
    taken = 0
    while heads:
        if taken >= limit:
            return "limit"
        _, index = heappop(heads)
        part = parts[index]
        taken += collect(part.name.partition, part.take())
        # The part's next message may belong before those of the others: it must be known before the next choice. When
        # no bytes are left, those that are known are shown, and the order over partitions ends there.
        if part.next_ms is None and part.more:
            await part.read(budget, budget.page(1))
        if part.next_ms is not None:
            heappush(heads, (sign * part.next_ms, index))
    return "bytes" if any(part.more for part in parts) else "end"
