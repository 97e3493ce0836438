"""Subscribe rates of consumers, and the enabled types of subscriptions."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.clock import LoopClock
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import NotAllowed
from engine.broker.policies import (
    MaxRate,
    RatePolicies,
    SubscriptionPolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from engine.broker.topics.rates import CONSUMERS_REMEMBERED, SubscribeRate
from tests.support.broker_bench import Bench, Client, opened


def consumer(name: str = "c", number: int = 1, address: str = "10.0.0.1:50000") -> Consumer:
    client = Client()
    client.address = address
    return Consumer(
        *(client, number, name, SubscriptionType.SHARED),
        settings=DataPathSettings(),
        partition=-1,
        now_ms=0,
    )


@pytest.mark.virtual_time
async def test_the_subscribe_rate_counts_each_consumer_on_its_own() -> None:
    limit = SubscribeRate(LoopClock())
    assert all(limit.admits(consumer()) for _ in range(10))
    limit.set(MaxRate(messages=3, period_s=30))
    assert [limit.admits(consumer(address=f"10.0.0.1:{port}")) for port in range(4)] == [
        *(True, True, True),
        False,
    ]
    assert limit.admits(consumer("other"))
    assert limit.admits(consumer(number=2))
    assert limit.admits(consumer(address="10.0.0.2:50000"))
    await asyncio.sleep(11)
    assert limit.admits(consumer())
    assert not limit.admits(consumer())
    limit.set(MaxRate(messages=3, period_s=30))
    assert not limit.admits(consumer()), "setting the same rate again changes nothing"
    limit.set(MaxRate(messages=-1, period_s=30))
    assert limit.admits(consumer())


@pytest.mark.virtual_time
async def test_of_many_consumers_the_first_are_forgotten() -> None:
    limit = SubscribeRate(LoopClock())
    limit.set(MaxRate(messages=1, period_s=30))
    assert limit.admits(consumer("first"))
    for number in range(CONSUMERS_REMEMBERED):
        assert limit.admits(consumer(number=number))
    assert limit.admits(consumer("first"))
    assert not limit.admits(consumer(number=CONSUMERS_REMEMBERED - 1))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def change(bench: Bench, policies: TopicPolicies) -> None:
    await bench.topic.apply(policies, bench.everything.ledger_config(policies))


async def test_a_subscription_type_that_is_not_enabled_is_refused_by_name(bench: Bench) -> None:
    await change(
        bench, TopicPolicies(subscriptions=SubscriptionPolicies(types=("Exclusive", "Key_Shared")))
    )
    with pytest.raises(NotAllowed) as refused:
        await bench.join(SubscriptionType.SHARED)
    assert str(refused.value).endswith("doesn't support Shared sub type!")
    assert bench.topic.subscriptions == {}
    await bench.join(SubscriptionType.EXCLUSIVE)


async def test_a_consumer_that_subscribes_too_often_is_refused(bench: Bench) -> None:
    await change(
        bench, TopicPolicies(rates=RatePolicies(subscribe=MaxRate(messages=2, period_s=3600)))
    )
    for _ in range(2):
        joined, _ = await bench.join(SubscriptionType.SHARED)
        bench.subscription.detach(joined)
    with pytest.raises(NotAllowed) as refused:
        await bench.join(SubscriptionType.SHARED)
    assert "subscribe rate limit" in str(refused.value)
    await change(bench, TopicPolicies())
    await bench.join(SubscriptionType.SHARED)
