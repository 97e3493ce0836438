"""Metadata requests of creations and deletions of topics: their numbers are most of what these calls cost."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any, NamedTuple

import pytest

from engine.admin.api.rows import TOPICS_AT_REST, TopicsAtRest
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.names import TopicName
from engine.metadata.cached import CachedStore
from gateway.services.admin import partitioned_topics, topics
from gateway.services.engine_link import Engine
from tests.support.admin.bench import TOKEN, AdminBench
from tests.support.admin.direct import DirectAdmin
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

NAMESPACE = "persistent://public/default"
WRITES = ("create", "put", "delete")
PARTITIONS = 4


class Requests(NamedTuple):
    """Numbers of requests: the broker's, the gateway's, and those of both that write, each with a sync."""

    broker: int
    gateway: int
    writes: int

    def are_within(self, limits: "Requests") -> bool:
        """Return whether no number exceeds its limit."""
        return all(number <= limit for number, limit in zip(self, limits, strict=True))


class Counted:
    """A broker, and a gateway with a session and a cache of its own, whose requests are counted."""

    def __init__(self, bench: AdminBench) -> None:
        self.bench = bench
        self.sent = FailingStore(bench._cluster.server.session(10.0))
        self.store = CachedStore(self.sent)
        self.engine = Engine(self.store, DirectAdmin(self.store, TOKEN, lambda: [bench.broker]))

    async def of(self, work: Awaitable[object]) -> Requests:
        """Return the requests that ``work`` sends until it is answered."""
        self.sent.heal()
        self.bench.store.heal()
        await work
        broker, gateway = self.bench.store.log, self.sent.log
        writes = sum(operation in WRITES for operation, _ in broker + gateway)
        return Requests(len(broker), len(gateway), writes)


@pytest.fixture
async def counted() -> AsyncIterator[Counted]:
    """A broker that owns every bundle, and a gateway that has read what it caches."""
    bench = AdminBench()
    await bench.start()
    made = Counted(bench)
    for index in range(32):
        name = TopicName.parse(f"{NAMESPACE}/first-{index}")
        await topics.create(made.engine, name, {})
        await topics.delete(made.engine, name, force=False)
    whole = TopicName.parse(f"{NAMESPACE}/first-whole")
    await partitioned_topics.create(made.engine, whole, 1, {})
    await partitioned_topics.delete(made.engine, whole, force=False)
    yield made
    await made.store.close()
    await bench.close()


async def test_a_topic_is_created_and_deleted_by_few_requests(counted: Counted) -> None:
    name = TopicName.parse(f"{NAMESPACE}/t")
    created = await counted.of(topics.create(counted.engine, name, {}))
    # Before it the namespace and the name, then the node, both again with it, the ledger's id (2), ledger and list.
    assert created.are_within(Requests(broker=7, gateway=0, writes=5)), created
    deleted = await counted.of(topics.delete(counted.engine, name, force=False))
    # The mark, the ledger, what else may be stored, the node.
    assert deleted.are_within(Requests(broker=4, gateway=0, writes=3)), deleted


async def test_a_partition_is_deleted_by_one_read_and_one_write(counted: Counted) -> None:
    name = TopicName.parse(f"{NAMESPACE}/p")
    created = await counted.of(partitioned_topics.create(counted.engine, name, PARTITIONS, {}))
    # The name, the claim, the namespace and the name again, the partitions, the record.
    assert created.are_within(Requests(broker=0, gateway=4 + PARTITIONS, writes=2 + PARTITIONS)), (
        created
    )
    deleted = await counted.of(partitioned_topics.delete(counted.engine, name, force=False))
    limits = Requests(broker=2 * PARTITIONS + 3, gateway=5, writes=PARTITIONS + 2)
    assert deleted.are_within(limits), deleted


async def test_a_topic_that_is_not_loaded_is_deleted_without_a_ledger(counted: Counted) -> None:
    name = TopicName.parse(f"{NAMESPACE}/t")
    await topics.create(counted.engine, name, {})
    await topics.unload(counted.engine, name)
    deleted = await counted.of(topics.delete(counted.engine, name, force=False))
    # The record, the end of its ledger, the mark, the ledger, what else may be stored, the node.
    assert deleted.are_within(Requests(broker=6, gateway=0, writes=3)), deleted


async def test_figures_of_a_loaded_topic_are_not_read_from_storage(counted: Counted) -> None:
    """Ask for a topic that was just created, before its broker has reported it."""
    name = TopicName.parse(f"{NAMESPACE}/t")
    await topics.create(counted.engine, name, {})
    await counted.engine.call(CREATE_SUBSCRIPTION, CreateSubscription(name, "s"))
    await counted.bench.publish(name, 3)
    (broker,) = await counted.engine.admin.brokers()

    async def read() -> list[Any]:
        answer = await counted.engine.call_on(broker, TOPICS_AT_REST, TopicsAtRest([name]))
        assert answer["missing"] == []
        return list(answer["rows"])

    counted.bench.store.heal()
    loaded = await read()
    assert counted.bench.store.log == []
    assert loaded[0][:3] == [name.full, 1, 3]
    await topics.unload(counted.engine, name)
    assert await read() == loaded
