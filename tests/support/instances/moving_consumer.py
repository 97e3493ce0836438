"""A consumer of a replicated subscription, by the official client, that moves from one cluster to another and back."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pulsar

from tests.crash.load import quiet_client
from tests.support.waiting import until_blocking

SUBSCRIPTION = "moved"
QUIET_S = 3.0
"""Seconds without a message after which nothing more is expected."""


class Endpoint(NamedTuple):
    """One of the clusters. ``stats`` returns the statistics of a topic ``tenant/namespace/name``, {} while unknown."""

    name: str
    url: str
    stats: Callable[[str], dict[str, Any]]


def publish(at: Endpoint, topic: str, *values: bytes) -> None:
    client = quiet_client(at.url)
    try:
        producer = client.create_producer(f"persistent://{topic}")
        for value in values:
            producer.send(value)
    finally:
        client.close()


def consume(
    at: Endpoint, topic: str, acknowledged: int | None = None, hold_s: float = 0.0
) -> list[bytes]:
    """Return what a consumer receives until nothing more comes. It acknowledges the first ``acknowledged``, else all,
    and stays for ``hold_s``."""
    client = quiet_client(at.url)
    values = []
    try:
        consumer = client.subscribe(
            f"persistent://{topic}",
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Failover,
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=True,
        )
        while True:
            try:
                message = consumer.receive(int(QUIET_S * 1000))
            except pulsar.Timeout:
                break
            values.append(message.data())
            if acknowledged is None or len(values) <= acknowledged:
                consumer.acknowledge(message)
        time.sleep(hold_s)
    finally:
        client.close()
    return values


def connected(at: Endpoint, topic: str, other: Endpoint) -> bool:
    return bool(at.stats(topic).get("replication", {}).get(other.name, {}).get("connected"))


def subscription(at: Endpoint, topic: str) -> dict[str, Any]:
    return dict(at.stats(topic).get("subscriptions", {}).get(SUBSCRIPTION, {}))


def move_there_and_back(
    source: Endpoint, target: Endpoint, topic: str, why: Callable[[], str] = str
) -> None:
    """Consume a part in ``source``, the rest in ``target``, and what is left in ``source``; check what arrives."""
    for at in (source, target):
        publish(at, topic, b"first of " + at.name.encode())
    until_blocking(
        lambda: connected(source, topic, target) and connected(target, topic, source), why
    )
    firsts = {b"first of " + at.name.encode() for at in (source, target)}
    part, rest = [b"%d" % i for i in range(20)], [b"%d" % i for i in range(20, 30)]

    seen = set(consume(source, topic))
    publish(source, topic, *part)
    seen |= set(consume(source, topic, hold_s=5.0))
    assert seen >= set(part)
    until_blocking(lambda: bool(subscription(target, topic).get("isReplicated")), why)
    time.sleep(5.0)

    publish(target, topic, *rest)
    moved = consume(target, topic, acknowledged=5, hold_s=5.0)
    # Nothing is missed, and nothing comes again: a snapshot followed the last acknowledgement.
    assert [value for value in moved if value not in firsts] == rest
    assert set(moved) | seen >= {*part, *rest}

    back = consume(source, topic)
    assert set(back) >= set(rest[5:]), back
    assert set(back) <= set(rest), back
