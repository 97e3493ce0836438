"""Subscriptions with one active consumer: its choice, and the position where the next one begins (D8)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.slices import Slice
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import ConsumerBusy
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Bench, Client, opened, until
from tests.support.shelf import Reading, simulated

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def test_a_second_exclusive_consumer_is_refused(bench: Bench) -> None:
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        await bench.join(SubscriptionType.EXCLUSIVE)
    await bench.publish(2)
    assert len(client.received) == 2


async def test_a_consumer_of_higher_priority_begins_at_the_first_unacknowledged_entry(
    bench: Bench,
) -> None:
    worse, before = await bench.join(SubscriptionType.FAILOVER, name="a", priority=1)
    await bench.publish(6)
    bench.subscription.acknowledge(worse, before.received[:2])
    better, after = await bench.join(SubscriptionType.FAILOVER, name="b", priority=0)
    await until(lambda: len(after.received) == 4)
    assert bench.subscription.dispatch.state.active is better
    assert after.received == before.received[2:]
    await bench.publish(1)
    assert len(before.received) == 6


def active(bench: Bench) -> str | None:
    now = bench.subscription.dispatch.state
    return None if now.paused_for == "handover" or now.active is None else now.active.name


async def test_statistics_show_consumers_by_priority_and_name(bench: Bench) -> None:
    for name, priority in (("d", 1), ("c", 0), ("a", 2), ("b", 0)):
        await bench.join(SubscriptionType.FAILOVER, name=name, priority=priority)
    assert [consumer.name for consumer in bench.subscription.consumers] == ["b", "c", "d", "a"]


async def test_consumers_are_notified_after_a_handover_and_a_new_one_at_once(bench: Bench) -> None:
    _, first = await bench.join(SubscriptionType.FAILOVER, name="b", priority=1)
    assert first.kinds == ["ACTIVE_CONSUMER_CHANGE"]
    _, idle = await bench.join(SubscriptionType.FAILOVER, name="a", priority=2)
    assert (first.kinds, idle.kinds) == (["ACTIVE_CONSUMER_CHANGE"], ["ACTIVE_CONSUMER_CHANGE"])
    _, better = await bench.join(SubscriptionType.FAILOVER, name="c", priority=0)
    assert not better.kinds
    await until(lambda: active(bench) == "c")
    assert [len(client.kinds) for client in (first, idle, better)] == [2, 2, 1]


@simulated
async def test_new_consumers_do_not_postpone_a_handover() -> None:
    reading = Reading(DataPathSettings(active_consumer_failover_delay_time_millis=1000))
    for priority in (9, 8, 7, 6):  # the handover begins with the second
        await reading.join(Client(), kind=SubscriptionType.FAILOVER, priority=priority)
        await asyncio.sleep(0.4)
    assert reading.subscription.dispatch.state.paused_for != "handover"


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "is-outranked"])
@simulated
async def test_a_read_that_ends_after_a_handover_goes_to_the_active_consumer(leaves: bool) -> None:
    reading = Reading(
        DataPathSettings(active_consumer_failover_delay_time_millis=1000), tail_bytes=1
    )
    hangs, fetch = asyncio.Event(), reading.shelf.fetch

    async def hanging(start: int, stop: int, bytes_max: int) -> list[Slice]:
        await hangs.wait()
        return await fetch(start, stop, bytes_max)

    reading.shelf.fetch = hanging  # type: ignore[method-assign]
    reading.append(20)
    before, after = Client(), Client()
    first = await reading.join(before, 5, kind=SubscriptionType.FAILOVER, priority=1)
    await reading.join(after, 100, kind=SubscriptionType.FAILOVER, priority=1 if leaves else 0)
    if leaves:
        reading.subscription.detach(first)
    await asyncio.sleep(5)  # the switch is done, and the bookie has not answered yet
    assert reading.subscription.dispatch.state.paused_for == "read"
    hangs.set()
    await asyncio.sleep(5)
    assert (before.received, after.received) == ([], reading.shelf.places)
