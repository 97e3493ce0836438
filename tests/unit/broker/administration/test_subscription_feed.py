"""What a broker finds behind, of live topics: the cause and its figures, without looking at what stands still."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.rows import RowsSince
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
from tests.support.broker_bench import NAME, Bench, Client, opened, until

pytestmark = pytest.mark.virtual_time

FULL = NAME.full


class Ahead(LoopClock):
    """Both clocks, as far ahead as a test says."""

    seconds = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.seconds


class Found:
    """A gateway's side: its rows, after each count."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Ahead()
        self.feed = SubscriptionFeed(
            bench.registry, replace(bench.context, clock=self.clock), "b-1"
        )
        self.rows: dict[str, list[Any]] = {}
        self.asked = RowsSince()
        self.looked: list[int] = []

    async def hear(self) -> dict[str, Any]:
        answer = await self.feed.since(self.asked)
        if answer["whole"]:
            self.rows.clear()
        for name, *subscriptions in answer["rows"]:
            self.rows[name] = subscriptions
        for name in answer["gone"]:
            self.rows.pop(name, None)
        self.asked = RowsSince.after(answer)
        return answer

    async def live(self, seconds: int, each: Callable[[], object] = lambda: None) -> None:
        """So many seconds; ``each`` is done in every one."""
        for _ in range(seconds):
            self.clock.seconds += 1.0
            each()
            await asyncio.sleep(0.002)  # the broker's own clock tells one second from the next
            self.feed.count(self.bench.registry.tick(1.0))
        await self.hear()

    def lag(self, subscription: str = "s", topic: str = FULL) -> Lag | None:
        for name, _, _, lag in self.rows.get(topic, ()):
            if name == subscription:
                found: Lag | None = lag
                return found
        return None

    def expect(self, cause: LagCause, **evidence: object) -> Lag:
        lag = self.lag()
        assert lag is not None, self.rows
        assert lag.cause is cause
        assert lag.evidence.keys() <= EVIDENCE.keys()
        assert evidence.items() <= lag.evidence.items(), lag.evidence
        return lag


@pytest.fixture
async def found(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Found]:
    monkeypatch.setattr(subscription_feed, "SWEEP_ROUNDS", 1 << 30)  # nothing is found by chance
    monkeypatch.setattr(change_feed, "WAIT_MAX_S", 0.001)
    async with opened() as bench:
        yield Found(bench)


async def waiting(found: Found, count: int = 500, keys: Sequence[str] = ()) -> None:
    """A subscription with a backlog."""
    await found.bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    await found.bench.publish(count, keys=keys)


async def test_nobody_consumes(found: Found) -> None:
    await waiting(found)
    await found.live(8)
    assert found.rows[FULL] == [["s", 500, 0, None]]
    await found.live(4)
    lag = found.expect(LagCause.NO_CONSUMER, left_ms=0)
    assert lag.severity == "warning"
    consumer, _ = await found.bench.join(SubscriptionType.SHARED, permits=0)
    found.bench.subscription.detach(consumer)
    await found.live(40)
    assert (
        found.expect(LagCause.NO_CONSUMER).evidence["left_ms"]
        == found.bench.subscription.left_ms
        > 0
    )
    await found.bench.subscription.moves.clear()
    await found.live(8)
    assert FULL not in found.rows, "nothing waits and nothing flows"


async def test_a_consumer_that_takes_nothing_more(found: Found) -> None:
    await waiting(found)
    await found.bench.join(SubscriptionType.SHARED, permits=100)
    await found.live(20)
    found.expect(LagCause.NO_PERMITS, consumer="c", address="test:1", unacked=100)


async def test_a_consumer_that_receives_and_never_acknowledges(found: Found) -> None:
    await waiting(found)
    consumer, _ = await found.bench.join(SubscriptionType.SHARED, permits=100)
    await found.live(20, lambda: found.bench.subscription.flow(consumer, 5))
    lag = found.expect(LagCause.NOT_ACKNOWLEDGED, consumer="c", acked_ms=0)
    assert lag.evidence["unacked"] >= 195


async def test_what_is_out_of_a_type_with_order(found: Found) -> None:
    await waiting(found)
    await found.bench.join(SubscriptionType.EXCLUSIVE, permits=1000)
    await found.live(20)
    found.expect(LagCause.NOT_ACKNOWLEDGED, consumer="c", unacked=500)


async def test_the_active_one_takes_nothing_and_others_stand_by(found: Found) -> None:
    await waiting(found)
    for name in "ab":
        await found.bench.join(SubscriptionType.FAILOVER, permits=10, name=name)
    await found.live(20)
    await until(lambda: found.bench.subscription.state.active is not None)
    await found.live(20)
    found.expect(LagCause.STANDBY, consumer="a", standby=1)


async def test_one_holds_it_and_others_are_refused(found: Found) -> None:
    await waiting(found)
    await found.bench.join(SubscriptionType.EXCLUSIVE, permits=10, name="holder")
    await found.live(2)
    for _ in range(3):
        with pytest.raises(ConsumerBusy):
            await found.bench.join(SubscriptionType.EXCLUSIVE, name="other")
    await found.live(20)
    found.expect(LagCause.HELD, consumer="holder", refused=3)


async def test_so_much_is_out_that_nothing_more_is_sent(found: Found) -> None:
    await waiting(found)
    settings = found.bench.context.settings
    found.bench.topic.policies = TopicPolicies(dispatch=DispatchPolicies(unacked_per_consumer=50))
    client = Client()
    consumer = Consumer(
        client, 1, "c", SubscriptionType.SHARED, settings=settings, partition=-1, now_ms=0
    )
    topic = found.bench.topic
    start = InitialPosition.EARLIEST
    made = await topic.subscriptions.attach(
        consumer, "s", durable=True, initial=start, properties={}
    )
    made.flow(consumer, 1000)
    await found.live(20)
    found.expect(LagCause.UNACKED_LIMIT, limit=50, unacked=50)


async def test_what_is_sent_comes_back(found: Found) -> None:
    await waiting(found)
    consumer, client = await found.bench.join(SubscriptionType.SHARED, permits=500)
    await until(lambda: len(client.received) == 500)

    def give_back() -> None:
        found.bench.subscription.redeliver(consumer, client.received[:100], None)
        found.bench.subscription.flow(consumer, 100)

    await found.live(25, give_back)
    found.expect(LagCause.REDELIVERY, given_back=100)


async def test_the_key_of_one_consumer_holds_what_waits(found: Found) -> None:
    await waiting(found, keys=[f"key-{number}" for number in range(10)])
    made: list[tuple[Consumer, Client]] = []
    for name in ("fast", "stuck"):
        client = Client()
        settings = found.bench.context.settings
        kind = SubscriptionType.KEY_SHARED
        consumer = Consumer(
            *(client, 1, name, kind),
            settings=settings,
            partition=-1,
            now_ms=0,
            keys=KeyPolicy(),
        )
        start = InitialPosition.EARLIEST
        await found.bench.topic.subscriptions.attach(
            consumer, "s", durable=True, initial=start, properties={}
        )
        made.append((consumer, client))
    (fast, client), (stuck, _) = made
    subscription = found.bench.subscription
    subscription.flow(stuck, 3)
    subscription.flow(fast, 1000)
    await until(lambda: subscription.state.paused_for == "key")
    subscription.acknowledge(fast, client.fresh)
    await found.live(25)
    lag = found.expect(LagCause.HOT_KEY, consumer="stuck", unacked=3)
    assert lag.evidence["waiting"] == subscription.cursor.backlog_entries() - 3
    assert 1 <= lag.evidence["keys"] < 10


async def test_messages_for_later_are_no_problem(found: Found) -> None:
    await found.bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    await found.bench.publish(50, found.clock.wall_ms() + 3_600_000)
    await found.bench.join(SubscriptionType.SHARED)
    await until(lambda: found.bench.subscription.state.delayed == 50)
    await found.live(20)
    assert found.expect(LagCause.DELAYED, delayed=50).severity == "info"


async def test_a_subscription_that_cannot_be_read(found: Found, monkeypatch: Any) -> None:
    await waiting(found)
    del found.bench.topic.subscriptions["s"]
    unread = {"s": "its ledger cannot be read"}
    monkeypatch.setattr(type(found.bench.topic.subscriptions), "unread", unread)
    await found.live(20)
    assert found.rows[FULL][0][1] is None, "its backlog is not known"
    assert found.expect(LagCause.STORAGE, reason="its ledger cannot be read").severity == "error"


@pytest.mark.parametrize("per_entry", [1, 50])
async def test_more_arrives_than_is_acknowledged(found: Found, per_entry: int) -> None:
    await waiting(found)
    consumer, client = await found.bench.join(SubscriptionType.SHARED, permits=1_000_000)

    async def second() -> None:
        await found.bench.publish(30, **({"num_messages": per_entry} if per_entry > 1 else {}))
        await until(lambda: client.fresh)
        found.bench.subscription.acknowledge(consumer, client.fresh[:10])
        del client.fresh[:10]
        await found.live(1)

    for _ in range(40):
        await second()
    lag = found.expect(LagCause.SLOW)
    assert lag.growth == pytest.approx(20_000, rel=0.2)
    assert lag.evidence["rate_in"] == pytest.approx(30 * per_entry, rel=0.2)
    assert lag.evidence["estimated"] is (per_entry > 1)


async def test_a_consumer_that_keeps_up_is_told_by_its_figures_alone(found: Found) -> None:
    await waiting(found, 10)
    consumer, client = await found.bench.join(SubscriptionType.SHARED, permits=100_000)
    for _ in range(40):
        await found.bench.publish(300)
        await until(lambda: len(client.fresh) >= 300)
        await found.live(1)
        assert found.lag() is None
        found.bench.subscription.acknowledge(consumer, client.fresh)
        client.fresh.clear()
    _, backlog, rate, lag = found.rows[FULL][0]
    assert (backlog, lag) == (300, None)
    assert rate == pytest.approx(300_000, rel=0.2)


async def test_what_stands_still_is_not_looked_at(found: Found, monkeypatch: Any) -> None:
    await waiting(found)
    await found.live(60)
    looks: list[object] = []
    monkeypatch.setattr(found.feed, "_update", lambda topic, *now: looks.append(topic))
    await found.live(60)
    assert looks == []
    monkeypatch.setattr(subscription_feed, "SWEEP_ROUNDS", 30)
    await found.live(60)
    assert len(looks) == 1 or len(looks) == 2, "but now and then"


async def test_topics_that_go_are_told(found: Found) -> None:
    await waiting(found)
    await found.live(12)
    assert FULL in found.rows
    await found.bench.registry.unload(NAME)
    await found.live(1)
    assert FULL not in found.rows
    other = TopicName.parse("persistent://public/default/other")
    await found.bench.registry.get(other, create=True)
    await found.live(1)
    assert found.rows == {}, "a topic without anything to tell has no row"
