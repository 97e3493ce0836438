"""A system topic of the workers, read from its first message and followed."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST
from engine.base.tasks import TaskScope, restarting
from engine.client.client import PulsarClient
from engine.client.raw_reader import RawReader
from engine.wire.batches import BatchFormatError, unpack_entry
from engine.wire.events import Delivered

log = logging.getLogger(__name__)

RETRY_S_MAX = 2.0
ASK_AGAIN_S = 1.0
"""Seconds without a message after which the last position is requested again."""


class LoggedMessage(NamedTuple):
    """A message of the topic. ``value`` is empty for a null value."""

    key: str
    value: bytes
    published_ms: int


class TopicLog:
    """Follower of a topic; ``start`` must be called inside the running loop.

    ``restart`` is called before the topic is read from its start again, after each lost connection: a compaction may
    have removed keys meanwhile. ``apply`` is then called with its messages, in their order and some at a time; the
    first call has all that were there.
    """

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        restart: Callable[[], None],
        apply: Callable[[list[LoggedMessage]], None],
        *,
        compacted: bool = False,
    ) -> None:
        self._client = client
        self._topic = topic
        self._restart = restart
        self._apply = apply
        self._compacted = compacted
        self._reader: RawReader | None = None
        self._at = EARLIEST
        self._moved = asyncio.Event()
        self._tasks = TaskScope(f"log {topic}")

    def start(self) -> None:
        self._tasks.spawn("follow", restarting(f"follow {self._topic}", self._follow))

    async def close(self) -> None:
        await self._tasks.close()

    async def caught_up(self) -> None:
        """Wait until every message that is stored now is applied. Raises MagnetarError; cancel-safe."""
        while True:
            reader = self._reader
            if reader is not None:
                last = await reader.consumer.last_position()
                if last.entry_id < 0 or self._at >= last:
                    return
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_S):
                    await self._moved.wait()

    async def _follow(self) -> None:
        backoff = Backoff(max_s=RETRY_S_MAX)
        failures = 0
        while True:
            try:
                await self._read()
            except MagnetarError as error:
                failures = 1 if self._reader is not None else failures + 1
                if failures == 1:
                    log.info("%s cannot be followed now: %s", self._topic, error)
                    backoff.reset()
            finally:
                self._reader = None
                self._moved.set()
            await asyncio.sleep(backoff.next_s(self._client.entropy.random()))

    async def _read(self) -> None:
        """Read the topic and follow it. Raises MagnetarError when the connection ends."""
        link = await self._client.owner(self._topic)
        name = f"reader-{self._client.entropy.hex(5)}"
        reader = await RawReader.open(link, self._topic, name=name, compacted=self._compacted)
        try:
            last = await reader.consumer.last_position()
            entries = await reader.rest()
            self._restart()
            self._at = EARLIEST
            self._take(entries)
            self._at = max(self._at, last)  # a compaction may have removed the last message
            self._reader = reader
            while True:
                self._moved.set()
                self._take(await reader.next())
        finally:
            if reader.consumer.error is None:
                with suppress(MagnetarError):
                    reader.consumer.leave()

    def _take(self, entries: list[Delivered]) -> None:
        self._apply([message for entry in entries for message in _messages(entry)])
        if entries:
            self._at = entries[-1].position


def _messages(delivered: Delivered) -> Iterable[LoggedMessage]:
    try:
        entry = unpack_entry(delivered.entry)
    except BatchFormatError as error:
        log.warning("message %s of a system topic is skipped: %s", delivered.position, error)
        return
    for message in entry.messages:
        if not message.compacted_out:
            value = message.value or b""
            yield LoggedMessage(message.key or "", value, entry.publish_ms)
