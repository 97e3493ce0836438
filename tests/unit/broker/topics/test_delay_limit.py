"""Messages with a delivery time too far ahead are refused, and those around them are stored."""

from collections.abc import AsyncIterator

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import (
    PublishPolicies,
    TopicPolicies,
)
from engine.wire.errors import ServerError
from tests.support.broker_bench import Bench, opened, until

LIMITED = TopicPolicies(publish=PublishPolicies(delay_max_ms=60_000))
HOUR_MS = 3_600_000


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def _apply(bench: Bench, policies: TopicPolicies) -> None:
    everything = bench.everything
    await bench.topic.apply(policies, everything.ledger_config(policies))


async def test_a_message_too_far_ahead_is_refused_with_the_limit(bench: Bench) -> None:
    await _apply(bench, LIMITED)
    now_ms = bench.context.clock.wall_ms()
    await bench.publish(2)
    bench.send(1, now_ms + HOUR_MS)
    bench.send(1, now_ms + 30_000)
    await until(lambda: bench.publisher.receipts == 3)
    ((_, code, text),) = bench.publisher.errors
    assert code == ServerError.NotAllowedError
    assert text == "Exceeds max allowed delivery delay of 60000 milliseconds"
    assert bench.topic.log.stats().entries == 3


async def test_without_a_limit_any_delivery_time_is_accepted(bench: Bench) -> None:
    await _apply(bench, LIMITED)
    await _apply(bench, TopicPolicies())
    await bench.publish(1, bench.context.clock.wall_ms() + HOUR_MS)
    assert not bench.publisher.errors


async def test_messages_around_refused_ones_keep_their_order(bench: Bench) -> None:
    await _apply(bench, LIMITED)
    late_ms = bench.context.clock.wall_ms() + HOUR_MS
    for at_ms in (0, late_ms, 0, late_ms, 0):
        bench.send(1, at_ms or None)
    await until(lambda: bench.publisher.receipts == 3)
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    await until(lambda: len(client.received) == 3)
    assert client.received == sorted(client.received)
    assert len(bench.publisher.errors) == 2
