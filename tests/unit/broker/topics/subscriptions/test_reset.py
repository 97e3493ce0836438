"""After a confirmed seek or reset every entry from there on is delivered again, whatever its state was before."""

import asyncio
from dataclasses import replace

import pytest

from engine.base.ids import EARLIEST, LATEST, Position
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import READ_S, Reading, simulated

pytestmark = pytest.mark.virtual_time

SETTINGS = DataPathSettings(dispatcher_max_read_batch_size=4)
KINDS = pytest.mark.parametrize(
    "kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE], ids=["shared", "exclusive"]
)
STORED = pytest.mark.parametrize("tail_bytes", [1 << 20, 1], ids=["tail", "storage"])


async def _got(reading: Reading, kind: SubscriptionType) -> tuple[Consumer, Client]:
    """Return a consumer that has received all entries, and its client."""
    client = Client()
    consumer = await reading.join(client, 1000, kind)
    await asyncio.sleep(1)
    return consumer, client


@KINDS
@STORED
@pytest.mark.parametrize("what", ["nothing", "some", "all", "given back", "partly", "cleared"])
@pytest.mark.parametrize("target", [0, 7, 13])
@simulated
async def test_every_entry_is_delivered_again(
    kind: SubscriptionType, tail_bytes: int, what: str, target: int
) -> None:
    reading = Reading(SETTINGS, tail_bytes)
    reading.publish(10)
    reading.publish(10, messages=3)
    places, subscription = reading.shelf.places, reading.subscription
    consumer, client = await _got(reading, kind)
    assert client.received == places
    if what == "some":
        subscription.acknowledge(consumer, places[::3])
    elif what == "all":
        subscription.acknowledge(consumer, places)
    elif what == "given back":
        subscription.redeliver(consumer, None, None)
    elif what == "partly":
        subscription.acknowledge_partly(consumer, places[13], [0b101])
        subscription.acknowledge_partly(consumer, places[15], [0b001])
    elif what == "cleared":
        await subscription.moves.clear()
    await subscription.moves.reset(places[target] if target else EARLIEST)
    assert client.dropped == [consumer.consumer_id]
    assert reading.cursor.backlog_entries() == 20 - target
    _, again = await _got(reading, kind)
    assert again.received == places[target:]
    assert not any(again.ack_sets.values())


@KINDS
@STORED
@simulated
async def test_a_reset_to_a_position_inside_a_batch(
    kind: SubscriptionType, tail_bytes: int
) -> None:
    reading = Reading(SETTINGS, tail_bytes)
    reading.publish(6, messages=5)
    places, subscription = reading.shelf.places, reading.subscription
    consumer, _ = await _got(reading, kind)
    subscription.acknowledge_partly(consumer, places[2], [0b00011])
    subscription.acknowledge_partly(consumer, places[3], [0b00011])
    subscription.acknowledge(consumer, [places[4]])
    await subscription.moves.reset(places[2], [0b11000])
    again, client = await _got(reading, kind)
    assert client.received == places[2:]
    assert client.ack_sets == {p: [0b11000] if p == places[2] else [] for p in places[2:]}
    assert again.permits == 1000 - 2 - 15
    subscription.acknowledge(again, client.received)
    assert reading.cursor.backlog_entries() == 0


@KINDS
@pytest.mark.parametrize("steps", range(8))
@simulated
async def test_a_reset_while_entries_are_read(kind: SubscriptionType, steps: int) -> None:
    reading = Reading(SETTINGS, tail_bytes=1)
    reading.publish(20)
    await reading.join(Client(), 1000, kind)
    await asyncio.sleep(steps * READ_S / 2)
    await reading.subscription.moves.reset(EARLIEST)
    _, client = await _got(reading, kind)
    assert client.received == reading.shelf.places


@simulated
async def test_a_reset_with_consumers_that_each_hold_some_entries() -> None:
    reading = Reading(SETTINGS)
    clients = [Client() for _ in range(3)]
    consumers = [await reading.join(client, 5) for client in clients]
    reading.publish(20)
    for consumer, client in zip(consumers, clients, strict=True):
        reading.subscription.acknowledge(consumer, client.received[::2])
    await reading.subscription.moves.reset(reading.shelf.places[2])
    _, client = await _got(reading, SubscriptionType.SHARED)
    assert client.received == reading.shelf.places[2:]


@simulated
async def test_a_reset_with_a_stored_index_of_delayed_messages() -> None:
    reading = Reading(replace(SETTINGS, delayed_delivery_min_index_count_per_bucket=3))
    reading.publish(10, delay_ms=5000)
    reading.publish(2)
    await _got(reading, SubscriptionType.SHARED)
    await reading.subscription.moves.reset(reading.shelf.places[4])
    assert reading.subscription.dispatch.state.delayed == 0
    _, client = await _got(reading, SubscriptionType.SHARED)
    assert client.received == reading.shelf.places[10:]
    await asyncio.sleep(6)
    assert sorted(client.received) == reading.shelf.places[4:]


@KINDS
@simulated
async def test_after_a_reset_to_the_end_only_later_messages_are_delivered(
    kind: SubscriptionType,
) -> None:
    reading = Reading(SETTINGS)
    reading.publish(10)
    consumer, client = await _got(reading, kind)
    reading.subscription.acknowledge(consumer, client.received[3:5])
    for end in (LATEST, Position(1 << 40, 0)):
        await reading.subscription.moves.reset(end)
        assert reading.cursor.backlog_entries() == 0
    _, again = await _got(reading, kind)
    reading.publish(2)
    assert again.received == reading.shelf.places[10:]
