"""The official client on non-persistent topics: now or never, and no id that means a place."""

import itertools
from typing import Any

import pulsar
import pytest

RECEIVE_MS = 5000
Type = pulsar.ConsumerType
_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic nobody else uses."""
    return f"non-persistent://public/default/now-{next(_numbers)}"


def _received(consumer: Any, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


def _nothing(consumer: Any) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


@pytest.mark.parametrize("kind", [Type.Exclusive, Type.Failover, Type.Shared, Type.KeyShared])
def test_a_consumer_that_is_there_gets_everything(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"nobody is there")
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


def test_what_a_full_queue_has_no_room_for_is_gone(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=5)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(20):
        producer.send(b"%d" % number)
    assert _received(consumer, 5) == [b"%d" % number for number in range(5)]
    _nothing(consumer)
    producer.send(b"next")
    assert _received(consumer, 1) == [b"next"]


def test_each_subscription_gets_all_and_those_who_share_one_divide_it(
    client: pulsar.Client, topic: str
) -> None:
    alone = client.subscribe(topic, "alone")
    together = [client.subscribe(topic, "together", consumer_type=Type.Shared) for _ in range(2)]
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(40):
        producer.send(b"%d" % number)
    assert len(_received(alone, 40)) == 40
    found = []
    for consumer in together:
        found += _received(consumer, 20)
        _nothing(consumer)
    assert len(set(found)) == 40


def test_a_seek_leads_nowhere_and_there_is_no_last_message(
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


def test_a_reader_reads_what_comes(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    client.create_producer(topic).send(b"x")
    assert reader.read_next(RECEIVE_MS).data() == b"x"


def test_a_pattern_finds_them(client: pulsar.Client, topic: str) -> None:
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
