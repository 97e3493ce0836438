"""A consumer of one replicated subscription, which attaches now in one cluster and now in another."""

import asyncio
import random
from collections.abc import Sequence

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, SHARED, RawConsumer
from engine.wire.batches import unpack_entry
from engine.wire.events import Delivered
from tests.sim.kit.cluster import Cluster
from tests.sim.kit.loop import Node
from tests.sim.publishing.keeper import client_of
from tests.sim.publishing.workload import TOPIC

SUBSCRIPTION = "moved"
KINDS = {"failover": FAILOVER, "shared": SHARED}
Name = tuple[str, int]
"""Producer and number of the first message of an entry, the same in all clusters."""


def name_of(entry: bytes) -> Name:
    """Return the name of an entry that a publisher sent."""
    producer, number, _ = (unpack_entry(entry).messages[0].value or b"").split(b":", 2)
    return producer.decode(), int(number)


class Mover:
    """The consumer. ``seen``: the entries that it received."""

    def __init__(self, clusters: Sequence[Cluster], kind: str) -> None:
        self._clusters = clusters
        self._loop = clusters[0].loop
        self._kind = KINDS[kind]
        self._rng = random.Random(f"{self._loop.seed}/mover")
        self._clients: dict[str, PulsarClient] = {}
        self._held: dict[Position, Name] = {}
        self.seen: set[Name] = set()
        self.acknowledged: dict[Name, int] = {}
        """Entries in the order in which they were acknowledged first, each with its place in that."""
        self.stays_in: Cluster | None = None
        """The cluster that it stays in, where it acknowledges all that it receives; None: it moves."""
        self.resting = False
        """True while it is attached nowhere."""
        self._paused = False
        for cluster in clusters:
            cluster.clients.append("mover")

    def start(self) -> None:
        self._loop.spawn(Node("mover"), self._run())

    def pause(self) -> None:
        """Leave the present cluster and rest until ``stay``."""
        self._paused = True

    def stay(self, cluster: Cluster) -> None:
        """Consume all that is there in ``cluster``."""
        self._paused, self.stays_in = False, cluster

    async def _run(self) -> None:
        rng, loop = self._rng, self._loop
        while True:
            while self._paused:
                self.resting = True
                await asyncio.sleep(0.1)
            self.resting = False
            cluster = self.stays_in or rng.choice(self._clusters)
            until = loop.now + rng.uniform(0.3, 6.0)
            try:
                async with asyncio.timeout(20.0):
                    await self._visit(cluster, until)
            except (MagnetarError, TimeoutError) as error:
                loop.note("mover", type(error).__name__)
            await asyncio.sleep(rng.uniform(0.05, 0.4))

    async def _visit(self, cluster: Cluster, until: float) -> None:
        """Attach, and acknowledge now and then some of what arrives. Raises MagnetarError."""
        if cluster.name not in self._clients:
            self._clients[cluster.name] = client_of(cluster, f"mover-{cluster.name}")
        self._held.clear()
        link = await self._clients[cluster.name].owner(str(TOPIC))
        consumer = await RawConsumer.open(
            link,
            str(TOPIC),
            SUBSCRIPTION,
            self._kind,
            on_messages=self._receive,
            initial=FROM_EARLIEST,
            replicated=True,
        )
        cluster.count("visits")
        try:
            permits = self._rng.choice((5, 50, 1000))
            consumer.flow(permits)
            while consumer.error is None and self._loop.now < until and not self._paused:
                await asyncio.sleep(self._rng.choice((0.05, 0.3)))
                if self._acknowledge(consumer):
                    consumer.flow(permits)
            if self._rng.random() < 0.5 and consumer.error is None:
                await consumer.close()
        finally:
            consumer.leave()

    def _receive(self, messages: Sequence[Delivered]) -> None:
        for message in messages:
            name = name_of(message.entry)
            self.seen.add(name)
            self._held[message.position] = name

    def _acknowledge(self, consumer: RawConsumer) -> bool:
        """Acknowledge some of what is held; return whether there was anything."""
        rng, held = self._rng, sorted(self._held)
        if not held or (self.stays_in is None and rng.random() < 0.3):
            return False
        if self.stays_in is not None:
            chosen = held
        elif self._kind == SHARED and rng.random() < 0.5:
            chosen = [position for position in held if rng.random() < 0.7]
        else:
            chosen = held[: rng.randint(1, len(held))]
        if not chosen:
            return False
        # Noted before it is sent: the broker may know of it whatever becomes of the connection.
        for position in chosen:
            self.acknowledged.setdefault(self._held.pop(position), len(self.acknowledged))
        consumer.acknowledge(chosen)
        return True
