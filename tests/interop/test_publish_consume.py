"""The official client publishes and consumes: forms of messages, batches, chunks, compression."""

import os
import time

import pulsar
import pulsar.asyncio
import pytest

from tests.support.standalone import Standalone

RECEIVE_MS = 5000


def _receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(RECEIVE_MS) for _ in range(count)]


def _nothing(consumer: pulsar.Consumer) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


def test_published_messages_are_consumed_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for i in range(100):
        producer.send(b"m%d" % i)
    for i, message in enumerate(_receive(consumer, 100)):
        assert message.data() == b"m%d" % i
        consumer.acknowledge(message)


def test_message_ids_of_receipt_and_delivery_agree(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    sent = [str(producer.send(b"x")) for _ in range(5)]
    assert [str(message.message_id()) for message in _receive(consumer, 5)] == sent


def test_key_properties_and_times_arrive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="named")
    before = time.time() * 1000 - 1000
    producer.send(
        b"v", properties={"a": "1", "b": "zwei"}, partition_key="k", event_timestamp=123456
    )
    message = consumer.receive(RECEIVE_MS)
    assert message.properties() == {"a": "1", "b": "zwei"}
    assert message.partition_key() == "k"
    assert message.event_timestamp() == 123456
    assert before < message.publish_timestamp() < time.time() * 1000 + 1000
    assert message.producer_name() == "named"
    assert message.topic_name() == topic


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 64 * 1024, 2 * 1024 * 1024])
def test_a_payload_of_any_size_arrives_unchanged(
    client: pulsar.Client, topic: str, size: int
) -> None:
    consumer = client.subscribe(topic, "s")
    payload = os.urandom(size)
    client.create_producer(topic).send(payload)
    assert consumer.receive(RECEIVE_MS).data() == payload


@pytest.mark.parametrize("compression", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_batches_of_every_compression_arrive(
    client: pulsar.Client, topic: str, compression: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic,
        compression_type=getattr(pulsar.CompressionType, compression),
        batching_enabled=True,
        batching_max_publish_delay_ms=5,
    )
    for i in range(200):
        producer.send_async(b"payload payload payload %d" % i, lambda *_: None)
    producer.flush()
    received = _receive(consumer, 200)
    assert [m.data() for m in received] == [b"payload payload payload %d" % i for i in range(200)]
    assert max(m.message_id().batch_index() for m in received) > 0


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared])
def test_a_large_message_is_sent_in_chunks(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=kind)]
    if kind is pulsar.ConsumerType.Shared:
        consumers.append(client.subscribe(topic, "s", consumer_type=kind))
    producer = client.create_producer(topic, chunking_enabled=True)
    payloads = [os.urandom(11 * 1024 * 1024), b"small", os.urandom(6 * 1024 * 1024)]
    for payload in payloads:
        producer.send(payload)
    received = []
    deadline = time.monotonic() + 60
    while len(received) < len(payloads) and time.monotonic() < deadline:
        for consumer in consumers:
            try:
                message = consumer.receive(100)
            except pulsar.Timeout:
                continue
            received.append(message.data())
            consumer.acknowledge(message)
    assert sorted(received) == sorted(payloads)
    for consumer in consumers:
        _nothing(consumer)


def test_a_partitioned_topic_keeps_each_key_in_order(client: pulsar.Client, topic: str) -> None:
    # Without a control call the client sees what auto-creation makes: plain topics named as partitions.
    names = [f"{topic}-partition-{i}" for i in range(2)]
    consumer = client.subscribe(names, "s")
    for name in names:
        producer = client.create_producer(name)
        for i in range(10):
            producer.send(b"%d" % i)
    seen: dict[str, list[bytes]] = {}
    for message in _receive(consumer, 20):
        seen.setdefault(message.topic_name(), []).append(message.data())
    assert seen == {name: [b"%d" % i for i in range(10)] for name in names}


def test_many_messages_in_flight_keep_their_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, max_pending_messages=5000, block_if_queue_full=True)
    for i in range(20_000):
        producer.send_async(b"%d" % i, lambda *_: None)
    producer.flush()
    for i in range(20_000):
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == b"%d" % i
        consumer.acknowledge(message)
    _nothing(consumer)


def test_a_second_producer_of_the_same_name_is_refused(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, producer_name="same")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="same")
    first.close()
    client.create_producer(topic, producer_name="same").send(b"x")


def test_generated_producer_names_differ(client: pulsar.Client, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(5)}
    assert len(names) == 5


def test_a_topic_of_a_missing_namespace_is_not_found(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer("persistent://public/nowhere/x")


def test_a_schema_is_accepted_without_a_registry(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=pulsar.schema.StringSchema())
    client.create_producer(topic, schema=pulsar.schema.StringSchema()).send("text")
    assert consumer.receive(RECEIVE_MS).value() == "text"


async def test_the_asyncio_client_publishes_and_consumes(
    standalone: Standalone, topic: str
) -> None:
    client = pulsar.asyncio.Client(
        standalone.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    consumer = await client.subscribe(topic, "s")
    producer = await client.create_producer(topic)
    for i in range(10):
        await producer.send(b"%d" % i)
    for i in range(10):
        message = await consumer.receive()
        assert message.data() == b"%d" % i
        await consumer.acknowledge(message)
    await client.close()
