"""A backlog of entries is reported in messages: exact where counters know it, else estimated, else as unmeasured."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.admin.api.statistics import TopicStats
from engine.base.ids import Position
from engine.broker.administration.backlog_messages import Measured, measure_topic
from engine.broker.administration.reports import topic_row, topic_stats
from engine.broker.dispatch.consumer import SubscriptionType
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from tests.support.broker_bench import Bench, opened, round_of, until

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        await made.topic.subscriptions.create("s", FIRST, {})
        yield made


@pytest.fixture
async def uncached() -> AsyncIterator[Bench]:
    """A bench without a cache: no entry is in memory once it is stored."""
    async with opened(settings=ManagedSettings(cache_bytes_max=1)) as made:
        await made.topic.subscriptions.create("s", FIRST, {})
        yield made


def first_due(bench: Bench) -> Position:
    return bench.topic.log.next_position(bench.subscription.cursor.mark_delete)


def row(bench: Bench) -> dict[str, Any]:
    return dict(zip(ROW_COLUMNS, topic_row(bench.topic)[1:], strict=True))


async def test_an_empty_backlog_and_unbatched_messages_are_exact(bench: Bench) -> None:
    assert measure_topic(bench.topic) == Measured()
    await bench.publish(5)
    assert measure_topic(bench.topic) == Measured(5, 5)
    await bench.subscription.moves.skip(2)
    assert measure_topic(bench.topic) == Measured(3, 3)
    assert measure_topic(bench.topic).exact


async def test_batches_are_exact_until_one_is_acknowledged_and_estimated_then(bench: Bench) -> None:
    await bench.publish(3, num_messages=100)
    await bench.publish(1, num_messages=20)
    assert measure_topic(bench.topic) == Measured(4, 320)
    await bench.subscription.moves.skip(1)
    assert measure_topic(bench.topic) == Measured(3, 240, estimated=3)


async def test_a_batch_acknowledged_in_part_is_not_exact(bench: Bench) -> None:
    await bench.publish(2, num_messages=10)
    assert bench.subscription.cursor.acknowledge_batch(first_due(bench), [0b11]) is False
    assert bench.subscription.cursor.has_partial_batches
    assert measure_topic(bench.topic) == Measured(2, 20, estimated=2)


async def test_duplicates_that_are_not_stored_are_not_counted(bench: Bench) -> None:
    await bench.publish(4)
    bench.topic.repeated(400, 1)
    assert measure_topic(bench.topic) == Measured(4, 4)


async def test_backlogs_of_subscriptions_add_up(bench: Bench) -> None:
    await bench.topic.subscriptions.create("t", FIRST, {})
    await bench.publish(2, num_messages=50)
    await bench.publish(2)
    await bench.subscription.moves.skip(1)
    assert measure_topic(bench.topic) == Measured(7, 102 + 76, estimated=3)
    assert (row(bench)["backlog"], row(bench)["backlog_messages"]) == (7, 178)
    assert (row(bench)["backlog_estimated"], row(bench)["backlog_unmeasured"]) == (3, 0)


async def test_entries_older_than_the_load_are_unmeasured_until_their_size_is_known(
    bench: Bench,
) -> None:
    await bench.publish(10, num_messages=30)
    await bench.registry.unload(bench.topic.name)
    await bench.load()
    assert measure_topic(bench.topic) == Measured(10, 10, unmeasured=10)
    assert row(bench)["backlog_messages"] == row(bench)["backlog_unmeasured"] == 10
    # Messages published from now on say nothing about the size of the older entries.
    await bench.publish(5)
    assert measure_topic(bench.topic) == Measured(15, 15, unmeasured=10)
    await round_of(bench, "quotas")
    assert measure_topic(bench.topic) == Measured(15, 305, estimated=10)


async def test_sent_messages_give_the_size_of_older_entries(bench: Bench) -> None:
    await bench.publish(10, num_messages=30)
    await bench.registry.unload(bench.topic.name)
    await bench.load()
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=60)
    await until(lambda: bool(client.received))
    assert measure_topic(bench.topic) == Measured(10, 300, estimated=10)
    bench.subscription.detach(consumer)
    assert measure_topic(bench.topic) == Measured(10, 300, estimated=10)


async def test_statistics_report_each_subscription_as_the_row_does(bench: Bench) -> None:
    await bench.publish(2, num_messages=50)
    out = topic_stats(bench.topic, TopicStats(bench.topic.name), "b")
    stats = out["subscriptions"]["s"]
    assert (stats["msgBacklog"], stats["backlogMessages"]) == (2, 100)
    assert (stats["backlogEstimated"], stats["backlogUnmeasured"]) == (0, 0)
    assert out["oldestUnacknowledgedAt"] == row(bench)["oldest_at"] == 1


async def test_the_oldest_is_known_without_reading_while_it_is_in_memory(bench: Bench) -> None:
    assert row(bench)["oldest_at"] == 0
    await bench.publish(1, publish_ms=1_000)
    await bench.publish(1, publish_ms=2_000)
    fetched = bench.topic.log.fetched
    assert row(bench)["oldest_at"] == 1_000
    await bench.subscription.moves.skip(1)
    assert row(bench)["oldest_at"] == 2_000
    await bench.subscription.moves.skip(1)
    assert row(bench)["oldest_at"] == 0
    assert bench.topic.quotas.oldest is None
    assert bench.topic.log.fetched == fetched


async def test_an_oldest_entry_outside_memory_is_the_one_of_the_last_check(
    uncached: Bench,
) -> None:
    bench = uncached
    await bench.publish(1, publish_ms=1_000)
    await bench.publish(1, publish_ms=2_000)
    fetched = bench.topic.log.fetched
    assert row(bench)["oldest_at"] == OLDEST_UNKNOWN
    assert bench.topic.log.fetched == fetched
    await round_of(bench, "quotas")
    assert row(bench)["oldest_at"] == 1_000
    position = first_due(bench)
    await bench.subscription.moves.skip(1)
    assert row(bench)["oldest_at"] == 1_000  # never younger than the actual oldest
    await round_of(bench, "quotas")
    assert row(bench)["oldest_at"] == 2_000
    await bench.subscription.moves.reset(position)
    assert row(bench)["oldest_at"] == OLDEST_UNKNOWN


async def test_a_check_that_finds_another_oldest_entry_renews_the_row(uncached: Bench) -> None:
    await uncached.publish(1, publish_ms=1_000)
    while uncached.registry.counters.tick(1.0):
        pass
    assert uncached.topic not in uncached.registry.counters.tick(1.0)
    await round_of(uncached, "quotas")
    assert uncached.topic in uncached.registry.counters.tick(1.0)
