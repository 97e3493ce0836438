"""Messages published by a command, with an exact account of what the broker has confirmed (P1)."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from engine.base.budget import Budget
from engine.client.client import PulsarClient
from engine.client.errors import MessageTooLargeError, RefusedError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer

IN_FLIGHT_BYTES_MAX = 16 << 20
IN_FLIGHT_MAX = 10_000


class Sender:
    """A producer that waits while too much is without a receipt; made by ``open``. ``error`` is the first one.

    ``confirmed`` counts receipts of the broker, ``refused`` messages that it or this client refused for certain, and
    ``unknown`` the others that were sent: these may be stored or not.
    """

    def __init__(self, on_receipts: Callable[[Sequence[SendResult]], None]) -> None:
        self.sent = self.confirmed = self.refused = 0
        self._results = 0
        self.error: Exception | None = None
        self._on_receipts = on_receipts
        self._changed = asyncio.Event()
        self._budget = Budget(IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX)
        self._producer: TopicProducer | None = None

    @classmethod
    async def open(
        cls,
        client: PulsarClient,
        topic: str,
        settings: ProducerSettings,
        on_receipts: Callable[[Sequence[SendResult]], None] = lambda results: None,
    ) -> "Sender":
        """Attach to the topic. Raises MagnetarError; cancel-safe. ``on_receipts`` is called with confirmed messages."""
        sender = cls(on_receipts)
        sender._producer = await TopicProducer.open(
            client, topic, settings, budget=sender._budget, on_results=sender._take
        )
        return sender

    @property
    def producer(self) -> TopicProducer:
        assert self._producer is not None
        return self._producer

    @property
    def unknown(self) -> int:
        """Number of messages that may be stored or not."""
        return self.sent - self.confirmed - self.refused

    async def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send in order, waiting for room first. Raises the first error of any message; cancel-safe."""
        while self.error is None and self._budget.high:
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        self.sent += len(messages)
        self.producer.send(messages)

    async def drained(self) -> None:
        """Wait until every message has a receipt. Raises the first error; cancel-safe."""
        while self.error is None and self.unknown:
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error

    async def settled(self, timeout_s: float) -> None:
        """Wait until every message has a result, whatever it is, for at most ``timeout_s``. Cancel-safe."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._results < self.sent:
                    self._changed.clear()
                    await self._changed.wait()

    async def close(self) -> None:
        """Detach from the topic; messages without a result get none."""
        await self.producer.close()

    def _take(self, results: Sequence[SendResult]) -> None:
        stored = [result for result in results if result.error is None]
        for result in results:
            if result.error is not None:
                self.error = self.error or result.error
                # Any other error may follow an entry that has arrived.
                self.refused += isinstance(result.error, RefusedError | MessageTooLargeError)
        self.confirmed += len(stored)
        self._results += len(results)
        if stored:
            try:
                self._on_receipts(stored)
            except OSError as error:  # the output is closed or full: the sender stops
                self.error = self.error or error
        self._changed.set()
