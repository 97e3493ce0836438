"""Snapshots in the namespace's system topic: written and read over several brokers, and read after their owner's
death."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.names import NamespaceName
from engine.broker.service import BrokerService
from engine.broker.transactions.buffer.snapshot_topics import SnapshotTopics
from engine.broker.transactions.buffer.snapshots import SINGLE, BufferSnapshot, single_value
from engine.metadata.records import Document
from engine.tenancy import topics
from tests.support.admin.several_brokers import SeveralBrokers
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")


@pytest.fixture
async def two() -> AsyncIterator[SeveralBrokers]:
    made = SeveralBrokers(transaction_coordinator_enabled="true")
    await made.start(2)
    yield made
    await made.close()


def of(broker: BrokerService) -> SnapshotTopics:
    snapshots = broker.running.tenancy.snapshots
    assert snapshots is not None
    return snapshots


def value(entry: int) -> Document:
    return single_value("t", BufferSnapshot(Position(1, entry), {}))


async def test_the_newest_value_of_each_key_is_found_by_any_broker(two: SeveralBrokers) -> None:
    here, there = map(of, two.brokers)
    assert not await here.exist(NAMESPACE)
    assert await here.read(NAMESPACE, SINGLE, lambda key: True) == {}
    written = [await here.write(NAMESPACE, SINGLE, key, value(i)) for i, key in enumerate("aba")]
    assert written == sorted(written)
    assert await there.exist(NAMESPACE)
    assert await there.read(NAMESPACE, SINGLE, lambda key: key == "a") == {"a": value(2)}
    await there.write(NAMESPACE, SINGLE, "a", None)
    assert await here.read(NAMESPACE, SINGLE, lambda key: True) == {"b": value(1)}


async def test_reads_at_the_same_time_share_a_scan_and_see_what_was_written_before(
    two: SeveralBrokers,
) -> None:
    here, there = map(of, two.brokers)
    for i in range(30):
        await here.write(NAMESPACE, SINGLE, str(i), value(i))
    values = await asyncio.gather(
        *(there.read(NAMESPACE, SINGLE, lambda key, i=i: key == str(i)) for i in range(30))
    )
    assert values == [{str(i): value(i)} for i in range(30)]


async def test_snapshots_outlive_the_broker_that_serves_them(two: SeveralBrokers) -> None:
    await of(two.brokers[0]).write(NAMESPACE, SINGLE, "a", value(1))
    owner = two.owner(NAMESPACE.topic(SINGLE))
    assert owner is not None
    await two.kill(owner)
    (left,) = two.brokers

    async with asyncio.timeout(120):
        while True:
            try:
                values = await of(left).read(NAMESPACE, SINGLE, lambda key: True)
                break
            except MagnetarError:
                await asyncio.sleep(0.1)
    assert values == {"a": value(1)}
    await of(left).write(NAMESPACE, SINGLE, "a", value(2))
    assert await topics.topic_exists(two.store, NAMESPACE.topic(SINGLE))


async def test_a_compacted_topic_has_the_newest_values(two: SeveralBrokers) -> None:
    here, there = map(of, two.brokers)
    for i, key in enumerate("abab"):
        await here.write(NAMESPACE, SINGLE, key, value(i))
    owner = two.owner(NAMESPACE.topic(SINGLE))
    assert owner is not None
    topic = owner.running.registry.loaded(NAMESPACE.topic(SINGLE))
    assert topic is not None
    assert topic.compaction.start()
    await until(lambda: topic.compaction.status == "SUCCESS")
    assert topic.compaction.removed == 2
    await here.write(NAMESPACE, SINGLE, "a", value(9))
    assert await there.read(NAMESPACE, SINGLE, lambda key: True) == {"a": value(9), "b": value(3)}


async def test_without_transactions_brokers_keep_no_snapshots() -> None:
    made = SeveralBrokers()
    await made.start(1)
    assert made.brokers[0].running.context.transaction_snapshots is None
    await made.close()
