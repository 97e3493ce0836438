"""The last messages of a topic, of all its partitions together, newest first, without a subscription."""

import asyncio
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from engine.admin import api
from engine.base.errors import MagnetarError, NotFound, Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.opening import Found, Opener

BYTES_MAX = 32 << 20
"""Of what is read, and of what it unpacks to."""
TIME_S = 8.0
ANSWER_S = 3.0
"""A partition that takes longer is left out."""
ASK_BYTES_MAX = 4 << 20
ASK_BYTES_MIN = 64 << 10
ASK_MESSAGES_MIN = 16

Stopped = Literal["asked", "begin", "bytes", "time"]
"""All that were asked for are there; there are no more; or a bound was reached."""


class Latest(NamedTuple):
    """``missing``: partitions that did not answer, of ``partitions`` (0: the topic has none)."""

    found: list[Found]
    stopped: Stopped
    entries: int
    bytes: int
    partitions: int
    missing: list[int]


class _Part:
    """The topic, or one partition, read backwards."""

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.waiting: deque[Found] = deque()
        self.more = True
        self.error: Exception | None = None
        self.entries = 0
        self.bytes = 0
        self._before: api.MessagePosition | None = None
        self._opener = Opener()

    async def ask(self, engine: Engine, messages: int, bytes_max: int) -> None:
        """Until a message waits, or there are no more. What fails is kept as ``error``."""
        try:
            while self.more and not self.waiting:
                args = api.LatestEntries(self.name, messages, bytes_max, self._before)
                async with asyncio.timeout(ANSWER_S):
                    answer = await engine.call(api.LATEST_ENTRIES, args)
                entries = [
                    (ledger, entry, b64decode(stored))
                    for ledger, entry, stored in answer["entries"]
                ]
                self.more = answer["more"]
                if entries:
                    self._before = api.MessagePosition(*entries[-1][:2])
                opened = await asyncio.to_thread(self._opener.open, entries)
                self.waiting += opened
                self.entries += len(entries)
                self.bytes += max(
                    sum(len(stored) for _, _, stored in entries), sum(one.size for one in opened)
                )
        except NotFound as error:  # a partition that nobody has made yet
            self.more = False
            self.error = None if self.name.partition >= 0 else error
        except (MagnetarError, TimeoutError, OSError) as error:
            self.more = False
            self.error = error


async def latest(engine: Engine, topic: TopicName, wanted: int) -> Latest:
    """The last ``wanted`` messages, or as many as ``BYTES_MAX`` and ``TIME_S`` allow. Raises Unsupported for a topic
    that keeps none, NotFound, and what the first partition raised when none answers."""
    if not topic.persistent:
        raise Unsupported("A non-persistent topic keeps no messages to read")
    count = await catalog.partition_count(engine.store, topic)
    parts = [_Part(topic.partition_at(index)) for index in range(count)] or [_Part(topic)]
    found: list[Found] = []
    try:
        async with asyncio.timeout(TIME_S):
            stopped = await _merge(engine, parts, wanted, found)
    except TimeoutError:
        stopped = "time"
    failed = [part for part in parts if part.error is not None]
    if len(failed) == len(parts) and not found and failed[0].error is not None:
        raise failed[0].error
    return Latest(
        found,
        stopped,
        sum(part.entries for part in parts),
        sum(part.bytes for part in parts),
        count,
        [part.name.partition for part in failed],
    )


async def _merge(
    engine: Engine, parts: Sequence[_Part], wanted: int, found: list[Found]
) -> Stopped:
    """Fill ``found`` by publish time. A part whose messages are all taken is asked before the next one is chosen."""
    messages = min(max(2 * wanted // len(parts), ASK_MESSAGES_MIN), wanted)

    def bytes_max(among: int) -> int:
        left = BYTES_MAX - sum(part.bytes for part in parts)
        return max(min(left // among, ASK_BYTES_MAX), ASK_BYTES_MIN)

    share = bytes_max(len(parts))
    await catalog.each(parts, lambda part: part.ask(engine, messages, share))
    heads = [(-p.waiting[0].publish_ms, i) for i, p in enumerate(parts) if p.waiting]
    heapify(heads)
    taken = 0
    while heads:
        part = parts[heads[0][1]]
        one = part.waiting.popleft()
        found.append(one)
        taken += one.messages
        _, index = heappop(heads)
        if taken >= wanted:
            return "asked"
        if not part.waiting and part.more:
            if sum(each.bytes for each in parts) >= BYTES_MAX:
                return "bytes"
            await part.ask(engine, messages, bytes_max(1))
        if part.waiting:
            heappush(heads, (-part.waiting[0].publish_ms, index))
    return "begin"
