"""Unused topics and subscriptions are deleted; those in use, or attached to at the same moment, never are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ServiceNotReady
from engine.broker.policies import (
    InactiveTopics,
    SubscriptionPolicies,
    TopicPolicies,
)
from engine.broker.topics.geo.topic_replication import TopicReplication
from engine.broker.topics.inactivity import RETURN_MS, Inactivity
from engine.broker.topics.publish import Producer
from engine.broker.topics.subscriptions.subscriptions import Subscriptions
from engine.broker.topics.topic import Topic
from engine.managed.ledger import InitialPosition
from engine.metadata import paths
from tests.support.broker_bench import NAME, Bench, Client, opened

pytestmark = pytest.mark.virtual_time

PLAIN = TopicPolicies(inactive_topics=InactiveTopics(delete=True, after_s=60))
CAUGHT_UP = TopicPolicies(inactive_topics=InactiveTopics(True, when_caught_up=True, after_s=60))


class Hands:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


class Looks:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Hands()
        self.forgotten: list[TopicName] = []
        bench.registry.deletions._forget = self._forget
        self.inactivity = Inactivity(bench.registry, self.clock)

    async def _forget(self, name: TopicName) -> None:
        self.forgotten.append(name)

    async def pass_s(self, seconds: float) -> list[Topic]:
        """Advance the clock and return the topics that are due then."""
        while touched := self.bench.registry.counters.tick(1.0):  # until all rates are zero
            self.inactivity.count(touched)
        self.clock.now_s += seconds
        return await self.inactivity.topics_due()

    async def due(self) -> bool:
        """Return whether the topic is due after a minute without producers and consumers."""
        await self.pass_s(0)
        return bool(await self.pass_s(61))

    @property
    def stored(self) -> bool:
        tree = self.bench.cluster.server.tree
        return tree.exists(paths.managed_ledger(NAME.managed_ledger_name)) is not None


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        made.topic.policies = PLAIN
        yield made


@pytest.fixture
def looks(bench: Bench) -> Looks:
    return Looks(bench)


async def test_an_unused_topic_is_deleted_after_its_time(bench: Bench, looks: Looks) -> None:
    assert await looks.pass_s(0) == []
    assert await looks.pass_s(59) == []
    (topic,) = await looks.pass_s(1)
    await looks.inactivity.delete(topic)
    assert not looks.stored
    assert bench.registry.loaded(NAME) is None
    assert looks.forgotten == [NAME]
    assert await looks.pass_s(61) == []


async def test_use_in_between_restarts_the_time_of_an_unused_topic(
    bench: Bench, looks: Looks
) -> None:
    await looks.pass_s(0)
    await looks.pass_s(50)
    await bench.topic.publishers.admit(bench.producer)
    bench.producer.leave()
    assert await looks.pass_s(50) == []
    assert await looks.pass_s(61) != []


@pytest.mark.parametrize(
    "policies",
    [
        replace(PLAIN, inactive_topics=InactiveTopics(delete=False)),
        replace(PLAIN, storage=replace(PLAIN.storage, retention_minutes=2)),
        replace(PLAIN, storage=replace(PLAIN.storage, retention_minutes=-1)),
        replace(PLAIN, inactive_topics=InactiveTopics(delete=True, after_s=100)),
    ],
)
async def test_a_topic_is_kept_by_its_policies(
    bench: Bench, looks: Looks, policies: TopicPolicies
) -> None:
    bench.topic.policies = policies
    assert not await looks.due()


async def test_unused_system_topics_are_kept(bench: Bench, looks: Looks) -> None:
    topic = await bench.load(TopicName.parse("persistent://public/default/__change_events"))
    topic.policies = PLAIN
    await looks.pass_s(0)
    assert topic not in await looks.pass_s(61)


async def test_a_topic_with_a_producer_or_a_subscription_is_kept(
    bench: Bench, looks: Looks
) -> None:
    await bench.topic.publishers.admit(bench.producer)
    assert not await looks.due()
    bench.producer.leave()
    await bench.topic.subscriptions.create("s", InitialPosition.LATEST, {})
    assert not await looks.due()
    await bench.topic.subscriptions.delete("s")
    assert await looks.due()


async def test_a_caught_up_subscription_keeps_a_topic_unless_the_policy_ignores_it(
    bench: Bench, looks: Looks
) -> None:
    bench.topic.policies = CAUGHT_UP
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    assert not await looks.due()
    bench.subscription.detach(bench.subscription.consumers[0])
    await bench.publish(1)
    assert client.received == []
    assert not await looks.due()
    await bench.subscription.moves.clear()
    assert await looks.due()
    await looks.inactivity.delete(bench.topic)
    assert not looks.stored


async def test_a_producer_that_attaches_after_the_check_keeps_the_topic(
    bench: Bench, looks: Looks
) -> None:
    await looks.pass_s(0)
    (topic,) = await looks.pass_s(61)
    await topic.publishers.admit(bench.producer)
    await looks.inactivity.delete(topic)
    assert looks.stored
    assert not topic.closing


async def test_clients_are_refused_during_a_deletion_and_get_a_new_topic_afterwards(
    bench: Bench, looks: Looks
) -> None:
    await looks.pass_s(0)
    (topic,) = await looks.pass_s(61)
    deletion = asyncio.ensure_future(looks.inactivity.delete(topic))
    await asyncio.sleep(0)
    with pytest.raises(ServiceNotReady):
        await topic.publishers.admit(bench.producer)
    with pytest.raises(ServiceNotReady):
        await topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    with pytest.raises(ServiceNotReady):
        await topic.subscriptions.attach(
            Consumer(
                Client(),
                1,
                "c",
                SubscriptionType.SHARED,
                settings=bench.context.settings,
                partition=-1,
                now_ms=0,
            ),
            "s",
            durable=True,
            initial=InitialPosition.EARLIEST,
            properties={},
        )
    await deletion
    fresh = await bench.registry.get(NAME, create=True)
    assert fresh is not topic
    await fresh.publishers.admit(Producer(Client(), 1, "q", fresh, now_ms=0))


async def test_a_topic_is_kept_while_a_subscription_is_created(bench: Bench) -> None:
    making = asyncio.ensure_future(
        bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    )
    await asyncio.sleep(0)
    assert not bench.topic.close_unused(caught_up=True)
    await making


async def test_a_topic_is_kept_while_entries_are_under_way(bench: Bench) -> None:
    bench.send(3)
    assert not bench.topic.close_unused(caught_up=False)


async def test_a_subscription_without_a_consumer_is_deleted_after_its_time(
    bench: Bench, looks: Looks
) -> None:
    bench.topic.policies = TopicPolicies(subscriptions=SubscriptionPolicies(expiration_minutes=10))
    looks.clock.now_s = bench.context.clock.wall_ms() / 1000
    await bench.join(SubscriptionType.EXCLUSIVE)
    await bench.topic.subscriptions.create("unused", InitialPosition.LATEST, {})
    for seconds, expected in ((599, ["s", "unused"]), (3, ["s"])):
        looks.clock.now_s += seconds
        await looks.inactivity.expire_subscriptions(bench.topic)
        assert bench.topic.subscriptions.names == expected


async def test_subscriptions_do_not_expire_soon_after_the_topic_was_loaded(
    bench: Bench, looks: Looks
) -> None:
    bench.topic.policies = TopicPolicies(subscriptions=SubscriptionPolicies(expiration_minutes=10))
    await bench.topic.subscriptions.create("s", InitialPosition.LATEST, {})
    looks.clock.now_s = bench.context.clock.wall_ms() / 1000 + 100_000
    bench.topic.loaded_ms = looks.clock.wall_ms() - RETURN_MS + 1
    await looks.inactivity.expire_subscriptions(bench.topic)
    assert bench.topic.subscriptions.names == ["s"]
    bench.topic.loaded_ms -= 1
    await looks.inactivity.expire_subscriptions(bench.topic)
    assert bench.topic.subscriptions.names == []


async def test_a_subscription_used_while_others_are_deleted_is_kept(
    bench: Bench, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.topic.policies = TopicPolicies(subscriptions=SubscriptionPolicies(expiration_minutes=10))
    for name in ("a", "b"):
        await bench.topic.subscriptions.create(name, InitialPosition.LATEST, {})
    looks.clock.now_s = bench.context.clock.wall_ms() / 1000 + 100_000
    bench.topic.loaded_ms = 0
    delete = Subscriptions.delete

    async def delete_while_b_is_used(self: Subscriptions, name: str) -> None:
        await delete(self, name)
        self["b"].counters.left_ms = looks.clock.wall_ms()

    monkeypatch.setattr(Subscriptions, "delete", delete_while_b_is_used)
    await looks.inactivity.expire_subscriptions(bench.topic)
    assert bench.topic.subscriptions.names == ["b"]


async def test_a_topic_that_links_alone_use_rests_its_own_and_is_deleted_after_the_others(
    bench: Bench, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[Topic] = []
    monkeypatch.setattr(TopicReplication, "rest", lambda self: rests.append(bench.topic))
    replicator = Producer(Client(), 2, "pulsar.repl.eu-->test", bench.topic, now_ms=0, origin="eu")
    await bench.topic.publishers.admit(replicator)
    assert not await looks.due()
    assert rests
    replicator.leave()
    assert await looks.due()
    rests.clear()
    await bench.topic.publishers.admit(bench.producer)
    await bench.topic.publishers.admit(replicator)
    assert not await looks.due()
    assert rests == []
