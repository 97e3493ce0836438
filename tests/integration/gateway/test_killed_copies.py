"""Copies, moves and undos of a running instance while each of its parts is killed, at each of their steps."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from tests.integration.gateway.copy_steps import (
    API,
    NAMESPACE,
    create,
    finished,
    full,
    post,
    prepare,
    publish,
    reached,
    seen,
    started,
    stored,
)
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

PARTS = ("worker", "gateway", "broker-1", "bookie-1", "zookeeper", "redis")
COUNT = 1_500
EARLIEST = pulsar.InitialPosition.Earliest
OVER = ("succeeded", "failed", "stopped")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("killed-copies")) as running:
        prepare(running)
        yield running


@pytest.fixture
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(instance.url, logger=quiet, operation_timeout_seconds=60)
    yield made
    made.close()


def kill(instance: Instance, part: str) -> None:
    instance.kill(part)
    instance.wait_running(part)
    until_blocking(instance.healthy, instance.logs)


def kill_at(instance: Instance, part: str, copy_id: str, name: str, least: int) -> None:
    """Kill a part when an amount of a copy is reached, unless the copy is over."""
    reached(instance, copy_id, lambda row: row["counts"][name] >= least or row["state"] in OVER)
    if seen(instance, copy_id)["state"] not in OVER:
        kill(instance, part)


def read(client: pulsar.Client, topic: str) -> list[pulsar.Message]:
    """Return all messages of a topic, which may be opened again just now."""
    messages: list[pulsar.Message] = []

    def is_read() -> bool:
        try:
            messages[:] = stored(client, topic)
        except pulsar.PulsarException:
            return False
        return True

    until_blocking(is_read, f"{topic} can be read", bound_s=120)
    return messages


def is_exactly(messages: list[pulsar.Message], count: int) -> bool:
    return Counter(m.data() for m in messages) == Counter(b"%d" % i for i in range(count))


def in_order(messages: list[pulsar.Message]) -> bool:
    """Return whether the numbers of each key rise."""
    by_key: dict[str, list[int]] = {}
    for message in messages:
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
    return all(numbers == sorted(numbers) for numbers in by_key.values())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", PARTS)
def test_a_copy_and_its_undo_go_on_after_kills_and_no_message_is_missing_or_twice(
    instance: Instance, client: pulsar.Client, part: str
) -> None:
    source, target = f"from-{part}", f"to-{part}"
    create(instance, target, partitions=3)
    client.subscribe(full(target), "late", initial_position=EARLIEST).close()
    publish(client, source, COUNT)
    if part == "redis":
        instance.control("start", "worker")  # and with it Redis
        instance.wait_running("redis")
    _, copy = started(instance, source, target=full(target), rate=500)
    if part not in ("worker", "redis") or instance.child(part)["pid"]:
        kill(instance, part)  # created, or just begun
    for least in (1, COUNT * 9 // 10):
        kill_at(instance, part, copy["id"], "copied", least)
        row = seen(instance, copy["id"])
        assert row["counts"]["copied"] <= len(read(client, target)), "more than is stored"
        assert row["state"] != "failed", row
    row = finished(instance, copy["id"])
    assert row["counts"]["copied"] + row["counts"]["repeated"] >= COUNT
    assert row["counts"]["copied"] <= COUNT
    messages = read(client, target)
    assert is_exactly(messages, COUNT)
    assert in_order(messages)

    path = f"copies/{copy['id']}/undo"
    preview = post(instance, path, {"preview": True})
    assert preview["copies"] == COUNT
    undo = post(instance, path, {"token": preview["token"]})
    kill(instance, part)
    row = finished(instance, undo["id"])
    counts = row["counts"]
    assert counts["consumed"] == 0, "no consumer had them"
    assert counts["acknowledged"] + counts["unclear"] == COUNT
    late = client.subscribe(full(target), "late")
    with pytest.raises(pulsar.Timeout):
        late.receive(1_000)
    late.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["worker", "broker-1", "bookie-1"])
def test_a_move_acknowledges_what_is_stored_whatever_is_killed(
    instance: Instance, client: pulsar.Client, part: str
) -> None:
    source, target = f"moved-from-{part}", f"moved-to-{part}"
    create(instance, target)
    client.subscribe(full(source), "s").close()
    publish(client, source, COUNT, batches=False)
    consumer = client.subscribe(full(source), "s", consumer_type=pulsar.ConsumerType.Shared)
    kept = [consumer.receive(10_000) for _ in range(10)]
    for message in kept:
        consumer.acknowledge(message)
    consumer.close()
    preview, copy = started(
        instance,
        source,
        target=full(target),
        subscription="s",
        rate=300,
        conditions={"properties": ["parity=1"]},
    )
    odd = {b"%d" % i for i in range(1, COUNT, 2)} - {m.data() for m in kept}
    assert preview["matched"] == len(odd)
    for least in (1, len(odd) // 2):
        kill_at(instance, part, copy["id"], "copied", least)
        counts = seen(instance, copy["id"])["counts"]
        assert counts["acknowledged"] <= counts["copied"] <= len(read(client, target))
    finished(instance, copy["id"])
    assert Counter(m.data() for m in read(client, target)) == Counter(odd)
    rest = client.subscribe(full(source), "s", consumer_type=pulsar.ConsumerType.Shared)
    left = {b"%d" % i for i in range(COUNT)} - odd - {m.data() for m in kept}
    received: set[bytes] = set()
    while received < left:
        message = rest.receive(10_000)
        received.add(message.data())
    with pytest.raises(pulsar.Timeout):
        rest.receive(500)
    assert received == left
    rest.close()
    assert instance.rest("POST", f"{API}/copies/{copy['id']}/undo", {"preview": True})[0] == 409


def test_a_copy_whose_start_was_not_answered_is_started_once(
    instance: Instance, client: pulsar.Client
) -> None:
    create(instance, "once-to")
    publish(client, "once-from", 100)
    path = f"topics/persistent/{NAMESPACE}/once-from/copies"
    token = post(instance, path, {"preview": True, "target": full("once-to")})["token"]

    def start() -> Any:
        try:
            return instance.rest("POST", f"{API}/{path}", {"token": token}, timeout_s=60)[0]
        except OSError:
            return None

    os.kill(int(instance.child("gateway")["pid"]), signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(start)
        time.sleep(0.5)  # time: the request is sent meanwhile; before it is right too
        kill(instance, "gateway")
        assert answer.result() is None, "the gateway was killed before it answered"
    ids = {post(instance, path, {"token": token})["id"] for _ in range(2)}
    assert len(ids) == 1
    finished(instance, ids.pop())
    assert is_exactly(read(client, "once-to"), 100)
    rows = instance.rest("GET", f"{API}/copies?source={full('once-from')}")[1]["rows"]
    assert len(rows) == 1
