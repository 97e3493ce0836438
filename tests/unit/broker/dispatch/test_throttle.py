"""Dispatch rates in simulated time: held in messages and bytes, shared, changed while they act, and nothing is lost."""

import asyncio
from typing import Any

import pytest

from engine.broker.control.rate_limit import RateLevel
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.policies import (
    MaxRate,
    RatePolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.raw_client import entry_of
from tests.support.shelf import Reading, simulated

pytestmark = pytest.mark.virtual_time

EXCLUSIVE, SHARED, KEY_SHARED = (
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.SHARED,
    SubscriptionType.KEY_SHARED,
)
SIZE = len(entry_of(b"v"))


def reading(**settings: Any) -> Reading:
    return Reading(DataPathSettings(**settings))


def apply(of: Reading, **rates: Any) -> None:
    """Put these policies in force."""
    of.topic.policies = TopicPolicies(rates=RatePolicies(**rates))
    of.rates.apply(of.topic.policies.rates, of.topic.policies.publish)
    of.subscription.dispatch.apply()


async def drain(of: Reading, consumer: Consumer, client: Client, seconds: float) -> int:
    """Acknowledge entries and send permits for ``seconds``; return the number of messages received."""
    before = consumer.out.messages.total
    for _ in range(int(seconds * 100)):
        await asyncio.sleep(0.01)
        fresh, client.fresh = client.fresh, []
        if fresh:
            of.subscription.acknowledge(consumer, fresh)
            of.subscription.flow(consumer, 1000)
    return consumer.out.messages.total - before


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
@pytest.mark.parametrize("level", ["dispatch", "subscription"])
@simulated
async def test_a_rate_in_messages_is_held(kind: SubscriptionType, level: str) -> None:
    shelf, client = reading(), Client()
    apply(shelf, **{level: MaxRate(messages=500)})
    shelf.publish(8000)
    consumer = await shelf.join(client, 1000, kind)
    assert consumer.out.messages.total <= 500
    assert shelf.subscription.dispatch.state.paused_for in ("rate", "read")
    await drain(shelf, consumer, client, 1.0)
    assert await drain(shelf, consumer, client, 10.0) == pytest.approx(5000, rel=0.05)
    assert shelf.subscription.dispatch.state.paused_for == "rate"
    await drain(shelf, consumer, client, 6.0)
    assert consumer.out.messages.total == 8000, "every message was delivered in the end"
    assert client.received == sorted(client.received)
    whose = RateLevel.TOPIC if level == "dispatch" else RateLevel.SUBSCRIPTION
    assert shelf.subscription.dispatch.throttled.keys() == {(whose, False)}
    assert 10 < shelf.subscription.dispatch.throttled[whose, False] < 4000, (
        "once for each stop, not message"
    )


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
@simulated
async def test_a_rate_in_bytes_is_held(kind: SubscriptionType) -> None:
    shelf, client = reading(), Client()
    apply(shelf, subscription=MaxRate(size=100 * SIZE))
    shelf.publish(2000)
    consumer = await shelf.join(client, 1000, kind)
    await drain(shelf, consumer, client, 1.0)
    assert await drain(shelf, consumer, client, 10.0) == pytest.approx(1000, rel=0.05)
    assert shelf.subscription.dispatch.throttled.keys() == {(RateLevel.SUBSCRIPTION, True)}


@simulated
async def test_a_batch_counts_by_its_messages_or_as_one() -> None:
    for by_entry, wanted in ((False, 1000), (True, 10_000)):
        shelf, client = reading(dispatch_throttling_on_batch_message_enabled=by_entry), Client()
        apply(shelf, dispatch=MaxRate(messages=100))
        shelf.publish(3000, messages=10)
        consumer = await shelf.join(client, 1000)
        await drain(shelf, consumer, client, 1.0)
        assert await drain(shelf, consumer, client, 10.0) == pytest.approx(wanted, rel=0.05)


@simulated
async def test_the_brokers_rate_holds_for_every_topic() -> None:
    shelf, client = reading(dispatch_throttling_rate_in_msg=50), Client()
    shelf.publish(1000)
    consumer = await shelf.join(client, 1000)
    await drain(shelf, consumer, client, 1.0)
    assert await drain(shelf, consumer, client, 10.0) == pytest.approx(500, rel=0.05)


@simulated
async def test_a_longer_period_allows_as_much_in_one_go() -> None:
    shelf, client = reading(), Client()
    apply(shelf, dispatch=MaxRate(messages=100, period_s=10))
    shelf.publish(1000)
    consumer = await shelf.join(client, 1000)
    assert await drain(shelf, consumer, client, 0.5) <= 106
    assert consumer.out.messages.total >= 100
    assert await drain(shelf, consumer, client, 20.0) == pytest.approx(200, rel=0.05)


@simulated
async def test_late_entries_are_sent_at_once_while_tokens_remain() -> None:
    shelf, client = reading(), Client()
    apply(shelf, subscription=MaxRate(messages=100))
    await shelf.join(client, 1000)
    for _ in range(20):
        shelf.publish(5)
        assert len(client.fresh) == 5
        client.fresh.clear()
        await asyncio.sleep(0.1)


@simulated
async def test_a_removed_rate_resumes_dispatch_at_once_and_a_new_one_binds() -> None:
    shelf, client = reading(), Client()
    apply(shelf, dispatch=MaxRate(messages=1, period_s=3600))
    shelf.publish(900)
    consumer = await shelf.join(client, 900, EXCLUSIVE)
    await drain(shelf, consumer, client, 5.0)
    assert consumer.out.messages.total == 1
    apply(shelf, dispatch=MaxRate(messages=100))
    assert await drain(shelf, consumer, client, 1.0) == pytest.approx(100, abs=5)
    apply(shelf)
    await drain(shelf, consumer, client, 0.1)
    assert consumer.out.messages.total == 900
    apply(shelf, subscription=MaxRate(messages=10))
    shelf.publish(100)
    assert await drain(shelf, consumer, client, 2.0) <= 32


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED])
@simulated
async def test_without_a_rate_no_subscription_is_paused_for_one(kind: SubscriptionType) -> None:
    shelf, client = reading(), Client()
    apply(shelf, dispatch=MaxRate(messages=1))
    shelf.publish(10)
    await shelf.join(client, 1000, kind)
    assert shelf.subscription.dispatch.state.paused_for == "rate"
    apply(shelf)
    await asyncio.sleep(0.1)
    assert len(client.received) == 10
    assert shelf.subscription.dispatch.state.paused_for == "append"


@simulated
async def test_a_subscriptions_own_rate_precedes_the_rate_of_all_subscriptions() -> None:
    shelf, client = reading(), Client()
    apply(
        shelf,
        subscription=MaxRate(messages=1000),
        by_subscription={"s": MaxRate(messages=10), "other": MaxRate(messages=1)},
    )
    shelf.publish(1000)
    consumer = await shelf.join(client, 1000)
    assert await drain(shelf, consumer, client, 10.0) == pytest.approx(100, abs=12)


@simulated
async def test_consumers_without_a_backlog_may_be_exempt_from_the_rate() -> None:
    shelf = reading(
        dispatch_throttling_on_non_backlog_consumer_enabled=False,
        managed_ledger_cursor_backlogged_threshold=100,
    )
    client = Client()
    apply(shelf, dispatch=MaxRate(messages=10))
    consumer = await shelf.join(client, 1000)
    for _ in range(10):
        shelf.publish(90)
        await drain(shelf, consumer, client, 0.05)
    assert consumer.out.messages.total == 900
    shelf.publish(500)
    assert await drain(shelf, consumer, client, 5.0) <= 62, "it has a backlog now"
    await drain(shelf, consumer, client, 60.0)
    assert consumer.out.messages.total == 1400


@simulated
async def test_redelivered_messages_count_for_the_rate_and_are_delivered() -> None:
    shelf, client = reading(), Client()
    apply(shelf, subscription=MaxRate(messages=20))
    shelf.publish(20)
    consumer = await shelf.join(client, 1000)
    assert len(client.fresh) == 20
    shelf.subscription.redeliver(consumer, list(client.fresh), None)
    client.fresh.clear()
    await asyncio.sleep(0.5)
    assert len(client.fresh) <= 11
    await asyncio.sleep(1.0)
    assert len(client.fresh) == 20


@simulated
async def test_a_relative_rate_is_added_to_the_publish_rate() -> None:
    shelf, client = reading(), Client()
    apply(shelf, subscription=MaxRate(messages=50, relative=True))
    shelf.topic.published.messages.per_second = 100.0
    shelf.publish(5000)
    consumer = await shelf.join(client, 1000)
    await drain(shelf, consumer, client, 1.0)
    assert await drain(shelf, consumer, client, 10.0) == pytest.approx(1500, rel=0.05)
