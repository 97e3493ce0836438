"""Messages with a delivery time on Shared subscriptions, more of them than may be set aside."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from engine.base.ids import Position
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.delays.delayed import HEAP_ENTRY_BYTES, DelayIndex
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import EXACT, Reading, simulated

pytestmark = pytest.mark.virtual_time

HOUR_MS = 3_600_000
SETTINGS = DataPathSettings(
    dispatcher_max_read_batch_size=7,
    delayed_delivery_min_index_count_per_bucket=10,
    delayed_delivery_max_indexes_per_bucket_snapshot_segment=4,
    delayed_delivery_max_num_buckets=3,
)


async def _joined() -> tuple[Reading, Consumer, Client]:
    reading, client = Reading(SETTINGS), Client()
    return reading, await reading.join(client, 1000), client


async def _rest() -> None:
    await asyncio.sleep(0.5)


@simulated
async def test_a_delayed_message_does_not_delay_those_behind_it() -> None:
    reading = Reading(SETTINGS)
    reading.publish(3, delay_ms=400)
    reading.publish(2)
    reading.publish(1, delay_ms=300)
    reading.publish(2, delay_ms=-1)
    client, places, subscription = Client(), reading.shelf.places, reading.subscription
    consumer = await reading.join(client, 1000)
    assert client.received == [places[i] for i in (3, 4, 6, 7)]
    assert subscription.dispatch.state.paused_for == "time"
    assert subscription.dispatch.state.delayed == 4
    subscription.acknowledge(consumer, places[1:2])
    assert subscription.dispatch.state.delayed == 3
    for after_s, more in ((0.29, []), (0.02, [5]), (0.08, []), (0.02, [0, 2])):
        del client.received[:]
        await asyncio.sleep(after_s)
        assert client.received == [places[i] for i in more]
    assert subscription.dispatch.state.delayed == 0
    assert subscription.dispatch.state.paused_for == "append"


@simulated
async def test_delayed_messages_stay_delayed_for_the_next_consumer() -> None:
    reading, first, _ = await _joined()
    reading.publish(2, delay_ms=HOUR_MS)
    reading.publish(2, delay_ms=200)
    assert reading.subscription.dispatch.state.delayed == 4
    reading.subscription.detach(first)
    assert reading.subscription.dispatch.state.delayed == 0
    client = Client()
    await reading.join(client, 1000)
    await _rest()
    assert client.received == reading.shelf.places[2:]
    assert reading.subscription.dispatch.state.delayed == 2


@simulated
async def test_exclusive_delivers_at_once_whatever_the_delivery_time() -> None:
    reading, client = Reading(SETTINGS), Client()
    reading.publish(2, delay_ms=HOUR_MS)
    await reading.join(client, 1000, SubscriptionType.EXCLUSIVE)
    assert client.received == reading.shelf.places


@simulated
async def test_many_delayed_messages_do_not_delay_those_behind_them() -> None:
    reading, _, client = await _joined()
    reading.publish(100, delay_ms=HOUR_MS)
    await _rest()
    reading.publish(1, delay_ms=-1)
    reading.publish(3)
    await _rest()
    assert client.received == reading.shelf.places[100:]
    assert reading.subscription.dispatch.state.delayed == 100
    assert reading.subscription.dispatch.state.paused_for == "time"


@simulated
async def test_each_delayed_message_is_delivered_once_at_its_time() -> None:
    reading, _, client = await _joined()
    due_s = {}
    start_s = reading.shelf.clock.monotonic_s()
    for i in range(100):
        seconds = 1 + (i * 37) % 100
        reading.publish(1, delay_ms=1000 * seconds)
        due_s[reading.shelf.places[-1]] = seconds
    for second in range(1, 101):
        await asyncio.sleep(start_s + second + 0.5 - reading.shelf.clock.monotonic_s())
        assert {due_s[p] for p in client.received} == set(range(1, second + 1))
        assert reading.subscription.dispatch.state.delayed == 100 - second
    assert max(Counter(client.received).values()) == 1
    assert reading.subscription.dispatch.state.paused_for == "append"


@simulated
async def test_messages_due_close_together_are_delivered_together() -> None:
    reading = Reading(
        SETTINGS, policies=TopicPolicies(dispatch=DispatchPolicies(delay_tick_ms=1000))
    )
    start_s = reading.shelf.clock.monotonic_s()
    client = Client()
    await reading.join(client, 1000)
    for i in range(1, 31):
        reading.publish(1, delay_ms=i * 100)
    came = {}
    while len(came) < 30:
        await asyncio.sleep(0.01)
        at_s = reading.shelf.clock.monotonic_s() - start_s
        came |= {position: at_s for position in client.received if position not in came}
    late_s = [at_s - (i + 1) / 10 for i, at_s in enumerate(came.values())]
    assert list(came) == reading.shelf.places
    assert all(0 <= late <= 1.02 for late in late_s)
    assert len({round(at_s, 1) for at_s in came.values()}) <= 4


@simulated
async def test_without_strict_times_messages_are_delivered_up_to_a_tick_early() -> None:
    settings = replace(SETTINGS, is_delayed_delivery_deliver_at_time_strict=False)
    reading = Reading(
        settings, policies=TopicPolicies(dispatch=DispatchPolicies(delay_tick_ms=1000))
    )
    client = Client()
    await reading.join(client, 1000)
    reading.publish(1, delay_ms=900)
    reading.publish(1, delay_ms=3000)
    assert client.received == reading.shelf.places[:1]
    await asyncio.sleep(1.9)
    assert len(client.received) == 1
    await asyncio.sleep(0.2)
    assert client.received == reading.shelf.places


@simulated
async def test_disabling_delayed_delivery_releases_all_messages() -> None:
    reading, _, client = await _joined()
    reading.publish(40, delay_ms=HOUR_MS)
    await _rest()
    reading.topic.policies = replace(EXACT, dispatch=replace(EXACT.dispatch, delays=False))
    reading.subscription.dispatch.apply()
    await _rest()
    reading.publish(1, delay_ms=HOUR_MS)
    await _rest()
    assert sorted(client.received) == reading.shelf.places
    reading.topic.policies = EXACT
    reading.subscription.dispatch.apply()
    reading.publish(1, delay_ms=HOUR_MS)
    await _rest()
    assert len(client.received) == 41
    assert reading.subscription.dispatch.state.delayed == 1


@simulated
async def test_clearing_and_skipping_remove_delayed_entries() -> None:
    reading, _, client = await _joined()
    reading.publish(30, delay_ms=HOUR_MS)
    await _rest()
    await reading.subscription.moves.skip(25)
    await _rest()
    assert reading.subscription.dispatch.state.delayed == 5
    assert reading.subscription.dispatch.state.delayed_bytes == 5 * HEAP_ENTRY_BYTES
    await reading.subscription.moves.clear()
    assert reading.subscription.dispatch.state.delayed == 0
    assert reading.subscription.dispatch.state.paused_for == "append"
    reading.publish(1, delay_ms=200)
    assert reading.subscription.dispatch.state.delayed == 1
    await _rest()
    assert client.received == reading.shelf.places[30:]


@simulated
async def test_expiry_removes_earlier_delayed_entries_and_later_ones_are_delivered() -> None:
    reading, _, client = await _joined()
    reading.publish(40, delay_ms=1000)
    reading.subscription.moves.pass_over(reading.shelf.places[33])
    await asyncio.sleep(2)
    assert client.received == reading.shelf.places[34:]


@simulated
async def test_single_acknowledgements_remove_delayed_entries_and_free_memory() -> None:
    reading, consumer, client = await _joined()
    reading.publish(30, delay_ms=HOUR_MS)
    for position in reading.shelf.places[:28]:
        reading.subscription.acknowledge(consumer, [position])
        await asyncio.sleep(0.02)
    state = reading.subscription.dispatch.state
    assert state.delayed == 2
    assert state.delayed_bytes < 3 * HEAP_ENTRY_BYTES  # some are in a run
    reading.subscription.acknowledge(consumer, reading.shelf.places[28:])
    assert reading.subscription.dispatch.state.delayed == 0
    assert reading.subscription.dispatch.state.paused_for == "append"
    assert client.received == []


@simulated
async def test_no_timer_is_left_behind() -> None:
    reading, consumer, _ = await _joined()
    reading.publish(2, delay_ms=HOUR_MS)
    loop = asyncio.get_running_loop()
    reading.subscription.acknowledge(consumer, reading.shelf.places)
    timers = [handle for _, _, handle in loop._timers if not handle.cancelled()]  # type: ignore[attr-defined]
    assert timers == []


@simulated
async def test_due_messages_are_redelivered_at_once() -> None:
    reading, consumer, client = await _joined()
    reading.publish(20, delay_ms=1000)
    reading.publish(20, delay_ms=HOUR_MS)
    await asyncio.sleep(2)
    assert sorted(client.received) == reading.shelf.places[:20]
    reading.subscription.redeliver(consumer, client.received[:5], None)
    await _rest()
    assert sorted(client.received[20:]) == sorted(client.received[:5])
    other = Client()
    await reading.join(other, 1000)
    reading.subscription.detach(consumer)
    await _rest()
    assert sorted(other.received) == reading.shelf.places[:20]
    assert reading.subscription.dispatch.state.delayed == 20


@simulated
async def test_a_clock_set_back_delays_redelivered_messages_again() -> None:
    reading, consumer, client = await _joined()
    reading.publish(3, delay_ms=1000)
    await asyncio.sleep(2)
    reading.shelf.clock.epoch_ms -= 10_000
    reading.subscription.redeliver(consumer, None, None)
    await asyncio.sleep(8)
    assert len(client.received) == 3
    assert reading.subscription.dispatch.state.delayed == 3
    await asyncio.sleep(3)
    assert len(client.received) == 6


def test_the_reported_size_follows_the_index_in_memory() -> None:
    index = DelayIndex(100, 10)
    sizes = [index.size]
    for number in range(101):
        index.add(Position(0, number), number)
        sizes.append(index.size)
    assert sizes[:101] == sorted(sizes[:101]), "each takes its part"
    assert 0 < sizes[-1] < sizes[-2], "a run takes less than as many in a heap"
    index.runs[0].stored(7)
    assert index.size == 10 * 24, "of what is stored only a part stays"
