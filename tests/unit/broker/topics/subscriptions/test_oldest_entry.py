"""The first unacknowledged entry of a subscription: found once for each position, never later than the actual one."""

from collections.abc import AsyncIterator

import pytest

from engine.broker.topics.subscriptions.oldest_entry import OldestEntry
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from tests.support.broker_bench import Bench, opened

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened(settings=ManagedSettings(cache_bytes_max=1)) as made:
        await made.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
        yield made


def oldest(bench: Bench) -> OldestEntry:
    return bench.topic.subscriptions["s"].oldest


async def test_without_a_backlog_there_is_no_oldest_entry(bench: Bench) -> None:
    assert (oldest(bench).publish_ms(), oldest(bench).at_hand()) == (0, None)


async def test_an_entry_outside_memory_is_unknown_until_it_is_found(bench: Bench) -> None:
    await bench.publish(1, publish_ms=1_000)
    await bench.publish(1, publish_ms=2_000)
    assert oldest(bench).publish_ms() is None
    assert (await oldest(bench).find()).summary.publish_ms == 1_000
    fetched = bench.topic.log.fetched
    await oldest(bench).find()
    assert oldest(bench).publish_ms() == 1_000
    assert bench.topic.log.fetched == fetched


async def test_a_moved_cursor_has_the_last_result_only_where_that_is_older(bench: Bench) -> None:
    await bench.publish(1, publish_ms=1_000)
    await bench.publish(1, publish_ms=2_000)
    await oldest(bench).find()
    subscription = bench.topic.subscriptions["s"]
    start = bench.topic.log.next_position(subscription.cursor.mark_delete)
    await subscription.moves.skip(1)
    assert (oldest(bench).publish_ms(), oldest(bench).at_hand()) == (1_000, None)
    await oldest(bench).find()
    assert oldest(bench).publish_ms() == 2_000
    await subscription.moves.reset(start)
    assert oldest(bench).publish_ms() is None


async def test_an_acknowledged_backlog_forgets_its_oldest_entry(bench: Bench) -> None:
    await bench.publish(1, publish_ms=1_000)
    await oldest(bench).find()
    await bench.topic.subscriptions["s"].moves.clear()
    assert oldest(bench).publish_ms() == 0
    await bench.publish(1, publish_ms=9_000)
    assert oldest(bench).publish_ms() is None
