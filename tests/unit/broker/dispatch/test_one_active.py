"""Subscriptions with one active consumer: who it is, and where the next one begins (D8)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import ConsumerBusy
from tests.support.broker_bench import Bench, opened, until


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as made:
        yield made


async def test_a_second_exclusive_consumer_is_refused(bench: Bench) -> None:
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        await bench.join(SubscriptionType.EXCLUSIVE)
    await bench.publish(2)
    assert len(client.received) == 2


async def test_a_better_consumer_begins_at_the_first_unacknowledged(bench: Bench) -> None:
    worse, before = await bench.join(SubscriptionType.FAILOVER, name="a", priority=1)
    await bench.publish(6)
    bench.subscription.acknowledge(worse, before.received[:2])
    better, after = await bench.join(SubscriptionType.FAILOVER, name="b", priority=0)
    await until(lambda: len(after.received) == 4)
    assert bench.subscription.state.active is better
    assert after.received == before.received[2:]
    await bench.publish(1)
    assert len(before.received) == 6
