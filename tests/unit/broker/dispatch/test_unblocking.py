"""Limits of unacknowledged messages: a consumer resumes when half of its limit is free, a subscription when more than
half is, whatever freed them."""

import asyncio

import pytest

from engine.broker.dispatch.consumer import Consumer
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from engine.managed.cursors.cursor import Cursor
from tests.support.broker_bench import Client
from tests.support.shelf import Reading, simulated

CONSUMER = TopicPolicies(dispatch=DispatchPolicies(unacked_per_consumer=10))
SUBSCRIPTION = TopicPolicies(dispatch=DispatchPolicies(unacked_per_subscription=10))
BOTH = pytest.mark.parametrize("policies", [CONSUMER, SUBSCRIPTION], ids=["consumer", "all"])


async def _stopped(policies: TopicPolicies, **batches: int) -> tuple[Reading, Consumer, Client]:
    """Return a paused subscription with ten unacknowledged messages, its consumer and its client."""
    reading, client = Reading(DataPathSettings(), policies=policies), Client()
    consumer = await reading.join(client, 1000)
    reading.publish(**batches)
    reading.publish(3)
    await asyncio.sleep(1)
    assert len(client.received) == batches["entries"]
    assert consumer.unacked == 10
    assert reading.subscription.dispatch.state.paused_for == "acks"
    assert (consumer.blocked, reading.subscription.dispatch.state.blocked) == (
        policies is CONSUMER,
        policies is SUBSCRIPTION,
    )
    return reading, consumer, client


@BOTH
@simulated
async def test_acknowledgements_unblock(policies: TopicPolicies) -> None:
    reading, consumer, client = await _stopped(policies, entries=10)
    enough = 5 if policies is CONSUMER else 6
    reading.subscription.acknowledge(consumer, client.received[: enough - 1])
    await asyncio.sleep(1)
    assert len(client.received) == 10
    reading.subscription.acknowledge(consumer, client.received[enough - 1 : enough])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_acknowledgements_of_parts_of_batches_unblock(policies: TopicPolicies) -> None:
    reading, consumer, client = await _stopped(policies, entries=2, messages=5)
    first, second = client.received
    reading.subscription.acknowledge_partly(consumer, first, [0b00011])
    reading.subscription.acknowledge_partly(consumer, second, [0b01111])
    await asyncio.sleep(1)
    assert len(client.received) == 2
    reading.subscription.acknowledge_partly(consumer, second, [0b10011])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_acknowledgements_through_another_consumer_unblock(policies: TopicPolicies) -> None:
    reading, _, client = await _stopped(policies, entries=10)
    other = await reading.join(Client())
    reading.subscription.acknowledge_partly(other, client.received[0], [1])
    reading.subscription.acknowledge(other, client.received[:6])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_parts_of_batches_acknowledged_through_another_consumer_unblock(
    policies: TopicPolicies,
) -> None:
    reading, _, client = await _stopped(policies, entries=1, messages=10)
    other = await reading.join(Client())
    reading.subscription.acknowledge_partly(other, client.received[0], [0b01111])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_redelivery_requests_unblock(policies: TopicPolicies) -> None:
    reading, consumer, client = await _stopped(policies, entries=10)
    reading.subscription.redeliver(consumer, client.received[:6], None)
    await asyncio.sleep(1)
    assert client.received[10:] == reading.shelf.places[:6]


@BOTH
@simulated
async def test_a_consumer_that_leaves_unblocks_the_subscription(policies: TopicPolicies) -> None:
    reading, consumer, _ = await _stopped(policies, entries=10)
    other = Client()
    await reading.join(other, 1000)
    before = list(other.received)
    reading.subscription.detach(consumer)
    await asyncio.sleep(1)
    assert len(other.received) == 10
    assert before == (reading.shelf.places[10:] if policies is CONSUMER else [])


@BOTH
@simulated
async def test_skipped_messages_unblock(policies: TopicPolicies) -> None:
    reading, _, client = await _stopped(policies, entries=10)
    await reading.subscription.moves.skip(4)
    assert len(client.received) == 10
    await reading.subscription.moves.skip(2)
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_a_cleared_backlog_unblocks(policies: TopicPolicies) -> None:
    reading, consumer, client = await _stopped(policies, entries=10)
    await reading.subscription.moves.clear()
    assert consumer.unacked == 0
    assert reading.subscription.dispatch.state.paused_for == "append"
    reading.publish(2)
    assert client.received[10:] == reading.shelf.places[13:]


@BOTH
@simulated
async def test_expired_messages_unblock(policies: TopicPolicies) -> None:
    reading, _, client = await _stopped(policies, entries=10)
    reading.subscription.moves.pass_over(client.received[5])
    assert client.received == reading.shelf.places


@BOTH
@simulated
async def test_a_reset_unblocks(policies: TopicPolicies) -> None:
    reading, _, client = await _stopped(policies, entries=10)
    await reading.subscription.moves.reset(client.received[8])
    again = Client()
    await reading.join(again, 1000)
    assert again.received == reading.shelf.places[8:]


@BOTH
@simulated
async def test_a_skip_unblocks_when_its_request_times_out(
    policies: TopicPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, _, client = await _stopped(policies, entries=10)

    async def stuck(_: Cursor) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Cursor, "persisted", stuck)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reading.subscription.moves.skip(6), 1)
    assert client.received == reading.shelf.places


@simulated
async def test_only_the_last_batch_may_exceed_the_limit() -> None:
    reading, client = Reading(DataPathSettings(), policies=SUBSCRIPTION), Client()
    reading.publish(7, messages=4)
    consumer = await reading.join(client, 1000)
    assert consumer.unacked == 12


@simulated
async def test_a_consumer_at_the_limit_without_permits_waits_for_half_of_it() -> None:
    reading, client = Reading(DataPathSettings(), policies=SUBSCRIPTION), Client()
    consumer = await reading.join(client, 10)
    reading.publish(13)
    assert reading.subscription.dispatch.state.blocked
    reading.subscription.acknowledge(consumer, client.received[:1])
    reading.subscription.flow(consumer, 10)
    assert len(client.received) == 10
    reading.subscription.acknowledge(consumer, client.received[1:6])
    assert len(client.received) == 13


@simulated
async def test_a_limit_of_one_delivers_the_next_after_each_acknowledgement() -> None:
    policies = TopicPolicies(
        dispatch=DispatchPolicies(unacked_per_consumer=1, unacked_per_subscription=1)
    )
    reading, client = Reading(DataPathSettings(), policies=policies), Client()
    consumer = await reading.join(client, 1000)
    reading.publish(3)
    for count in (1, 2, 3):
        assert len(client.received) == count
        reading.subscription.acknowledge(consumer, client.received[-1:])
