"""The official client on topics with limits, a TTL of messages, or a backlog quota."""

import time
from collections.abc import Callable, Coroutine
from typing import Any

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from engine.admin.api.cursors import ExpireMessages
from engine.admin.api.subscriptions import CreateSubscription
from engine.base.errors import Conflict
from engine.base.names import TopicName
from engine.broker.administration.operations.admin_operations import AdminOperations
from engine.broker.policies import (
    BacklogPolicies,
    BacklogQuota,
    PublishPolicies,
    QuotaAction,
    SubscriptionPolicies,
    TopicPolicies,
)
from engine.broker.topics.topic import Topic
from engine.tenancy.namespaces import create_namespace, namespace_name, set_policy
from engine.tenancy.policies.table import BY_NAME
from tests.support.broker_bench import put_in_force
from tests.support.standalone import Standalone
from tests.support.waiting import stays_blocking, until_blocking

RECEIVE_MS = 30_000  # a machine may be busy
QUIET_MS = 500
SIZE = 10_000


class Policies:
    """Policies, administrative calls and periodic jobs of the broker, for one topic."""

    def __init__(self, standalone: Standalone, topic: str) -> None:
        self._standalone = standalone
        self.name = TopicName.parse(topic)

    @property
    def topic(self) -> Topic:
        assert self._standalone.broker is not None
        topic = self._standalone.broker.running.registry.loaded(self.name)
        assert topic is not None
        return topic

    def set(self, policies: TopicPolicies) -> None:
        """Put policies of the loaded topic in force, until the broker reads the metadata again after minutes."""

        async def change() -> None:
            put_in_force(self.topic, policies)

        self._standalone.run(change())

    def administer(self, ask: Callable[[AdminOperations], Coroutine[Any, Any, None]]) -> None:
        """Make an administrator's call. Raises AdminError."""
        assert self._standalone.broker is not None
        self._standalone.run(ask(self._standalone.broker.running.operations))

    def look(self, job: str) -> None:
        """Run a periodic job of the broker now."""
        assert self._standalone.broker is not None
        upkeep = self._standalone.broker.running.upkeep
        (periodic,) = (candidate for candidate in upkeep.jobs if candidate.name == job)

        async def work() -> None:
            await periodic.work(0.0)

        self._standalone.run(work())


@pytest.fixture
def policies(standalone: Standalone, topic: str) -> Policies:
    return Policies(standalone, topic)


def publish(producer: pulsar.Producer, count: int, start: int = 0) -> None:
    for i in range(start, start + count):
        producer.send(b"%d" % i + bytes(SIZE))


def drain(consumer: pulsar.Consumer, count: int) -> list[int]:
    """Receive and acknowledge ``count`` messages and those that follow at once; return their numbers."""
    out: list[int] = []
    while True:
        try:
            message = consumer.receive(RECEIVE_MS if len(out) < count else QUIET_MS)
        except pulsar.Timeout:
            return out
        consumer.acknowledge(message)
        out.append(int(message.data().rstrip(b"\0")))


def test_a_consumer_beyond_the_limit_is_refused_until_another_disconnects(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    shared = ConsumerType.Shared
    first = client.subscribe(topic, "s", consumer_type=shared)
    policies.set(
        TopicPolicies(
            subscriptions=SubscriptionPolicies(max_consumers_per_subscription=2, max_consumers=3)
        )
    )
    client.subscribe(topic, "s", consumer_type=shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", consumer_type=shared)
    client.subscribe(topic, "t", consumer_type=shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "t", consumer_type=shared)
    first.close()
    client.subscribe(topic, "s", consumer_type=shared)


def test_producers_and_subscriptions_beyond_the_limit_are_refused(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    first = client.create_producer(topic)
    client.subscribe(topic, "s")
    policies.set(
        TopicPolicies(
            publish=PublishPolicies(max_producers=1),
            subscriptions=SubscriptionPolicies(max_subscriptions=2),
        )
    )
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(topic, "t")
    with pytest.raises(
        Conflict, match=r"^Exceed the maximum number of subscriptions of the topic: "
    ):
        policies.administer(
            lambda operations: operations.subscriptions.create_subscription(
                CreateSubscription(policies.name, "t")
            )
        )
    reader.close()
    client.subscribe(topic, "t")
    first.close()
    client.create_producer(topic)


def test_messages_older_than_the_ttl_are_not_delivered(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    client.subscribe(topic, "s", initial_position=InitialPosition.Earliest).close()
    producer = client.create_producer(topic)
    publish(producer, 3)
    time.sleep(1.5)  # time: longer than the TTL of a second
    publish(producer, 2, start=3)
    policies.set(TopicPolicies(backlog=BacklogPolicies(message_ttl_s=1)))
    policies.look("expiry")
    assert policies.topic.subscriptions["s"].counters.expired.total == 3
    assert drain(client.subscribe(topic, "s"), 2) == [3, 4]


def test_an_administrators_expiry_skips_old_messages_and_is_refused_without_any(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    client.subscribe(topic, "s", initial_position=InitialPosition.Earliest).close()
    publish(client.create_producer(topic), 3)
    time.sleep(1.1)  # time: longer than the requested age of a second
    args = ExpireMessages(policies.name, "s", 1)
    policies.administer(lambda operations: operations.cursors.expire_messages(args))
    assert policies.topic.subscriptions["s"].counters.expired.total == 3
    with pytest.raises(Conflict, match=r"^Expire message by timestamp not issued on topic "):
        policies.administer(lambda operations: operations.cursors.expire_messages(args))


def test_a_producer_is_refused_while_the_backlog_exceeds_its_quota(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    publish(producer, 5)
    for action, refusal in (
        (QuotaAction.HOLD, pulsar.ProducerBlockedQuotaExceededError),
        (QuotaAction.REFUSE, pulsar.ProducerBlockedQuotaExceededException),
    ):
        policies.set(
            TopicPolicies(backlog=BacklogPolicies(size_quota=BacklogQuota(4 * SIZE, action)))
        )
        with pytest.raises(refusal):
            client.create_producer(topic)
    assert len(drain(consumer, 5)) == 5
    until_blocking(lambda: not policies.topic.subscriptions["s"].cursor.backlog_entries())
    client.create_producer(topic)


def test_a_held_producer_continues_once_the_backlog_is_consumed(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, send_timeout_millis=0)
    publish(producer, 5)
    policies.set(
        TopicPolicies(backlog=BacklogPolicies(size_quota=BacklogQuota(4 * SIZE, QuotaAction.HOLD)))
    )
    policies.look("quotas")
    assert policies.topic.producers == {}
    confirmed: list[pulsar.MessageId] = []
    producer.send_async(b"5", lambda result, message_id: confirmed.append(message_id))
    stays_blocking(lambda: (confirmed, policies.topic.producers) == ([], {}), 0.5)
    received = drain(consumer, 5)
    until_blocking(lambda: confirmed)
    assert received + drain(consumer, 6 - len(received)) == [0, 1, 2, 3, 4, 5]


def test_eviction_skips_the_oldest_messages_of_the_slowest_subscription_and_disconnects_no_producer(
    client: pulsar.Client, topic: str, policies: Policies
) -> None:
    client.subscribe(topic, "slow", initial_position=InitialPosition.Earliest).close()
    quick = client.subscribe(topic, "quick", initial_position=InitialPosition.Earliest)
    producer = client.create_producer(topic)
    publish(producer, 20)
    assert drain(quick, 20) == list(range(20))
    entry = policies.topic.log.stats().size // 20
    policies.set(
        TopicPolicies(
            backlog=BacklogPolicies(size_quota=BacklogQuota(10 * entry + 100, QuotaAction.EVICT))
        )
    )
    policies.look("quotas")
    publish(producer, 1, start=20)
    assert drain(client.subscribe(topic, "slow"), 10) == list(range(11, 21))
    assert drain(quick, 1) == [20]


def test_a_policy_set_for_a_namespace_applies_to_loaded_topics(
    standalone: Standalone, client: pulsar.Client
) -> None:
    namespace = namespace_name("public", "bound")
    store = standalone.store
    standalone.run(create_namespace(store, namespace, None, cluster="standalone"))
    topic = f"persistent://{namespace}/t"
    client.create_producer(topic)
    standalone.run(
        set_policy(store, namespace, BY_NAME["maxProducersPerTopic"], 1, cluster="standalone")
    )
    in_force = Policies(standalone, topic)
    until_blocking(lambda: in_force.topic.policies.publish.max_producers == 1)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
