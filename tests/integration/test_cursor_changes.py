"""Confirmed changes on a real instance, with the official client publishing and consuming, and brokers being killed."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

API = "/api/v1/clusters/standalone/topics/persistent/public/cursors"
ADMIN = "/admin/v2/persistent/public/cursors"
EARLIEST = {"ledgerId": -1, "entryId": -1}
STORED = ("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp", "state")
"""Where a cursor's state is and how often it was written."""


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as made:
        assert made.rest("PUT", "/admin/v2/namespaces/public/cursors")[0] == 204
        kept = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
        assert made.rest("POST", "/admin/v2/namespaces/public/cursors/retention", kept)[0] == 204
        yield made


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(instance.url, logger=quiet, operation_timeout_seconds=60)
    yield made
    made.close()


def subscribed(instance: Instance, topic: str) -> str:
    """A topic with the subscription ``s`` from its beginning on; where its changes are made."""
    path = f"{ADMIN}/{topic}/subscription/s"
    assert instance.rest("PUT", path, EARLIEST)[0] == 204
    return f"{API}/{topic}/subscriptions/s"


def publish(client: pulsar.Client, topic: str, count: int, *, batches: bool = True) -> None:
    producer = client.create_producer(
        f"persistent://public/cursors/{topic}", batching_enabled=batches, block_if_queue_full=True
    )
    for number in range(count):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    producer.close()


@contextmanager
def publishing(client: pulsar.Client, topic: str, per_second: int) -> Iterator[list[int]]:
    """Messages go on coming; the list has how many were confirmed."""
    producer = client.create_producer(
        f"persistent://public/cursors/{topic}", batching_max_publish_delay_ms=5
    )
    confirmed, stop = [0], threading.Event()

    def told(result: Any, _: Any) -> None:
        confirmed[0] += result == pulsar.Result.Ok

    def run() -> None:
        while not stop.is_set():
            for _ in range(per_second // 20):
                producer.send_async(b"x" * 100, told)
            stop.wait(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield confirmed
    finally:
        stop.set()
        thread.join()
        producer.flush()
        producer.close()


def preview(instance: Instance, where: str, change: str, **how: Any) -> dict[str, Any]:
    status, said = instance.rest("POST", f"{where}/{change}", {"preview": True, **how})
    assert status == 200, said
    return dict(said)


def backlog(instance: Instance, topic: str) -> int:
    stats = instance.rest("GET", f"{ADMIN}/{topic}/stats")[1]
    return int(stats["subscriptions"]["s"]["msgBacklog"])


def internals(instance: Instance, topic: str) -> dict[str, Any]:
    cursor = dict(instance.rest("GET", f"{ADMIN}/{topic}/internalStats")[1]["cursors"]["s"])
    return {name: value for name, value in cursor.items() if name not in STORED}


def received(client: pulsar.Client, topic: str) -> int:
    """All messages that the subscription has for a consumer, acknowledged."""
    consumer = client.subscribe(f"persistent://public/cursors/{topic}", "s")
    count = 0
    try:
        while True:
            consumer.acknowledge(consumer.receive(3000))
            count += 1
    except pulsar.Timeout:
        return count
    finally:
        consumer.close()


def test_what_is_discarded_is_what_was_previewed_at_1000_messages_a_second(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "busy")
    with publishing(client, "busy", 1000) as confirmed:
        while confirmed[0] < 2000:
            time.sleep(0.05)
        said = preview(instance, where, "skip-all")
        seen = confirmed[0]
        while confirmed[0] < seen + 1500:  # as long as somebody reads the dialog
            time.sleep(0.05)
        status, done = instance.rest("POST", f"{where}/skip-all", {"token": said["token"]})
    assert (status, done["lost"], done["meanwhile"]) == (200, said["lost"], 0)
    assert said["exact"]
    assert received(client, "busy") == confirmed[0] - done["lost"]


def test_skipped_and_undone_the_internals_are_equal(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "holes")
    publish(client, "holes", 200, batches=False)
    publish(client, "holes", 500)
    consumer = client.subscribe(
        "persistent://public/cursors/holes",
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        batch_index_ack_enabled=True,
    )
    messages = [consumer.receive(30_000) for _ in range(400)]
    for message in random.Random(7).sample(messages, 150):
        consumer.acknowledge(message)
    consumer.close()
    before = internals(instance, "holes")
    assert before["individuallyDeletedMessages"] != "[]"
    said = preview(instance, where, "skip-all")
    assert (said["lost"], said["holes"] > 0) == (550, True)
    done = instance.rest("POST", f"{where}/skip-all", {"token": said["token"]})[1]
    assert (done["lost"], backlog(instance, "holes")) == (550, 0)
    status, undone = instance.rest("POST", f"{where}/undo", {"id": done["undo"]})
    assert (status, undone["again"]) == (200, 550)
    assert internals(instance, "holes") == before
    assert received(client, "holes") == 550


def test_a_reset_ahead_of_the_cursor_says_what_is_lost(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "ahead")
    publish(client, "ahead", 300)
    time.sleep(0.01)  # time: the clock goes past the last message's millisecond
    ten_minutes_ago = int(time.time() * 1000)  # for a subscription that is further behind
    said = preview(instance, where, "reset", timestamp=ten_minutes_ago)
    assert (said["direction"], said["lost"], said["again"]) == ("forward", 300, 0)


def test_skipping_some_stays_refused_on_partitions(instance: Instance) -> None:
    assert instance.rest("PUT", f"{ADMIN}/parts/partitions", 2)[0] == 204
    where = subscribed(instance, "parts")
    assert instance.rest("POST", f"{where}/skip", {"preview": True, "count": 1})[0] == 405
    assert instance.rest("POST", f"{ADMIN}/parts/subscription/s/skip/1")[0] == 405


def test_pulsars_own_verbs_do_what_they_did(instance: Instance, client: pulsar.Client) -> None:
    subscribed(instance, "verbs")
    publish(client, "verbs", 10, batches=False)
    where = f"{ADMIN}/verbs/subscription/s"
    assert instance.rest("POST", f"{where}/skip/4") == (204, None)
    assert backlog(instance, "verbs") == 6
    assert instance.rest("POST", f"{where}/skip_all") == (204, None)
    assert backlog(instance, "verbs") == 0
    assert instance.rest("POST", f"{where}/resetcursor/0") == (204, None)
    assert backlog(instance, "verbs") == 10
    assert instance.rest("GET", f"{API}/verbs/changes")[1]["changes"] == []


def insist(instance: Instance, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The first answer that is none of a broker's absence."""
    until = time.monotonic() + 60
    while True:
        status, said = instance.rest(method, path, body)
        if status != 503 or time.monotonic() > until:
            return status, said
        time.sleep(0.1)


def test_a_broker_killed_after_the_preview_changes_nothing_about_it(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "killed-before")
    publish(client, "killed-before", 500)
    said = preview(instance, where, "skip-all")
    instance.control("kill", "broker-1")
    status, done = insist(instance, "POST", f"{where}/skip-all", {"token": said["token"]})
    if status == 409:  # one that was answered 503 had been made
        assert "applied already" in done["reason"]
    else:
        assert (status, done["lost"]) == (200, 500)
    (made,) = insist(instance, "GET", f"{API}/killed-before/changes")[1]["changes"]
    assert (made["id"], made["lost"], backlog(instance, "killed-before")) == (said["id"], 500, 0)


def test_a_broker_killed_while_it_changes_makes_no_answer_a_lie(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "killed-amid")
    publish(client, "killed-amid", 500)
    rng = random.Random(5)
    entries = backlog(instance, "killed-amid")
    for _ in range(5):
        said = preview(instance, where, "skip-all")
        answers: list[tuple[int, Any]] = []

        def apply(token: str = said["token"], to: list[tuple[int, Any]] = answers) -> None:
            to.append(instance.rest("POST", f"{where}/skip-all", {"token": token}))

        caller = threading.Thread(target=apply)
        caller.start()
        time.sleep(rng.uniform(0, 0.02))  # time: the moment of the kill is drawn
        instance.kill("broker-1")
        instance.control("start", "broker-1")  # at once: after many kills it would rest first
        caller.join()
        ((status, done),) = answers
        changes = insist(instance, "GET", f"{API}/killed-amid/changes")[1]["changes"]
        made = any(one["id"] == said["id"] for one in changes)
        assert backlog(instance, "killed-amid") == (0 if made else entries)
        assert status in (200, 503)
        if status == 200:
            assert made
        else:
            assert done["reason"]
        if made:
            assert insist(instance, "POST", f"{where}/undo", {"id": said["id"]})[0] == 200
            assert backlog(instance, "killed-amid") == entries
