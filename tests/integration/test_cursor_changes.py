"""Changes of cursors on a real instance, while the official client publishes and consumes, and brokers are killed."""

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
"""Members of internal statistics about the place and the number of writes of a cursor's state."""


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        assert killed.rest("PUT", "/admin/v2/namespaces/public/cursors")[0] == 204
        retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
        assert (
            killed.rest("POST", "/admin/v2/namespaces/public/cursors/retention", retention)[0]
            == 204
        )
        yield killed


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    new_client = pulsar.Client(instance.url, logger=quiet, operation_timeout_seconds=60)
    yield new_client
    new_client.close()


def subscribed(instance: Instance, topic: str) -> str:
    """Create a topic with the subscription ``s`` at its beginning; return the path of the subscription's changes."""
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
    """Publish messages while the context is open; the yielded list holds the number of confirmed ones."""
    producer = client.create_producer(
        f"persistent://public/cursors/{topic}", batching_max_publish_delay_ms=5
    )
    confirmed, stop = [0], threading.Event()

    def count(result: Any, _: Any) -> None:
        confirmed[0] += result == pulsar.Result.Ok

    def run() -> None:
        while not stop.is_set():
            for _ in range(per_second // 20):
                producer.send_async(b"x" * 100, count)
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
    status, answer = instance.rest("POST", f"{where}/{change}", {"preview": True, **how})
    assert status == 200, answer
    return dict(answer)


def backlog(instance: Instance, topic: str) -> int:
    stats = instance.rest("GET", f"{ADMIN}/{topic}/stats")[1]
    return int(stats["subscriptions"]["s"]["msgBacklog"])


def internals(instance: Instance, topic: str) -> dict[str, Any]:
    cursor = dict(instance.rest("GET", f"{ADMIN}/{topic}/internalStats")[1]["cursors"]["s"])
    return {name: value for name, value in cursor.items() if name not in STORED}


def received(client: pulsar.Client, topic: str) -> int:
    """Consume and acknowledge the backlog of the subscription; return the number of messages."""
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


def test_a_skip_discards_what_was_previewed_at_1000_messages_a_second(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "busy")
    with publishing(client, "busy", 1000) as confirmed:
        while confirmed[0] < 2000:
            time.sleep(0.05)
        previewed = preview(instance, where, "skip-all")
        seen = confirmed[0]
        while confirmed[0] < seen + 1500:  # as long as a user reads the dialog
            time.sleep(0.05)
        status, done = instance.rest("POST", f"{where}/skip-all", {"token": previewed["token"]})
    assert (status, done["lost"], done["meanwhile"]) == (200, previewed["lost"], 0)
    assert previewed["exact"]
    assert received(client, "busy") == confirmed[0] - done["lost"]


def test_an_undone_skip_restores_the_internal_statistics(
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
    previewed = preview(instance, where, "skip-all")
    assert (previewed["lost"], previewed["holes"] > 0) == (550, True)
    done = instance.rest("POST", f"{where}/skip-all", {"token": previewed["token"]})[1]
    assert (done["lost"], backlog(instance, "holes")) == (550, 0)
    status, undone = instance.rest("POST", f"{where}/undo", {"id": done["undo"]})
    assert (status, undone["again"]) == (200, 550)
    assert internals(instance, "holes") == before
    assert received(client, "holes") == 550


def test_the_preview_of_a_reset_ahead_of_the_cursor_counts_the_lost_messages(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "ahead")
    publish(client, "ahead", 300)
    time.sleep(0.01)  # time: the clock passes the last message's millisecond
    ten_minutes_ago = int(time.time() * 1000)  # ahead of a subscription that is further behind
    previewed = preview(instance, where, "reset", timestamp=ten_minutes_ago)
    assert (previewed["direction"], previewed["lost"], previewed["again"]) == ("forward", 300, 0)


def test_skipping_a_number_is_refused_on_partitioned_topics(instance: Instance) -> None:
    assert instance.rest("PUT", f"{ADMIN}/parts/partitions", 2)[0] == 204
    where = subscribed(instance, "parts")
    assert instance.rest("POST", f"{where}/skip", {"preview": True, "count": 1})[0] == 405
    assert instance.rest("POST", f"{ADMIN}/parts/subscription/s/skip/1")[0] == 405


def test_pulsars_own_calls_change_the_cursor_without_a_record(
    instance: Instance, client: pulsar.Client
) -> None:
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
    """Repeat a call for up to 60 s while it is answered with 503; return the last answer."""
    until = time.monotonic() + 60
    while True:
        status, answer = instance.rest(method, path, body)
        if status != 503 or time.monotonic() > until:
            return status, answer
        time.sleep(0.1)


def test_a_previewed_change_is_applied_after_its_broker_was_killed(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "killed-before")
    publish(client, "killed-before", 500)
    previewed = preview(instance, where, "skip-all")
    instance.control("kill", "broker-1")
    status, done = insist(instance, "POST", f"{where}/skip-all", {"token": previewed["token"]})
    if status == 409:  # an attempt that was answered with 503 had applied the change
        assert "applied already" in done["reason"]
    else:
        assert (status, done["lost"]) == (200, 500)
    (change,) = insist(instance, "GET", f"{API}/killed-before/changes")[1]["changes"]
    assert (change["id"], change["lost"], backlog(instance, "killed-before")) == (
        previewed["id"],
        500,
        0,
    )


def test_an_answer_is_true_when_the_broker_is_killed_during_a_change(
    instance: Instance, client: pulsar.Client
) -> None:
    where = subscribed(instance, "killed-amid")
    publish(client, "killed-amid", 500)
    rng = random.Random(5)
    entries = backlog(instance, "killed-amid")
    for _ in range(5):
        previewed = preview(instance, where, "skip-all")
        answers: list[tuple[int, Any]] = []

        def apply(token: str = previewed["token"], to: list[tuple[int, Any]] = answers) -> None:
            to.append(instance.rest("POST", f"{where}/skip-all", {"token": token}))

        caller = threading.Thread(target=apply)
        caller.start()
        time.sleep(rng.uniform(0, 0.02))  # time: the moment of the kill is drawn
        instance.kill("broker-1")
        # Started at once: after many kills the supervisor would delay the restart.
        instance.control("start", "broker-1")
        caller.join()
        ((status, done),) = answers
        changes = insist(instance, "GET", f"{API}/killed-amid/changes")[1]["changes"]
        was_applied = any(change["id"] == previewed["id"] for change in changes)
        assert backlog(instance, "killed-amid") == (0 if was_applied else entries)
        assert status in (200, 503)
        if status == 200:
            assert was_applied
        else:
            assert done["reason"]
        if was_applied:
            assert insist(instance, "POST", f"{where}/undo", {"id": previewed["id"]})[0] == 200
            assert backlog(instance, "killed-amid") == entries
