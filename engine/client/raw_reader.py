"""A reader that follows a topic without a durable subscription, and can read everything the topic holds now."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from engine.base.ids import EARLIEST, Position
from engine.client.broker_link import BrokerLink
from engine.client.raw_consumer import FROM_EARLIEST, RawConsumer
from engine.wire.events import Delivered
from engine.wire.kernels import batch_sizes

ASK_AGAIN_S = 1.0
"""Seconds without an entry after which the last position is requested again."""


class RawReader:
    """A topic's entries from a position on, in order; made by ``open``. At most ``window`` messages are queued."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting: deque[Delivered] = deque()
        self._used_permits = 0
        self._changed = asyncio.Event()
        self._consumer: RawConsumer | None = None

    @classmethod
    async def open(
        cls,
        link: BrokerLink,
        topic: str,
        *,
        name: str,
        start: Position = EARLIEST,
        compacted: bool = False,
        window: int = 1000,
        create: bool = True,
    ) -> "RawReader":
        """Open a reader. ``name``: of its subscription, which is deleted with it.

        ``compacted``: read the compacted part of the topic in its compacted form. ``create``: a topic that does not
        exist may be created by the broker. Raises as ``RawConsumer.open``; cancel-safe.
        """
        reader = cls(window)
        reader._consumer = await RawConsumer.open(
            link,
            topic,
            name,
            on_messages=reader._receive,
            on_end=lambda error: reader._changed.set(),
            durable=False,
            compacted=compacted,
            start=start,
            initial=FROM_EARLIEST,
            create=create,
        )
        reader._consumer.flow(window)
        return reader

    @property
    def consumer(self) -> RawConsumer:
        assert self._consumer is not None
        return self._consumer

    def _receive(self, messages: Sequence[Delivered]) -> None:
        self._waiting += messages
        self._changed.set()

    async def next(self) -> list[Delivered]:
        """Return all queued entries, at least one. Raises the error that ended the reader after they are returned;
        cancel-safe."""
        while not self._waiting:
            if self.consumer.error is not None:
                raise self.consumer.error
            self._changed.clear()
            await self._changed.wait()
        entries = list(self._waiting)
        self._waiting.clear()
        self._used_permits += messages_in(entries)
        if self._used_permits * 2 >= self._window:
            self.consumer.flow(self._used_permits)
            self._used_permits = 0
        return entries

    async def rest(self) -> list[Delivered]:
        """Return all entries up to the one that is last now. Raises as ``next`` and ``RawConsumer.last_position``."""
        return [entry async for entries in self.until_last() for entry in entries]

    async def until_last(self) -> AsyncIterator[list[Delivered]]:
        """Yield all entries up to the one that is last now, some at a time. Raises as ``rest``."""
        at: Position | None = None
        while True:
            last = await self.consumer.last_position()
            # A compaction may remove the last entry: then another is last.
            with suppress(TimeoutError):
                while last.entry_id >= 0 and (at is None or at < last):
                    async with asyncio.timeout(ASK_AGAIN_S):
                        entries = await self.next()
                    at = entries[-1].position
                    yield entries
                return


def messages_in(entries: Sequence[Delivered]) -> int:
    """Return the number of permits that entries used: the messages due of each."""
    total = 0
    for delivered in entries:
        if delivered.ack_set:
            total += sum((word & (1 << 64) - 1).bit_count() for word in delivered.ack_set)
        else:
            sizes = batch_sizes(delivered.entry, [0, len(delivered.entry)])
            total += 1 if sizes is None else sizes[0]
    return total
