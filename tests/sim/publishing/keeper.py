"""A subscription that acknowledges nothing, so that no ledger is trimmed, and a reader of all entries at the end."""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient, never_final
from engine.client.message_ids import MessageId
from engine.client.raw_consumer import FROM_EARLIEST, RawConsumer
from engine.client.raw_reader import RawReader
from engine.wire.batches import unpack_entry
from engine.wire.events import Delivered
from tests.sim.kit.cluster import BROKER_PORT, EPOCH_MS, Cluster
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.kit.scenario import Run
from tests.sim.topics.client import SETTINGS

SETTLE_S = 60.0


def client_of(cluster: Cluster, name: str) -> PulsarClient:
    """Return a shipped client; call it on the node that uses the client."""

    async def brokers() -> Sequence[str]:
        return [f"pulsar://{machine.name}:{BROKER_PORT}" for machine in cluster.brokers]

    return PulsarClient(
        network=SimNetwork(cluster.world),
        clock=LoopClock(EPOCH_MS),
        entropy=RandomEntropy(random.Random(f"{cluster.loop.seed}/{name}/entropy")),
        brokers=brokers,
        settings=SETTINGS,
        operation_timeout_s=SETTLE_S,
    )


class Keeper:
    """A reader of all entries. ``stored``: each topic's entries in order, after ``read``."""

    def __init__(self, run: Run, topics: Sequence[str], cluster: Cluster | None = None) -> None:
        """``cluster``: another one than the run's own."""
        self._run = run
        self.topics = topics
        self._cluster = cluster or run.cluster
        self._name = "keeper" if cluster is None else f"{cluster.name}-keeper"
        self._node = Node(self._name)
        self._cluster.clients.append(self._name)
        self.stored: dict[str, list[Delivered]] = {}

    async def keep(self) -> None:
        keeping = self._run.loop.spawn(self._node, self._keep())
        await self._run.reach("keep", keeping.done, SETTLE_S, lambda: ["a subscription"])

    async def read(self) -> None:
        reading = self._run.loop.spawn(self._node, self._read())
        await self._run.reach("read", reading.done, SETTLE_S, lambda: ["the topic"])

    def messages(self, topic: str, partition: int = -1) -> Iterator[tuple[MessageId, bytes]]:
        """Yield the messages read from a topic, with the ids that producers should have received."""
        for entry in self.stored[topic]:
            opened = unpack_entry(entry.entry)
            size = len(opened.messages) if opened.batched else 0
            for message in opened.messages:
                at = MessageId(entry.position, partition, message.batch_index, size)
                yield at, message.value or b""

    async def _keep(self) -> None:
        client = client_of(self._cluster, self._name)
        for topic in self.topics:

            async def attach(topic: str = topic) -> None:
                link = await client.owner(topic)
                consumer = await RawConsumer.open(
                    link,
                    topic,
                    "keeper",
                    on_messages=lambda messages: None,
                    initial=FROM_EARLIEST,
                )
                with suppress(MagnetarError):
                    await consumer.close()

            await client.patiently(attach, timeout_s=None, is_final=never_final)
        await client.close()

    async def _read(self) -> None:
        client = client_of(self._cluster, self._name)
        for topic in self.topics:

            async def read(topic: str = topic) -> None:
                link = await client.owner(topic)
                reader = await RawReader.open(link, topic, name="reader")
                self.stored[topic] = list(await reader.rest())

            await client.patiently(read, timeout_s=None, is_final=never_final)
        await client.close()
