"""The official client's Key_Shared consumers: each key stays with one consumer and in order while consumers connect and
disconnect."""

import threading
from collections import defaultdict

import pulsar
import pytest
from pulsar import ConsumerKeySharedPolicy, ConsumerType, InitialPosition, KeySharedMode

from tests.support.standalone import Standalone
from tests.support.waiting import until_blocking

KEYS = [f"key-{i}" for i in range(50)]


def _subscribe(
    client: pulsar.Client, topic: str, policy: ConsumerKeySharedPolicy | None = None
) -> pulsar.Consumer:
    return client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.KeyShared,
        initial_position=InitialPosition.Earliest,
        key_shared_policy=policy,
        receiver_queue_size=20,
        negative_ack_redelivery_delay_ms=50,
    )


class Worker(threading.Thread):
    """A consumer in a thread that receives and acknowledges until ``leave``."""

    def __init__(
        self, instance: Standalone, topic: str, seen: dict[str, list[tuple[int, str]]]
    ) -> None:
        super().__init__()
        self.client = pulsar.Client(
            instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        self.consumer = _subscribe(self.client, topic)
        self.seen = seen
        self.got = 0
        self.leaving = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.leaving.is_set():
            try:
                message = self.consumer.receive(100)
            except pulsar.Timeout:
                continue
            self.got += 1
            self.seen[message.partition_key()].append((int(message.data()), self.name))
            self.consumer.acknowledge(message)

    def leave(self) -> None:
        self.leaving.set()
        self.join()
        self.client.close()


def _publish(client: pulsar.Client, topic: str, start: int, stop: int, batching: bool) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=batching,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=5,
    )
    for i in range(start, stop):
        producer.send_async(b"%d" % i, lambda *_: None, partition_key=KEYS[i % len(KEYS)])
    producer.flush()
    producer.close()


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batched"])
def test_keys_keep_their_order_while_consumers_connect_and_disconnect(
    standalone: Standalone, client: pulsar.Client, topic: str, batching: bool
) -> None:
    seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
    workers = [Worker(standalone, topic, seen) for _ in range(2)]
    everything = set(range(3000))
    try:
        for start in range(0, 3000, 500):
            _publish(client, topic, start, start + 500, batching)
            if start % 1000:
                workers.pop(0).leave()
            workers.append(Worker(standalone, topic, seen))
        until_blocking(
            lambda: (
                {n for deliveries in list(seen.values()) for n, _ in list(deliveries)} == everything
            ),
            "all messages",
            poll_s=0.1,
        )
    finally:
        for worker in workers:
            worker.leave()
    assert {n for deliveries in seen.values() for n, _ in deliveries} == everything
    for numbers in seen.values():
        first_seen = list(dict.fromkeys(n for n, _ in numbers))
        assert first_seen == sorted(first_seen)


def test_a_key_belongs_to_one_of_several_consumers(client: pulsar.Client, topic: str) -> None:
    consumers = [_subscribe(client, topic) for _ in range(3)]
    _publish(client, topic, 0, 500, batching=False)
    owner: dict[str, int] = {}
    got = 0
    for i, consumer in enumerate(consumers):
        while True:
            try:
                message = consumer.receive(500)
            except pulsar.Timeout:
                break
            got += 1
            consumer.acknowledge(message)
            assert owner.setdefault(message.partition_key(), i) == i
    assert got == 500
    assert set(owner.values()) == {0, 1, 2}


def test_a_negatively_acknowledged_message_delays_only_its_own_key(
    client: pulsar.Client, topic: str
) -> None:
    consumer = _subscribe(client, topic)
    producer = client.create_producer(topic)
    for i in range(40):
        producer.send(b"%d" % i, partition_key="poison" if i % 4 == 0 else f"k{i % 4}")
    refused, done = 0, []
    while len(done) < 40:
        message = consumer.receive(5000)
        if message.data() == b"0" and refused < 3:
            refused += 1
            consumer.negative_acknowledge(message)
            continue
        consumer.acknowledge(message)
        done.append(int(message.data()))
    assert sorted(done) == list(range(40))


def test_sticky_ranges(client: pulsar.Client, topic: str) -> None:
    def policy(*ranges: tuple[int, int]) -> ConsumerKeySharedPolicy:
        return ConsumerKeySharedPolicy(KeySharedMode.Sticky, False, list(ranges))

    low = _subscribe(client, topic, policy((0, 32767)))
    with pytest.raises(pulsar.PulsarException):
        _subscribe(client, topic, policy((100, 200)))
    with pytest.raises(pulsar.ConsumerBusy):
        _subscribe(client, topic)
    high = _subscribe(client, topic, policy((32768, 65535)))
    _publish(client, topic, 0, 100, batching=False)
    keys = []
    for consumer in (low, high):
        received_keys = set()
        while True:
            try:
                received_keys.add(consumer.receive(500).partition_key())
            except pulsar.Timeout:
                break
        keys.append(received_keys)
    assert all(keys)
    assert not keys[0] & keys[1]
    assert keys[0] | keys[1] == set(KEYS)
