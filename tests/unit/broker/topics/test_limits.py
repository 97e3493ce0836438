"""Limits on producers, consumers and subscriptions of a topic, and the refusals beyond them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import (
    BrokerError,
    ConsumerBusy,
    MetadataError,
    NotAllowed,
    ProducerBusy,
)
from engine.broker.policies import (
    BacklogPolicies,
    BacklogQuota,
    PublishPolicies,
    StoragePolicies,
    SubscriptionPolicies,
    TopicPolicies,
)
from engine.broker.topics.limits import SNAPSHOTS_BYTES, binding
from engine.broker.topics.publish import Producer
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, Client, opened, put_in_force

pytestmark = pytest.mark.virtual_time

SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE
FIRST = InitialPosition.EARLIEST
PASSING = TopicName.parse("non-persistent://public/default/d")
EVERYTHING = TopicPolicies(
    backlog=BacklogPolicies(message_ttl_s=1, size_quota=BacklogQuota(0), age_quota=BacklogQuota(1)),
    publish=PublishPolicies(max_producers=1),
    subscriptions=SubscriptionPolicies(
        max_subscriptions=1, max_consumers=1, max_consumers_per_subscription=1
    ),
)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def produce(bench: Bench, name: str, client: Client | None = None) -> Producer:
    producer = Producer(client or Client(), 1, name, bench.topic, now_ms=0)
    await bench.topic.publishers.admit(producer)
    return producer


async def consume(
    bench: Bench, subscription: str, kind: SubscriptionType = SHARED, *, durable: bool = True
) -> Consumer:
    consumer = Consumer(
        Client(), 1, "c", kind, settings=bench.context.settings, partition=-1, now_ms=0
    )
    await bench.topic.subscriptions.attach(
        consumer, subscription, durable=durable, initial=FIRST, properties={}
    )
    return consumer


def refused(kind: type[BrokerError], text: str) -> "pytest.RaisesContext[BrokerError]":
    return pytest.raises(kind, match=f"^{text}$")


async def test_a_producer_beyond_the_limit_is_refused_until_another_leaves(bench: Bench) -> None:
    put_in_force(bench.topic, TopicPolicies(publish=PublishPolicies(max_producers=2)))
    first = await produce(bench, "a")
    await produce(bench, "b")
    with refused(ProducerBusy, f"Topic '{NAME}' reached max producers limit"):
        await produce(bench, "c")
    first.leave()
    await produce(bench, "c")


async def test_a_producer_that_reconnects_replaces_itself_within_the_limit(bench: Bench) -> None:
    put_in_force(bench.topic, TopicPolicies(publish=PublishPolicies(max_producers=1)))
    first = await produce(bench, "a")
    outlet = first.outlet
    assert isinstance(outlet, Client)
    outlet.alive = False
    again = await produce(bench, "a")
    assert bench.topic.producers == {"a": again}


@pytest.mark.parametrize("name", [NAME, PASSING])
async def test_consumers_are_counted_in_the_topic_and_in_the_subscription(
    bench: Bench, name: TopicName
) -> None:
    await bench.load(name)
    put_in_force(
        bench.topic,
        TopicPolicies(
            subscriptions=SubscriptionPolicies(max_consumers=3, max_consumers_per_subscription=2)
        ),
    )
    first = await consume(bench, "s")
    await consume(bench, "s")
    with refused(ConsumerBusy, "Subscription reached max consumers limit"):
        await consume(bench, "s")
    await consume(bench, "t")
    for subscription in ("t", "u"):
        with refused(ConsumerBusy, "Topic reached max consumers limit"):
            await consume(bench, subscription)
    # no subscription was created for a refused consumer
    assert sorted(bench.topic.subscriptions) == [
        "s",
        "t",
    ]
    bench.topic.subscriptions["s"].detach(first)
    await consume(bench, "u")


async def test_an_exclusive_consumer_on_a_dead_connection_is_replaced_within_the_limit(
    bench: Bench,
) -> None:
    put_in_force(
        bench.topic,
        TopicPolicies(
            subscriptions=SubscriptionPolicies(max_consumers=1, max_consumers_per_subscription=1)
        ),
    )
    holder = await consume(bench, "s", EXCLUSIVE)
    with refused(ConsumerBusy, "Exclusive consumer is already connected"):
        await consume(bench, "s", EXCLUSIVE)
    assert isinstance(holder.outlet, Client)
    holder.outlet.alive = False
    await consume(bench, "s", EXCLUSIVE)
    assert not holder.attached


async def test_readers_count_as_subscriptions_and_the_limit_binds_administrators(
    bench: Bench,
) -> None:
    put_in_force(
        bench.topic, TopicPolicies(subscriptions=SubscriptionPolicies(max_subscriptions=2))
    )
    reader = await consume(bench, "r", EXCLUSIVE, durable=False)
    await consume(bench, "s")
    text = f"Exceed the maximum number of subscriptions of the topic: {NAME}"
    for durable in (True, False):
        with refused(NotAllowed, text):
            await consume(bench, "t", durable=durable)
    with refused(NotAllowed, text):
        await bench.topic.subscriptions.create("t", FIRST, {})
    await consume(bench, "s")
    bench.topic.subscriptions["r"].detach(reader)
    assert await bench.topic.subscriptions.create("t", FIRST, {})


async def test_subscriptions_made_at_the_same_time_do_not_exceed_the_limit(bench: Bench) -> None:
    put_in_force(
        bench.topic, TopicPolicies(subscriptions=SubscriptionPolicies(max_subscriptions=3))
    )
    outcomes = await asyncio.gather(
        *(bench.topic.subscriptions.create(f"s{i}", FIRST, {}) for i in range(6)),
        return_exceptions=True,
    )
    assert len(bench.topic.subscriptions) == 3
    assert sum(isinstance(outcome, NotAllowed) for outcome in outcomes) == 3


async def test_a_lowered_limit_disconnects_no_client(bench: Bench) -> None:
    consumers = [await consume(bench, "s") for _ in range(3)]
    producers = [await produce(bench, name) for name in "abc"]
    policies = TopicPolicies(
        publish=PublishPolicies(max_producers=1),
        subscriptions=SubscriptionPolicies(max_consumers=1, max_consumers_per_subscription=1),
    )
    await bench.topic.apply(policies, bench.everything.ledger_config(policies))
    assert bench.topic.policies == policies
    assert all(consumer.attached for consumer in consumers)
    assert not any(producer.closed for producer in producers)
    with pytest.raises(ConsumerBusy):
        await consume(bench, "s")
    with pytest.raises(ProducerBusy):
        await produce(bench, "d")


def test_the_clusters_own_topics_have_no_limits() -> None:
    own = TopicName.parse("persistent://public/default/__change_events-partition-0")
    assert binding(
        own, replace(EVERYTHING, storage=replace(EVERYTHING.storage, retention_mb=7))
    ) == TopicPolicies(storage=StoragePolicies(retention_mb=7))
    assert binding(NAME, EVERYTHING) == EVERYTHING


def test_non_persistent_topics_limit_connected_clients_only() -> None:
    assert binding(PASSING, EVERYTHING) == TopicPolicies(
        publish=PublishPolicies(max_producers=1),
        subscriptions=SubscriptionPolicies(max_consumers=1, max_consumers_per_subscription=1),
    )


async def test_unencrypted_producers_are_refused_and_disconnected_where_encryption_is_required(
    bench: Bench,
) -> None:
    plain = await produce(bench, "plain")
    secret = Producer(Client(), 1, "secret", bench.topic, now_ms=0, encrypted=True)
    await bench.topic.publishers.admit(secret)
    sole = TopicPolicies(publish=PublishPolicies(encryption_required=True))
    await bench.topic.apply(sole, LedgerConfig())
    assert bench.topic.producers == {"secret": secret}
    assert plain.closed
    with refused(MetadataError, f"Encryption is required in {NAME}"):
        await produce(bench, "late")
    await bench.topic.apply(TopicPolicies(), LedgerConfig())
    await produce(bench, "late")


async def test_a_waiting_unencrypted_producer_is_refused_where_encryption_is_required(
    bench: Bench,
) -> None:
    alone = Producer(
        Client(), 1, "a", bench.topic, now_ms=0, encrypted=True, access_mode=pb.Exclusive
    )
    await bench.topic.publishers.admit(alone)
    waits = Producer(Client(), 1, "b", bench.topic, now_ms=0, access_mode=pb.WaitForExclusive)
    turn = await bench.topic.publishers.admit(waits)
    assert isinstance(turn, asyncio.Future)
    await bench.topic.apply(
        TopicPolicies(publish=PublishPolicies(encryption_required=True)), LedgerConfig()
    )
    with refused(MetadataError, f"Encryption is required in {NAME}"):
        await turn


def test_the_clusters_own_topics_need_no_encryption() -> None:
    name = TopicName.parse("persistent://public/default/__change_events")
    assert not binding(
        name, TopicPolicies(publish=PublishPolicies(encryption_required=True))
    ).publish.encryption_required


async def test_a_subscription_with_properties_that_are_not_stored_is_refused_for_good(
    bench: Bench,
) -> None:
    for properties, why in (
        ({"k": "v" * (64 << 10)}, "Subscription t: subscription properties: 65537 bytes"),
        ({"#pulsar.internal.x": "1"}, "names with #pulsar.internal. are reserved"),
    ):
        with pytest.raises(NotAllowed, match=why):
            await bench.topic.subscriptions.create("t", FIRST, properties)
    assert "t" not in bench.topic.subscriptions


@pytest.mark.parametrize(("threshold", "expected"), [(0, SNAPSHOTS_BYTES), (7, 7)])
def test_snapshots_of_transactions_are_compacted_without_a_policy(
    threshold: int, expected: int
) -> None:
    policies = TopicPolicies(storage=StoragePolicies(compaction_threshold=threshold))
    name = TopicName.parse("public/default/__transaction_buffer_snapshot")
    assert binding(name, policies).storage.compaction_threshold == expected
    assert binding(NAME, policies).storage.compaction_threshold == threshold


@pytest.mark.parametrize(
    ("local", "sent"),
    [
        ("__change_events", True),
        ("__change_events-partition-0", True),
        ("__transaction_buffer_snapshot", False),
        ("__transaction_buffer_snapshot_segments", False),
        ("__transaction_buffer_snapshot_indexes", False),
        ("d", True),
    ],
)
def test_of_the_clusters_own_topics_other_clusters_receive_the_log_of_policies_alone(
    local: str, sent: bool
) -> None:
    topic = TopicName.parse(f"persistent://public/default/{local}")
    policies = TopicPolicies(clusters=("here", "there"))
    assert binding(topic, policies).clusters == (policies.clusters if sent else ())
