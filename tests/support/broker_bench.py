"""A topic over the shipped managed ledger, ledger client and bookie, and stand-ins for what surrounds it.

Without a directory all of it is in memory and in the event loop's time; see tests/support/ledger_cluster.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.auth.identity import UNAUTHENTICATED
from engine.auth.judge import AllowAll
from engine.base.budget import Budget
from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName
from engine.broker.connection.sessions import Sessions
from engine.broker.context import Context
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.outlet import Moved
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.ports import (
    BrokerIdentity,
    LookupResult,
    MigrationTarget,
    Ownership,
    TopicMode,
    TransactionSnapshots,
)
from engine.broker.settings import DataPathSettings
from engine.broker.topic_table import TopicTable
from engine.broker.topics.publish import Producer, Publish
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.broker.upkeep import Upkeep
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.ledger.settings import LedgerSettings
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.metadata.store import Found, MetadataStore
from engine.net.handshake import allow_all
from engine.schema.schema_registry import SchemaRegistry
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes
from engine.wire.kernels import take_sends
from tests.support.ledger_cluster import PATIENT as PATIENT_LEDGERS
from tests.support.ledger_cluster import Cluster
from tests.support.net.pipe_network import PipeNetwork
from tests.support.raw_client import entry_of
from tests.support.waiting import until as until

NAME = TopicName.parse("persistent://public/default/d")
PATIENT = LinkSettings(connect_timeout_s=60.0, request_timeout_s=60.0)


class Everything:
    """Ownership and namespaces of a broker that owns and allows everything."""

    def __init__(self) -> None:
        self.in_force = TopicPolicies()
        self.ledger_entries = 50_000
        self.owner = LookupResult("pulsar://127.0.0.1:1")
        self.listed: list[str] = []
        self.target: MigrationTarget | None = None
        self.watchers: dict[object, Callable[[], None]] = {}

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        return self.owner

    async def resume(self, topic: TopicName) -> None:
        pass

    def check_owned(self, topic: TopicName) -> None:
        pass

    async def peer_of(self, topic: TopicName) -> LookupResult | None:
        return None

    async def migrated_to(self, namespace: NamespaceName) -> MigrationTarget | None:
        return self.target

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        return 0

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        return list(self.listed)

    def watch_topics(
        self, namespace: NamespaceName, callback: Callable[[], None]
    ) -> Callable[[], None]:
        token = object()
        self.watchers[token] = callback
        return lambda: self.watchers.pop(token, None) and None

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        pass

    async def admit(self, topic: TopicName) -> Callable[[], None]:
        return lambda: None

    def confirmation_paths(self, topic: TopicName) -> Sequence[str]:
        return ()

    async def confirm_plain(self, topic: TopicName, seen: Sequence[Found] = ()) -> None:
        pass

    async def policies(self, topic: TopicName) -> TopicPolicies:
        return self.in_force

    def ledger_config(self, policies: TopicPolicies) -> LedgerConfig:
        return LedgerConfig(
            ensemble=1,
            write_quorum=1,
            ack_quorum=1,
            ledger_age_min_s=0,
            ledger_entries_max=self.ledger_entries,
            retention_s=policies.storage.retention_minutes * 60.0,
            retention_bytes=policies.storage.retention_mb,
        )


def commands_in(data: bytes) -> Iterator[pb.BaseCommand]:
    """Yield the commands of complete frames."""
    pos = 0
    while pos < len(data):
        stop = frames.frame_end(data, pos, len(data), 1 << 24)
        start, end = frames.command_span(data, pos, stop)
        yield pb.BaseCommand.FromString(data[start:end])
        pos = stop


class Client:
    """A client's connection that records what is sent to it, by position."""

    client_version = "test"
    address = "test:1"
    listener = ""
    protocol_version = 20
    takes_broker_metadata = False
    identity = UNAUTHENTICATED
    partial_producers = False
    replicates_by_source = False

    def __init__(self) -> None:
        self.can_send = True
        self.publish_budget = Budget(1 << 40)
        self.closing = False
        self.holds: set[str] = set()
        """Reasons for which nothing is read from the client at present."""
        self.has_limited_reads = False
        self.answers: list[asyncio.Future[bytes]] = []
        self.replies: list[bytes] = []
        """Answers of requests without a task."""
        self.awaited = 0
        """Requests without a task that are not answered."""
        self.received: list[Position] = []
        self.counts: dict[Position, int] = {}
        self.fresh: list[Position] = []
        self.ack_sets: dict[Position, list[int]] = {}
        self.kinds: list[str] = []
        self.receipts = 0
        self.alive = True
        self.dropped: list[int] = []
        self.errors: list[tuple[int, int, str]] = []
        """Sequence id, code and text of each SEND_ERROR."""

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            if command.HasField("message"):
                message_id = command.message.message_id
                position = Position(message_id.ledgerId, message_id.entryId)
                self.received.append(position)
                self.fresh.append(position)
                self.counts[position] = command.message.redelivery_count
                self.ack_sets[position] = list(command.message.ack_set)
            elif command.HasField("send_receipt"):
                self.receipts += 1
            elif command.HasField("send_error"):
                error = command.send_error
                self.errors.append((error.sequence_id, error.error, error.message))
            else:
                self.kinds.append(pb.BaseCommand.Type.Name(command.type))

    def send_parts(self, parts: list[bytes | memoryview]) -> None:
        self.send(b"".join(parts))

    def hold(self, reason: str) -> None:
        self.holds.add(reason)

    def limit_reads(self) -> None:
        self.has_limited_reads = True

    def release(self, reason: str) -> None:
        self.holds.discard(reason)

    async def is_alive(self) -> bool:
        return self.alive

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        self.answers.append(asyncio.ensure_future(answer))

    def awaits(self) -> None:
        self.awaited += 1

    def answered(self, reply: bytes) -> None:
        self.awaited -= 1
        if reply:
            self.replies.append(reply)

    def drop_consumer(self, consumer_id: int, moved: Moved | None = None) -> None:
        self.dropped.append(consumer_id)

    def drop_producer(self, producer_id: int, moved: Moved | None = None) -> None:
        self.dropped.append(producer_id)


class Bench:
    """A loaded topic with its producer, and what surrounds it."""

    def __init__(
        self,
        cluster: Cluster,
        registry: TopicRegistry,
        everything: Everything,
        schemas: SchemaRules,
        topic: Topic,
    ) -> None:
        self.cluster = cluster
        self.registry = registry
        self.context = topic.context
        self.everything = everything
        self.schemas = schemas
        self.topic = topic
        self.publisher = Client()
        self.producer = Producer(self.publisher, 1, "p", topic, now_ms=0)
        self._sent = 0

    def publish_by(self, publish: Callable[[Any], None]) -> Callable[[Any], None]:
        """Replace how the topic publishes runs until the test ends; return the original."""
        mine, real = self.topic, Topic.publish

        def chosen(topic: Topic, run: Any) -> None:
            if topic is mine:
                publish(run)
            else:
                real(topic, run)

        patch.object(Topic, "publish", chosen).start()
        return partial(real, mine)

    def send(
        self,
        count: int,
        deliver_at_ms: int | None = None,
        *,
        publish_ms: int = 1,
        keys: Sequence[str] = (),
        **fields: int,
    ) -> None:
        """Start to publish ``count`` entries, whose keys are ``keys`` by turns."""
        at = {"publish_time": publish_ms}
        if deliver_at_ms is not None:
            at["deliver_at_time"] = deliver_at_ms
        if "num_messages" in fields:
            at["num_messages_in_batch"] = fields["num_messages"]
        data = b"".join(
            frames.payload_frame(
                command_bytes("send", {"producer_id": 1, "sequence_id": self._sent + i, **fields}),
                entry_of(b"v", **at, **({"partition_key": keys[i % len(keys)]} if keys else {})),
            )
            for i in range(count)
        )
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        Publish(run, self.producer).start()
        self._sent += count

    async def publish(
        self,
        count: int,
        deliver_at_ms: int | None = None,
        *,
        publish_ms: int = 1,
        keys: Sequence[str] = (),
        **fields: int,
    ) -> None:
        """Publish ``count`` entries; return once they are stored."""
        self.send(count, deliver_at_ms, publish_ms=publish_ms, keys=keys, **fields)
        async with asyncio.timeout(120):
            while self.publisher.receipts < self._sent:
                await asyncio.sleep(0.001)

    async def join(
        self,
        kind: SubscriptionType,
        permits: int = 1000,
        name: str = "c",
        priority: int = 0,
        client: Client | None = None,
    ) -> tuple[Consumer, Client]:
        client = client or Client()
        consumer = Consumer(
            client,
            1,
            name,
            kind,
            settings=self.context.settings,
            partition=-1,
            now_ms=0,
            priority=priority,
        )
        subscription = await self.topic.subscriptions.attach(
            consumer, "s", durable=True, initial=InitialPosition.EARLIEST, properties={}
        )
        if permits:
            subscription.flow(consumer, permits)
        return consumer, client

    @property
    def subscription(self) -> Subscription:
        return self.topic.subscriptions["s"]

    async def load(self, name: TopicName = NAME) -> Topic:
        """Load the topic ``name`` and use it from now on, with a new producer."""
        self.topic = await self.registry.get(name, create=True)
        self.publisher, self._sent = Client(), 0
        self.producer = Producer(self.publisher, 1, "p", self.topic, now_ms=0)
        return self.topic

    def sessions(self, ownership: Ownership | None = None) -> Sessions:
        """Return the acceptor of client connections to this broker."""
        owned = ownership or self.everything
        return Sessions(self.context, self.registry, owned, self.everything, self.schemas)

    async def kill(self) -> None:
        """Unload the topic as the death of its broker does: nothing of it is written any more."""
        self.topic.log.abandon()
        await self.registry.unload(self.topic.name)


@asynccontextmanager
async def opened(
    directory: Path | None = None,
    *,
    settings: ManagedSettings | None = None,
    ledgers: LedgerSettings = PATIENT_LEDGERS,
    wrap: Callable[[MetadataStore], MetadataStore] = lambda store: store,
    snapshots: TransactionSnapshots | None = None,
) -> AsyncIterator[Bench]:
    """Yield a loaded topic in a registry over one bookie. ``wrap`` puts a store around the broker's own. ``snapshots``:
    of transactions, which are enabled with them."""
    cluster = Cluster(directory)
    await cluster.start("b0")
    store = wrap(cluster.server.session(10.0))
    factory = ManagedLedgerFactory(
        store=store,
        ledgers=cluster.client(ledgers, store),
        clock=cluster.clock,
        entropy=RandomEntropy(),
        settings=settings or ManagedSettings(),
    )
    everything = Everything()
    context = Context(
        settings=DataPathSettings(
            active_consumer_failover_delay_time_millis=20,
            retention_check_interval_in_seconds=1,
            topic_load_timeout_seconds=60,
        ),
        clock=cluster.clock,
        entropy=RandomEntropy(),
        identity=BrokerIdentity("test", "b", 0),
        judge=AllowAll(),
        authenticate=allow_all,
        transaction_snapshots=snapshots,
    )
    config = everything.ledger_config(TopicPolicies())
    schemas = SchemaRules(SchemaRegistry(store, cluster.client(store=store), config, cluster.clock))
    registry = TopicRegistry(
        factory=factory,
        ownership=everything,
        namespaces=everything,
        context=context,
        ledger_config=everything.ledger_config,
        forget=schemas.forget,
        loaded=TopicTable[Topic](),
    )
    yield Bench(cluster, registry, everything, schemas, await registry.get(NAME, create=True))
    await registry.close()
    await factory.close()
    await cluster.close()


@asynccontextmanager
async def served(
    directory: Path | None = None,
    *,
    wrap: Callable[[MetadataStore], MetadataStore] = lambda store: store,
) -> AsyncIterator[tuple[Bench, Sessions, str]]:
    """Yield a bench as ``opened`` does, its broker's sessions and the URL at which they listen."""
    async with opened(directory, wrap=wrap) as bench:
        sessions = bench.sessions()
        server = await bench.cluster.network.listen("127.0.0.1", 0, sessions.accept)
        url = f"pulsar://127.0.0.1:{server.port}"
        bench.everything.owner = LookupResult(url)
        yield bench, sessions, url
        patch.stopall()
        await sessions.close()
        server.close()
        await until(lambda: sessions.count == 0)


async def link_to(url: str) -> BrokerLink:
    """Open a link over the network in memory."""
    port = int(url.rpartition(":")[2])
    return await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, PATIENT)


async def round_of(bench: Bench, name: str) -> None:
    """Run the job ``name`` of the broker's upkeep once."""
    everything, settings = bench.everything, bench.context.settings
    upkeep = Upkeep(bench.registry, everything, everything.ledger_config, settings)
    (job,) = (job for job in upkeep.jobs if job.name == name)
    await job.work(0.0)


def put_in_force(topic: Topic, policies: TopicPolicies) -> None:
    """Give a topic policies without effects on its log and on clients that are attached."""
    topic.policies = policies
    topic.publishers.apply(policies.publish)
    topic.quotas.apply(policies.backlog)
