"""Subscriptions of live topics that a broker reports as behind: the cause and its figures. Idle subscriptions are not
read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.rows import AGE_TARGET, OLDEST_UNKNOWN, RowsSince, age_target_s
from engine.admin.lag import EVIDENCE, Lag, LagCause
from engine.base.clock import LoopClock
from engine.base.names import TopicName
from engine.broker.administration import change_feed, subscription_feed
from engine.broker.administration.subscription_feed import SubscriptionFeed
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ConsumerBusy
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from tests.support.broker_bench import NAME, Bench, Client, opened, until

pytestmark = pytest.mark.virtual_time

FULL = NAME.full


class Ahead(LoopClock):
    """Clock whose wall and monotonic times are ``seconds`` ahead."""

    seconds = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.seconds


class FeedReader:
    """The gateway's side of the feed: its rows after each count."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Ahead()
        self.feed = SubscriptionFeed(
            bench.registry, replace(bench.context, clock=self.clock), "b-1"
        )
        self.rows: dict[str, list[Any]] = {}
        self.asked = RowsSince()
        self.looked: list[int] = []

    async def receive(self) -> dict[str, Any]:
        answer = await self.feed.since(self.asked)
        if answer["whole"]:
            self.rows.clear()
        for name, *subscriptions in answer["rows"]:
            self.rows[name] = subscriptions
        for name in answer["gone"]:
            self.rows.pop(name, None)
        self.asked = RowsSince.after(answer)
        return answer

    async def live(self, seconds: int, action: Callable[[], object] = lambda: None) -> None:
        """Let ``seconds`` pass and call ``action`` in each of them."""
        for _ in range(seconds):
            self.clock.seconds += 1.0
            action()
            await asyncio.sleep(0.002)  # time passes on the broker's own clock too
            self.feed.count(self.bench.registry.counters.tick(1.0))
        await self.receive()

    def lag(self, subscription: str = "s", topic: str = FULL) -> Lag | None:
        for cell in self.rows.get(topic, ()):
            if cell.name == subscription:
                known: Lag | None = cell.lag
                return known
        return None

    def expect(self, cause: LagCause, **evidence: object) -> Lag:
        lag = self.lag()
        assert lag is not None, self.rows
        assert lag.cause is cause
        assert lag.evidence.keys() <= EVIDENCE.keys()
        assert evidence.items() <= lag.evidence.items(), lag.evidence
        return lag


@pytest.fixture
async def reader(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FeedReader]:
    # Without sweeps an untouched topic is not read.
    monkeypatch.setattr(subscription_feed, "SWEEP_ROUNDS", 1 << 30)
    monkeypatch.setattr(change_feed, "WAIT_MAX_S", 0.001)
    async with opened() as bench:
        yield FeedReader(bench)


async def waiting(reader: FeedReader, count: int = 500, keys: Sequence[str] = ()) -> None:
    """Create a subscription with a backlog of ``count`` entries."""
    await reader.bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    await reader.bench.publish(count, keys=keys)


async def test_a_subscription_without_consumers(reader: FeedReader) -> None:
    await waiting(reader)
    await reader.live(8)
    assert [(cell.name, cell.backlog, cell.rate_out, cell.lag) for cell in reader.rows[FULL]] == [
        ("s", 500, 0, None)
    ]
    await reader.live(4)
    lag = reader.expect(LagCause.NO_CONSUMER, left_ms=0)
    assert lag.severity == "warning"
    consumer, _ = await reader.bench.join(SubscriptionType.SHARED, permits=0)
    reader.bench.subscription.detach(consumer)
    await reader.live(40)
    assert (
        reader.expect(LagCause.NO_CONSUMER).evidence["left_ms"]
        == reader.bench.subscription.counters.left_ms
        > 0
    )
    await reader.bench.subscription.moves.clear()
    await reader.live(8)
    (cell,) = reader.rows[FULL]
    assert (cell.backlog, cell.oldest_at, cell.lag) == (0, 0, None)


async def test_a_consumer_without_permits(reader: FeedReader) -> None:
    await waiting(reader)
    await reader.bench.join(SubscriptionType.SHARED, permits=100)
    await reader.live(20)
    reader.expect(LagCause.NO_PERMITS, consumer="c", address="test:1", unacked=100)


async def test_a_consumer_that_receives_and_never_acknowledges(reader: FeedReader) -> None:
    await waiting(reader)
    consumer, _ = await reader.bench.join(SubscriptionType.SHARED, permits=100)
    await reader.live(20, lambda: reader.bench.subscription.flow(consumer, 5))
    lag = reader.expect(LagCause.NOT_ACKNOWLEDGED, consumer="c", acked_ms=0)
    assert lag.evidence["unacked"] >= 195


async def test_unacknowledged_messages_of_an_ordered_type(reader: FeedReader) -> None:
    await waiting(reader)
    await reader.bench.join(SubscriptionType.EXCLUSIVE, permits=1000)
    await reader.live(20)
    reader.expect(LagCause.NOT_ACKNOWLEDGED, consumer="c", unacked=500)


async def test_the_active_consumer_has_no_permits_while_others_stand_by(reader: FeedReader) -> None:
    await waiting(reader)
    for name in "ab":
        await reader.bench.join(SubscriptionType.FAILOVER, permits=10, name=name)
    await reader.live(20)
    await until(lambda: reader.bench.subscription.dispatch.state.active is not None)
    await reader.live(20)
    reader.expect(LagCause.STANDBY, consumer="a", standby=1)


async def test_an_exclusive_consumer_holds_the_subscription_and_others_are_refused(
    reader: FeedReader,
) -> None:
    await waiting(reader)
    await reader.bench.join(SubscriptionType.EXCLUSIVE, permits=10, name="holder")
    await reader.live(2)
    for _ in range(3):
        with pytest.raises(ConsumerBusy):
            await reader.bench.join(SubscriptionType.EXCLUSIVE, name="other")
    await reader.live(20)
    reader.expect(LagCause.HELD, consumer="holder", refused=3)


async def test_dispatch_stops_at_the_limit_of_unacknowledged_messages(reader: FeedReader) -> None:
    await waiting(reader)
    settings = reader.bench.context.settings
    reader.bench.topic.policies = TopicPolicies(dispatch=DispatchPolicies(unacked_per_consumer=50))
    client = Client()
    consumer = Consumer(
        client, 1, "c", SubscriptionType.SHARED, settings=settings, partition=-1, now_ms=0
    )
    topic = reader.bench.topic
    start = InitialPosition.EARLIEST
    made = await topic.subscriptions.attach(
        consumer, "s", durable=True, initial=start, properties={}
    )
    made.flow(consumer, 1000)
    await reader.live(20)
    reader.expect(LagCause.UNACKED_LIMIT, limit=50, unacked=50)


async def test_sent_messages_are_returned(reader: FeedReader) -> None:
    await waiting(reader)
    consumer, client = await reader.bench.join(SubscriptionType.SHARED, permits=500)
    await until(lambda: len(client.received) == 500)

    def give_back() -> None:
        reader.bench.subscription.redeliver(consumer, client.received[:100], None)
        reader.bench.subscription.flow(consumer, 100)

    await reader.live(25, give_back)
    reader.expect(LagCause.REDELIVERY, given_back=100)


async def test_the_key_of_one_consumer_blocks_the_pending_messages(reader: FeedReader) -> None:
    await waiting(reader, keys=[f"key-{number}" for number in range(10)])
    made: list[tuple[Consumer, Client]] = []
    for name in ("fast", "stuck"):
        client = Client()
        settings = reader.bench.context.settings
        kind = SubscriptionType.KEY_SHARED
        consumer = Consumer(
            *(client, 1, name, kind),
            settings=settings,
            partition=-1,
            now_ms=0,
            keys=KeyPolicy(),
        )
        start = InitialPosition.EARLIEST
        await reader.bench.topic.subscriptions.attach(
            consumer, "s", durable=True, initial=start, properties={}
        )
        made.append((consumer, client))
    (fast, client), (stuck, _) = made
    subscription = reader.bench.subscription
    subscription.flow(stuck, 3)
    subscription.flow(fast, 1000)
    await until(lambda: subscription.dispatch.state.paused_for == "key")
    subscription.acknowledge(fast, client.fresh)
    await reader.live(25)
    lag = reader.expect(LagCause.HOT_KEY, consumer="stuck", unacked=3)
    assert lag.evidence["waiting"] == subscription.cursor.backlog_entries() - 3
    assert 1 <= lag.evidence["keys"] < 10


async def test_delayed_messages_are_no_lag(reader: FeedReader) -> None:
    await reader.bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    await reader.bench.publish(50, reader.clock.wall_ms() + 3_600_000)
    await reader.bench.join(SubscriptionType.SHARED)
    await until(lambda: reader.bench.subscription.dispatch.state.delayed == 50)
    await reader.live(20)
    assert reader.expect(LagCause.DELAYED, delayed=50).severity == "info"


async def test_a_subscription_that_cannot_be_read(reader: FeedReader, monkeypatch: Any) -> None:
    await waiting(reader)
    del reader.bench.topic.subscriptions["s"]
    unread = {"s": "its ledger cannot be read"}
    monkeypatch.setattr(type(reader.bench.topic.subscriptions), "unread", unread)
    await reader.live(20)
    assert reader.rows[FULL][0][1] is None, "its backlog is not known"
    assert reader.expect(LagCause.STORAGE, reason="its ledger cannot be read").severity == "error"


@pytest.mark.parametrize("per_entry", [1, 50])
async def test_more_arrives_than_is_acknowledged(reader: FeedReader, per_entry: int) -> None:
    await waiting(reader)
    consumer, client = await reader.bench.join(SubscriptionType.SHARED, permits=1_000_000)

    async def second() -> None:
        await reader.bench.publish(30, **({"num_messages": per_entry} if per_entry > 1 else {}))
        await until(lambda: client.fresh)
        reader.bench.subscription.acknowledge(consumer, client.fresh[:10])
        del client.fresh[:10]
        await reader.live(1)

    for _ in range(40):
        await second()
    lag = reader.expect(LagCause.SLOW)
    assert lag.growth == pytest.approx(20_000, rel=0.2)
    assert lag.evidence["rate_in"] == pytest.approx(30 * per_entry, rel=0.2)
    assert lag.evidence["estimated"] is (per_entry > 1)


async def test_a_subscription_that_keeps_up_has_figures_and_no_cause(reader: FeedReader) -> None:
    await waiting(reader, 10)
    consumer, client = await reader.bench.join(SubscriptionType.SHARED, permits=100_000)
    for _ in range(40):
        await reader.bench.publish(300)
        await until(lambda: len(client.fresh) >= 300)
        await reader.live(1)
        assert reader.lag() is None
        reader.bench.subscription.acknowledge(consumer, client.fresh)
        client.fresh.clear()
    _, backlog, rate, lag = reader.rows[FULL][0][:4]
    assert (backlog, lag) == (300, None)
    assert rate == pytest.approx(300_000, rel=0.2)


async def test_idle_subscriptions_are_not_read(reader: FeedReader, monkeypatch: Any) -> None:
    await waiting(reader)
    await reader.live(60)
    looks: list[object] = []
    monkeypatch.setattr(reader.feed, "_update", lambda topic, *now: looks.append(topic))
    await reader.live(60)
    assert looks == []
    monkeypatch.setattr(subscription_feed, "SWEEP_ROUNDS", 30)
    await reader.live(60)
    assert len(looks) == 1 or len(looks) == 2, "read only by a sweep"


async def test_removed_topics_are_reported(reader: FeedReader) -> None:
    await waiting(reader)
    await reader.live(12)
    assert FULL in reader.rows
    await reader.bench.registry.unload(NAME)
    await reader.live(1)
    assert FULL not in reader.rows
    other = TopicName.parse("persistent://public/default/other")
    await reader.bench.registry.get(other, create=True)
    await reader.live(1)
    assert reader.rows == {other.full: []}


async def test_ages_of_backlogs_are_read_once_and_a_bounded_number_in_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_feed, "WAIT_MAX_S", 0.001)
    monkeypatch.setattr(subscription_feed, "AGES_MAX", 2)
    async with opened(settings=ManagedSettings(cache_bytes_max=1)) as bench:
        reader = FeedReader(bench)
        for name in ("a", "b", "c"):
            await bench.topic.subscriptions.create(name, InitialPosition.EARLIEST, {})
        await bench.publish(1, publish_ms=1_000)
        await bench.publish(1, publish_ms=2_000)
        await reader.live(1)
        fetched = bench.topic.log.fetched[0]
        assert [cell.oldest_at for cell in reader.rows[FULL]] == [OLDEST_UNKNOWN] * 3
        await reader.feed.find_ages(1.0)
        assert bench.topic.log.fetched[0] == fetched + 2
        await reader.feed.find_ages(1.0)
        await reader.live(3)
        await reader.feed.find_ages(1.0)
        assert [cell.oldest_at for cell in reader.rows[FULL]] == [1_000] * 3
        assert bench.topic.log.fetched[0] == fetched + 3, "an entry is read once"
        await bench.topic.subscriptions["b"].moves.skip(1)
        await reader.live(1)
        assert reader.rows[FULL][1].oldest_at == 1_000, "never later than the actual oldest"
        await reader.feed.find_ages(1.0)
        await reader.live(1)
        assert [cell.oldest_at for cell in reader.rows[FULL]] == [1_000, 2_000, 1_000]


async def test_a_target_for_the_age_is_reported_when_it_is_set(reader: FeedReader) -> None:
    await waiting(reader, 1)
    await reader.live(1)
    assert reader.rows[FULL][0].target_s == 0
    await reader.bench.topic.subscriptions.set_properties("s", {AGE_TARGET: "300"})
    await reader.live(1)
    assert reader.rows[FULL][0].target_s == 300
    assert [age_target_s({AGE_TARGET: text}) for text in ("", "-1", "1.5", "9" * 30, "٣")] == [
        0
    ] * 5
