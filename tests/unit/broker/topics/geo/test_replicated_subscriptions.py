"""Replicated subscriptions: clusters in memory that send a topic to each other, each with its own storage."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from engine.admin.api.statistics import TopicStats
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.administration.reports import topic_stats
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import SubscriptionPolicies
from engine.broker.topics.publish import Publish
from engine.managed.errors import ManagedLedgerError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.writing.appends import AppendSink
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.errors import ServerError
from engine.wire.geo.markers import (
    RESPONSE,
    SNAPSHOT,
    UPDATE,
    ClusterSnapshot,
    SnapshotRequest,
    SnapshotResponse,
    SubscriptionUpdate,
    response_marker,
)
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Client, until
from tests.support.instances.replicated_clusters import Site, replicated_clusters
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def pair() -> AsyncIterator[list[Site]]:
    async with replicated_clusters("us", "eu") as sites:
        yield sites


def subscribed(site: Site) -> bool:
    return "s" in site.bench.topic.subscriptions


def caught_up(site: Site) -> bool:
    return subscribed(site) and not site.subscription.cursor.backlog_entries()


def snapshots_of(site: Site) -> int:
    return site.bench.context.snapshots.count


async def acknowledge(site: Site, client: Client, count: int) -> None:
    """Acknowledge the next ``count`` messages that the site's consumer received."""
    await until(lambda: len(client.fresh) >= count)
    (consumer,) = site.subscription.consumers
    positions, client.fresh = client.fresh[:count], client.fresh[count:]
    site.subscription.acknowledge(consumer, positions)


async def test_g4_a_position_is_copied_and_a_missing_subscription_is_created(
    pair: list[Site],
) -> None:
    us, eu = pair
    _, client = await us.subscribe()
    await us.publish(b"a", b"b", b"c")
    await acknowledge(us, client, 3)
    await until(lambda: subscribed(eu), bound_s=30)
    assert eu.subscription.replicated
    await us.publish(b"d")
    await acknowledge(us, client, 1)
    await asyncio.sleep(5)
    assert await eu.unacknowledged() == []
    stats = topic_stats(eu.bench.topic, TopicStats(NAME), "b")["subscriptions"]["s"]
    assert stats["isReplicated"]
    assert stats["lastUpdateAppliedFrom"] == "us"
    assert stats["lastUpdateAppliedTimestamp"] > 0
    stats = topic_stats(us.bench.topic, TopicStats(NAME), "b")["subscriptions"]["s"]
    assert stats["lastSnapshotTimestamp"] <= stats["lastUpdateSentTimestamp"]
    assert stats["lastUpdateAppliedFrom"] == ""


async def test_g4_what_is_not_acknowledged_here_is_not_passed_there(pair: list[Site]) -> None:
    us, eu = pair
    _, client = await us.subscribe()
    await us.publish(b"a", b"b")
    await until(lambda: snapshots_of(us) == 1, bound_s=30)
    await us.publish(b"c", b"d", b"e")
    await acknowledge(us, client, 3)
    await until(lambda: subscribed(eu), bound_s=30)
    await asyncio.sleep(20)
    # The snapshot behind b is passed, the one behind e is not.
    assert await eu.unacknowledged() == [b"c", b"d", b"e"]
    await acknowledge(us, client, 2)
    await until(lambda: caught_up(us))
    await asyncio.sleep(20)
    assert await eu.unacknowledged() == []


async def test_g4_messages_of_both_clusters_are_covered(pair: list[Site]) -> None:
    us, eu = pair
    _, client = await us.subscribe()
    for value in (b"a", b"b", b"c"):
        await us.publish(value)
        await eu.publish(value.upper())
        await asyncio.sleep(0.7)
    await acknowledge(us, client, 6)
    await until(lambda: subscribed(eu), bound_s=30)
    await asyncio.sleep(10)
    assert await eu.unacknowledged() == []


async def test_g4_a_consumer_that_moves_there_and_back_misses_nothing(pair: list[Site]) -> None:
    us, eu = pair
    seen: list[bytes] = []
    for turn in range(6):
        site = pair[turn % 2]
        consumer, client = await site.subscribe()
        await pair[turn // 2 % 2].publish(*(b"%d" % (turn * 3 % 10 + i) for i in range(3)))
        await until(lambda client=client: len(client.fresh) >= 3)  # type: ignore[misc]
        await asyncio.sleep(3)
        values = dict(await site.messages())
        seen += [values[position] for position in client.fresh]
        site.subscription.acknowledge(consumer, client.fresh[:2])
        await asyncio.sleep(5)
        site.subscription.detach(consumer)
    assert Counter(value for _, value in await eu.messages()) <= Counter(seen)
    assert len(await us.messages()) == 18


async def test_markers_are_those_of_a_round_and_no_more_while_nothing_is_published(
    pair: list[Site],
) -> None:
    us, _ = pair
    _, client = await us.subscribe()
    await us.publish(b"a")
    await acknowledge(us, client, 1)
    await asyncio.sleep(10)
    before = await us.markers()
    kinds = Counter((origin, type(content)) for origin, content in before)
    assert (
        kinds[("us", SnapshotRequest)]
        == kinds[("eu", SnapshotResponse)]
        == kinds[("us", ClusterSnapshot)]
        >= 1
    )
    assert kinds[("us", SubscriptionUpdate)] >= 1
    await asyncio.sleep(600)
    assert await us.markers() == before
    assert caught_up(us)


async def test_snapshots_are_at_most_one_in_an_interval(pair: list[Site]) -> None:
    us, _ = pair
    await us.subscribe()
    for _ in range(50):
        await us.publish(b"a")
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert 3 <= snapshots_of(us) <= 7


async def test_no_snapshot_without_a_replicated_subscription(pair: list[Site]) -> None:
    us, _ = pair
    await us.subscribe(replicated=False)
    await us.publish(b"a")
    await asyncio.sleep(10)
    assert await us.markers() == []


async def test_no_snapshot_while_a_cluster_is_disconnected(pair: list[Site]) -> None:
    us, _ = pair
    remotes = us.bench.context.remotes
    assert remotes is not None
    remotes.reachable = False  # type: ignore[attr-defined]
    await us.begin(["us", "eu"])
    await us.subscribe()
    await us.publish(b"a")
    await asyncio.sleep(60)
    assert await us.markers() == []
    remotes.reachable = True  # type: ignore[attr-defined]
    await until(lambda: snapshots_of(us) == 1, bound_s=200)


async def test_a_snapshot_without_answers_is_given_up_and_counted(pair: list[Site]) -> None:
    us, eu = pair
    counters = us.bench.context.snapshots
    eu.bench.context.settings = replace(
        eu.bench.context.settings, enable_replicated_subscriptions=False
    )
    await us.subscribe()
    await us.publish(b"a")
    await asyncio.sleep(10)
    assert (counters.pending, counters.count) == (1, 0)
    await until(lambda: counters.timed_out == 2, bound_s=200)
    asked = [content for _, content in await eu.markers() if isinstance(content, SnapshotRequest)]
    assert 2 <= len(asked) <= 3
    eu.bench.context.settings = replace(
        eu.bench.context.settings, enable_replicated_subscriptions=True
    )
    await until(lambda: counters.count == 1, bound_s=400)
    assert counters.pending == 0
    assert counters.ms > 0


async def test_a_snapshot_whose_marker_is_not_stored_is_not_made_and_the_next_one_is(
    pair: list[Site],
) -> None:
    us, _ = pair
    counters, refused = us.bench.context.snapshots, list[int]()
    append = ManagedLedger.append

    def refuse_one_snapshot(log: ManagedLedger, run: Slice, sink: AppendSink) -> None:
        metadata = read_metadata(run.entry(0))
        assert metadata is not None
        if log is us.bench.topic.log and metadata.marker_type == SNAPSHOT and not refused:
            refused.append(counters.pending)
            sink.append_failed(run, 0, ManagedLedgerError("full"))
        else:
            append(log, run, sink)

    await us.subscribe()
    with patch.object(ManagedLedger, "append", refuse_one_snapshot):
        await us.publish(b"a")
        await until(lambda: bool(refused), bound_s=30)
        assert (refused, counters.count, counters.pending) == ([1], 0, 0)
        await until(lambda: counters.count == 1, bound_s=30)
    made = [content for _, content in await us.markers() if isinstance(content, ClusterSnapshot)]
    assert len(made) == 1


async def test_switched_off_nothing_is_copied_to_it_or_from_it(pair: list[Site]) -> None:
    us, eu = pair
    _, client = await us.subscribe()
    await us.publish(b"a")
    await acknowledge(us, client, 1)
    await until(lambda: subscribed(eu), bound_s=30)
    await asyncio.sleep(5)
    eu.subscription.replicate(False)
    await us.publish(b"b")
    await acknowledge(us, client, 1)
    await asyncio.sleep(10)
    assert await eu.unacknowledged() == [b"b"]
    eu.subscription.replicate(True)
    us.subscription.replicate(False)
    before = len(await us.markers())
    await us.publish(b"c")
    await acknowledge(us, client, 1)
    await asyncio.sleep(10)
    rows = (await us.markers())[before:]
    assert not any(
        isinstance(content, SubscriptionUpdate) for origin, content in rows if origin == "us"
    )


async def test_g4_another_clusters_subscription_of_the_same_name_is_not_moved(
    pair: list[Site],
) -> None:
    us, eu = pair
    created = await eu.bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    assert created is not None
    _, client = await us.subscribe()
    await us.publish(b"a")
    await acknowledge(us, client, 1)
    await asyncio.sleep(10)
    assert await eu.unacknowledged() == [b"a"]


async def test_the_source_dies_and_what_was_passed_before_is_copied_after(
    pair: list[Site],
) -> None:
    us, eu = pair
    _, client = await us.subscribe()
    await us.publish(b"a")
    await acknowledge(us, client, 1)
    await us.subscription.cursor.persisted()
    await us.bench.kill()
    await us.begin(["us", "eu"])
    await us.subscribe()
    await until(lambda: subscribed(eu), bound_s=200)
    await asyncio.sleep(5)
    assert await eu.unacknowledged() == []


async def test_a_subscription_above_a_limit_is_not_created_and_messages_are_sent_on(
    pair: list[Site],
) -> None:
    us, eu = pair
    await eu.bench.topic.subscriptions.create("other", InitialPosition.EARLIEST, {})
    eu.bench.topic.policies = replace(
        eu.bench.topic.policies, subscriptions=SubscriptionPolicies(max_subscriptions=1)
    )
    _, client = await us.subscribe()
    await us.publish(b"a")
    await acknowledge(us, client, 1)
    await asyncio.sleep(10)
    assert not subscribed(eu)
    await eu.publish(b"b")
    await until(lambda: len(client.fresh) == 1)


async def test_markers_are_no_messages_in_counters_and_leave_no_holes(pair: list[Site]) -> None:
    us, eu = pair
    _, client = await us.subscribe(SubscriptionType.SHARED)
    for _ in range(5):
        await us.publish(b"a")
        await asyncio.sleep(2)
    await acknowledge(us, client, 5)
    await until(lambda: caught_up(us), bound_s=30)
    assert us.subscription.cursor.stats().acknowledged_range_count == 0
    assert us.bench.topic.published.messages.total == 5
    await until(lambda: eu.bench.topic.published.messages.total == 5)
    assert us.bench.topic.replication.replicators["eu"].sent.messages.total == 5


async def test_g4_a_client_cannot_write_a_marker_on_a_replicated_topic(pair: list[Site]) -> None:
    us, _ = pair
    await us.subscribe()
    await us.publish(b"a")
    bench = us.bench
    data = send(1, 10, entry_of(b"", marker_type=UPDATE, replicated_from="eu"))
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, bench.producer).start()
    await until(lambda: bench.publisher.errors)
    assert bench.publisher.errors[0][1:] == (
        ServerError.NotAllowedError,
        "Only brokers write markers",
    )
    assert len(await us.messages()) == 1


async def test_g4_with_three_clusters_a_repeated_answer_does_not_end_the_second_round() -> None:
    async with replicated_clusters("ap", "eu", "us") as (ap, eu, us):
        settings = ap.bench.context.settings
        ap.bench.context.settings = replace(settings, enable_replicated_subscriptions=False)
        handler = us.bench.topic.replication._subscriptions
        assert handler is not None
        _, client = await us.subscribe()
        await us.publish(b"a")
        await until(lambda: handler._pending is not None and handler._pending.missing == {"ap"})
        pending = handler._pending
        assert pending is not None
        first = pending.request_id
        for cluster in ("ap", "eu"):
            answer = response_marker(SnapshotResponse(first, cluster, Position(0, 0)), "us", 1)
            await handler.received(cluster, Position(1, 1), RESPONSE, answer)
        assert pending.second
        assert pending.missing == {"ap", "eu"}
        assert pending.request_id != first
        ap.bench.context.settings = settings
        await until(lambda: snapshots_of(us) == 1, bound_s=60)
        await us.publish(b"b")
        await acknowledge(us, client, 2)
        await until(lambda: subscribed(eu) and subscribed(ap), bound_s=60)
        await asyncio.sleep(10)
        assert await eu.unacknowledged() == await ap.unacknowledged() == []
