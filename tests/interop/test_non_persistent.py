"""The official client on non-persistent topics: only connected consumers receive, and message ids are no positions."""

import itertools
from typing import Any

import pulsar
import pytest

RECEIVE_MS = 5000
Type = pulsar.ConsumerType
_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """Name of a topic that only this test uses."""
    return f"non-persistent://public/default/now-{next(_numbers)}"


def _received(consumer: Any, count: int) -> list[bytes]:
    payloads = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        payloads.append(message.data())
    return payloads


def _nothing(consumer: Any) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


@pytest.mark.parametrize("kind", [Type.Exclusive, Type.Failover, Type.Shared, Type.KeyShared])
def test_a_connected_consumer_receives_every_message(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"without a consumer")
    consumer = client.subscribe(
        topic, "s", consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest
    )
    for number in range(20):
        assert str(producer.send(b"%d" % number)) == "(0,0,-1,-1)"
    assert _received(consumer, 20) == [b"%d" % number for number in range(20)]
    _nothing(consumer)


def test_batches_and_compression(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, compression_type=pulsar.CompressionType.LZ4
    )
    for number in range(50):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    assert _received(consumer, 50) == [b"%d" % number for number in range(50)]


def test_messages_beyond_a_full_queue_are_dropped(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=5)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(20):
        producer.send(b"%d" % number)
    assert _received(consumer, 5) == [b"%d" % number for number in range(5)]
    _nothing(consumer)
    producer.send(b"next")
    assert _received(consumer, 1) == [b"next"]


def test_every_subscription_receives_all_messages_and_its_consumers_share_them(
    client: pulsar.Client, topic: str
) -> None:
    alone = client.subscribe(topic, "alone")
    together = [client.subscribe(topic, "together", consumer_type=Type.Shared) for _ in range(2)]
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(40):
        producer.send(b"%d" % number)
    assert len(_received(alone, 40)) == 40
    shared = []
    for consumer in together:
        shared += _received(consumer, 20)
        _nothing(consumer)
    assert len(set(shared)) == 40


def test_a_seek_has_no_effect_and_the_last_message_id_is_refused(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"1")
    assert _received(consumer, 1) == [b"1"]
    consumer.seek(pulsar.MessageId.earliest)
    _nothing(consumer)
    with pytest.raises(pulsar.NotAllowedError):
        consumer.get_last_message_id()
    producer.send(b"2")
    assert _received(consumer, 1) == [b"2"]


def test_a_reader_receives_later_messages(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    client.create_producer(topic).send(b"x")
    assert reader.read_next(RECEIVE_MS).data() == b"x"


def test_a_pattern_subscription_matches_non_persistent_topics(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(
        pulsar.re.compile("non-persistent://public/default/now-.*"),
        "all",
        regex_subscription_mode=pulsar.RegexSubscriptionMode.NonPersistentOnly,
    )
    producer.send(b"x")
    assert b"x" in _received(consumer, 1)


def test_an_unsubscribed_name_can_be_used_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    consumer.unsubscribe()
    consumer = client.subscribe(topic, "s", consumer_type=Type.Shared)
    client.create_producer(topic).send(b"x")
    assert _received(consumer, 1) == [b"x"]
