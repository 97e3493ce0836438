"""A topic whose log holds reads: consumers wait for the readable limit, administration sees all that is stored."""

from collections.abc import AsyncIterator

import pytest

from engine.base.ids import LATEST, Position
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import (
    BacklogPolicies,
    TopicPolicies,
)
from engine.managed.ledger import InitialPosition, ManagedLedger
from tests.support.broker_bench import Bench, opened, put_in_force, round_of, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


def log_of(bench: Bench) -> ManagedLedger:
    assert isinstance(bench.topic.log, ManagedLedger)
    return bench.topic.log


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED])
async def test_i40_consumers_receive_entries_once_they_are_readable(
    bench: Bench, kind: SubscriptionType
) -> None:
    _, client = await bench.join(kind)
    await bench.publish(2)
    log = log_of(bench)
    log.hold_reads(LATEST)
    await bench.publish(3)
    await until(lambda: len(client.received) == 2)
    assert bench.subscription.cursor.backlog_entries() == 5
    assert bench.subscription.dispatch.state.paused_for == "append"
    log.hold_reads(Position(log.last_confirmed.ledger_id, 3))
    assert [position.entry_id for position in client.received] == [0, 1, 2]
    log.release_reads()
    assert [position.entry_id for position in client.received] == [0, 1, 2, 3, 4]


async def test_the_last_message_is_the_last_readable_one(bench: Bench) -> None:
    await bench.publish(2)
    log, topic = log_of(bench), bench.topic
    log.hold_reads(LATEST)
    await bench.publish(2)
    expected = Position(log.last_confirmed.ledger_id, 1), -1
    assert topic.last_message.at_hand() == await topic.last_message.read() == expected
    log.release_reads()
    assert await topic.last_message.read() == (log.last_confirmed, -1)


async def test_expiry_and_skips_pass_entries_that_are_not_readable(bench: Bench) -> None:
    put_in_force(bench.topic, TopicPolicies(backlog=BacklogPolicies(message_ttl_s=100)))
    for name in ("expires", "skips"):
        await bench.topic.subscriptions.create(name, InitialPosition.EARLIEST, {})
    log_of(bench).hold_reads(LATEST)
    await bench.publish(3)
    await bench.topic.subscriptions["skips"].moves.skip(2)
    await round_of(bench, "expiry")
    subscriptions = bench.topic.subscriptions
    assert subscriptions["expires"].counters.expired.total == 3
    assert subscriptions["skips"].counters.expired.total == 1
