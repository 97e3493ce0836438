"""The last messages of a topic over all its partitions, newest first, read without a subscription."""

import asyncio
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import LATEST_ENTRIES, LatestEntries
from engine.base.errors import MagnetarError, NotFound, Unsupported
from engine.base.names import TopicName
from gateway.services import catalog
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.opening import EntryOpener, OpenedMessage

BYTES_MAX = 32 << 20
"""Bound on the stored bytes that are read and, separately, on the bytes of their messages."""
TIME_S = 8.0
ANSWER_S = 3.0
"""Timeout of a partition's answer; a partition that exceeds it is left out."""
ASK_BYTES_MAX = 4 << 20
ASK_BYTES_MIN = 64 << 10
ASK_MESSAGES_MIN = 16

Stopped = Literal["asked", "begin", "bytes", "time"]
"""Reason of the end: the requested number is read, the topic has no more messages, or a bound was reached."""


class Latest(NamedTuple):
    """Messages, newest first, and how much was read for them.

    ``missing``: partitions that did not answer, of ``partitions`` (0: the topic is not partitioned).
    """

    messages: list[OpenedMessage]
    stopped: Stopped
    entries: int
    bytes: int
    partitions: int
    missing: list[int]


class _Part:
    """A topic or partition, read backwards."""

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.waiting: deque[OpenedMessage] = deque()
        self.more = True
        self.error: Exception | None = None
        self.entries = 0
        self.bytes = 0
        self._before: MessagePosition | None = None
        self._opener = EntryOpener()

    async def read(self, engine: Engine, messages: int, bytes_max: int) -> None:
        """Read until a message is in ``waiting`` or there are no more; a failure is stored in ``error``."""
        try:
            while self.more and not self.waiting:
                args = LatestEntries(self.name, messages, bytes_max, self._before)
                async with asyncio.timeout(ANSWER_S):
                    answer = await engine.call(LATEST_ENTRIES, args)
                entries = [
                    (ledger, entry, b64decode(stored))
                    for ledger, entry, stored in answer["entries"]
                ]
                self.more = answer["more"]
                if entries:
                    self._before = MessagePosition(*entries[-1][:2])
                opened = await asyncio.to_thread(self._opener.open, entries)
                self.waiting += opened
                self.entries += len(entries)
                self.bytes += max(
                    sum(len(stored) for _, _, stored in entries),
                    sum(message.size for message in opened),
                )
        except NotFound as error:  # partitions are created with their first use
            self.more = False
            self.error = None if self.name.partition >= 0 else error
        except (MagnetarError, TimeoutError, OSError) as error:
            self.more = False
            self.error = error


async def latest(engine: Engine, topic: TopicName, wanted: int) -> Latest:
    """Read the last ``wanted`` messages, or as many as ``BYTES_MAX`` and ``TIME_S`` allow.

    Raises Unsupported for a non-persistent topic, NotFound, and, when no partition answers, the first one's error.
    """
    if not topic.persistent:
        raise Unsupported("A non-persistent topic keeps no messages to read")
    count = await catalog.partition_count(engine.store, topic)
    parts = [_Part(topic.partition_at(index)) for index in range(count)] or [_Part(topic)]
    messages: list[OpenedMessage] = []
    try:
        async with asyncio.timeout(TIME_S):
            stopped = await _merge(engine, parts, wanted, messages)
    except TimeoutError:
        stopped = "time"
    failed = [part for part in parts if part.error is not None]
    if len(failed) == len(parts) and not messages and failed[0].error is not None:
        raise failed[0].error
    return Latest(
        messages,
        stopped,
        sum(part.entries for part in parts),
        sum(part.bytes for part in parts),
        count,
        [part.name.partition for part in failed],
    )


async def _merge(
    engine: Engine, parts: Sequence[_Part], wanted: int, merged: list[OpenedMessage]
) -> Stopped:
    """Fill ``merged`` by descending publish time.

    The caller owns ``merged``: after a timeout it contains what was read until then.
    """
    messages = min(max(2 * wanted // len(parts), ASK_MESSAGES_MIN), wanted)

    def bytes_max(among: int) -> int:
        remaining = BYTES_MAX - sum(part.bytes for part in parts)
        return max(min(remaining // among, ASK_BYTES_MAX), ASK_BYTES_MIN)

    share = bytes_max(len(parts))
    await catalog.each(parts, lambda part: part.read(engine, messages, share))
    heads = [(-p.waiting[0].publish_ms, i) for i, p in enumerate(parts) if p.waiting]
    heapify(heads)
    taken = 0
    while heads:
        part = parts[heads[0][1]]
        message = part.waiting.popleft()
        merged.append(message)
        taken += message.messages
        _, index = heappop(heads)
        if taken >= wanted:
            return "asked"
        # The part's next message may be newer than those of the others: it must be known before the next choice.
        if not part.waiting and part.more:
            if sum(part.bytes for part in parts) >= BYTES_MAX:
                return "bytes"
            await part.read(engine, messages, bytes_max(1))
        if part.waiting:
            heappush(heads, (-part.waiting[0].publish_ms, index))
    return "begin"
