"""Runs of delayed entries are stored, merged, deleted and read again when lost; none is delivered twice or early."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.delays import delayed
from engine.broker.settings import DataPathSettings
from engine.managed.cursors.cursor import Cursor
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

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
    return reading, await reading.join(client, 10_000), client


async def _again(reading: Reading, consumer: Consumer) -> tuple[Consumer, Client]:
    """Detach the consumer and attach another."""
    reading.subscription.detach(consumer)
    client = Client()
    return await reading.join(client, 10_000), client


async def _rest() -> None:
    await asyncio.sleep(0.5)


@simulated
async def test_entries_in_the_stored_index_are_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, consumer, _ = await _joined()
    reading.publish(100, delay_ms=HOUR_MS)
    reading.publish(5)
    await _rest()
    assert sum(reading.index.stored.values()) == 99
    read = 0
    real = Cursor.read_nowait

    def counted(cursor: Cursor, entries_max: int, bytes_max: int) -> object:
        nonlocal read
        views = real(cursor, entries_max, bytes_max)
        read += sum(view.count for view in views or ())
        return views

    monkeypatch.setattr(Cursor, "read_nowait", counted)
    _, client = await _again(reading, consumer)
    await _rest()
    assert client.received == reading.shelf.places[100:]
    assert read == 6
    assert reading.subscription.dispatch.state.delayed == 100


@simulated
async def test_each_message_is_delivered_once_at_its_time_while_consumers_change() -> None:
    reading, consumer, client = await _joined()
    start_s = reading.shelf.clock.monotonic_s()
    due_s = {}
    for i in range(200):
        seconds = 1 + (i * 37) % 100
        reading.publish(1, delay_ms=1000 * seconds)
        due_s[reading.shelf.places[-1]] = seconds
    came = 0
    for second in range(1, 101):
        await asyncio.sleep(start_s + second + 0.5 - reading.shelf.clock.monotonic_s())
        assert {due_s[p] for p in client.received} == {second}
        assert max(Counter(client.received).values()) == 1
        came += len(client.received)
        reading.subscription.acknowledge(consumer, client.received)
        if second % 7 == 0:
            consumer, client = await _again(reading, consumer)
        del client.received[:]
    assert came == 200
    await _rest()
    assert reading.index.stored == {}
    assert reading.index.ledgers == {}


@simulated
async def test_many_runs_become_few() -> None:
    reading, _, client = await _joined()
    for i in range(50):
        reading.publish(10, delay_ms=HOUR_MS + (i * 7919) % 1000)
        await _rest()
        assert len(reading.index.stored) <= SETTINGS.delayed_delivery_max_num_buckets + 1
    assert reading.index.ledgers.keys() == reading.index.stored.keys()
    await asyncio.sleep(2 * HOUR_MS / 1000)
    assert sorted(client.received) == reading.shelf.places


@simulated
async def test_messages_due_during_a_merge_are_delivered_once() -> None:
    reading, _, client = await _joined()
    for i in range(300):
        reading.publish(3, delay_ms=200 + (i * 7919) % 3000)
        await asyncio.sleep(0.005)
    await asyncio.sleep(5)
    assert sorted(client.received) == reading.shelf.places


@simulated
async def test_entries_of_a_lost_index_ledger_are_read_again() -> None:
    reading, consumer, _ = await _joined()
    reading.publish(60, delay_ms=5000)
    await _rest()
    lost = next(iter(reading.index.stored))
    del reading.index.ledgers[lost]
    reading.index.ledgers[lost] = []
    _, client = await _again(reading, consumer)
    reading.publish(3)
    await _rest()
    assert client.received == reading.shelf.places[60:]
    assert reading.subscription.dispatch.state.delayed == 60
    assert lost not in reading.index.stored
    await asyncio.sleep(6)
    assert sorted(client.received) == reading.shelf.places


@simulated
async def test_a_lost_index_part_disconnects_consumers_and_no_message_is_lost() -> None:
    reading, consumer, client = await _joined()
    reading.publish(60, delay_ms=5000)
    await _rest()
    ledgers = reading.index.ledgers
    lost = max(ledgers, key=lambda ledger_id: len(ledgers[ledger_id]))
    ledgers[lost][2] = b""
    await asyncio.sleep(6)
    assert client.dropped == [consumer.consumer_id]
    assert lost not in reading.index.stored
    back = Client()
    await reading.join(back, 10_000)
    await asyncio.sleep(1)
    assert sorted(back.received) == reading.shelf.places


@simulated
async def test_messages_are_delivered_at_their_time_while_no_index_can_be_stored() -> None:
    reading, _, client = await _joined()
    reading.index.failing = True
    reading.publish(100, delay_ms=2000)
    reading.publish(1)
    await asyncio.sleep(1)
    assert client.received == reading.shelf.places[100:]
    await asyncio.sleep(2)
    assert sorted(client.received) == reading.shelf.places
    assert reading.index.stored == {}


@simulated
async def test_the_index_in_memory_is_bounded_while_it_cannot_be_stored() -> None:
    reading, _, client = await _joined()
    reading.index.failing = True
    reading.publish(1000, delay_ms=HOUR_MS)
    reading.publish(1)
    await _rest()
    assert reading.subscription.dispatch.state.delayed <= 11 * (delayed.UNSAVED_MAX + 1)
    reading.index.failing = False
    await asyncio.sleep(30)  # the longest wait before it is tried again
    assert client.received == reading.shelf.places[1000:]
    assert reading.subscription.dispatch.state.delayed == 1000


@simulated
async def test_skipping_deletes_the_stored_index_of_the_entries() -> None:
    reading, _, client = await _joined()
    reading.publish(100, delay_ms=HOUR_MS)
    await _rest()
    await reading.subscription.moves.skip(90)
    await _rest()
    assert reading.subscription.dispatch.state.delayed == 10
    assert len(reading.index.stored) <= 1
    await reading.subscription.moves.clear()
    await _rest()
    assert reading.subscription.dispatch.state.delayed == 0
    assert reading.index.ledgers == {}
    assert client.received == []


@simulated
async def test_no_more_due_entries_are_taken_out_than_a_slow_consumer_receives() -> None:
    roomy = replace(SETTINGS, delayed_delivery_min_index_count_per_bucket=500)
    reading, client = Reading(roomy), Client()
    consumer = await reading.join(client, 1)
    reading.publish(200, delay_ms=1000)
    await asyncio.sleep(2)
    assert len(client.received) == 1
    assert (
        reading.subscription.dispatch.state.delayed >= 190 - SETTINGS.dispatcher_max_read_batch_size
    )
    for _ in range(199):
        reading.subscription.flow(consumer, 1)
        await asyncio.sleep(0.1)
    assert sorted(client.received) == reading.shelf.places
