"""A durable subscription that follows a stream: its lag is the stream's, and retention keeps what is not read yet.

It is moved behind the batches that Spark has committed, when it plans the next, and never decides what is read. A
broker that cannot be reached is logged once and does not stop the query; the next look moves the subscription further.
"""

import asyncio
import logging
from collections.abc import Mapping

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.errors import RefusedError
from engine.client.raw_consumer import EXCLUSIVE, FROM_EARLIEST, RawConsumer
from spark_jobs.pulsar_source.brokers.access import client_of
from spark_jobs.pulsar_source.options import OptionError

log = logging.getLogger(__name__)


class StreamFollower:
    """The subscription ``name`` on the topics of a stream. Its methods run on the loop of the connections."""

    def __init__(self, service_url: str, name: str) -> None:
        self._client = client_of(service_url)
        self._name = name
        self._consumers: dict[str, RawConsumer] = {}
        self._done: dict[str, Position] = {}
        self._wanted: dict[str, Position] = {}
        self._moving = False
        self._failing = False

    async def hold(self, topics: Mapping[str, Position | None]) -> None:
        """Create the subscription where it is missing, at a topic's earliest message or behind the position given, so
        that nothing behind is trimmed. Raises OptionError when a broker refuses that, the client's errors."""
        for topic, last in topics.items():
            try:
                await self._consumer(topic)
            except RefusedError as error:
                raise OptionError(
                    f"option commitSubscription: subscription {self._name} of {topic} is refused: {error}. The"
                    " credentials for brokers are the settings broker_client_…"
                ) from error
            if last is not None:
                self._wanted[topic] = last
        await self._move()

    async def follow(self, topics: Mapping[str, Position | None]) -> None:
        """Move the subscription behind the last entry read of each topic."""
        self._wanted |= {topic: last for topic, last in topics.items() if last is not None}
        if self._moving:
            return  # a move goes on until nothing is left to do
        self._moving = True
        try:
            await self._move()
            self._failing = False
        except MagnetarError as error:
            if not self._failing:
                log.warning("subscription %s does not follow the query: %s", self._name, error)
            self._failing = True
        finally:
            self._moving = False

    async def _move(self) -> None:
        while behind := {t: p for t, p in self._wanted.items() if self._done.get(t) != p}:
            for topic, last in behind.items():
                consumer = await self._consumer(topic)
                await consumer.acknowledged([last], cumulative=True)
                self._done[topic] = last

    async def _consumer(self, topic: str) -> RawConsumer:
        consumer = self._consumers.get(topic)
        if consumer is None or consumer.error is not None:

            async def attach() -> RawConsumer:
                return await RawConsumer.open(
                    await self._client.owner(topic),
                    topic,
                    self._name,
                    EXCLUSIVE,
                    on_messages=lambda messages: None,
                    name="spark",
                    initial=FROM_EARLIEST,
                )

            consumer = await self._client.patiently(attach, timeout_s=10.0)
            self._consumers[topic] = consumer
        return consumer

    async def close(self) -> None:
        """Move the subscription to where it should be, and close the connections."""
        try:
            async with asyncio.timeout(5.0):
                await self.follow({})
        except TimeoutError:
            log.warning("subscription %s was left behind the query", self._name)
        finally:
            await self._client.close()
