"""Producers of an instance, opened at the first message to their topic."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Routing
from engine.client.producing.partition_producer import (
    BatchSettings,
    ProducerSettings,
    SendResult,
)
from engine.client.producing.topic_producer import TopicProducer
from engine.wire.errors import RefusedError, ServerError

PENDING_BYTES_MAX = 32 * 1024 * 1024
PENDING_MAX = 4000
SETTINGS = ProducerSettings(
    # A result is needed for the acknowledgement: it is neither given up nor sent twice.
    send_timeout_s=0.0,
    routing=Routing.ROUND_ROBIN,
    # What is ready goes at once, together: no message waits for others that may come.
    batching=BatchSettings(delay_s=0.0),
    chunking=True,
)


def not_busy(error: MagnetarError) -> bool:
    """Return whether opening a producer again cannot help. It does where the name is still taken by the producer of an
    instance that has ended."""
    busy = isinstance(error, RefusedError) and error.code == ServerError.ProducerBusy
    return not busy and not error.retriable


def finish(done: "asyncio.Future[None]", error: BaseException | None) -> None:
    """Report the outcome of sending to what waits for it, if it waits still."""
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class InstancePublisher:
    """Publishes to any topics. ``on_results`` is called with a result for each message, and ``on_room`` when there is
    room again after ``full``."""

    def __init__(
        self,
        client: PulsarClient,
        on_results: Callable[[Sequence[SendResult]], None],
        on_room: Callable[[], None],
        settings: ProducerSettings = SETTINGS,
    ) -> None:
        self.budget = Budget(PENDING_BYTES_MAX, PENDING_MAX, on_low=on_room)
        self._client = client
        self._on_results = on_results
        self._settings = settings
        self._producers: dict[tuple[str, int], TopicProducer] = {}
        self._waiting: dict[tuple[str, int], list[OutgoingMessage]] = {}

    @property
    def full(self) -> bool:
        """True while no more messages should be processed."""
        return self.budget.high

    async def open(self, topic: str, settings: ProducerSettings) -> None:
        """Open the producer of the function's output. Raises MagnetarError."""
        self._producers[topic, settings.compression] = await self._opened(topic, settings)

    async def _opened(self, topic: str, settings: ProducerSettings) -> TopicProducer:
        return await TopicProducer.open(
            self._client, topic, settings, budget=self.budget, on_results=self._on_results
        )

    def send(self, topic: str, compression: int, messages: Sequence[OutgoingMessage]) -> None:
        """Send in order, without waiting."""
        key = topic, compression
        producer = self._producers.get(key)
        if producer is not None and producer.error is None:
            producer.send(messages)
            return
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting += messages
            return
        self._waiting[key] = list(messages)
        self._client.spawn(f"publish to {topic}", self._open_late(key))

    async def _open_late(self, key: tuple[str, int]) -> None:
        topic, compression = key
        try:
            producer = await self._opened(topic, replace(self._settings, compression=compression))
        except MagnetarError as error:
            waiting = self._waiting.pop(key)
            self._on_results([SendResult(message.token, None, error) for message in waiting])
            return
        self._producers[key] = producer
        producer.send(self._waiting.pop(key))

    async def close(self) -> None:
        """Leave all topics."""
        await asyncio.gather(*(producer.close() for producer in self._producers.values()))
