"""Publish rates on virtual time: held in messages and bytes, bursts bounded, order kept, other producers not paused."""

import asyncio
from typing import Any

import pytest

from engine.auth.judge import AllowAll
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.context import Context
from engine.broker.policies import (
    MaxRate,
    PublishPolicies,
    RatePolicies,
    TopicPolicies,
)
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings
from engine.broker.topics.ephemeral import EphemeralLog
from engine.broker.topics.publish import Producer, Publish
from engine.broker.topics.rates import BrokerRates
from engine.broker.topics.topic import Topic
from engine.managed.settings import LedgerConfig
from engine.net.handshake import allow_all
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import take_sends
from tests.support.broker_bench import Client, commands_in
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time
SIZE = 100
ENTRY = entry_of(bytes(SIZE))


class Wire(Client):
    """A connection that keeps the sequence ids of its receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[int] = []

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            if command.HasField("send_receipt"):
                self.stored.append(command.send_receipt.sequence_id)
        super().send(data)


class Flood:
    """One producer that sends runs of ``entries`` whenever its connection is read."""

    def __init__(self, topic: Topic, entries: int, messages: int = 1) -> None:
        self.wire = Wire()
        self.producer = Producer(self.wire, 1, f"p{id(self)}", topic, now_ms=0)
        self.entries = entries
        self.messages = messages
        self.sent = 0
        self.runs = 0

    def send(self) -> None:
        entry = entry_of(bytes(SIZE), num_messages_in_batch=self.messages)
        entry = ENTRY if self.messages == 1 else entry
        data = b"".join(
            client_commands.send(1, self.sent + i, entry, num_messages=self.messages)
            for i in range(self.entries)
        )
        pos, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        assert pos == len(data)
        self.sent += self.entries
        self.runs += 1
        Publish(run, self.producer).start()

    async def flow(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            if not self.wire.holds:
                self.send()
            await asyncio.sleep(0.001)


NO_RATES, NO_CONDITIONS = RatePolicies(), PublishPolicies()


class World:
    def __init__(self, **settings: Any) -> None:
        self.context = Context(
            DataPathSettings(**settings),
            LoopClock(),
            RandomEntropy(),
            BrokerIdentity("t", "b", 0),
            AllowAll(),
            allow_all,
        )
        self.rates = BrokerRates(self.context)
        self.topics: list[Topic] = []

    def topic(
        self,
        name: str,
        rates: RatePolicies = NO_RATES,
        publish: PublishPolicies = NO_CONDITIONS,
    ) -> Topic:
        full = TopicName.parse(f"non-persistent://public/default/{name}")
        topic = Topic(
            *(
                full,
                EphemeralLog(full.full),
                TopicPolicies(publish=publish, rates=rates),
                self.context,
                self.rates,
            ),
            lambda _: None,
            {},
        )
        self.topics.append(topic)
        return topic


@pytest.fixture
def world() -> World:
    return World()


async def confirmed() -> None:
    """Wait until the admitted entries have their receipts."""
    await asyncio.sleep(0.001)


@pytest.mark.parametrize(("entries", "messages"), [(1, 1), (500, 1), (50, 7), (3000, 1)])
async def test_a_rate_in_messages_is_held(world: World, entries: int, messages: int) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=1000)))
    flood = Flood(topic, entries, messages)
    await flood.flow(1.0)
    before = topic.published.messages.total
    assert before <= 2000 + messages, "a burst is one second's, and the second's own"
    await flood.flow(10.0)
    assert topic.published.messages.total - before == pytest.approx(10_000, rel=0.05)
    assert flood.wire.stored == sorted(flood.wire.stored)
    assert flood.sent * messages <= topic.published.messages.total + 2 * entries * messages
    await topic.close()


async def test_a_rate_in_bytes_is_held(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(size=50_000)))
    flood = Flood(topic, 400)
    await flood.flow(1.0)
    before = topic.published.bytes.total
    await flood.flow(10.0)
    assert topic.published.bytes.total - before == pytest.approx(500_000, rel=0.05)
    await topic.close()


async def test_of_messages_and_bytes_the_narrower_one_binds(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=100, size=1 << 40)))
    flood = Flood(topic, 50)
    await flood.flow(10.0)
    assert topic.published.messages.total == pytest.approx(1100, rel=0.05)
    await topic.close()


async def test_producers_of_other_topics_are_not_paused(world: World) -> None:
    slow = world.topic("slow", RatePolicies(publish=MaxRate(messages=10)))
    fast = world.topic("fast")
    stopped, free = Flood(slow, 100), Flood(fast, 5)
    await asyncio.gather(stopped.flow(5.0), free.flow(5.0))
    assert slow.published.messages.total <= 61
    assert free.wire.holds == set()
    assert fast.published.messages.total == free.sent
    assert free.runs > 4000
    assert slow.rates.publish_limited_times >= 1
    assert fast.rates.publish_limited_times == 0
    await slow.close()
    await fast.close()


async def test_producers_of_one_topic_share_its_rate_in_order_of_arrival(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=1000)))
    floods = [Flood(topic, 50) for _ in range(4)]
    await asyncio.gather(*(flood.flow(10.0) for flood in floods))
    assert topic.published.messages.total == pytest.approx(11_000, rel=0.05)
    shares = [len(flood.wire.stored) for flood in floods]
    assert min(shares) > 0.6 * max(shares), shares
    for flood in floods:
        assert flood.wire.stored == sorted(flood.wire.stored)
    await topic.close()


async def test_paused_connections_resume_few_at_a_time(world: World) -> None:
    """Resume few at a time: reading all of them at once would delay every other connection."""
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=1000)))
    floods = [Flood(topic, 20) for _ in range(200)]
    for flood in floods:
        flood.send()
    most = 0
    for ms in range(20_000):
        await asyncio.sleep(0.001)
        read = [flood for flood in floods if not flood.wire.holds]
        for flood in read:
            flood.send()
        if ms > 5_000:
            most = max(most, len(read))
    assert topic.published.messages.total == pytest.approx(21_000, rel=0.05)
    assert 1 <= most <= 4
    assert max(flood.runs for flood in floods) - min(flood.runs for flood in floods) <= 2
    await topic.close()


async def test_a_high_rate_is_reached_by_many_producers_with_small_sends(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=50_000)))
    floods = [Flood(topic, 10) for _ in range(300)]
    await asyncio.gather(*(flood.flow(1.0) for flood in floods))
    assert topic.published.messages.total == pytest.approx(100_000, rel=0.05)
    await topic.close()


async def test_sends_that_wait_for_a_rate_use_no_publish_budget(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=10)))
    flood = Flood(topic, 100)
    flood.send()
    await confirmed()
    assert flood.wire.holds
    assert flood.wire.publish_budget.items == 0
    assert flood.wire.has_limited_reads
    await asyncio.sleep(10.0)
    assert flood.wire.stored == list(range(100))
    assert flood.wire.publish_budget.items == 0
    await topic.close()


async def test_the_brokers_rate_is_that_of_all_topics_together() -> None:
    world = World(broker_publisher_throttling_max_message_rate=1000)
    first, second = (
        world.topic("one"),
        world.topic("two", RatePolicies(publish=MaxRate(messages=100))),
    )
    floods = [Flood(first, 100), Flood(second, 100)]
    await asyncio.gather(*(flood.flow(10.0) for flood in floods))
    both = first.published.messages.total + second.published.messages.total
    assert second.published.messages.total <= 1101
    assert both == pytest.approx(11_000, rel=0.06)
    await first.close()
    await second.close()


async def test_a_changed_rate_applies_at_once_and_its_removal_releases_all_waiting_sends(
    world: World,
) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=1)))
    flood = Flood(topic, 100)
    flood.send()
    await confirmed()
    assert len(flood.wire.stored) == 1
    assert flood.wire.holds
    await topic.apply(
        TopicPolicies(rates=RatePolicies(publish=MaxRate(messages=50))), LedgerConfig()
    )
    await asyncio.sleep(1.0)
    assert 45 <= len(flood.wire.stored) <= 55
    await topic.apply(TopicPolicies(), LedgerConfig())
    await confirmed()
    assert flood.wire.stored == list(range(100))
    assert flood.wire.holds == set()
    assert topic.stages == ()
    await topic.close()


async def test_waiting_sends_of_a_disconnected_producer_are_dropped_and_free_their_budget(
    world: World,
) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=10)))
    gone, stays = Flood(topic, 100), Flood(topic, 20)
    gone.send()
    stays.send()
    gone.producer.disconnect()
    await asyncio.sleep(5.0)
    assert len(gone.wire.stored) == 10
    assert gone.wire.publish_budget.items == 0
    assert stays.wire.stored == list(range(20))
    assert stays.wire.holds == gone.wire.holds == set()
    await topic.close()


async def test_a_topic_that_closes_resumes_its_paused_connections(world: World) -> None:
    topic = world.topic("t", RatePolicies(publish=MaxRate(messages=10)))
    flood = Flood(topic, 100)
    flood.send()
    await confirmed()
    await topic.close()
    assert flood.wire.holds == set()
    assert flood.wire.publish_budget.items == 0
    assert len(flood.wire.stored) == 10


async def test_a_message_above_the_topics_size_is_refused_and_the_others_are_stored(
    world: World,
) -> None:
    topic = world.topic("t", publish=PublishPolicies(message_bytes_max=len(ENTRY)))
    flood = Flood(topic, 1)
    data = b"".join(
        client_commands.send(1, i, entry_of(bytes(SIZE + (i == 1))), num_messages=1)
        for i in range(3)
    )
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, flood.producer).start()
    await confirmed()
    assert flood.wire.stored == [0, 2]
    assert flood.wire.errors == [(1, 22, "Exceed maximum message size")]
    assert flood.wire.publish_budget.items == 0
    await topic.close()


async def test_unencrypted_messages_are_refused_where_encryption_is_required(world: World) -> None:
    topic = world.topic("t", publish=PublishPolicies(encryption_required=True))
    flood = Flood(topic, 1)
    keys = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"v")]}
    entries = [entry_of(bytes(SIZE), **(keys if i != 1 else {})) for i in range(3)]
    data = b"".join(
        client_commands.send(1, i, entry, num_messages=1) for i, entry in enumerate(entries)
    )
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, flood.producer).start()
    await confirmed()
    assert flood.wire.stored == [0, 2]
    assert flood.wire.errors == [(1, 1, "Messages must be encrypted")]
    assert flood.wire.publish_budget.items == 0
    await topic.close()


async def test_topics_of_a_resource_group_share_its_rate_and_one_that_leaves_is_free(
    world: World,
) -> None:
    both = [world.topic(name, RatePolicies(resource_group="g")) for name in ("a", "b")]
    group = world.rates.groups.by_name["g"]
    group.set(MaxRate(messages=1000), MaxRate())
    floods = [Flood(topic, 100) for topic in both]
    flowing = [asyncio.ensure_future(flood.flow(20.0)) for flood in floods]
    await asyncio.sleep(1.0)
    before = sum(topic.published.messages.total for topic in both)
    await asyncio.sleep(10.0)
    passed = sum(topic.published.messages.total for topic in both) - before
    assert passed == pytest.approx(10_000, rel=0.05)
    assert group.published.passed[0] >= passed
    assert group.published.waits
    left, stayed = both
    await left.apply(TopicPolicies(), LedgerConfig())
    await confirmed()
    assert left.published.messages.total == floods[0].sent, "what waited has passed"
    assert floods[0].wire.stored == sorted(floods[0].wire.stored)
    assert list(group.hosts) == [stayed]
    before = left.published.messages.total
    await asyncio.sleep(1.0)
    assert left.published.messages.total - before > 5_000
    group.set(MaxRate(), MaxRate())
    await confirmed()
    assert stayed.published.messages.total == floods[1].sent
    for flow in flowing:
        flow.cancel()
    await asyncio.gather(*flowing, return_exceptions=True)
    for topic in both:
        await topic.close()
    assert not group.hosts
