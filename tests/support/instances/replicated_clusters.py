"""Clusters in memory that send one topic to each other, each with one broker and its own storage."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from engine.base.ids import Position
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.policies import DeduplicationPolicies, TopicPolicies
from engine.broker.topics.publish import Publish
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.managed.ledger import InitialPosition
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.geo.markers import read_marker
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, Client, served, until
from tests.support.instances.replicated_pair import Remotes
from tests.support.raw_client import entry_of


class Site:
    """One of the clusters."""

    def __init__(self, name: str, bench: Bench) -> None:
        self.name = name
        self.bench = bench
        self._sequence = 0

    async def begin(self, clusters: Sequence[str]) -> None:
        """Load the topic as one that all ``clusters`` have, and wait until it is sent to the others."""
        self.bench.everything.in_force = TopicPolicies(
            clusters=tuple(clusters), deduplication=DeduplicationPolicies(enabled=True)
        )
        await self.bench.registry.unload(NAME)
        await self.bench.load()
        self._sequence = 0

    @property
    def sends(self) -> bool:
        """True when the topic is sent to all other clusters."""
        replicators = self.bench.topic.replication.replicators
        return bool(replicators) and all(r.connected for r in replicators.values())

    async def publish(self, *values: bytes) -> None:
        """Store messages of one byte."""
        data = b""
        for value in values:
            data += send(1, self._sequence, entry_of(value))
            self._sequence += 1
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        before = self.bench.publisher.receipts
        Publish(run, self.bench.producer).start()
        await until(lambda: self.bench.publisher.receipts == before + len(values))

    @property
    def subscription(self) -> Subscription:
        return self.bench.subscription

    async def subscribe(
        self,
        kind: SubscriptionType = SubscriptionType.FAILOVER,
        *,
        replicated: bool = True,
        permits: int = 1000,
    ) -> tuple[Consumer, Client]:
        """Attach a consumer of the subscription ``s``."""
        client = Client()
        bench = self.bench
        consumer = Consumer(
            client, 1, "c", kind, settings=bench.context.settings, partition=-1, now_ms=0
        )
        subscription = await bench.topic.subscriptions.attach(
            consumer,
            "s",
            durable=True,
            initial=InitialPosition.EARLIEST,
            properties={},
            replicated=replicated,
        )
        subscription.flow(consumer, permits)
        return consumer, client

    async def entries(self) -> list[tuple[Position, bytes]]:
        """Return the stored entries that are not acknowledged in storage, with their positions."""
        log = self.bench.topic.log
        rows = []
        position = log.next_position(Position(-1, -1))
        while position <= log.last_confirmed:
            rows.append((position, (await log.read_entry(position)).entry(0)))
            position = log.next_position(position)
        return rows

    async def messages(self) -> list[tuple[Position, bytes]]:
        """Return position and payload of each message."""
        return [
            (position, entry[-1:])
            for position, entry in await self.entries()
            if (metadata := read_metadata(entry)) is None or not metadata.HasField("marker_type")
        ]

    async def markers(self) -> list[tuple[str, object]]:
        """Return the cluster of origin and content of each marker, in order."""
        rows: list[tuple[str, object]] = []
        for _, entry in await self.entries():
            metadata = read_metadata(entry)
            if metadata is not None and metadata.HasField("marker_type"):
                origin = metadata.replicated_from or self.name
                rows.append((origin, read_marker(entry, metadata.marker_type)))
        return rows

    async def unacknowledged(self) -> list[bytes]:
        """Return the payloads of the messages that the subscription ``s`` still needs."""
        cursor = self.subscription.cursor
        return [
            value
            for position, value in await self.messages()
            if not cursor.is_acknowledged(position)
        ]


@asynccontextmanager
async def replicated_clusters(*names: str) -> AsyncIterator[list[Site]]:
    """Yield the clusters ``names``, which send the topic to each other."""
    async with AsyncExitStack() as stack:
        sites, urls = [], {}
        for name in names:
            bench, _, urls[name] = await stack.enter_async_context(served())
            bench.context.identity = replace(bench.context.identity, cluster=name)
            sites.append(Site(name, bench))
        for site in sites:
            remotes = site.bench.context.remotes = Remotes(site.bench, urls)
            stack.push_async_callback(remotes.close)
        for site in sites:
            await site.begin(names)
        await until(lambda: all(site.sends for site in sites))
        yield sites
