"""Copies, moves and redrives of a running instance, by its REST."""

import time
from collections import Counter
from collections.abc import Iterator
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

EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("copies")) as running:
        prepare(running)
        yield running


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(instance.url, logger=quiet, operation_timeout_seconds=60)
    yield made
    made.close()


def test_letters_of_a_client_are_grouped_redriven_to_their_origin_and_taken_back(
    instance: Instance, client: pulsar.Client
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=1)
    consumer = client.subscribe(
        full("orders"),
        "app",
        consumer_type=pulsar.ConsumerType.Shared,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=100,
    )
    publish(client, "orders", 40, batches=False)
    letters = f"topics/persistent/{NAMESPACE}/orders-app-DLQ"

    def groups() -> Any:
        return instance.rest("GET", f"{API}/{letters}/dead-letters")[1].get("groups", [])

    until_s = time.monotonic() + 60
    while sum(group["messages"] for group in groups()) < 40:
        assert time.monotonic() < until_s
        try:
            consumer.negative_acknowledge(consumer.receive(1_000))
        except pulsar.Timeout:
            continue
    consumer.close()
    (group,) = groups()
    assert (group["origin"], group["subscription"]) == (full("orders"), "app")

    def listed() -> Any:
        rows = instance.rest("GET", f"{API}/dead-letters?q=copies")[1]["rows"]
        return [row for row in rows if row["entries"] == 40]

    until_blocking(lambda: bool(listed()), instance.logs)
    assert listed()[0]["origin"] == full("orders")

    late = client.subscribe(full("orders"), "late", initial_position=EARLIEST)
    for _ in range(40):
        late.acknowledge(late.receive(10_000))
    late.close()  # it must not consume the copies
    conditions = {"key": "k3", "group": {"origin": full("orders"), "reason": group["reason"]}}
    preview, copy = started(instance, "orders-app-DLQ", conditions=conditions)
    assert preview["matched"] == 6
    assert [(row["topic"], row["messages"]) for row in preview["targets"]] == [(full("orders"), 6)]
    assert preview["at_least_once"] is False
    row = finished(instance, copy["id"])
    assert row["counts"]["copied"] == 6
    again = [m for m in stored(client, "orders") if m.publish_timestamp()][40:]
    assert [m.partition_key() for m in again] == ["k3"] * 6
    assert all("REAL_TOPIC" not in m.properties() and "parity" in m.properties() for m in again)

    undo = post(instance, f"copies/{copy['id']}/undo", {"preview": True})
    assert undo["copies"] == 6
    by_name = {row["subscription"]: row for row in undo["subscriptions"]}
    assert (by_name["late"]["held"], by_name["late"]["consumed"]) == (6, 0)
    taken = post(instance, f"copies/{copy['id']}/undo", {"token": undo["token"]})
    finished(instance, taken["id"])
    late = client.subscribe(full("orders"), "late")
    with pytest.raises(pulsar.Timeout):
        late.receive(1_000)
    late.close()


def test_a_subscription_is_moved_by_one_copy_at_a_time(
    instance: Instance, client: pulsar.Client
) -> None:
    create(instance, "alone-to")
    client.subscribe(full("alone-from"), "s").close()
    publish(client, "alone-from", 200, batches=False)
    path = f"topics/persistent/{NAMESPACE}/alone-from/copies"
    body = {"preview": True, "target": full("alone-to"), "subscription": "s", "rate": 50}
    tokens = [{"token": post(instance, path, body)["token"]} for _ in range(2)]
    first = post(instance, path, tokens[0])
    post(instance, path, tokens[1], 409)
    assert post(instance, path, tokens[0])["id"] == first["id"]
    reached(instance, first["id"], lambda row: row["counts"]["copied"] > 0)
    post(instance, f"copies/{first['id']}/stop", {})
    reached(instance, first["id"], lambda row: row["state"] == "stopped")
    second = post(instance, path, tokens[1])
    post(instance, f"copies/{first['id']}/resume", {}, 409)
    finished(instance, second["id"])
    post(instance, f"copies/{first['id']}/resume", {"rate": 5_000})
    assert finished(instance, first["id"])["counts"]["copied"] < 200
    assert Counter(m.data() for m in stored(client, "alone-to")) == Counter(
        b"%d" % i for i in range(200)
    )


def test_a_stopped_copy_is_resumed_and_a_token_starts_one_copy(
    instance: Instance, client: pulsar.Client
) -> None:
    create(instance, "stopped-to")
    publish(client, "stopped-from", 400, batches=False)
    path = f"topics/persistent/{NAMESPACE}/stopped-from/copies"
    preview = post(instance, path, {"preview": True, "target": full("stopped-to"), "rate": 50})
    first, second = (post(instance, path, {"token": preview["token"]}) for _ in range(2))
    assert first["id"] == second["id"]
    reached(instance, first["id"], lambda row: row["counts"]["copied"] > 0)
    post(instance, f"copies/{first['id']}/stop", {})
    row = reached(instance, first["id"], lambda row: row["state"] == "stopped")
    assert 0 < row["counts"]["copied"] < 400
    undo = post(instance, f"copies/{first['id']}/undo", {"preview": True})
    post(instance, f"copies/{first['id']}/resume", {"rate": 5_000})
    row = finished(instance, first["id"])
    assert row["counts"]["entries"] == row["entries"] == 400
    assert [int(m.data()) for m in stored(client, "stopped-to")] == list(range(400))
    post(instance, f"copies/{first['id']}/undo", {"token": undo["token"]}, 409)


def test_a_copy_that_is_stopped_sends_nothing_twice_to_a_target_without_deduplication(
    instance: Instance, client: pulsar.Client
) -> None:
    target = "persistent://public/default/stopped-plain"
    assert instance.rest("PUT", "/admin/v2/persistent/public/default/stopped-plain")[0] == 204
    retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
    path = "/admin/v2/namespaces/public/default/retention"
    assert instance.rest("POST", path, retention)[0] == 204
    publish(client, "stopped-batches", 2_000)
    preview, copy = started(instance, "stopped-batches", target=target, rate=400)
    assert preview["at_least_once"]
    for _ in range(3):
        before = seen(instance, copy["id"])["counts"]["copied"]
        reached(instance, copy["id"], lambda row, at=before: row["counts"]["copied"] > at)
        post(instance, f"copies/{copy['id']}/stop", {})
        reached(instance, copy["id"], lambda row: row["state"] == "stopped")
        post(instance, f"copies/{copy['id']}/resume", {})
    row = finished(instance, copy["id"])
    assert (row["counts"]["copied"], row["counts"]["matched"]) == (2_000, 2_000)
    reader = client.create_reader(target, pulsar.MessageId.earliest)
    values = []
    while reader.has_message_available():
        values.append(int(reader.read_next(10_000).data()))
    reader.close()
    assert sorted(values) == list(range(2_000))


def test_a_copy_without_a_target_is_refused_with_a_reason(
    instance: Instance, client: pulsar.Client
) -> None:
    create(instance, "refused")
    path = f"topics/persistent/{NAMESPACE}/refused/copies"
    body = {"preview": True, "target": full("does-not-exist")}
    status, answer = instance.rest("POST", f"{API}/{path}", body)
    assert (status, "does-not-exist" in answer["reason"]) == (404, True)
    preview = post(instance, path, {"preview": True})
    status, answer = instance.rest("POST", f"{API}/{path}", {"token": preview["token"]})
    assert status == 422
    for wrong, field in (
        ({"rate": 0}, "rate"),
        ({"filter": {"key": "k"}}, "filter"),
        ({"conditions": {"kye": "k"}}, "conditions"),
        ({"conditions": {"group": {"orgin": "x"}}}, "conditions"),
    ):
        status, answer = instance.rest("POST", f"{API}/{path}", {"preview": True, **wrong})
        assert (status, answer["field"]) == (400, field), answer
    until = {"preview": True, "target": full("refused"), "conditions": {"until": 0}}
    publish(client, "refused", 3)
    assert post(instance, path, until)["matched"] == 0


def test_a_message_that_the_target_refuses_is_named_and_stays_in_the_subscription(
    instance: Instance, client: pulsar.Client
) -> None:
    create(instance, "limited-to")
    path = f"/admin/v2/persistent/{NAMESPACE}/limited-to/maxMessageSize"
    assert instance.rest("POST", path, 1_000)[0] == 204
    client.subscribe(full("limited-from"), "s").close()
    producer = client.create_producer(full("limited-from"), batching_enabled=False)
    values = [b"first", b"x" * 2_000, b"last"]
    for value in values:
        producer.send(value)
    producer.close()
    until_blocking(
        lambda: instance.rest("GET", path)[1] == 1_000, "the limit is stored", bound_s=60
    )
    _, copy = started(instance, "limited-from", target=full("limited-to"), subscription="s")
    row = finished(instance, copy["id"])
    assert row["error"].startswith("Not all messages were copied: "), row
    amounts = [row["counts"][name] for name in ("copied", "acknowledged", "not_copied")]
    assert amounts == [2, 2, 1]
    assert [m.data() for m in stored(client, "limited-to")] == [b"first", b"last"]
    consumer = client.subscribe(full("limited-from"), "s")
    assert consumer.receive(30_000).data() == values[1]
    consumer.close()
