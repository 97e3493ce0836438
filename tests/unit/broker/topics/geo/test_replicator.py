"""Replication of a topic to another cluster: two brokers in memory, each with its own storage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from unittest.mock import patch

import pytest

from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.connection.session import FEATURE_FLAGS
from engine.broker.policies import DeduplicationPolicies, TopicPolicies
from engine.broker.topics.geo import replicator as module
from engine.broker.topics.geo.replicator import CURSOR_PREFIX, Replicator
from engine.broker.topics.publish import Publish
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import LostError, UnreachableError
from engine.client.replicating_producer import FEATURES, ReplicatingProducer
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.geo.source_positions import source_position
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, served, until
from tests.support.net.pipe_network import PipeNetwork
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

ON = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
TO_BOTH = TopicPolicies(clusters=("us", "eu"))


class Remotes:
    """Stand-in for the configuration store: the cluster ``eu`` at one URL."""

    def __init__(self, bench: Bench, url: str) -> None:
        self.url = url
        self.reachable = True
        self.shape_error: Exception | None = None
        self.registered: list[bytes] = []
        self.links: list[BrokerLink] = []
        self._made = PulsarClient(
            network=PipeNetwork(),
            clock=bench.cluster.clock,
            entropy=RandomEntropy(),
            brokers=self._brokers,
            settings=LinkSettings(connect_timeout_s=60, request_timeout_s=60, features=FEATURES),
        )

    async def _brokers(self) -> list[str]:
        return [self.url]

    async def client(self, cluster: str) -> PulsarClient:
        assert cluster == "eu"
        if not self.reachable:
            raise UnreachableError("no connection to eu")
        return self._made

    async def check_shape(self, client: PulsarClient, cluster: str, topic: TopicName) -> None:
        if self.shape_error is not None:
            raise self.shape_error

    async def register_schema(self, link: BrokerLink, topic: TopicName, version: bytes) -> bytes:
        self.registered.append(version)
        return bytes(reversed(version))

    async def close(self) -> None:
        await self._made.close()


class Pair:
    """The brokers of ``us``, whose topic is sent, and ``eu``."""

    def __init__(self, us: Bench, eu: Bench, remotes: Remotes) -> None:
        self.us, self.eu, self.remotes = us, eu, remotes
        self._sequence = 0

    @property
    def replicator(self) -> Replicator:
        return self.us.topic.replication.replicators["eu"]

    async def begin(self, policies: TopicPolicies = TO_BOTH) -> None:
        """Load the topic with these policies, and wait for its replicator's cursor."""
        self.us.everything.in_force = policies
        await self.us.registry.unload(NAME)
        await self.us.load()
        self._sequence = 0
        await until(lambda: "eu" in self.us.topic.replication.replicators)

    async def publish(self, *values: bytes, **metadata: object) -> None:
        data = b""
        for value in values:
            data += send(1, self._sequence, entry_of(value, **metadata))
            self._sequence += 1
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        before = self.us.publisher.receipts
        Publish(run, self.us.producer).start()
        await until(lambda: self.us.publisher.receipts == before + len(values))

    async def stored(self, count: int) -> list[tuple[bytes, Position | None, str]]:
        """Return payload, source position and origin of the entries in ``eu``, once there are ``count``."""
        log = self.eu.topic.log
        await until(lambda: log.entries_added >= count)
        rows = []
        position = log.next_position(Position(-1, -1))
        while position <= log.last_confirmed:
            entry = (await log.read_entry(position)).entry(0)
            metadata = read_metadata(entry)
            assert metadata is not None
            rows.append((entry[-1:], source_position(metadata), metadata.replicated_from))
            position = log.next_position(position)
        return rows

    async def caught_up(self) -> None:
        await until(lambda: self.replicator.backlog == 0)

    async def cut(self) -> None:
        """End the connection of the replicator's producer."""
        producer = self.replicator._producer
        assert producer is not None
        producer.link.abort(LostError("cut"))
        await until(lambda: self.replicator._producer is not producer)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        us, _, _ = await stack.enter_async_context(served())
        eu, _, url = await stack.enter_async_context(served())
        us.context.identity = replace(us.context.identity, cluster="us")
        eu.context.identity = replace(eu.context.identity, cluster="eu")
        eu.everything.in_force = ON
        await eu.registry.unload(NAME)
        await eu.load()
        remotes = us.context.remotes = Remotes(us, url)
        stack.push_async_callback(remotes.close)
        yield Pair(us, eu, remotes)


async def test_g2_entries_arrive_in_order_with_their_origin_and_are_passed_when_stored(
    pair: Pair,
) -> None:
    await pair.begin()
    await pair.publish(b"a", b"b", b"c")
    rows = await pair.stored(3)
    assert [row[0] for row in rows] == [b"a", b"b", b"c"]
    assert {row[2] for row in rows} == {"us"}
    positions = [row[1] for row in rows]
    assert positions == sorted(set(positions))  # type: ignore[type-var]
    await pair.caught_up()
    assert pair.replicator.sent.messages.total == 3


async def test_g2_nothing_is_passed_before_it_is_stored_there(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a")
    await pair.caught_up()
    await pair.eu.cluster.stop("b0")
    await pair.publish(b"b")
    await asyncio.sleep(5)
    assert pair.replicator.backlog == 1


async def test_g3_an_entry_is_not_sent_back_or_to_clusters_that_it_is_not_for(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"x", replicated_from="eu")
    await pair.publish(b"y", replicate_to=["ap"])
    await pair.publish(b"z", replicate_to=["__local__"])
    await pair.publish(b"a", replicate_to=["ap", "eu"])
    await pair.publish(b"b")
    assert [row[0] for row in await pair.stored(2)] == [b"a", b"b"]
    await pair.caught_up()
    assert len(await pair.stored(2)) == 2


async def test_g2_cut_connections_lose_and_double_nothing(pair: Pair) -> None:
    await pair.begin()
    expected = []
    for number in range(8):
        value = b"%d" % number
        await pair.publish(value)
        expected.append(value)
        if number % 2:
            await until(lambda: pair.replicator.connected)
            await pair.cut()
    assert [row[0] for row in await pair.stored(8)] == expected
    await pair.caught_up()
    assert len(await pair.stored(8)) == 8


async def test_g2_a_broker_that_dies_here_sends_what_was_not_passed(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a", b"b")
    await pair.stored(2)
    await pair.us.kill()
    await pair.begin()
    await pair.publish(b"c")
    assert [row[0] for row in await pair.stored(3)] == [b"a", b"b", b"c"]


async def test_a_cluster_that_cannot_be_reached_is_named_and_tried_again(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"a")
    await until(lambda: pair.replicator.error)
    assert pair.replicator.error == "no connection to eu"
    assert not pair.replicator.connected
    pair.remotes.reachable = True
    assert [row[0] for row in await pair.stored(1)] == [b"a"]
    assert pair.replicator.error == ""


async def test_a_topic_of_another_shape_there_is_not_sent(pair: Pair) -> None:
    pair.remotes.shape_error = module.ReplicationBlocked("4 here, 2 in eu")
    await pair.begin()
    await pair.publish(b"a")
    await until(lambda: pair.replicator.error == "4 here, 2 in eu")
    pair.remotes.shape_error = None
    await pair.stored(1)


async def test_a_cluster_whose_brokers_name_no_source_positions_is_refused(pair: Pair) -> None:
    with patch.dict(FEATURE_FLAGS, supports_repl_dedup_by_lid_and_eid=False):
        await pair.begin()
        await until(lambda: "source positions" in pair.replicator.error)


async def test_g2_a_producer_without_receipts_is_replaced(pair: Pair) -> None:
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    with patch.object(ReplicatingProducer, "receipts", lambda self, receipts: None):
        await pair.publish(b"a")
        await until(lambda: pair.replicator.restarts == 1, bound_s=200)
    await pair.caught_up()
    assert len(await pair.stored(1)) == 1


async def test_versions_of_schemas_are_those_of_the_other_cluster(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a", schema_version=b"\0\0\0\0\0\0\0\1")
    await pair.publish(b"b", b"c", schema_version=b"\0\0\0\0\0\0\0\2")
    await pair.stored(3)
    log = pair.eu.topic.log
    metadata = read_metadata((await log.read_entry(log.last_confirmed)).entry(0))
    assert metadata is not None
    assert metadata.schema_version == b"\2\0\0\0\0\0\0\0"
    assert pair.remotes.registered == [b"\0\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\2"]


async def test_a_cluster_that_is_removed_leaves_no_position_behind(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a")
    await pair.caught_up()
    topic = pair.us.topic
    await topic.apply(TopicPolicies(clusters=("us",)), pair.us.everything.ledger_config(ON))
    await until(lambda: CURSOR_PREFIX + "eu" not in topic.log.cursors)
    assert topic.replication.replicators == {}
    await until(lambda: not pair.eu.topic.producers)


async def test_policies_without_clusters_change_nothing(pair: Pair) -> None:
    await pair.begin()
    await pair.us.topic.apply(TopicPolicies(), pair.us.everything.ledger_config(ON))
    assert pair.us.topic.replication.replicators.keys() == {"eu"}


async def test_a_topic_that_is_sent_is_in_use_until_all_of_it_is_stored_there(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"a")
    assert not pair.us.topic.is_unused(caught_up=True)
    pair.remotes.reachable = True
    await pair.caught_up()
    assert pair.us.topic.is_unused(caught_up=True)


async def test_the_position_of_a_cluster_is_no_subscription(pair: Pair) -> None:
    await pair.begin()
    assert pair.us.topic.subscriptions.names == []
    assert CURSOR_PREFIX + "eu" in pair.us.topic.log.cursors
