"""Limits of unacknowledged messages: of the whole broker, and as policies that act on consumers already there."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.upkeep import Upkeep
from tests.support.broker_bench import Bench, opened, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def test_the_brokers_limit_pauses_subscriptions_with_a_large_share_until_half_is_free(
    bench: Bench,
) -> None:
    settings = replace(bench.context.settings, max_unacked_messages_per_broker=20)
    everything = bench.everything
    upkeep = Upkeep(bench.registry, everything, everything.ledger_config, settings)
    (job,) = (job for job in upkeep.jobs if job.name == "unacked")
    consumer, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(20)
    await until(lambda: len(client.received) == 20)
    await job.work(1.0)
    assert bench.subscription.dispatch.state.blocked
    await bench.publish(5)
    bench.subscription.acknowledge(consumer, client.received[:10])
    await job.work(1.0)
    assert len(client.received) == 20
    bench.subscription.acknowledge(consumer, client.received[10:11])
    await job.work(1.0)
    await until(lambda: len(client.received) == 25)
    assert not bench.subscription.dispatch.state.blocked


@pytest.mark.parametrize("whose", ["unacked_per_consumer", "unacked_per_subscription"])
async def test_a_changed_limit_applies_to_attached_consumers(bench: Bench, whose: str) -> None:
    _, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(10)
    await until(lambda: len(client.received) == 10)
    tight = TopicPolicies(dispatch=replace(DispatchPolicies(), **{whose: 5}))
    await bench.topic.apply(tight, bench.everything.ledger_config(tight))
    await bench.publish(3)
    assert len(client.received) == 10
    assert bench.subscription.dispatch.state.paused_for == "acks"
    wide = TopicPolicies()
    await bench.topic.apply(wide, bench.everything.ledger_config(wide))
    await until(lambda: len(client.received) == 13)
