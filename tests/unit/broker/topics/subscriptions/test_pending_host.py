"""Transactional acknowledgements of a loaded topic: its unload, its deletion and that of the subscription."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.transactions.pending.pending_log import StoredPendingLogs, log_name
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from engine.tenancy.topics import users_names
from tests.support.broker_bench import Bench, opened

pytestmark = pytest.mark.virtual_time
TXN = TxnId(0, 0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        logs = StoredPendingLogs(made.registry._factory, made.everything.ledger_config)
        made.context.pending_ack_logs = made.registry.deletions._pending_ack_logs = logs
        yield made


async def _acknowledged(bench: Bench) -> str:
    """Acknowledge the first of two messages in a transaction, and return the name of the log."""
    consumer, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(2)
    await asyncio.sleep(1)
    first = StatedAck(client.received[0])
    await bench.subscription.acknowledge_in(TXN, consumer, [first], cumulative=False)
    return log_name(bench.topic.name, "s")


async def test_an_unload_keeps_what_is_pending_and_the_next_load_commits_it(bench: Bench) -> None:
    await _acknowledged(bench)
    await bench.registry.unload(bench.topic.name)
    await bench.load()
    _, client = await bench.join(SubscriptionType.SHARED)
    await asyncio.sleep(1)
    assert len(client.received) == 1
    assert bench.subscription.pending_acks is not None
    await bench.subscription.pending_acks.end(TXN, commit=True, low_water_mark=-1)
    assert bench.subscription.cursor.backlog_entries() == 1


async def test_the_log_is_deleted_with_its_subscription(bench: Bench) -> None:
    name = await _acknowledged(bench)
    factory = bench.registry._factory
    assert await factory.exists(name)
    await bench.topic.subscriptions.delete("s", force=True)
    assert not await factory.exists(name)


async def test_the_log_is_deleted_with_its_topic(bench: Bench) -> None:
    name = await _acknowledged(bench)
    await bench.registry.deletions.delete(bench.topic.name, force=True)
    assert not await bench.registry._factory.exists(name)


def test_logs_are_no_topics_in_lists() -> None:
    names = ["t", "t-s__transaction_pending_ack"]
    listed = users_names(names, "/managed-ledgers/public/default/persistent")
    assert listed == ("persistent://public/default/t",)
