"""Partitions that are added later: a durable subscription receives what is published there before its consumers notice
them."""

from collections.abc import Iterator

import pulsar
import pytest

from engine.admin import partitions
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.admin.client import AdminClient
from engine.base.names import TopicName
from engine.net.network import LoopNetwork
from engine.tenancy import topics
from tests.support.standalone import Standalone

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


@pytest.fixture
def admin(standalone: Standalone) -> Iterator[AdminClient]:
    async def made() -> AdminClient:
        return AdminClient(standalone.store, LoopNetwork(), "interop-tests-only")

    async def end() -> None:
        client.close()

    client = standalone.run(made())
    yield client
    standalone.run(end())


def publish(standalone: Standalone, topic: str, count: int) -> list[bytes]:
    """Publish ``count`` messages with a new client, in turn on all present partitions; return their payloads."""
    client = pulsar.Client(standalone.url, operation_timeout_seconds=8, logger=QUIET)
    producer = client.create_producer(
        topic,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        batching_enabled=False,
    )
    sent = [b"%d" % i for i in range(count)]
    for payload in sent:
        producer.send(payload)
    client.close()
    return sent


def received(standalone: Standalone, topic: str, count: int) -> list[bytes]:
    """Return ``count`` messages received by a new consumer; a subscription that it created would start at the end."""
    client = pulsar.Client(standalone.url, operation_timeout_seconds=8, logger=QUIET)
    consumer = client.subscribe(topic, "s")
    got = []
    for _ in range(count):
        message = consumer.receive(8000)
        consumer.acknowledge(message)
        got.append(message.data())
    client.close()
    return got


def test_a_durable_subscription_receives_the_first_messages_of_new_partitions(
    standalone: Standalone, admin: AdminClient, client: pulsar.Client, topic: str
) -> None:
    name = TopicName.parse(topic)
    standalone.run(topics.create_partitioned(standalone.store, name, 2))
    consumer = client.subscribe(topic, "s")
    standalone.run(partitions.grow(standalone.store, admin, name, 4))
    sent = publish(standalone, topic, 8)
    consumer.close()
    assert sorted(received(standalone, topic, 8)) == sorted(sent)


def test_a_durable_subscription_receives_the_first_messages_of_recreated_partitions(
    standalone: Standalone, admin: AdminClient, client: pulsar.Client, topic: str
) -> None:
    name = TopicName.parse(topic)
    standalone.run(topics.create_partitioned(standalone.store, name, 3))
    client.subscribe(topic, "s").close()
    standalone.run(admin.call(DELETE_TOPIC, DeleteTopic(name.partition_at(1))))
    standalone.run(partitions.create_missed(standalone.store, admin, name))
    sent = publish(standalone, topic, 6)
    assert sorted(received(standalone, topic, 6)) == sorted(sent)
