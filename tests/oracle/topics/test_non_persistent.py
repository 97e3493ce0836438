"""Non-persistent topics beside Apache's: what clients see, the statistics' members, statuses and texts of REST."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from tests.oracle.conftest import Side

NAMESPACE = "non-persistent://public/default"
ADMIN = "/admin/v2/non-persistent/public/default"
Type = pulsar.ConsumerType
OURS_ONLY = {
    *("markDeletePosition", "readPosition", "pausedFor", "blockedBy"),
    *("backlogMessages", "backlogEstimated", "backlogUnmeasured", "oldestUnacknowledgedAt"),
}
"""Members of the statistics of a topic and its subscriptions for our console."""
CALLS = [
    ("PUT", "", None),
    ("PUT", "/subscription/x", None),
    ("POST", "/subscription/s/expireMessages/3", None),
    ("GET", "/lastMessageId", None),
    ("GET", "/messageid/123", None),
    ("POST", "/terminate", None),
    ("POST", "/trim", None),
    ("GET", "/subscription/s/position/1", None),
    ("GET", "/examinemessage", None),
    ("GET", "/partitions", None),
    ("POST", "/partitions", 2),
    ("GET", "/partitioned-stats", None),
    ("DELETE", "/subscription/nope", None),
    ("DELETE", "", None),
    ("DELETE", "?force=true", None),
    ("GET", "/stats", None),
    ("GET", "/subscriptions", None),
    ("PUT", "/unload", None),
    ("DELETE", "", None),
]
"""Calls in this order, on a topic with a producer and the subscription ``s``; the fifteenth deletes it."""


@pytest.fixture(scope="module")
def clients(sides: tuple[Side, Side]) -> Iterator[list[pulsar.Client]]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = [pulsar.Client(side.url, operation_timeout_seconds=10, logger=quiet) for side in sides]
    yield made
    for client in made:
        client.close()


def both(
    sides: tuple[Side, Side],
    clients: list[pulsar.Client],
    work: Callable[[Side, pulsar.Client], Any],
) -> tuple[Any, Any]:
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(work, sides, clients)
    return theirs, ours


def got(consumer: Any, wait_ms: int = 1500) -> list[tuple[bytes, str]]:
    """Receive until none arrives for ``wait_ms``: data and message ids."""
    messages = []
    while True:
        try:
            message = consumer.receive(wait_ms)
        except pulsar.Timeout:
            return messages
        messages.append((message.data(), str(message.message_id())))


def shared(side: Side, client: pulsar.Client) -> Any:
    topic = f"{NAMESPACE}/shared"
    consumers = [client.subscribe(topic, "s", consumer_type=Type.Shared) for _ in range(2)]
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [str(producer.send(b"%d" % number)) for number in range(6)]
    received = [got(consumer) for consumer in consumers]
    for consumer in consumers:
        consumer.close()
    _, left = side.call("GET", f"{ADMIN}/shared/subscriptions")
    return (
        ids,
        [len(messages) for messages in received],
        sorted([*received[0], *received[1]]),
        json.loads(left),
    )


def exclusive(side: Side, client: pulsar.Client) -> Any:
    topic = f"{NAMESPACE}/exclusive"
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"before anybody listens")
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    producer.send(b"1")
    first = got(consumer)
    consumer.seek(pulsar.MessageId.earliest)  # to nowhere
    with pytest.raises(pulsar.PulsarException):
        consumer.get_last_message_id()
    producer.send(b"2")
    return first, got(consumer)


def few_permits(side: Side, client: pulsar.Client) -> Any:
    topic = f"{NAMESPACE}/few"
    consumer = client.subscribe(topic, "s", receiver_queue_size=5)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(20):
        producer.send(b"%d" % number)
    kept = got(consumer)
    _, body = side.call("GET", f"{ADMIN}/few/stats")
    stats = json.loads(body)
    return kept, stats["msgInCounter"], stats["subscriptions"]["s"]["msgOutCounter"]


def failover(side: Side, client: pulsar.Client) -> Any:
    topic = f"{NAMESPACE}/failover"
    consumers = [
        client.subscribe(topic, "s", consumer_type=Type.Failover, consumer_name=name)
        for name in ("a", "b")
    ]
    time.sleep(2)  # until both know who is active, by the longer of the two sides' delays
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"x")
    received = [got(consumer) for consumer in consumers]
    return sorted(received)


def partitioned(side: Side, client: pulsar.Client) -> Any:
    assert side.put(f"{ADMIN}/parts/partitions", 3) == 204
    empty = json.loads(side.call("GET", ADMIN)[1])
    named = client.get_topic_partitions(f"{NAMESPACE}/parts")
    producer = client.create_producer(f"{NAMESPACE}/parts", batching_enabled=False)
    ids = sorted(str(producer.send(b"x")) for _ in range(3))
    listed = json.loads(side.call("GET", ADMIN)[1])
    in_use = side.call("DELETE", f"{ADMIN}/parts/partitions")[0]
    producer.close()
    deleted = side.call("DELETE", f"{ADMIN}/parts/partitions")[0]
    ours = [name for name in listed if "/parts" in name]
    return [n for n in empty if "/parts" in n], named, ids, sorted(ours), in_use, deleted


def of_namespace(side: Side, client: pulsar.Client) -> Any:
    consumer = client.subscribe(f"{NAMESPACE}/listed", "s")
    listed = []
    for mode in ("?mode=NON_PERSISTENT", "?mode=ALL", ""):
        _, body = side.call("GET", f"/admin/v2/namespaces/public/default/topics{mode}")
        listed.append(f"{NAMESPACE}/listed" in json.loads(body))
    consumer.close()
    return listed


@pytest.mark.parametrize(
    "work",
    [shared, exclusive, few_permits, failover, partitioned, of_namespace],
    ids=lambda work: work.__name__,
)
def test_a_client_sees_the_same(
    sides: tuple[Side, Side],
    clients: list[pulsar.Client],
    work: Callable[[Side, pulsar.Client], Any],
) -> None:
    theirs, ours = both(sides, clients, work)
    assert ours == theirs


def test_statistics_have_the_same_members(
    sides: tuple[Side, Side], clients: list[pulsar.Client]
) -> None:
    def work(side: Side, client: pulsar.Client) -> Any:
        consumer = client.subscribe(f"{NAMESPACE}/stats", "s", consumer_type=Type.Shared)
        client.create_producer(f"{NAMESPACE}/stats").send(b"x")
        consumer.acknowledge(consumer.receive(5000))
        stats = json.loads(side.call("GET", f"{ADMIN}/stats/stats")[1])
        inside = json.loads(side.call("GET", f"{ADMIN}/stats/internalStats")[1])
        (publisher,), subscription = stats["publishers"], stats["subscriptions"]["s"]
        (listener,) = subscription["consumers"]
        fixed = ("isDurable", "durable", "type", "unackedMessages", "msgBacklog", "backlogSize")
        return (
            sorted(set(stats) - OURS_ONLY),
            sorted(set(publisher)),
            sorted(set(subscription) - OURS_ONLY),
            sorted(set(listener)),
            {name: subscription[name] for name in fixed},
            {
                name: stats[name]
                for name in ("msgInCounter", "storageSize", "backlogQuotaLimitSize")
            },
            sorted(inside),
        )

    theirs, ours = both(sides, clients, work)
    assert ours == theirs


def test_rest_answers_alike(sides: tuple[Side, Side], clients: list[pulsar.Client]) -> None:
    def work(side: Side, client: pulsar.Client) -> Any:
        topic = f"{NAMESPACE}/calls"
        producer = client.create_producer(topic)
        consumer = client.subscribe(topic, "s")
        results = []
        for method, path, body in CALLS:
            status, answer = side.call(method, f"{ADMIN}/calls{path}", body)
            reason = json.loads(answer).get("reason") if status >= 400 else None
            results.append((method, path, status, reason))
            if path == "?force=true":
                break  # the clients come back when they like: what follows would depend on it
        consumer.close()
        producer.close()
        side.call("DELETE", f"{ADMIN}/calls?force=true")
        for method, path, body in CALLS[len(results) :]:
            status, answer = side.call(method, f"{ADMIN}/calls{path}", body)
            reason = json.loads(answer).get("reason") if status >= 400 else None
            results.append((method, path, status, reason))
        return results

    theirs, ours = both(sides, clients, work)
    assert ours == theirs
