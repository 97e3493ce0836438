"""Non-persistent topics: delivered now or dropped and counted, never kept, never in the publisher's way."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.broker.dispatch.choose.keys import KeyPolicy, slot_of
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ConsumerAssignError, ConsumerBusy, NotAllowed
from engine.broker.topics.ephemeral import EphemeralSubscription
from engine.broker.topics.publish import Producer, Publish
from engine.broker.upkeep import Upkeep
from engine.managed.ledger import InitialPosition
from engine.wire import client_commands
from engine.wire.errors import ServerError
from engine.wire.kernels import take_sends
from tests.support.broker_bench import Bench, Client, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("non-persistent://public/default/now")
KINDS = [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER, SubscriptionType.SHARED]
ID = Position(0, 0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        await made.load(TOPIC)
        yield made


async def join(
    bench: Bench,
    kind: SubscriptionType,
    permits: int,
    name: str = "c",
    subscription: str = "s",
    keys: KeyPolicy | None = None,
) -> tuple[Consumer, Client]:
    client = Client()
    consumer = Consumer(
        client,
        1,
        name,
        kind,
        settings=bench.context.settings,
        partition=-1,
        now_ms=0,
        keys=keys,
        acknowledges=False,
    )
    attached = await bench.topic.subscriptions.attach(
        consumer, subscription, durable=True, initial=InitialPosition.EARLIEST, properties={}
    )
    if permits:
        attached.flow(consumer, permits)
    return consumer, client


def dropped(bench: Bench, subscription: str = "s") -> int:
    ephemeral = bench.topic.subscriptions[subscription]
    assert isinstance(ephemeral, EphemeralSubscription)
    return ephemeral.counters.dropped.total


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_beyond_the_permits_are_dropped(
    bench: Bench, kind: SubscriptionType
) -> None:
    consumer, client = await join(bench, kind, 3)
    bench.send(5)
    assert client.received == [ID] * 3
    assert bench.publisher.receipts == 5
    assert dropped(bench) == 2
    bench.topic.subscriptions["s"].flow(consumer, 10)
    assert len(client.received) == 3  # dropped messages are not delivered later
    bench.send(2)
    assert len(client.received) == 5
    assert (consumer.permits, consumer.unacked, consumer.out.messages.total) == (8, 0, 5)
    assert bench.topic.published.messages.total == 7


async def test_batches_are_dropped_whole_and_counted_by_messages(bench: Bench) -> None:
    _, client = await join(bench, SubscriptionType.SHARED, 5)
    bench.send(3, num_messages=4)
    assert len(client.received) == 2  # the second one overdraws the permits
    assert dropped(bench) == 4


async def test_a_consumer_that_cannot_receive_does_not_delay_others_of_its_subscription(
    bench: Bench,
) -> None:
    slow, stuck = await join(bench, SubscriptionType.SHARED, 100, "stuck")
    _, brisk = await join(bench, SubscriptionType.SHARED, 1000, "brisk")
    stuck.can_send = False
    bench.send(50)
    assert (len(stuck.received), len(brisk.received), dropped(bench)) == (0, 50, 0)
    stuck.can_send = True
    bench.send(100)
    assert len(stuck.received) + len(brisk.received) == 150
    assert len(stuck.received) >= 20
    assert slow.out.messages.total == len(stuck.received)


async def test_each_subscription_receives_all_messages_and_without_any_none_is_counted(
    bench: Bench,
) -> None:
    bench.send(4)
    assert bench.publisher.receipts == 4
    _, first = await join(bench, SubscriptionType.EXCLUSIVE, 10, subscription="one")
    _, second = await join(bench, SubscriptionType.SHARED, 1, subscription="two")
    bench.send(2)
    assert (len(first.received), len(second.received)) == (2, 1)
    assert (dropped(bench, "one"), dropped(bench, "two")) == (0, 1)


def send_keys(bench: Bench, *keys: str) -> None:
    data = b"".join(
        client_commands.send(1, number, entry_of(key.encode(), partition_key=key))
        for number, key in enumerate(keys)
    )
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, bench.producer).start()


async def test_messages_of_a_key_go_to_its_consumer_or_are_dropped(bench: Bench) -> None:
    low, high = KeyPolicy(True, ranges=((0, 32767),)), KeyPolicy(True, ranges=((32768, 65535),))
    kind = SubscriptionType.KEY_SHARED
    first, of_low = await join(bench, kind, 100, "low", keys=low)
    second, of_high = await join(bench, kind, 100, "high", keys=high)
    names = [f"k{number}" for number in range(40)]
    at_low = sum(slot_of(name.encode()) <= 32767 for name in names)
    send_keys(bench, *names)
    assert (len(of_low.received), len(of_high.received)) == (at_low, 40 - at_low)
    of_low.can_send = False
    send_keys(bench, *names)
    assert (len(of_low.received), len(of_high.received)) == (at_low, 2 * (40 - at_low))
    assert dropped(bench) == at_low
    second.permits = 1
    send_keys(bench, *names)
    assert dropped(bench) == at_low + 39
    assert first.unacked == second.unacked == 0
    with pytest.raises(ConsumerAssignError):
        await join(bench, kind, 1, "third", keys=high)


async def test_any_consumer_of_a_key_shared_subscription_may_leave(bench: Bench) -> None:
    kind = SubscriptionType.KEY_SHARED
    leaver, _ = await join(bench, kind, 100, "one", keys=KeyPolicy())
    _, rest = await join(bench, kind, 100, "two", keys=KeyPolicy())
    bench.subscription.detach(leaver)
    send_keys(bench, *"abcdef")
    assert len(rest.received) == 6


async def test_a_delivery_time_delays_no_message(bench: Bench) -> None:
    _, client = await join(bench, SubscriptionType.SHARED, 10)
    bench.send(2, deliver_at_ms=bench.context.clock.wall_ms() + 3_600_000)
    assert len(client.received) == 2


async def test_only_the_active_consumer_receives_messages(bench: Bench) -> None:
    _, first = await join(bench, SubscriptionType.FAILOVER, 10, "a")
    _, second = await join(bench, SubscriptionType.FAILOVER, 10, "b")
    await until(lambda: bench.subscription.dispatch.state.paused_for != "handover")
    bench.send(3)
    assert sorted([len(first.received), len(second.received)]) == [0, 3]
    with pytest.raises(ConsumerBusy):
        await join(bench, SubscriptionType.EXCLUSIVE, 1, "c")


async def test_acknowledgements_and_redeliveries_have_no_effect(bench: Bench) -> None:
    for kind in KINDS:
        consumer, client = await join(bench, kind, 10, subscription=kind.title)
        bench.send(1)
        subscription = bench.topic.subscriptions[kind.title]
        subscription.acknowledge(consumer, [ID])
        subscription.acknowledge_cumulative(consumer, ID)
        subscription.acknowledge_partly(consumer, ID, [1])
        subscription.redeliver(consumer, None, None)
        await subscription.cursor.persisted()
        assert client.received == [ID]
        assert (
            consumer.acked.total,
            subscription.counters.acked_ms,
            dropped(bench, kind.title),
        ) == (
            0,
            0,
            0,
        )


async def test_a_subscription_is_deleted_with_its_last_consumer(bench: Bench) -> None:
    consumer, _ = await join(bench, SubscriptionType.EXCLUSIVE, 10)
    subscription = bench.subscription
    assert not subscription.durable
    subscription.detach(consumer)
    assert bench.topic.subscriptions.names == []
    bench.send(1)
    _, client = await join(bench, SubscriptionType.SHARED, 10)  # another type of the same name
    assert client.received == []
    assert bench.topic.subscriptions.names == ["s"]


async def test_operations_that_need_stored_messages_are_refused(bench: Bench) -> None:
    log = bench.topic.log
    _, _ = await join(bench, SubscriptionType.EXCLUSIVE, 1)
    for refused in (
        bench.topic.last_message.read(),
        bench.topic.terminate(),
        bench.topic.first_since(1),
        log.read_entry(EARLIEST),
        log.trim(),
        bench.subscription.moves.skip(1),
        bench.subscription.moves.clear(),
    ):
        with pytest.raises(NotAllowed, match="non-persistent"):
            await refused
    assert log.stats().entries == log.stats().size == 0


async def test_an_unloaded_topic_stores_nothing_more_and_loads_empty(bench: Bench) -> None:
    await join(bench, SubscriptionType.EXCLUSIVE, 10)
    old, publisher = bench.topic, bench.publisher
    await old.publishers.admit(bench.producer)
    await bench.registry.unload(TOPIC)
    assert publisher.dropped == [1]
    bench.send(1)
    assert publisher.receipts == 0
    again = await bench.load(TOPIC)
    assert again is not old
    assert again.subscriptions.names == []


async def test_clients_are_disconnected_when_the_bundle_is_lost(bench: Bench) -> None:
    _, client = await join(bench, SubscriptionType.EXCLUSIVE, 10)
    await bench.topic.publishers.admit(bench.producer)
    bench.registry.abandon_where(lambda name: name == TOPIC)
    bench.send(1)
    assert bench.publisher.receipts == 0
    await until(lambda: client.dropped and bench.registry.loaded(TOPIC) is None)


async def test_a_non_persistent_topic_has_no_last_message(bench: Bench) -> None:
    assert bench.topic.last_message.at_hand() is None
    with pytest.raises(NotAllowed, match="GetLastMessageId on a non-persistent topic"):
        await bench.topic.last_message.read()


async def test_a_non_persistent_topic_is_deleted_without_a_ledger(bench: Bench) -> None:
    await bench.registry.deletions.delete(TOPIC, force=True)
    assert bench.registry.loaded(TOPIC) is None


async def test_an_unused_topic_is_unloaded_at_the_second_check(bench: Bench) -> None:
    everything = bench.everything
    upkeep = Upkeep(bench.registry, everything, everything.ledger_config, bench.context.settings)
    (job,) = (job for job in upkeep.jobs if job.name == "idle")
    producer = Producer(Client(), 1, "p", bench.topic, now_ms=0)
    await bench.topic.publishers.admit(producer)
    await job.work(60)
    await job.work(60)
    producer.leave()
    await job.work(60)
    assert bench.registry.loaded(TOPIC) is not None
    await job.work(60)
    assert bench.registry.loaded(TOPIC) is None
    assert bench.registry.topics()  # the persistent one stays


A_KEPT = TopicName.parse("persistent://public/default/kept")
A_PASSING = TopicName.parse("non-persistent://public/default/passing")
A_SYSTEMS = TopicName.parse("persistent://public/default/__change_events")


@pytest.mark.parametrize(
    ("setting", "served", "refused"),
    [
        ("enable_persistent_topics", A_PASSING, A_KEPT),
        ("enable_non_persistent_topics", A_KEPT, A_PASSING),
    ],
)
async def test_a_broker_of_one_kind_refuses_the_other(
    setting: str, served: TopicName, refused: TopicName
) -> None:
    async with opened() as bench:
        settings = replace(bench.context.settings, **{setting: False})
        bench.registry._context = replace(bench.context, settings=settings)
        await bench.registry.get(served, create=True)
        await bench.registry.get(A_SYSTEMS, create=True)
        with pytest.raises(NotAllowed, match=f"unable to load {refused.domain} topic") as caught:
            await bench.registry.get(refused, create=True)
        assert caught.value.code == ServerError.NotAllowedError
