"""Clients of a topic that is migrated: each follows from the old cluster to the new one when a broker says so."""

import asyncio
import random
from collections.abc import Sequence

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Delivered
from tests.sim.kit.cluster import Cluster
from tests.sim.kit.loop import Node
from tests.sim.moving.mover import Name, name_of
from tests.sim.publishing.keeper import client_of
from tests.sim.publishing.workload import TOPIC

VISIT_S = 20.0
"""Bound of an attachment, and of the wait for receipts."""
Informed = set[tuple[BrokerLink, int]]
"""Links on which a broker named the new cluster, each with the kind of client that was informed."""


class Traveller:
    """A client that attaches in the old cluster until it is sent to the new one. ``moved``: it was sent on."""

    kind: int

    def __init__(self, clusters: tuple[Cluster, Cluster], name: str, informed: Informed) -> None:
        self.name = name
        self.moved = False
        self.quiet = False
        self.loop = clusters[0].loop
        self.rng = random.Random(f"{self.loop.seed}/{name}")
        self._clusters = clusters
        self._clients: dict[str, PulsarClient] = {}
        self._informed = informed
        for cluster in clusters:
            cluster.clients.append(name)

    def start(self) -> None:
        self.loop.spawn(Node(self.name), self._run())

    async def _run(self) -> None:
        while True:
            cluster = self._clusters[self.moved]
            try:
                async with asyncio.timeout(VISIT_S):
                    if cluster.name not in self._clients:
                        self._clients[cluster.name] = client_of(
                            cluster, f"{self.name}-{cluster.name}"
                        )
                    link = await self._clients[cluster.name].owner(str(TOPIC))
                    try:
                        await self._visit(link)
                    finally:
                        self.moved = self.moved or (link, self.kind) in self._informed
            except (MagnetarError, TimeoutError) as error:
                self.loop.note(self.name, type(error).__name__)
            await asyncio.sleep(self.rng.uniform(0.05, 0.4))

    async def _visit(self, link: BrokerLink) -> None:
        """Use the topic until something fails. Raises MagnetarError, TimeoutError."""
        raise NotImplementedError


class Writer(Traveller):
    """A producer that sends each message again, in order, until a cluster confirmed it."""

    kind = pb.CommandTopicMigrated.Producer

    def __init__(self, clusters: tuple[Cluster, Cluster], name: str, informed: Informed) -> None:
        super().__init__(clusters, name, informed)
        self.confirmed = 0
        """Number of messages, from the first on, that a cluster confirmed."""
        self.sent = 0

    async def _visit(self, link: BrokerLink) -> None:
        producer = await RawProducer.open(link, str(TOPIC), name=self.name)
        try:
            while True:
                if not self.quiet and self.sent == self.confirmed:
                    self.sent += self.rng.randint(1, 10)
                numbers = range(self.confirmed, self.sent)
                if numbers:
                    producer.send(numbers, [self._entry(number) for number in numbers])
                    async with asyncio.timeout(VISIT_S / 2):
                        await producer.drained()
                    self.confirmed = self.sent
                elif producer.error is not None:
                    raise producer.error
                await asyncio.sleep(self.rng.uniform(0.01, 0.5))
        finally:
            producer.leave()

    def _entry(self, number: int) -> bytes:
        value = b"%s:%d:" % (self.name.encode(), number)
        return pack_entry(
            [Message(value, sequence_id=number)], producer_name=self.name, publish_ms=1
        )


class Reader(Traveller):
    """The consumer of a subscription, which acknowledges all that it receives."""

    kind = pb.CommandTopicMigrated.Consumer

    def __init__(self, clusters: tuple[Cluster, Cluster], name: str, informed: Informed) -> None:
        super().__init__(clusters, name, informed)
        self.seen: dict[Name, None] = {}
        """The messages in the order in which they were received first."""
        self.attached = False
        self._held: list[Position] = []

    async def attach(self) -> None:
        """Create the subscription in the old cluster. Raises MagnetarError."""
        client = client_of(self._clusters[0], f"{self.name}-first")

        async def once() -> None:
            link = await client.owner(str(TOPIC))
            consumer = await RawConsumer.open(
                *(link, str(TOPIC), self.name, FAILOVER),
                on_messages=lambda messages: None,
                initial=FROM_EARLIEST,
            )
            consumer.leave()

        await client.patiently(once, timeout_s=None)
        await client.close()
        self.attached = True

    async def _visit(self, link: BrokerLink) -> None:
        # In the new cluster at the end, as clients do: what the subscription has to have there, the migration gave it.
        self._held.clear()
        consumer = await RawConsumer.open(
            link, str(TOPIC), self.name, FAILOVER, on_messages=self._receive
        )
        try:
            consumer.flow(1000)
            while consumer.error is None:
                await asyncio.sleep(self.rng.choice((0.05, 0.3)))
                if self._held and consumer.error is None:
                    some = self._held[: self.rng.choice((1, 5, 1000))]
                    del self._held[: len(some)]
                    consumer.acknowledge(some)
                    consumer.flow(len(some))
        finally:
            consumer.leave()

    def _receive(self, messages: Sequence[Delivered]) -> None:
        for message in messages:
            self.seen.setdefault(name_of(message.entry))
            self._held.append(message.position)


def missed(reader: Reader, writers: Sequence[Writer]) -> list[Name]:
    """Return the confirmed messages that a reader did not receive."""
    return [
        (writer.name, number)
        for writer in writers
        for number in range(writer.confirmed)
        if (writer.name, number) not in reader.seen
    ]


def out_of_order(reader: str, seen: Sequence[Name]) -> list[str]:
    """Return what is wrong with the order in which messages were received first."""
    last: dict[str, int] = {}
    wrong = []
    for writer, number in seen:
        if number < last.get(writer, -1):
            wrong.append(f"G5: {reader} received {writer} {number} after {last[writer]}")
        last[writer] = max(number, last.get(writer, -1))
    return wrong[:1]
