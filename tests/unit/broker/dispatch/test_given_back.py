"""A consumer cannot give back entries that another holds: they would be delivered to two (D4)."""

import asyncio

import pytest

from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

pytestmark = pytest.mark.virtual_time


@simulated
async def test_entries_held_by_a_consumer_are_sent_to_no_other() -> None:
    reading, holding, giving = Reading(DataPathSettings()), Client(), Client()
    await reading.join(holding, 1000)
    reading.publish(5)
    await asyncio.sleep(1)
    assert len(holding.received) == 5
    other = await reading.join(giving, 1000)
    reading.subscription.redeliver(other, list(holding.received), None)
    await asyncio.sleep(1)
    assert giving.received == []
    assert len(holding.received) == 5


@simulated
async def test_the_redelivery_count_is_kept_until_the_last_consumer_leaves() -> None:
    reading, first, second = Reading(DataPathSettings()), Client(), Client()
    giving = await reading.join(first, 1000)
    reading.publish(2)
    reading.subscription.redeliver(giving, first.received[:1], None)
    staying = await reading.join(second, 1000)
    reading.subscription.detach(giving)
    await asyncio.sleep(1)
    assert reading.subscription.dispatch.again == 1
    reading.subscription.detach(staying)
    assert reading.subscription.dispatch.again == 0
