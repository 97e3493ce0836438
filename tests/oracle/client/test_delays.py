"""Delayed messages, as the official client sees them on both brokers: in which order, and what the policy does."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pulsar
import pytest
from pulsar import ConsumerType as Type

from engine.wire import frames
from engine.wire.batches import Message, pack_entry
from engine.wire.commands import command_bytes
from tests.oracle.client.talk import Place, Talk, on_both, wait_for
from tests.oracle.conftest import Side

NAMESPACE = "public/waiting"
LATE_S = 5.0
"""Limit of a message's lateness on a busy machine."""
KINDS = (Type.Shared, Type.KeyShared, Type.Exclusive, Type.Failover)


@contextmanager
def client_of(side: Side) -> Iterator[Any]:
    client = pulsar.Client(side.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


def topic(side: Side, name: str) -> str:
    assert side.put(f"/admin/v2/namespaces/{NAMESPACE}") in (204, 409)
    value = {"active": True, "tickTime": 200, "maxDeliveryDelayInMillis": 0}
    assert side.post(f"/admin/v2/namespaces/{NAMESPACE}/delayedDelivery", value) == 204
    return f"persistent://{NAMESPACE}/{name}"


def path(name: str) -> str:
    return f"/admin/v2/persistent/{NAMESPACE}/{name}"


def stats(side: Side, name: str) -> Any:
    return json.loads(side.call("GET", f"{path(name)}/stats")[1])["subscriptions"]["s"]


def all_of(consumer: Any, count: int, timeout_ms: int = 30_000) -> list[str]:
    """Receive and acknowledge the next ``count`` messages, and return their values."""
    values = []
    for _ in range(count):
        message = consumer.receive(timeout_ms)
        values.append(message.data().decode())
        consumer.acknowledge(message)
    return values


def nothing(consumer: Any, timeout_ms: int = 1500) -> bool:
    try:
        consumer.receive(timeout_ms)
    except pulsar.Timeout:
        return True
    return False


def until(side: Side, name: str, figure: str, value: int) -> None:
    """Wait until the subscription's statistics say so."""
    wait_for(
        lambda: stats(side, name)[figure] == value, f"{figure} {value} of {side.name}'s {name}"
    )


def send(producer: Any, *texts: str, delay_s: float = 0.0) -> None:
    for text in texts:
        if delay_s:
            producer.send(text.encode(), deliver_after=timedelta(seconds=delay_s))
        else:
            producer.send(text.encode())


def waited_for(side: Side, kind: Type) -> list[Any]:
    """Return the values in the order of delivery to a consumer that waits until all are due."""
    name = f"delayed-{kind.name}"
    with client_of(side) as client:
        consumer = client.subscribe(topic(side, name), "s", kind)
        producer = client.create_producer(topic(side, name), batching_enabled=False)
        began = time.monotonic()
        send(producer, "9 s", delay_s=9)
        send(producer, "a", "b")
        send(producer, "5 s", "also 5 s", delay_s=5)
        send(producer, "c")
        send(producer, "7 s", delay_s=7)
        story: list[Any] = [all_of(consumer, 7)]
        took_s = time.monotonic() - began
        if kind in (Type.Shared, Type.KeyShared):
            assert 9 - 0.5 <= took_s <= 9 + LATE_S
        story.append(nothing(consumer, 500))
        until(side, name, "msgBacklog", 0)
        return [*story, stats(side, name)["msgDelayed"]]


@pytest.mark.parametrize("kind", KINDS)
def test_delayed_messages_come_in_order_of_their_time(sides: tuple[Side, Side], kind: Type) -> None:
    theirs, ours = on_both(sides, partial(waited_for, kind=kind))
    assert ours == theirs


def unloaded(side: Side, kind: Type) -> list[str]:
    """Return the values of three messages delivered after their topic was unloaded."""
    name = f"unloaded-{kind.name}"
    with client_of(side) as client:
        consumer = client.subscribe(topic(side, name), "s", kind)
        producer = client.create_producer(topic(side, name), batching_enabled=False)
        send(producer, "6 s", delay_s=6)
        send(producer, "a")
        send(producer, "4 s", delay_s=4)
        assert side.put(f"{path(name)}/unload") == 204
        # The client forgets acknowledgements made while it is disconnected: it has to be connected again before.
        wait_for(lambda: bool(stats(side, name)["consumers"]), "a reconnected consumer")
        values = all_of(consumer, 3)
        until(side, name, "msgBacklog", 0)
        return values


@pytest.mark.parametrize("kind", KINDS)
def test_an_unload_forgets_no_delay(sides: tuple[Side, Side], kind: Type) -> None:
    theirs, ours = on_both(sides, partial(unloaded, kind=kind))
    assert ours == theirs


def test_without_the_policy_nothing_waits(sides: tuple[Side, Side]) -> None:
    stories = []
    for side in sides:
        with client_of(side) as client:
            consumer = client.subscribe(topic(side, "off"), "s", Type.Shared)
            value = {"active": False, "tickTime": 200, "maxDeliveryDelayInMillis": 0}
            assert side.post(f"{path('off')}/delayedDelivery", value) == 204
            answer = side.call("GET", f"{path('off')}/delayedDelivery")
            assert side.put(f"{path('off')}/unload") == 204
            producer = client.create_producer(topic(side, "off"), batching_enabled=False)
            send(producer, "a", delay_s=3600)
            stories.append((all_of(consumer, 1), json.loads(answer[1])))
    assert stories[1] == stories[0]


def test_too_far_ahead_is_refused(sides: tuple[Side, Side]) -> None:
    """Send by frames: the official client retries until the time is near enough."""
    stories = []
    for side in sides:
        with closing(Place(side, topic(side, "far"))) as place:
            Talk(place).subscribe(1, kind=1)
            value = {"active": True, "tickTime": 200, "maxDeliveryDelayInMillis": 60_000}
            assert place.rest("POST", "/delayedDelivery", value)[0] == 204
            assert place.rest("PUT", "/unload")[0] == 204
            stories.append([answer(place, delay_s) for delay_s in (30, 120, 0)])
    assert stories[1] == stories[0]
    assert stories[1][1] == ("SEND_ERROR", "NotAllowedError")


def answer(place: Place, delay_s: int) -> tuple[str, str]:
    """Return the answer to one delayed message of a new producer."""
    talk, now_ms = Talk(place), int(time.time() * 1000)
    talk.ask("producer", topic=place.topic, producer_id=1)
    extra = {"deliver_at_time": now_ms + delay_s * 1000} if delay_s else {}
    entry = pack_entry([Message(b"x")], producer_name="raw", publish_ms=now_ms, extra=extra)
    body = {"producer_id": 1, "sequence_id": 0}
    talk.wire.send(frames.payload_frame(command_bytes("send", body), entry))
    frame = talk.frame()
    return frame["type"], frame.get("send_error", {}).get("error", "")
