"""Follows a topic without leaving a trace, and reads all that it holds now."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from engine.base.ids import EARLIEST, Position
from engine.client.broker_link import BrokerLink
from engine.client.raw_consumer import FROM_EARLIEST, RawConsumer
from engine.wire.events import Delivered
from engine.wire.kernels import batch_sizes

ASK_AGAIN_S = 1.0
"""Without an entry, before the last position is asked for anew."""


class RawReader:
    """A topic's entries from a position on, in order. ``open`` it; at most ``window`` messages wait to be taken."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting: deque[Delivered] = deque()
        self._owed = 0
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
    ) -> "RawReader":
        """``name``: of its subscription, which goes with it. ``compacted``: instead of what was compacted, what was
        kept of it. Raises as ``RawConsumer.open``; cancel-safe."""
        made = cls(window)
        made._consumer = await RawConsumer.open(
            link,
            topic,
            name,
            on_messages=made._take,
            on_end=lambda error: made._changed.set(),
            durable=False,
            compacted=compacted,
            start=start,
            initial=FROM_EARLIEST,
        )
        made._consumer.flow(window)
        return made

    @property
    def consumer(self) -> RawConsumer:
        assert self._consumer is not None
        return self._consumer

    def _take(self, messages: Sequence[Delivered]) -> None:
        self._waiting += messages
        self._changed.set()

    async def next(self) -> list[Delivered]:
        """All entries that are there, at least one. Raises what ended it, once they are taken; cancel-safe."""
        while not self._waiting:
            if self.consumer.error is not None:
                raise self.consumer.error
            self._changed.clear()
            await self._changed.wait()
        taken = list(self._waiting)
        self._waiting.clear()
        self._owed += messages_in(taken)
        if self._owed * 2 >= self._window:
            self.consumer.flow(self._owed)
            self._owed = 0
        return taken

    async def rest(self) -> list[Delivered]:
        """All entries up to the one that is last now. Raises as ``next`` and ``RawConsumer.last_position``."""
        found: list[Delivered] = []
        while True:
            last = await self.consumer.last_position()
            with suppress(TimeoutError):  # a compaction may take the last one away: then another is
                while last.entry_id >= 0 and (not found or found[-1].position < last):
                    async with asyncio.timeout(ASK_AGAIN_S):
                        found += await self.next()
                return found


def messages_in(entries: Sequence[Delivered]) -> int:
    """Messages that permits were spent for: those due of each entry."""
    total = 0
    for one in entries:
        if one.ack_set:
            total += sum((word & (1 << 64) - 1).bit_count() for word in one.ack_set)
        else:
            sizes = batch_sizes(one.entry, [0, len(one.entry)])
            total += 1 if sizes is None else sizes[0]
    return total
