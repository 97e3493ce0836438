"""Statistics beside Apache's, member by member: topics in many states are made on both sides in the same way, and every
member must be there with the same value, except those listed below with their reason."""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pulsar
import pytest
from pulsar import ConsumerType as Type

from tests.oracle.client.talk import Place, Talk
from tests.oracle.conftest import Side

NAMESPACE = "public/stats"
ALIKE_S = 30.0
"""Limit until both sides agree: many values are counted or stored with a delay."""
Work = Callable[[Side, Any, str], Any]

RATES = re.compile(r"(msgRate|msgThroughput|averageMsgSize|messageAckRate|chunkedMessageRate)")
"""Rates of the moment: Apache's are of the last whole minute."""
LEFT_OUT = {
    "markDeletePosition@subscription": "ours, for the console",
    "readPosition@subscription": "ours, for the console",
    "pausedFor": "ours, for the console",
    "blockedBy": "ours, for the console",
    "backlogMessages": "ours, for the console",
    "backlogEstimated": "ours, for the console",
    "backlogUnmeasured": "ours, for the console",
    "oldestUnacknowledgedAt": "ours, for the console",
    "oldestBacklogMessageAgeSeconds": "found by a check that runs when it likes",
    "oldestBacklogMessageSubscriptionName": "found by the same check",
    "avgMessagesPerEntry": "Apache's depends on how many entries each read found",
    "blockedAttempts": "how often dispatch looked in vain",
    "lastCompactionDurationTimeInMills": "a duration",
    "msgChunkPublished": "of the last whole minute at Apache's",
    "cursorLedger": "ours writes a cursor's ledger when there is something to be written",
    "cursorLedgerLastEntry": "as above",
    "cursorsLedgerId": "as above",
    "state@cursor": "as above: NoLedger until then",
    "CompactedTopicLedger": "a ledger's id",
}
SEEN_APART: dict[str, dict[str, str]] = {
    "found_again": {
        "nonContiguousDeletedMessagesRangesSerializedSize": "Apache's is of what it stored since it loaded the topic",
    },
    "sought": {"lastAckedTimestamp@subscription": "ours outlives the consumer that acknowledged"},
    "terminated": {
        "ledgers": "Apache shows a sealed ledger as open until the topic is loaded again",
        "subscriptionHavePendingRead": "Apache's reads are woken by the end of the topic",
    },
    "compacted": {
        "__compaction@subscriptions": "ours does not read through a consumer of its own",
        "bytesOutInternalCounter": "as above",
        "bytesOutCounter@topic": "as above",
        "msgOutCounter@topic": "as above",
        "waitingCursorsCount": "as above: Apache's consumer waits there for what comes",
    },
    "non_persistent": {
        "lastConsumedFlowTimestamp@subscription": "not counted by Apache",
        "lastConsumedTimestamp@subscription": "not counted by Apache",
    },
    "partitioned": dict.fromkeys(
        (
            *("lastConsumedFlowTimestamp", "lastConsumedTimestamp", "lastAckedTimestamp"),
            *("lastMarkDeleteAdvancedTimestamp", "lastConsumedTime", "lastAckedTime"),
        ),
        "Apache does not put it together",
    ),
}


@pytest.fixture(scope="module")
def clients(sides: tuple[Side, Side]) -> Iterator[list[Any]]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = [pulsar.Client(side.url, logger=quiet) for side in sides]
    for side in sides:
        assert side.put(f"/admin/v2/namespaces/{NAMESPACE}") == 204
        quota = {"limitSize": 1 << 30, "limitTime": -1, "policy": "producer_request_hold"}
        assert side.post(f"/admin/v2/namespaces/{NAMESPACE}/backlogQuota", quota) == 204
    yield made
    for client in made:
        client.close()


def path(name: str) -> str:
    return f"/admin/v2/persistent/{NAMESPACE}/{name.rpartition('/')[2]}"


def producer_of(client: Any, topic: str, **options: Any) -> Any:
    options = {"batching_enabled": False, **options}
    return client.create_producer(topic, producer_name="p", properties={"k": "v"}, **options)


def send(producer: Any, count: int, **options: Any) -> None:
    for number in range(count):
        producer.send(b"%d" % number, **options)


def send_batches(producer: Any, *sizes: int) -> None:
    """Send each batch as one entry."""
    for size in sizes:
        for _ in range(size):
            producer.send_async(b"one", lambda result, message_id: None)
        producer.flush()


def got(consumer: Any, count: int) -> list[Any]:
    return [consumer.receive(30_000) for _ in range(count)]


def untouched(side: Side, client: Any, topic: str) -> None:
    assert side.put(path(topic)) == 204


def only_subscribed(side: Side, client: Any, topic: str) -> Any:
    assert side.put(path(topic), {"a": "b"}) == 204
    assert side.put(f"{path(topic)}/subscription/s") == 204
    assert side.put(f"{path(topic)}/subscription/s/properties", {"c": "d"}) == 204
    producer = producer_of(client, topic)
    send(producer, 1)
    return producer


def batches(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", consumer_name="c", properties={"e": "f"})
    producer = producer_of(
        client,
        topic,
        batching_enabled=True,
        batching_max_messages=100,
        batching_max_publish_delay_ms=60_000,
    )
    send_batches(producer, 6, 6, 6)
    for message in got(consumer, 18)[:8]:
        consumer.acknowledge(message)
    return consumer, producer


def holes(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", Type.Shared, consumer_name="c")
    producer = producer_of(client, topic)
    send(producer, 10)
    messages = got(consumer, 10)
    for number in (0, 2, 3, 5, 8):
        consumer.acknowledge(messages[number])
    return consumer, producer


def failover(side: Side, client: Any, topic: str) -> Any:
    consumers = [client.subscribe(topic, "s", Type.Failover, consumer_name=n) for n in ("a", "b")]
    time.sleep(2)  # until the active one is chosen, by the longer of the two sides' delays
    producer = producer_of(client, topic)
    send(producer, 6)
    consumers[0].acknowledge_cumulative(got(consumers[0], 6)[3])
    return consumers, producer


def given_back(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(
        topic, "s", Type.Shared, consumer_name="c", negative_ack_redelivery_delay_ms=100
    )
    producer = producer_of(client, topic)
    send(producer, 6)
    messages = got(consumer, 6)
    consumer.negative_acknowledge(messages[0])
    got(consumer, 1)
    consumer.acknowledge(messages[1])
    return consumer, producer


def keys_that_move(side: Side, client: Any, topic: str) -> Any:
    join = partial(client.subscribe, topic, "s", Type.KeyShared)
    first = join(consumer_name="a")
    producer = producer_of(client, topic)
    for number in range(20):
        producer.send(b"x", partition_key=str(number % 10))
    got(first, 20)
    second = join(consumer_name="b")
    for number in range(20):
        producer.send(b"x", partition_key=str(number % 10))
    return first, second, producer


def keys_by_range(side: Side, client: Any, topic: str) -> Any:
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, False, [(0, 65535)])
    consumer = client.subscribe(
        topic, "s", Type.KeyShared, consumer_name="a", key_shared_policy=policy
    )
    producer = producer_of(client, topic)
    send(producer, 2, partition_key="k")
    got(consumer, 2)
    return consumer, producer


def keys_out_of_order(side: Side, client: Any, topic: str) -> Any:
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, True)
    consumer = client.subscribe(
        topic, "s", Type.KeyShared, consumer_name="a", key_shared_policy=policy
    )
    producer = producer_of(client, topic)
    send(producer, 2, partition_key="k")
    got(consumer, 2)
    return consumer, producer


def delayed(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", Type.Shared, consumer_name="c")
    producer = producer_of(client, topic)
    send(producer, 1)
    send(producer, 5, deliver_after=timedelta(hours=1))
    consumer.acknowledge(got(consumer, 1)[0])
    return consumer, producer


def chunks(side: Side, client: Any, topic: str) -> Any:
    consumers = [
        client.subscribe(topic, "s", Type.Shared, consumer_name="c"),
        client.subscribe(topic, "t", consumer_name="d"),
    ]
    producer = producer_of(client, topic, chunking_enabled=True)
    producer.send(b"x" * (11 << 20))
    for consumer in consumers:
        got(consumer, 1)
    return consumers, producer


def sent_twice(side: Side, client: Any, topic: str) -> Any:
    producer = producer_of(client, topic)
    assert side.post(f"{path(topic)}/deduplicationEnabled", True) == 204
    deadline = time.monotonic() + ALIKE_S
    while stats_of(side, f"{path(topic)}/stats")["deduplicationStatus"] != "Enabled":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for sequence in (4, 4, 5):
        producer.send(b"x", sequence_id=sequence)
    return producer


def compacted(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", consumer_name="c", is_read_compacted=True)
    producer = producer_of(client, topic)
    for number in range(12):
        producer.send(b"x", partition_key=str(number % 3))
    assert side.put(f"{path(topic)}/compaction") == 204
    deadline = time.monotonic() + ALIKE_S
    while stats_of(side, f"{path(topic)}/compaction")["status"] != "SUCCESS":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    got(consumer, 12)
    return consumer, producer


def with_reader(side: Side, client: Any, topic: str) -> Any:
    producer = producer_of(client, topic)
    reader = client.create_reader(
        topic, pulsar.MessageId.earliest, reader_name="r", subscription_role_prefix="role"
    )
    send(producer, 3)
    for _ in range(2):
        reader.read_next(30_000)
    return reader, producer


def gone(side: Side, client: Any, topic: str) -> Any:
    """Receive by a reader and a subscription and remove both: their messages still count."""
    producer = producer_of(client, topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, reader_name="r")
    consumer = client.subscribe(topic, "s", consumer_name="c")
    send(producer, 3)
    for _ in range(3):
        reader.read_next(30_000)
    got(consumer, 3)
    reader.close()
    consumer.unsubscribe()
    return producer


def sought(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", consumer_name="c")
    producer = producer_of(client, topic)
    send(producer, 5)
    consumer.acknowledge_cumulative(got(consumer, 5)[4])
    consumer.seek(pulsar.MessageId.earliest)
    got(consumer, 5)
    return consumer, producer


def found_again(side: Side, client: Any, topic: str) -> None:
    kept = holes(side, client, topic)
    for client_end in kept:
        client_end.close()
    assert side.put(f"{path(topic)}/unload") == 204


def terminated(side: Side, client: Any, topic: str) -> Any:
    consumer = client.subscribe(topic, "s", Type.Shared, consumer_name="c")
    producer = producer_of(client, topic)
    send(producer, 1)
    got(consumer, 1)
    assert side.post(f"{path(topic)}/terminate") == 200
    return consumer, producer


def alone(side: Side, client: Any, topic: str) -> Any:
    producer = producer_of(client, topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    send(producer, 1)
    return producer


def with_schema(side: Side, client: Any, topic: str) -> Any:
    producer = producer_of(client, topic, schema=pulsar.schema.StringSchema())
    producer.send("x")
    return producer


def non_persistent(side: Side, client: Any, topic: str) -> Any:
    topic = topic.replace("persistent", "non-persistent", 1)
    consumer = client.subscribe(topic, "s", Type.Shared, consumer_name="c")
    producer = producer_of(client, topic)
    send(producer, 5)
    for message in got(consumer, 5):
        consumer.acknowledge(message)
    return consumer, producer


def partitioned(side: Side, client: Any, topic: str) -> Any:
    assert side.put(f"{path(topic)}/partitions", 2) == 204
    consumer = client.subscribe(topic, "s", Type.Shared, consumer_name="c")
    routing = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    producer = producer_of(client, topic, message_routing_mode=routing)
    send(producer, 4)
    for message in got(consumer, 4):
        consumer.acknowledge(message)
    return consumer, producer


WORKS: list[Work] = [
    *(untouched, only_subscribed, batches, holes, failover, given_back, keys_that_move),
    *(keys_by_range, keys_out_of_order, delayed, chunks, sent_twice, compacted, with_reader, gone),
    *(sought, found_again, terminated, alone, with_schema, non_persistent, partitioned),
]


def stats_of(side: Side, where: str) -> Any:
    status, body = side.call("GET", where)
    assert status == 200, (where, status, body)
    return json.loads(body)


def statistics(side: Side, name: str) -> Any:
    """Return both kinds of statistics, in comparable values."""
    base = path(name)
    if name == "non_persistent":
        base = base.replace("persistent", "non-persistent", 1)
    flags = "subscriptionBacklogSize=true&getEarliestTimeInBacklog=true"
    asked = {"stats": f"/stats?{flags}", "inside": "/internalStats"}
    if name == "partitioned":
        asked = {
            "stats": f"/partitioned-stats?perPartition=false&{flags}",
            "inside": "/partitioned-internalStats",
        }
    apart = LEFT_OUT | SEEN_APART.get(name, {})
    ledgers: dict[int, str] = {}
    return {what: normal(stats_of(side, base + way), apart, ledgers) for what, way in asked.items()}


LEVELS = {
    "subscriptions": "subscription",
    "cursors": "cursor",
    "consumers": "consumer",
    "publishers": "publisher",
}


def normal(value: Any, apart: dict[str, str], ledgers: dict[int, str], at: str = "topic") -> Any:
    """Ledgers by their order of appearance; no addresses, times or rates."""
    if isinstance(value, dict):
        return {
            ("reader" if key.startswith("role-reader-") else key): member(
                key, item, apart, ledgers, at
            )
            for key, item in sorted(value.items())
            if key not in apart and f"{key}@{at}" not in apart
        }
    if isinstance(value, list):
        return [normal(item, apart, ledgers, at) for item in value]
    if isinstance(value, str):
        value = re.sub(r"127\.0\.0\.1:\d+", "HOST", value)
        if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
            return value if value.startswith("1970") else "TIME"
        if re.fullmatch(r"[\d:.,()\[\]-]+", value):  # positions, and ranges of them
            value = re.sub(
                r"(\d+):(?=-?\d)", lambda match: f"{ledger(int(match[1]), ledgers)}:", value
            )
        return value
    return "MS" if isinstance(value, int) and value > 10**12 else value


def member(key: str, value: Any, apart: dict[str, str], ledgers: dict[int, str], at: str) -> Any:
    if RATES.match(key):
        return type(value).__name__
    if key == "ledgerId":
        return ledger(value, ledgers)
    if key == "delayedMessageIndexSizeInBytes":
        return value > 0
    below = LEVELS.get(key)
    if below in ("subscription", "cursor") and isinstance(value, dict):
        return {
            ("reader" if name.startswith("role-reader-") else name): normal(
                item, apart, ledgers, below
            )
            for name, item in value.items()
            if f"{name}@{key}" not in apart
        }
    return normal(value, apart, ledgers, below or at)


def ledger(number: int, ledgers: dict[int, str]) -> str:
    return "none" if number < 0 else ledgers.setdefault(number, f"L{len(ledgers)}")


def differing(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Members that are not alike, each with ours and theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for name in sorted(ours.keys() | theirs.keys())
            for line in differing(ours.get(name), theirs.get(name), f"{at}/{name}")
        ]
    return [] if ours == theirs else [f"{at}: {ours!r}, theirs {theirs!r}"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_statistics_are_the_same(sides: tuple[Side, Side], clients: list[Any], work: Work) -> None:
    name = work.__name__
    topic = f"persistent://{NAMESPACE}/{name}"
    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(work, sides, clients, [topic, topic]))
    deadline = time.monotonic() + ALIKE_S
    while True:
        theirs, ours = (statistics(side, name) for side in sides)
        if ours == theirs or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert differing(ours, theirs) == []
    del kept


CONSUMER_APART = {
    *("request_id", "address", "connectedSince", "msgRateOut", "msgThroughputOut"),
    *("msgRateRedeliver", "msgRateExpired", "messageAckRate"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_a_consumer_receives_the_same_statistics_of_itself(
    sides: tuple[Side, Side], kind: int
) -> None:
    def work(side: Side) -> Any:
        place = Place(side, f"persistent://{NAMESPACE}/told-{kind}")
        try:
            talk = Talk(place)
            talk.subscribe(1, kind=kind)
            ids = place.publish(5)
            talk.flow(1, 3)
            talk.receive_until_quiet()
            body = {"consumer_id": 1, "ack_type": 0, "message_id": ids[:1]}
            talk.wire.say("ack", **body)
            talk.wire.say("consumerStats", request_id=9, consumer_id=1)
            answer = talk.frame()["consumerStatsResponse"]
            return sorted(answer), {k: v for k, v in answer.items() if k not in CONSUMER_APART}
        finally:
            place.close()

    theirs, ours = (work(side) for side in sides)
    assert ours == theirs
