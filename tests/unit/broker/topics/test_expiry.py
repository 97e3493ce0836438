"""Messages older than their topic's TTL count as acknowledged; younger ones do not."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.statistics import TopicStats
from engine.base.ids import EARLIEST
from engine.broker.administration import reports
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import BacklogPolicies, TopicPolicies
from engine.broker.topics.subscriptions.cursor_moves import CursorMoves
from engine.ledger.errors import LedgerError
from engine.managed.ledger import InitialPosition
from engine.managed.reading import search
from engine.managed.settings import ManagedSettings
from tests.support.broker_bench import Bench, opened, put_in_force, round_of, until
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
SHARED = SubscriptionType.SHARED
OWNER = "b"
TTL = TopicPolicies(backlog=BacklogPolicies(message_ttl_s=100))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    settings = ManagedSettings(cache_bytes_max=1)  # entries come from the bookie
    async with opened(settings=settings) as made:
        put_in_force(made.topic, TTL)
        yield made


async def subscribe(bench: Bench, *names: str) -> None:
    for name in names:
        await bench.topic.subscriptions.create(name, FIRST, {})


def backlogs(bench: Bench) -> dict[str, int]:
    subscriptions = bench.topic.subscriptions.values()
    return {
        subscription.name: subscription.cursor.backlog_entries() for subscription in subscriptions
    }


async def publish(bench: Bench, *ages_s: int) -> None:
    now_ms = bench.context.clock.wall_ms()
    for age_s in ages_s:
        await bench.publish(1, publish_ms=now_ms - age_s * 1000)


async def test_older_messages_expire_in_every_subscription_and_are_counted(bench: Bench) -> None:
    await subscribe(bench, "s", "t")
    await publish(bench, 500, 400, 300, 50, 40)
    await bench.topic.subscriptions["t"].moves.skip(2)
    before_ms = bench.context.clock.wall_ms()
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 2, "t": 2}
    subscriptions = bench.topic.subscriptions
    assert (
        subscriptions["s"].counters.expired.total,
        subscriptions["t"].counters.expired.total,
    ) == (3, 1)
    bench.topic.tick(1.0)
    stats = reports.topic_stats(bench.topic, TopicStats(bench.topic.name), OWNER)
    shown = stats["subscriptions"]["s"]
    assert shown["totalMsgExpired"] == 3
    assert shown["msgRateExpired"] > 0
    assert shown["lastExpireTimestamp"] >= before_ms
    for subscription in subscriptions.values():
        await subscription.cursor.persisted()
    await bench.kill()
    await bench.load()
    assert backlogs(bench) == {"s": 2, "t": 2}


@pytest.mark.parametrize(
    ("ages_s", "left"), [((), 0), ((90, 10), 2), ((200, 101), 0), ((110, 90), 1)]
)
async def test_younger_messages_are_not_acknowledged(
    bench: Bench, ages_s: tuple[int, ...], left: int
) -> None:
    await subscribe(bench, "s")
    await publish(bench, *ages_s)
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": left}


async def test_without_a_ttl_no_message_expires(bench: Bench) -> None:
    await subscribe(bench, "s")
    await publish(bench, 10_000)
    put_in_force(bench.topic, TopicPolicies())
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 1}


async def test_expired_messages_no_longer_count_as_unacknowledged(bench: Bench) -> None:
    consumer, client = await bench.join(SHARED, permits=100)
    await publish(bench, 200, 200, 50)
    await until(lambda: len(client.received) == 3)
    assert consumer.unacked == 3
    await round_of(bench, "expiry")
    assert consumer.unacked == 1
    assert backlogs(bench) == {"s": 1}


async def test_messages_do_not_expire_for_readers(bench: Bench) -> None:
    consumer, _ = await bench.join(SHARED, permits=0)
    del consumer
    await publish(bench, 200)
    cursor = await bench.topic.log.open_cursor("r", FIRST, durable=False, cursor_properties={})
    await round_of(bench, "expiry")
    assert (cursor.backlog_entries(), backlogs(bench)) == (1, {"s": 0})


async def test_the_end_of_a_sealed_topic_is_reported_when_the_backlog_expired(bench: Bench) -> None:
    _, client = await bench.join(SHARED, permits=0)
    client.client_version = "Pulsar-Java-v4.0.8"  # other clients receive no REACHED_END_OF_TOPIC
    await publish(bench, 200)
    await bench.topic.terminate()
    assert "REACHED_END_OF_TOPIC" not in client.kinds
    await round_of(bench, "expiry")
    assert client.kinds.count("REACHED_END_OF_TOPIC") == 1


async def test_without_an_answer_of_storage_nothing_expires(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(bench, "s", "t")
    await publish(bench, 300, 200)
    caplog.set_level(logging.WARNING, "engine.broker.upkeep")
    await bench.cluster.stop("b0")
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 2, "t": 2}
    (warning,) = [message for message in caplog.messages if "expiry" in message]
    assert f"topics=1 first={bench.topic.name}: " in warning
    await bench.cluster.start("b0")
    async with asyncio.timeout(60):
        while any(backlogs(bench).values()):
            await round_of(bench, "expiry")


async def test_a_subscription_that_cannot_be_read_does_not_stop_the_expiry_of_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(bench, "bad", "good")
    await publish(bench, 300, 200)
    bad, real = bench.topic.subscriptions["bad"].moves, CursorMoves.expire

    async def expire(moves: CursorMoves, before_ms: int) -> int:
        if moves is bad:
            raise LedgerError("cannot be read")
        return await real(moves, before_ms)

    monkeypatch.setattr(CursorMoves, "expire", expire)
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"bad": 2, "good": 0}
    assert "cannot be read" in caplog.text


async def append_unreadable(bench: Bench, count: int) -> None:
    """Append entries without metadata, as a client may send them."""
    sink = Sink()
    bench.topic.log.append(run_of(*[b"no message"] * count), sink)
    await sink.settle(count)


@pytest.mark.parametrize("unreadable", [1, 3, 20])
async def test_entries_without_metadata_are_as_old_as_the_next_or_as_their_ledgers_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, unreadable: int
) -> None:
    monkeypatch.setattr(search, "UNREADABLE_MAX", 5)
    await subscribe(bench, "s")
    now_ms = bench.context.clock.wall_ms()
    await append_unreadable(bench, unreadable)
    await publish(bench, 300, 200, 50)
    few = unreadable < 5
    first, last = bench.topic.log.next_position(EARLIEST), bench.topic.log.last_confirmed
    assert await bench.topic.first_since(now_ms - 60_000) == (last if few else first)
    assert await bench.topic.quotas.is_old(100, now_ms) is few
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 1 if few else unreadable + 3}
    await bench.registry.unload(bench.topic.name)
    await bench.load()
    put_in_force(bench.topic, TTL)
    closed_ms = bench.topic.log.stats().ledgers[0].timestamp_ms
    assert await bench.topic.quotas.is_old(100, closed_ms + 100_001) is True
    await bench.topic.subscriptions.expire(closed_ms + 1)
    assert backlogs(bench) == {"s": 0}


async def test_fresh_messages_are_kept_when_clocks_of_some_publishers_are_wrong(
    bench: Bench,
) -> None:
    await subscribe(bench, "s")
    now_ms = bench.context.clock.wall_ms()
    bench.topic.tick(1.0)  # notes that nothing is there yet
    for _ in range(2):
        await bench.publish(1, publish_ms=1)
        await bench.publish(50, publish_ms=now_ms)
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 102}
    assert await bench.topic.quotas.is_old(100, now_ms) is False
    await bench.topic.subscriptions.expire(bench.context.clock.wall_ms() + 1)
    assert backlogs(bench) == {"s": 0}


async def test_messages_published_after_the_load_are_no_older_than_it(bench: Bench) -> None:
    await subscribe(bench, "s")
    await publish(bench, 200)
    await bench.registry.unload(bench.topic.name)
    await bench.load()
    put_in_force(bench.topic, TTL)
    await publish(bench, 200)
    await round_of(bench, "expiry")
    assert backlogs(bench) == {"s": 1}
