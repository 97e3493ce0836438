"""The only producer of a system topic of the workers: while it is attached, brokers refuse every other one (F1)."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.raw_producer import EXCLUSIVE_ACCESS, RawProducer
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Receipt


class ExclusiveWriter:
    """A producer made by ``open``. Once ``ended`` is done nothing is written any more; what has no position then may be
    stored or not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[Position]] = deque()
        self._producer: RawProducer | None = None
        self._sequence = -1
        self.ended: asyncio.Future[MagnetarError] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, client: PulsarClient, topic: str, name: str, clock: Clock
    ) -> "ExclusiveWriter":
        """Attach to a topic. Raises RefusedError while another producer is attached, ClientError. Cancel-safe."""
        writer = cls(clock)
        link = await client.owner(topic)
        writer._producer = await RawProducer.open(
            link,
            topic,
            name=name,
            access_mode=EXCLUSIVE_ACCESS,
            on_receipts=writer._stored,
            on_end=writer._lost,
        )
        writer._sequence = writer._producer.last_sequence_id
        return writer

    async def write(
        self, value: bytes, *, key: str | None = None, properties: Mapping[str, str] | None = None
    ) -> Position:
        """Write a message and return its position. Raises the error that ended the producer; cancelled, the message may
        be stored."""
        assert self._producer is not None
        if self.ended.done():
            raise self.ended.result()
        self._sequence += 1
        message = Message(value, key, sequence_id=self._sequence, properties=dict(properties or {}))
        entry = pack_entry(
            [message], producer_name=self._producer.name, publish_ms=self._clock.wall_ms()
        )
        stored: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._waiting.append(stored)
        self._producer.send([self._sequence], [entry])
        return await asyncio.shield(stored)

    def _stored(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            self._waiting.popleft().set_result(receipt.position)

    def _lost(self, error: MagnetarError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.set_exception(error)
            waiting.exception()  # a cancelled writer does not ask for it

    async def close(self) -> None:
        """Detach, so that another worker can attach at once. Safe to repeat."""
        producer = self._producer
        if producer is not None and producer.error is None:
            with suppress(MagnetarError):
                await producer.close()
