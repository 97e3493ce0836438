"""The last messages of a topic over all its partitions, newest first, read without a subscription."""

import asyncio
from base64 import b64decode
from collections import deque
from typing import Literal, NamedTuple

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import LATEST_ENTRIES, LatestEntries
from engine.base.names import TopicName
from gateway.services.browsing.parts import Part, merged, names_of
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.opening import EntryOpener, OpenedMessage

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


class _Part(Part[OpenedMessage]):
    """A topic or partition, read backwards by pages of ``messages``."""

    def __init__(self, name: TopicName, engine: Engine, messages: int) -> None:
        super().__init__(name)
        self._engine = engine
        self._messages = messages
        self._waiting: deque[OpenedMessage] = deque()
        self._before: MessagePosition | None = None
        self._opener = EntryOpener()

    @property
    def next_ms(self) -> int | None:
        return self._waiting[0].publish_ms if self._waiting else None

    def take(self) -> OpenedMessage:
        return self._waiting.popleft()

    async def page(self, page_bytes: int) -> None:
        args = LatestEntries(self.name, self._messages, page_bytes, self._before)
        answer = await self._engine.call(LATEST_ENTRIES, args)
        entries = [
            (ledger, entry, b64decode(stored)) for ledger, entry, stored in answer["entries"]
        ]
        self.more = answer["more"]
        if entries:
            self._before = MessagePosition(*entries[-1][:2])
        opened = await asyncio.to_thread(self._opener.open, entries)
        self._waiting += opened
        self.entries += len(entries)
        self.read_bytes += max(
            sum(len(stored) for _, _, stored in entries),
            sum(message.size for message in opened),
        )


async def latest(engine: Engine, topic: TopicName, wanted: int) -> Latest:
    """Read the last ``wanted`` messages, or as many as the bounds of ``parts`` allow.

    Raises Unsupported for a non-persistent topic, NotFound, and, when no partition answers, the first one's error.
    """
    count, names = await names_of(engine, topic)
    ask = min(max(2 * wanted // len(names), ASK_MESSAGES_MIN), wanted)
    parts = [_Part(name, engine, ask) for name in names]
    messages, why = await merged(
        parts, sign=-1, limit=wanted, weight=lambda message: message.messages
    )
    stopped: dict[str, Stopped] = {
        "limit": "asked",
        "end": "begin",
        "bytes": "bytes",
        "time": "time",
    }
    return Latest(
        [message for _, message in messages],
        stopped[why],
        sum(part.entries for part in parts),
        sum(part.read_bytes for part in parts),
        count,
        [part.name.partition for part in parts if part.error is not None],
    )
