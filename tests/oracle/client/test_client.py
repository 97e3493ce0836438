"""Scenarios that the official client plays on both sides: after normalising, their outcomes must be equal.

A scenario returns what it observed as plain values: message ids by their place in the topic, errors by the client's
own exception, no times.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pulsar
import pytest

from tests.oracle.client import key_shared
from tests.oracle.conftest import Side

Scenario = Callable[["Bench"], Any]
SCENARIOS: list[Scenario] = []

Type = pulsar.ConsumerType
EARLIEST = pulsar.InitialPosition.Earliest


def scenario(run: Scenario) -> Scenario:
    """Add to the list."""
    SCENARIOS.append(run)
    return run


class Bench:
    """A client of one side, and a topic of the scenario's own."""

    def __init__(self, client: pulsar.Client, side: Side, name: str) -> None:
        self.client = client
        self.side = side
        self.topic = f"persistent://public/default/{name}"

    def producer(self, **options: Any) -> pulsar.Producer:
        return self.client.create_producer(
            self.topic, **{"batching_enabled": False, "send_timeout_millis": 10_000, **options}
        )

    def publish(self, count: int, **options: Any) -> list[pulsar.MessageId]:
        producer = self.producer(**options)
        ids = [producer.send(b"%d" % number) for number in range(count)]
        producer.close()
        return ids

    def subscribe(self, name: str = "s", **options: Any) -> pulsar.Consumer:
        return self.client.subscribe(self.topic, name, **{"initial_position": EARLIEST, **options})


def received(consumer: Any, count: int, timeout_ms: int = 8000) -> list[str]:
    return [consumer.receive(timeout_ms).data().decode() for _ in range(count)]


def silent(consumer: Any, wait_ms: int = 400) -> bool:
    try:
        consumer.receive(wait_ms)
    except pulsar.Timeout:
        return True
    return False


def failure(work: Callable[[], Any]) -> str:
    """Name of the client's exception, ``none`` when nothing was raised."""
    try:
        work()
    except pulsar.PulsarException as error:
        return type(error).__name__
    return "none"


def place(message_id: Any, first: Any) -> tuple[int, int, int]:
    """Return a message id without the ledger's number: entries from the first, partition and batch index."""
    same = message_id.ledger_id() == first.ledger_id()
    entry = message_id.entry_id() - first.entry_id() if same else -999
    return entry, message_id.partition(), message_id.batch_index()


@scenario
def messages_keep_order_and_everything_about_them(bench: Bench) -> Any:
    consumer = bench.subscribe()
    producer = bench.producer(producer_name="named", initial_sequence_id=41)
    producer.send(b"x", properties={"a": "1", "ü": "ö"}, partition_key="k", event_timestamp=1234)
    producer.send(b"", ordering_key="o")
    seen = []
    for _ in range(2):
        message = consumer.receive(8000)
        seen.append(
            (
                message.data(),
                message.properties(),
                message.partition_key(),
                message.ordering_key(),
                message.event_timestamp(),
                message.redelivery_count(),
                message.producer_name(),
                message.topic_name(),
                message.message_id().partition(),
                message.message_id().batch_index(),
            )
        )
    return seen, producer.last_sequence_id(), producer.producer_name()


@scenario
def ids_of_plain_messages(bench: Bench) -> Any:
    ids = bench.publish(3)
    return [place(message_id, ids[0]) for message_id in ids]


@scenario
def ids_within_a_batch(bench: Bench) -> Any:
    producer = bench.producer(batching_enabled=True, batching_max_publish_delay_ms=2000)
    consumer = bench.subscribe()
    for number in range(3):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    got = [consumer.receive(8000) for _ in range(3)]
    first = got[0].message_id()
    return [(message.data(), place(message.message_id(), first)) for message in got]


@scenario
def what_is_not_acknowledged_comes_again_after_reconnecting(bench: Bench) -> Any:
    bench.publish(4)
    consumer = bench.subscribe()
    got = [consumer.receive(8000) for _ in range(4)]
    consumer.acknowledge(got[1])
    consumer.acknowledge(got[2])
    consumer.close()
    again = bench.subscribe()
    return received(again, 2), silent(again)


@scenario
def cumulative_acknowledgement(bench: Bench) -> Any:
    bench.publish(5)
    consumer = bench.subscribe()
    got = [consumer.receive(8000) for _ in range(5)]
    consumer.acknowledge_cumulative(got[2])
    consumer.close()
    return received(bench.subscribe(), 2)


@scenario
def part_of_a_batch_acknowledged(bench: Bench) -> Any:
    """Acknowledge part of a batch: without batch index acknowledgements all of it is redelivered."""
    producer = bench.producer(batching_enabled=True, batching_max_publish_delay_ms=2000)
    for number in range(3):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    consumer = bench.subscribe()
    got = [consumer.receive(8000) for _ in range(3)]
    consumer.acknowledge(got[0])
    consumer.close()
    again = bench.subscribe()
    return received(again, 3), silent(again)


@scenario
def negative_acknowledgement_counts_redeliveries(bench: Bench) -> Any:
    consumer = bench.subscribe(consumer_type=Type.Shared, negative_ack_redelivery_delay_ms=100)
    bench.publish(1)
    seen = []
    for _ in range(3):
        message = consumer.receive(8000)
        seen.append((message.data(), message.redelivery_count()))
        consumer.negative_acknowledge(message)
    return seen


@scenario
def redeliver_all_unacknowledged(bench: Bench) -> Any:
    bench.publish(3)
    consumer = bench.subscribe()
    first = received(consumer, 3)
    consumer.redeliver_unacknowledged_messages()
    return first, received(consumer, 3)


@scenario
def seek_by_id_to_the_ends_and_by_time(bench: Bench) -> Any:
    ids = bench.publish(2)
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    ids += bench.publish(2)
    consumer = bench.subscribe()
    seen: list[Any] = []
    for where in (ids[1], pulsar.MessageId.earliest, pulsar.MessageId.latest, middle, 0):
        consumer.seek(where)
        time.sleep(0.2)  # the client reconnects
        try:
            seen.append(consumer.receive(1500).data())
        except pulsar.Timeout:
            seen.append("nothing")
    return seen


@scenario
def a_reader_reads_from_its_start(bench: Bench) -> Any:
    ids = bench.publish(4)
    seen: list[Any] = []
    for where, inclusive in (
        (pulsar.MessageId.earliest, False),
        (ids[1], False),
        (ids[1], True),
        (pulsar.MessageId.latest, True),
        (pulsar.MessageId.latest, False),
    ):
        reader = bench.client.create_reader(
            bench.topic, where, start_message_id_inclusive=inclusive
        )
        values = []
        while reader.has_message_available():
            values.append(reader.read_next(8000).data())
        seen.append(values)
        reader.close()
    return seen


@scenario
def the_last_message_id(bench: Bench) -> Any:
    consumer = bench.subscribe()
    empty = consumer.get_last_message_id().entry_id()
    ids = bench.publish(3)
    return empty, place(consumer.get_last_message_id(), ids[0])


@scenario
def an_exclusive_subscription_is_busy(bench: Bench) -> Any:
    first = bench.subscribe()
    refused = [
        failure(bench.subscribe),
        failure(lambda: bench.subscribe(consumer_type=Type.Shared)),
        failure(lambda: bench.subscribe(consumer_type=Type.Failover)),
    ]
    first.close()
    return refused, failure(lambda: bench.subscribe(consumer_type=Type.Shared))


@scenario
def a_producer_name_is_busy(bench: Bench) -> Any:
    first = bench.producer(producer_name="one")
    refused = failure(lambda: bench.producer(producer_name="one"))
    first.close()
    return refused, failure(lambda: bench.producer(producer_name="one"))


@scenario
def a_shared_subscription_divides_and_gives_back(bench: Bench) -> Any:
    consumers = [
        bench.subscribe(consumer_type=Type.Shared, receiver_queue_size=1) for _ in range(2)
    ]
    bench.publish(6)
    got = []
    for consumer in consumers:
        message = consumer.receive(8000)
        consumer.acknowledge(message)
        got.append(message.data().decode())
    consumers[0].close()
    while len(got) < 6:
        message = consumers[1].receive(8000)
        consumers[1].acknowledge(message)
        got.append(message.data().decode())
    return sorted(got)


@scenario
def a_failover_subscription_hands_over(bench: Bench) -> Any:
    waiting = {
        name: bench.subscribe(consumer_type=Type.Failover, consumer_name=name) for name in "ab"
    }
    time.sleep(1.5)  # a change of the active consumer waits for a second
    bench.publish(2)
    for name in waiting:
        try:
            got = [waiting[name].receive(3000)]
        except pulsar.Timeout:
            continue
        active = waiting.pop(name)
        break
    (other,) = waiting.values()
    got.append(active.receive(8000))
    active.acknowledge(got[0])
    quiet = silent(other)
    active.close()
    return name, [message.data() for message in got], quiet, received(other, 1)


@scenario
def unsubscribing(bench: Bench) -> Any:
    first = bench.subscribe(consumer_type=Type.Shared)
    second = bench.subscribe(consumer_type=Type.Shared)
    refused = failure(first.unsubscribe)
    second.close()
    return refused, failure(first.unsubscribe), failure(bench.subscribe)


@scenario
def closed_things_refuse(bench: Bench) -> Any:
    producer, consumer = bench.producer(), bench.subscribe()
    producer.close()
    consumer.close()
    return (
        failure(lambda: producer.send(b"x")),
        failure(lambda: consumer.receive(100)),
        failure(producer.close),
    )


@scenario
def names_that_are_wrong_or_missing(bench: Bench) -> Any:
    names = [
        "persistent://public/nothing/x",
        "persistent://nobody/default/x",
        "persistent://public/default/",
        "persistent://pub lic/default/x",
        "bogus://public/default/x",
        "persistent://public/standalone/nothing/x",
        "persistent://public/default/" + "x" * 3000,
        "persistent://public/default/ü ö/ß",
        "persistent://public/default/x-partition-3",
    ]
    return [
        (
            failure(partial(bench.client.create_producer, name)),
            failure(partial(bench.client.subscribe, name, "s")),
        )
        for name in names
    ]


@scenario
def subscription_names_that_are_odd(bench: Bench) -> Any:
    # not "..": a name of no node in ZooKeeper, which only Apache's RocksDB would take; ours refuses it everywhere
    names = ["a/b", "ü ö", "x" * 2000, " ", "a%2Fb", "\n"]
    seen = [failure(partial(bench.subscribe, name)) for name in names]
    path = bench.topic.replace("://", "/")
    listed = json.loads(bench.side.call("GET", f"/admin/v2/{path}/subscriptions")[1])
    return seen, sorted(listed)


@scenario
def many_messages_in_flight(bench: Bench) -> Any:
    """Receipts in order, contents in order, across batches of any size."""
    consumer = bench.subscribe()
    producer = bench.producer(
        batching_enabled=True, batching_max_messages=7, block_if_queue_full=True
    )
    done: list[int] = []
    for number in range(2000):
        producer.send_async(
            b"%d" % number,
            lambda result, _, n=number: done.append(n if result == pulsar.Result.Ok else -1),
        )
    producer.flush()
    return done, received(consumer, 2000)


@scenario
def acknowledging_twice_and_out_of_order(bench: Bench) -> Any:
    ids = bench.publish(4)
    consumer = bench.subscribe(consumer_type=Type.Shared)
    got = [consumer.receive(8000) for _ in range(4)]
    for index in (3, 1, 1, 3):
        consumer.acknowledge(got[index])
    consumer.acknowledge(ids[0])
    consumer.close()
    again = bench.subscribe(consumer_type=Type.Shared)
    return received(again, 1), silent(again)


@scenario
def a_message_above_the_limit(bench: Bench) -> Any:
    producer = bench.producer()
    refused = failure(lambda: producer.send(bytes((5 << 20) + 1)))
    return refused, failure(lambda: producer.send(bytes(4 << 20)))


@scenario
def a_chunked_message(bench: Bench) -> Any:
    consumer = bench.subscribe()
    value = bytes(range(256)) * (12 << 12)
    bench.producer(chunking_enabled=True).send(value)
    message = consumer.receive(10_000)
    return len(message.data()), message.data() == value


@scenario
def compression(bench: Bench) -> Any:
    consumer = bench.subscribe()
    kinds = pulsar.CompressionType
    for kind in (kinds.LZ4, kinds.ZLib, kinds.ZSTD, kinds.SNAPPY):
        bench.producer(compression_type=kind).send(b"abc" * 1000)
    return [value == "abc" * 1000 for value in received(consumer, 4)]


@scenario
def a_partitioned_topic(bench: Bench) -> Any:
    path = bench.topic.replace("://", "/")
    assert bench.side.put(f"/admin/v2/{path}/partitions", 3) == 204
    consumer = bench.subscribe(consumer_type=Type.Shared)
    producer = bench.producer()
    for number in range(12):
        producer.send(b"%d" % number, partition_key=f"key-{number % 4}")
    got: dict[str, set[int]] = {}
    for _ in range(12):
        message = consumer.receive(8000)
        consumer.acknowledge(message)
        got.setdefault(message.partition_key(), set()).add(message.message_id().partition())
    names = bench.client.get_topic_partitions(bench.topic)
    return got, names


@scenario
def a_pattern_finds_its_topics(bench: Bench) -> Any:
    for letter in "ab":
        bench.client.create_producer(f"{bench.topic}-{letter}").send(letter.encode())
    pattern = re.compile(f"{bench.topic}-.*")
    consumer = bench.client.subscribe(pattern, "s", initial_position=EARLIEST)
    return sorted(received(consumer, 2))


@scenario
def delayed_messages_on_a_shared_subscription(bench: Bench) -> Any:
    """Receive messages in the order of their time, the undelayed one first."""
    consumer = bench.subscribe(consumer_type=Type.Shared)
    producer = bench.producer()
    producer.send(b"later", deliver_after=pulsar.timedelta(milliseconds=1500))
    producer.send(b"now")
    return received(consumer, 2)


@scenario
def a_dead_letter_topic(bench: Bench) -> Any:
    dead = bench.client.subscribe(f"{bench.topic}-dead", "d", initial_position=EARLIEST)
    consumer = bench.subscribe(
        consumer_type=Type.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, f"{bench.topic}-dead"),
    )
    bench.publish(1)
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(8000))
    return received(dead, 1)


@scenario
def a_terminated_topic(bench: Bench) -> Any:
    bench.publish(2)
    producer = bench.producer()
    path = bench.topic.replace("://", "/")
    assert bench.side.post(f"/admin/v2/{path}/terminate") == 200
    return (
        failure(lambda: producer.send(b"x")),
        failure(bench.producer),
        received(bench.subscribe(), 2),
    )


# Ours must differ here, and why.
@pytest.fixture(scope="module")
def clients(sides: tuple[Side, Side]) -> Iterator[list[pulsar.Client]]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = [pulsar.Client(side.url, operation_timeout_seconds=10, logger=quiet) for side in sides]
    yield made
    for client in made:
        client.close()


@pytest.mark.parametrize("run", [*SCENARIOS, *key_shared.SCENARIOS], ids=lambda run: run.__name__)
def test_the_client_sees_the_same_on_both_sides(
    sides: tuple[Side, Side], clients: list[pulsar.Client], run: Scenario
) -> None:
    name = run.__name__.replace("_", "-")
    benches = [Bench(client, side, name) for client, side in zip(clients, sides, strict=True)]
    with ThreadPoolExecutor(2) as pool:  # both at once: half the waiting
        theirs, ours = pool.map(run, benches)
    assert ours == theirs
