"""Messages with a delivery time on Shared subscriptions, more of them than may be set aside."""

import asyncio
from collections import Counter

import pytest

from engine.base.ids import EARLIEST, Position
from engine.broker.dispatch import delayed
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.delayed import DelayQueue
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

HOUR_MS = 3_600_000
SETTINGS = DataPathSettings(dispatcher_max_read_batch_size=7)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed, "SET_ASIDE_MAX", 10)


async def _joined() -> tuple[Reading, Consumer, Client]:
    reading, client = Reading(SETTINGS), Client()
    return reading, await reading.join(client, 1000), client


async def _rest() -> None:
    await asyncio.sleep(0.5)


@simulated
async def test_a_message_waits_for_its_time_and_not_those_behind_it() -> None:
    reading = Reading(SETTINGS)
    reading.publish(3, delay_ms=400)
    reading.publish(2)
    reading.publish(1, delay_ms=300)
    reading.publish(2, delay_ms=-1)
    client, places, subscription = Client(), reading.shelf.places, reading.subscription
    consumer = await reading.join(client, 1000)
    assert client.received == [places[i] for i in (3, 4, 6, 7)]
    assert subscription.state.paused_for == "time"
    assert subscription.state.delayed == 4
    subscription.acknowledge(consumer, places[1:2])
    assert subscription.state.delayed == 3
    for after_s, more in ((0.29, []), (0.02, [5]), (0.08, []), (0.02, [0, 2])):
        del client.received[:]
        await asyncio.sleep(after_s)
        assert client.received == [places[i] for i in more]
    assert subscription.state.delayed == 0
    assert subscription.state.paused_for == "append"


@simulated
async def test_what_was_held_back_is_held_back_again_for_the_next_consumer() -> None:
    reading, first, _ = await _joined()
    reading.publish(2, delay_ms=HOUR_MS)
    reading.publish(2, delay_ms=200)
    assert reading.subscription.state.delayed == 4
    reading.subscription.detach(first)
    assert reading.subscription.state.delayed == 0
    client = Client()
    await reading.join(client, 1000)
    await _rest()
    assert client.received == reading.shelf.places[2:]
    assert reading.subscription.state.delayed == 2


@simulated
async def test_exclusive_delivers_at_once_whatever_the_delivery_time() -> None:
    reading, client = Reading(SETTINGS), Client()
    reading.publish(2, delay_ms=HOUR_MS)
    await reading.join(client, 1000, SubscriptionType.EXCLUSIVE)
    assert client.received == reading.shelf.places


@simulated
async def test_many_for_later_hold_up_nothing_behind_them() -> None:
    reading, _, client = await _joined()
    reading.publish(100, delay_ms=HOUR_MS)
    await _rest()
    reading.publish(1, delay_ms=-1)
    reading.publish(3)
    await _rest()
    assert client.received == reading.shelf.places[100:]
    assert reading.subscription.state.delayed == 100
    assert reading.subscription.state.paused_for == "time"


@simulated
async def test_of_many_each_comes_once_and_in_its_time() -> None:
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
        assert reading.subscription.state.delayed == 100 - second
    assert max(Counter(client.received).values()) == 1
    assert reading.subscription.state.paused_for == "append"


@simulated
async def test_what_found_no_room_is_read_again_once_per_half_the_room() -> None:
    reading, _, client = await _joined()
    read = 0
    replay = reading.cursor.replay

    async def counted(positions: list[Position]) -> object:
        nonlocal read
        read += len(positions)
        return await replay(positions)

    reading.cursor.replay = counted  # type: ignore[assignment,method-assign]
    for i in range(200):
        reading.publish(1, delay_ms=1000 * (200 - i))
    await asyncio.sleep(201)
    assert len(client.received) == 200
    looks = 200 / (delayed.SET_ASIDE_MAX / 2)
    assert read - 200 <= looks * 200 / 2 + 200


@simulated
async def test_clearing_and_skipping_take_entries_out() -> None:
    reading, _, client = await _joined()
    reading.publish(30, delay_ms=HOUR_MS)
    await _rest()
    await reading.subscription.skip(25)
    await _rest()
    assert reading.subscription.state.delayed == 5
    await reading.subscription.clear()
    assert reading.subscription.state.delayed == 0
    assert reading.subscription.state.paused_for == "append"
    reading.publish(1, delay_ms=200)
    assert reading.subscription.state.delayed == 1
    await _rest()
    assert client.received == reading.shelf.places[30:]


@simulated
async def test_expiry_takes_out_what_is_before_it_and_the_rest_comes() -> None:
    reading, _, client = await _joined()
    reading.publish(40, delay_ms=1000)
    reading.subscription.pass_over(reading.shelf.places[33])
    await asyncio.sleep(2)
    assert client.received == reading.shelf.places[34:]


@simulated
async def test_single_acknowledgements_take_entries_out_and_make_room() -> None:
    reading, consumer, client = await _joined()
    reading.publish(30, delay_ms=HOUR_MS)
    for position in reading.shelf.places[:28]:
        reading.subscription.acknowledge(consumer, [position])
        await asyncio.sleep(0.02)
    assert reading.subscription.state.delayed == 2
    reading.subscription.acknowledge(consumer, reading.shelf.places[28:])
    assert reading.subscription.state.delayed == 0
    assert reading.subscription.state.paused_for == "append"
    assert client.received == []


@simulated
async def test_no_alarm_is_left_behind() -> None:
    reading, consumer, _ = await _joined()
    reading.publish(2, delay_ms=HOUR_MS)
    loop = asyncio.get_running_loop()
    reading.subscription.acknowledge(consumer, reading.shelf.places)
    timers = [handle for _, _, handle in loop._timers if not handle.cancelled()]  # type: ignore[attr-defined]
    assert timers == []


@simulated
async def test_what_was_given_back_or_left_behind_comes_at_once() -> None:
    reading, consumer, client = await _joined()
    reading.publish(20, delay_ms=1000)
    reading.publish(20, delay_ms=HOUR_MS)
    await asyncio.sleep(2)
    assert client.received == reading.shelf.places[:20]
    reading.subscription.redeliver(consumer, client.received[:5], None)
    await _rest()
    assert client.received[20:] == reading.shelf.places[:5]
    other = Client()
    await reading.join(other, 1000)
    reading.subscription.detach(consumer)
    await _rest()
    assert sorted(other.received) == reading.shelf.places[:20]
    assert reading.subscription.state.delayed == 20


@simulated
async def test_a_clock_set_back_sets_aside_again_what_is_given_back() -> None:
    reading, consumer, client = await _joined()
    reading.publish(3, delay_ms=1000)
    await asyncio.sleep(2)
    reading.shelf.clock.epoch_ms -= 10_000
    reading.subscription.redeliver(consumer, None, None)
    await asyncio.sleep(8)
    assert len(client.received) == 3
    assert reading.subscription.state.delayed == 3
    await asyncio.sleep(3)
    assert len(client.received) == 6


def _filled(*times: int) -> DelayQueue:
    queue = DelayQueue()
    for i, at_ms in enumerate(times):
        queue.add(Position(1, i), at_ms)
    return queue


def test_the_earliest_are_known_one_by_one() -> None:
    queue = _filled(*range(30, 0, -1))
    assert len(queue) == 30
    assert [Position(1, i) in queue for i in range(30)] == [False] * 20 + [True] * 10
    assert queue.look_back() is None
    assert queue.take(5) == [Position(1, i) for i in range(29, 24, -1)]
    assert queue.look_back() == (Position(1, 0), Position(1, 19))


def test_what_was_looked_for_is_not_looked_for_again() -> None:
    queue = _filled(*range(20))
    queue.take(10)
    assert queue.look_back() == (Position(1, 10), Position(1, 19))
    queue.looked(Position(1, 14), 5)
    assert queue.look_back() == (Position(1, 15), Position(1, 19))
    queue.looked(Position(1, 19), 5)
    assert queue.look_back() is None
    assert len(queue) == 0


def test_all_up_to_a_position_are_forgotten_wherever_they_are() -> None:
    queue = _filled(*range(30))
    queue.discard_up_to(Position(1, 20))
    assert queue.next_ms is None
    assert queue.look_back() == (Position(1, 21), Position(1, 29))
    queue.discard_up_to(Position(1, 29))
    assert queue.look_back() is None
    assert len(queue) == 0
    queue.discard_up_to(EARLIEST)
