"""The official client's subscriptions: types, acknowledgement, redelivery, seek, readers, restart."""

import time
from collections import Counter

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition, MessageId

from engine.base.names import TopicName
from tests.support.broker_bench import until
from tests.support.standalone import Standalone

RECEIVE_MS = 30_000  # a machine may be busy


def _publish(client: pulsar.Client, topic: str, count: int) -> list[MessageId]:
    producer = client.create_producer(topic)
    sent = [producer.send(b"%d" % i) for i in range(count)]
    producer.close()
    return sent


def _batch(client: pulsar.Client, topic: str, count: int) -> None:
    """Publish one batch with ``count`` messages."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=count,
        batching_max_publish_delay_ms=2000,
    )
    for i in range(count):
        producer.send_async(b"%d" % i, lambda *_: None)
    producer.flush()
    producer.close()


def _drain(consumer: pulsar.Consumer, count: int, quiet_ms: int = 400) -> list[bytes]:
    """Return ``count`` messages, and those that follow before ``quiet_ms`` without a message."""
    out: list[bytes] = []
    while True:
        try:
            message = consumer.receive(RECEIVE_MS if len(out) < count else quiet_ms)
        except pulsar.Timeout:
            return out
        out.append(message.data())


def _wait_for_backlog(standalone: Standalone, topic: str, entries: int) -> None:
    """Return when subscription ``s`` has ``entries`` unacknowledged entries. Raises TimeoutError."""

    async def wait() -> None:
        assert standalone.broker is not None
        loaded = standalone.broker.running.registry.loaded(TopicName.parse(topic))
        assert loaded is not None
        await until(lambda: loaded.subscriptions["s"].cursor.backlog_entries() == entries, 60.0)

    standalone.run(wait(), 90.0)


def _numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % i for i in range(start, stop)]


def test_an_exclusive_subscription_accepts_one_consumer(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    first.close()
    client.subscribe(topic, "s", consumer_type=ConsumerType.Shared).close()


def test_shared_consumers_take_turns(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(3)]
    _publish(client, topic, 300)
    got = [_drain(consumer, 60) for consumer in consumers]
    assert Counter(data for payloads in got for data in payloads) == Counter(_numbers(0, 300))
    assert min(len(payloads) for payloads in got) >= 60


def test_messages_of_a_disconnected_shared_consumer_are_delivered_to_the_others(
    client: pulsar.Client, topic: str
) -> None:
    leaving = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    _publish(client, topic, 50)
    assert leaving.receive(RECEIVE_MS).data() == b"0"
    staying = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    leaving.close()
    messages = [staying.receive(RECEIVE_MS) for _ in range(50)]
    assert [m.data() for m in messages] == _numbers(0, 50)
    assert {m.redelivery_count() for m in messages} == {0}


def test_failover_has_one_active_consumer_and_the_next_starts_at_the_first_unacknowledged(
    client: pulsar.Client, topic: str
) -> None:
    first = client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name="a")
    _publish(client, topic, 10)
    for _ in range(4):
        first.acknowledge(first.receive(RECEIVE_MS))
    second = client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name="b")
    first.close()
    assert [second.receive(RECEIVE_MS).data() for _ in range(6)] == _numbers(4, 10)
    assert _drain(second, 0) == []


def test_a_negatively_acknowledged_message_is_redelivered_with_a_count(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    _publish(client, topic, 3)
    for _ in range(3):
        message = consumer.receive(RECEIVE_MS)
        if message.data() == b"1":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    for count in (1, 2):
        again = consumer.receive(RECEIVE_MS)
        assert (again.data(), again.redelivery_count()) == (b"1", count)
        consumer.negative_acknowledge(again)
    again = consumer.receive(RECEIVE_MS)
    consumer.acknowledge(again)
    assert _drain(consumer, 0) == []


def test_an_unacknowledged_message_is_redelivered_after_the_ack_timeout(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, unacked_messages_timeout_ms=10_000
    )
    _publish(client, topic, 1)
    assert consumer.receive(RECEIVE_MS).data() == b"0"
    again = consumer.receive(15_000)
    assert again.data() == b"0"
    assert again.redelivery_count() >= 1


def test_exclusive_redelivery_starts_over_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    _publish(client, topic, 10)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    consumer.acknowledge(messages[3])
    consumer.redeliver_unacknowledged_messages()
    assert [consumer.receive(RECEIVE_MS).data() for _ in range(9)] == (
        _numbers(0, 3) + _numbers(4, 10)
    )


def test_a_cumulative_acknowledgement_covers_all_before(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    _publish(client, topic, 10)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    consumer.acknowledge_cumulative(messages[6])
    consumer.close()
    consumer = client.subscribe(topic, "s")
    assert _drain(consumer, 3) == _numbers(7, 10)


def test_acknowledged_indexes_of_a_batch_are_not_redelivered(
    client: pulsar.Client, topic: str
) -> None:
    for kind in (ConsumerType.Exclusive, ConsumerType.Shared):
        name = f"s-{kind.name}"
        options = {"consumer_type": kind, "batch_index_ack_enabled": True}
        consumer = client.subscribe(topic + kind.name, name, **options)
        _batch(client, topic + kind.name, 10)
        messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
        for i in (0, 3, 7):
            consumer.acknowledge(messages[i])
        consumer.close()
        consumer = client.subscribe(topic + kind.name, name, **options)
        assert _drain(consumer, 7) == [b"%d" % i for i in range(10) if i not in (0, 3, 7)]


def test_a_batch_is_acknowledged_when_all_its_messages_are(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    _batch(client, topic, 5)
    _batch(client, topic, 5)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    for message in messages[:5]:
        consumer.acknowledge(message)
    consumer.close()
    assert _drain(client.subscribe(topic, "s"), 5) == _numbers(0, 5)


def test_a_durable_subscription_starts_at_its_initial_position(
    client: pulsar.Client, topic: str
) -> None:
    _publish(client, topic, 5)
    assert _drain(client.subscribe(topic, "latest"), 0) == []
    early = client.subscribe(topic, "early", initial_position=InitialPosition.Earliest)
    assert _drain(early, 5) == _numbers(0, 5)
    late = client.subscribe(topic, "late")
    _publish(client, topic, 3)
    assert _drain(late, 3) == _numbers(0, 3)


def test_unsubscribe_deletes_the_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    _publish(client, topic, 5)
    consumer.unsubscribe()
    assert _drain(client.subscribe(topic, "s"), 0) == []


def test_seek_by_id_forgets_acknowledgements_from_there_on(
    client: pulsar.Client, topic: str
) -> None:
    keeper = client.subscribe(topic, "keeper")
    consumer = client.subscribe(topic, "s")
    sent = _publish(client, topic, 10)
    for _ in range(10):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    consumer.seek(sent[4])
    assert _drain(consumer, 5, 1500) == _numbers(5, 10)  # the broker sends 4, this client drops it
    consumer.seek(MessageId.earliest)
    assert _drain(consumer, 10, 1500) == _numbers(0, 10)
    consumer.seek(MessageId.latest)
    assert _drain(consumer, 0, 1500) == []
    keeper.close()


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
def test_a_consumer_continues_after_a_seek_to_the_end(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", kind)
    _publish(client, topic, 3)
    for _ in range(2):
        consumer.seek(MessageId.latest)
        last = _publish(client, topic, 2)[-1]
        assert str(consumer.get_last_message_id()) == str(last)
        assert _drain(consumer, 2) == _numbers(0, 2)
    consumer.seek(MessageId.latest)
    consumer.unsubscribe()


def test_seek_by_time_starts_at_the_first_message_published_then(
    client: pulsar.Client, topic: str
) -> None:
    keeper = client.subscribe(topic, "keeper")
    consumer = client.subscribe(topic, "s")
    _publish(client, topic, 5)
    time.sleep(0.05)  # time: the messages so far were published before the time of the seek
    since = int(time.time() * 1000)
    time.sleep(0.05)  # time: the following messages are published after it
    _publish(client, topic, 3)
    assert len(_drain(consumer, 8)) == 8
    consumer.seek(since)
    assert _drain(consumer, 3, 1500) == _numbers(0, 3)
    consumer.seek(0)
    assert _drain(consumer, 8, 1500) == _numbers(0, 5) + _numbers(0, 3)
    keeper.close()


def test_readers_start_at_earliest_latest_or_after_an_id(client: pulsar.Client, topic: str) -> None:
    keeper = client.subscribe(topic, "keeper")
    sent = _publish(client, topic, 10)

    def read(start: MessageId) -> list[bytes]:
        reader = client.create_reader(topic, start)
        out = []
        while reader.has_message_available():
            out.append(reader.read_next(RECEIVE_MS).data())
        reader.close()
        return out

    assert read(MessageId.earliest) == _numbers(0, 10)
    assert read(sent[6]) == _numbers(7, 10)
    assert read(MessageId.latest) == []
    keeper.close()


def test_a_reader_starts_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "keeper")
    _batch(client, topic, 10)
    ids = [consumer.receive(RECEIVE_MS).message_id() for _ in range(10)]
    reader = client.create_reader(topic, ids[6])
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(RECEIVE_MS).data())
    assert got == _numbers(7, 10)


def test_a_reader_of_an_empty_topic_waits_for_its_first_message(
    client: pulsar.Client, topic: str
) -> None:
    reader = client.create_reader(topic, MessageId.earliest)
    assert not reader.has_message_available()
    _publish(client, topic, 1)
    assert reader.has_message_available()
    assert reader.read_next(RECEIVE_MS).data() == b"0"
    assert not reader.has_message_available()


def test_a_reader_seeks_by_id_and_time(client: pulsar.Client, topic: str) -> None:
    keeper = client.subscribe(topic, "keeper")
    sent = _publish(client, topic, 5)
    reader = client.create_reader(topic, MessageId.latest)
    assert not reader.has_message_available()
    reader.seek(MessageId.earliest)
    assert reader.has_message_available()
    assert reader.read_next(RECEIVE_MS).data() == b"0"
    reader.seek(sent[2])
    assert reader.read_next(RECEIVE_MS).data() == b"3"
    reader.seek(0)
    assert reader.read_next(RECEIVE_MS).data() == b"0"
    keeper.close()


def test_the_last_message_id_is_that_of_the_last_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    sent = _publish(client, topic, 3)
    assert str(consumer.get_last_message_id()) == str(sent[-1])
    _batch(client, topic, 4)
    assert consumer.get_last_message_id().batch_index() == 3


def test_a_pattern_subscription_finds_its_topics(client: pulsar.Client, topic: str) -> None:
    import re

    names = [f"{topic}-pattern-{i}" for i in range(3)]
    for name in names:
        client.subscribe(name, "keeper").close()
    consumer = client.subscribe(re.compile(f"{topic}-pattern-.*"), "s")
    for name in names:
        _publish(client, name, 1)
    assert {consumer.receive(RECEIVE_MS).topic_name() for _ in names} == set(names)


def test_flow_counts_messages_and_a_small_queue_still_gets_all(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=1
    )
    _batch(client, topic, 10)
    _publish(client, topic, 10)
    got = []
    for _ in range(20):
        message = consumer.receive(RECEIVE_MS)
        got.append(message.data())
        consumer.acknowledge(message)
    assert got == _numbers(0, 10) * 2


def test_a_subscription_survives_a_restart_of_the_broker(
    standalone: Standalone, topic: str
) -> None:
    client = pulsar.Client(standalone.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for i in range(20):
        producer.send(b"%d" % i)
    for _ in range(8):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    _wait_for_backlog(standalone, topic, 12)  # the client groups acknowledgements
    standalone.run(standalone.stop_broker())
    standalone.run(standalone.start_broker())
    producer.send(b"20")
    got: list[bytes] = []
    while b"20" not in got:
        got.append(consumer.receive(RECEIVE_MS).data())
    assert set(got) >= set(_numbers(8, 21))
    client.close()
    fresh = pulsar.Client(standalone.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    assert _drain(fresh.subscribe(topic, "s"), 13) == _numbers(8, 21)
    fresh.close()
