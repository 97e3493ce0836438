"""Whoever is stopped at a limit of unacknowledged messages goes on when half of it is free, however it got free."""

import asyncio

import pytest

from engine.broker.dispatch.consumer import Consumer
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

CONSUMER = DataPathSettings(max_unacked_messages_per_consumer=10)
SUBSCRIPTION = DataPathSettings(max_unacked_messages_per_subscription=10)
BOTH = pytest.mark.parametrize("settings", [CONSUMER, SUBSCRIPTION], ids=["consumer", "all"])


async def _stopped(settings: DataPathSettings, **batches: int) -> tuple[Reading, Consumer, Client]:
    """Ten messages out, three more that wait."""
    reading, client = Reading(settings), Client()
    consumer = await reading.join(client, 1000)
    reading.publish(**batches)
    reading.publish(3)
    await asyncio.sleep(1)
    assert len(client.received) == batches["entries"]
    assert consumer.unacked == 10
    assert reading.subscription.state.paused_for == "acks"
    assert (consumer.blocked, reading.subscription.state.blocked) == (
        settings is CONSUMER,
        settings is SUBSCRIPTION,
    )
    return reading, consumer, client


@BOTH
@simulated
async def test_by_acknowledgements(settings: DataPathSettings) -> None:
    reading, consumer, client = await _stopped(settings, entries=10)
    reading.subscription.acknowledge(consumer, client.received[:4])
    await asyncio.sleep(1)
    assert len(client.received) == 10
    reading.subscription.acknowledge(consumer, client.received[4:5])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_by_acknowledgements_of_parts_of_batches(settings: DataPathSettings) -> None:
    reading, consumer, client = await _stopped(settings, entries=2, messages=5)
    first, second = client.received
    reading.subscription.acknowledge_partly(consumer, first, [0b00011])
    reading.subscription.acknowledge_partly(consumer, second, [0b01111])
    await asyncio.sleep(1)
    assert len(client.received) == 2
    reading.subscription.acknowledge_partly(consumer, second, [0b10111])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_by_acknowledgements_through_another_consumer(settings: DataPathSettings) -> None:
    reading, _, client = await _stopped(settings, entries=10)
    other = await reading.join(Client())
    reading.subscription.acknowledge_partly(other, client.received[0], [1])
    reading.subscription.acknowledge(other, client.received[:5])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_parts_of_batches_through_another_consumer(settings: DataPathSettings) -> None:
    reading, _, client = await _stopped(settings, entries=1, messages=10)
    other = await reading.join(Client())
    reading.subscription.acknowledge_partly(other, client.received[0], [0b11111])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_by_giving_back(settings: DataPathSettings) -> None:
    reading, consumer, client = await _stopped(settings, entries=10)
    reading.subscription.redeliver(consumer, client.received[:5], None)
    await asyncio.sleep(1)
    assert client.received[10:] == reading.shelf.places[:5]


@BOTH
@simulated
async def test_by_leaving(settings: DataPathSettings) -> None:
    reading, consumer, _ = await _stopped(settings, entries=10)
    other = Client()
    await reading.join(other, 1000)
    before = list(other.received)
    reading.subscription.detach(consumer)
    await asyncio.sleep(1)
    assert len(other.received) == 10
    assert before == (reading.shelf.places[10:] if settings is CONSUMER else [])


@BOTH
@simulated
async def test_by_skipping(settings: DataPathSettings) -> None:
    reading, _, client = await _stopped(settings, entries=10)
    await reading.subscription.skip(4)
    assert len(client.received) == 10
    await reading.subscription.skip(1)
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_by_clearing(settings: DataPathSettings) -> None:
    reading, consumer, client = await _stopped(settings, entries=10)
    await reading.subscription.clear()
    assert consumer.unacked == 0
    assert reading.subscription.state.paused_for == "append"
    reading.publish(2)
    assert client.received[10:] == reading.shelf.places[13:]


@BOTH
@simulated
async def test_by_expiry(settings: DataPathSettings) -> None:
    reading, _, client = await _stopped(settings, entries=10)
    reading.subscription.pass_over(client.received[4])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_by_a_reset(settings: DataPathSettings) -> None:
    reading, _, client = await _stopped(settings, entries=10)
    await reading.subscription.reset(client.received[8])
    again = Client()
    await reading.join(again, 1000)
    assert again.received == reading.shelf.places[8:]


@BOTH
@simulated
async def test_an_administrator_who_does_not_wait_frees_them_all_the_same(
    settings: DataPathSettings,
) -> None:
    reading, _, client = await _stopped(settings, entries=10)

    async def stuck() -> None:
        await asyncio.Event().wait()

    reading.cursor.persisted = stuck  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reading.subscription.skip(5), 1)
    assert client.received == reading.shelf.places


@simulated
async def test_no_more_than_the_limit_goes_out_but_for_the_last_batch() -> None:
    reading, client = Reading(SUBSCRIPTION), Client()
    reading.publish(7, messages=4)
    consumer = await reading.join(client, 1000)
    assert consumer.unacked == 12


@simulated
async def test_at_the_limit_without_permits_it_still_waits_for_half() -> None:
    reading, client = Reading(SUBSCRIPTION), Client()
    consumer = await reading.join(client, 10)
    reading.publish(13)
    assert reading.subscription.state.blocked
    reading.subscription.acknowledge(consumer, client.received[:1])
    reading.subscription.flow(consumer, 10)
    assert len(client.received) == 10
    reading.subscription.acknowledge(consumer, client.received[1:5])
    assert len(client.received) == 13
