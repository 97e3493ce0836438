"""Counters of a subscription include those of consumers that left."""

import asyncio

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.settings import DataPathSettings
from engine.broker.topics.subscriptions.subscription_counters import SubscriptionCounters
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

pytestmark = pytest.mark.virtual_time


def test_counters_without_consumers_are_zero() -> None:
    counters = SubscriptionCounters([])
    assert (counters.total_out, counters.tick(1.0)) == ((0, 0), False)


@simulated
async def test_traffic_of_a_consumer_that_left_stays_in_the_total() -> None:
    reading = Reading(DataPathSettings())
    subscription, counters = reading.subscription, reading.subscription.counters
    leaver = await reading.join(Client(), 10, SubscriptionType.EXCLUSIVE)
    reading.publish(2, messages=3)
    await asyncio.sleep(1)
    total = counters.total_out
    subscription.detach(leaver)
    assert (total[0], counters.total_out) == (6, total)
    assert (counters.joined, counters.entries_out) == (1, 2)
    assert counters.left_ms >= counters.consumed_ms > 0


@simulated
async def test_the_total_includes_attached_consumers_once() -> None:
    reading = Reading(DataPathSettings())
    client = Client()
    consumer = await reading.join(client, 10, SubscriptionType.SHARED)
    reading.publish(2)
    await asyncio.sleep(1)
    reading.subscription.acknowledge(consumer, client.received)
    reading.subscription.detach(consumer)
    await reading.join(Client(), 10, SubscriptionType.SHARED)
    reading.publish(3)
    await asyncio.sleep(1)
    assert reading.subscription.counters.total_out[0] == 5
