"""A client of the cluster and the messages that its consumers receive, with a broker bench."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.raw_consumer import FROM_EARLIEST
from engine.client.raw_producer import RawProducer
from engine.wire.batches import Message, pack_entry
from tests.support.broker_bench import NAME, PATIENT, Bench, served
from tests.support.net.pipe_network import PipeNetwork
from tests.support.waiting import until as until

EARLY = ConsumerSettings("s", initial=FROM_EARLIEST)


class Taken:
    """Messages that a consumer received, and the errors that ended it."""

    def __init__(self) -> None:
        self.messages: list[Incoming] = []
        self.runs: list[int] = []
        self.ends: list[Exception] = []

    def __call__(self, run: Sequence[Incoming]) -> None:
        self.messages += run
        self.runs.append(len(run))

    @property
    def entries(self) -> list[int]:
        return [message.position.entry_id for message in self.messages]

    @property
    def values(self) -> list[bytes | None]:
        return [message.content for message in self.messages]


class Publisher:
    """A producer of entries of any kind."""

    def __init__(self, producer: RawProducer) -> None:
        self._producer = producer
        self._sequence = 0

    @classmethod
    async def to(cls, client: PulsarClient, topic: str = NAME.full) -> "Publisher":
        return cls(await RawProducer.open(await client.owner(topic), topic))

    async def entry(self, *messages: Message | bytes, **options: Any) -> None:
        """Store an entry; several messages are a batch. ``options`` as for ``pack_entry``."""
        made = [
            message if isinstance(message, Message) else Message(message) for message in messages
        ]
        entry = pack_entry(made, producer_name="p", publish_ms=1000, **options)
        await self.raw(entry, len(made))

    async def raw(self, entry: bytes, count: int = 1) -> None:
        self._sequence += 1
        self._producer.send([self._sequence], [entry], [count])
        await self._producer.drained()


@asynccontextmanager
async def client_of() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    """Yield a broker and a client that knows its address."""
    async with served() as (bench, _, url):

        async def brokers() -> list[str]:
            return [url]

        client = PulsarClient(
            network=PipeNetwork(),
            clock=LoopClock(),
            entropy=RandomEntropy(),
            brokers=brokers,
            settings=PATIENT,
        )
        yield bench, client
        await client.close()


@asynccontextmanager
async def consuming(
    client: PulsarClient,
    settings: ConsumerSettings = EARLY,
    *,
    allow: int = 1_000_000,
    topics: Sequence[str] = (NAME.full,),
    **changes: Any,
) -> AsyncIterator[tuple[TopicConsumer, Taken]]:
    """Yield a consumer that may deliver ``allow`` messages."""
    taken = Taken()
    consumer = await TopicConsumer.open(
        client,
        topics,
        replace(settings, **changes),
        on_messages=taken,
        on_end=taken.ends.append,
    )
    consumer.allow(allow)
    yield consumer, taken
    await consumer.close()


def backlog(bench: Bench) -> int:
    """Return the number of entries that are not acknowledged."""
    return bench.subscription.cursor.backlog_entries()
