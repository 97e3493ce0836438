"""Steps of tests of copies: topics, what is stored in them, and copies by REST."""

from collections.abc import Callable
from typing import Any

import pulsar

from tests.support.instance import Instance
from tests.support.waiting import until_blocking

API = "/api/v1/clusters/standalone"
NAMESPACE = "public/copies"
AMOUNTS = ("entries", "copied", "acknowledged", "consumed", "unclear")


def prepare(instance: Instance) -> None:
    """Create the namespace, which keeps messages and deduplicates them."""
    path = f"/admin/v2/namespaces/{NAMESPACE}"
    assert instance.rest("PUT", path)[0] == 204
    retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
    assert instance.rest("POST", f"{path}/retention", retention)[0] == 204
    assert instance.rest("POST", f"{path}/deduplication", True)[0] == 204


def full(topic: str) -> str:
    return f"persistent://{NAMESPACE}/{topic}"


def create(instance: Instance, topic: str, partitions: int = 0) -> None:
    path = f"/admin/v2/persistent/{NAMESPACE}/{topic}"
    if partitions:
        assert instance.rest("PUT", f"{path}/partitions", partitions)[0] == 204
    else:
        assert instance.rest("PUT", path)[0] == 204


def publish(client: pulsar.Client, topic: str, count: int, *, batches: bool = True) -> None:
    producer = client.create_producer(
        full(topic), batching_enabled=batches, block_if_queue_full=True
    )
    for number in range(count):
        producer.send_async(
            b"%d" % number,
            lambda *_: None,
            partition_key=f"k{number % 7}",
            properties={"parity": str(number % 2)},
        )
    producer.flush()
    producer.close()


def stored(client: pulsar.Client, topic: str) -> list[pulsar.Message]:
    """Return all messages of a topic in its order."""
    messages = []
    for part in client.get_topic_partitions(full(topic)):
        reader = client.create_reader(part, pulsar.MessageId.earliest)
        try:
            while reader.has_message_available():
                messages.append(reader.read_next(10_000))
        finally:
            reader.close()  # its subscription would be one that the copies are taken back from
    return messages


def post(instance: Instance, path: str, body: Any, expected: int = 200) -> Any:
    status, answer = instance.rest("POST", f"{API}/{path}", body, timeout_s=60)
    assert status == expected, answer
    return answer


def started(instance: Instance, topic: str, **what: Any) -> tuple[Any, Any]:
    """Preview a copy and start it; return the preview and the copy."""
    path = f"topics/persistent/{NAMESPACE}/{topic}/copies"
    preview = post(instance, path, {"preview": True, **what})
    return preview, post(instance, path, {"token": preview["token"]})


def seen(instance: Instance, copy_id: str) -> Any:
    """Return a copy; one of an unknown state and no amounts while the gateway gives no answer."""
    try:
        status, answer = instance.rest("GET", f"{API}/copies/{copy_id}")
    except OSError as error:
        return {"state": repr(error), "counts": dict.fromkeys(AMOUNTS, 0)}
    return answer if status == 200 else {"state": answer, "counts": dict.fromkeys(AMOUNTS, 0)}


def reached(instance: Instance, copy_id: str, met: Callable[[Any], bool]) -> Any:
    until_blocking(
        lambda: met(seen(instance, copy_id)),
        lambda: f"{seen(instance, copy_id)}\n{instance.logs()}",
        bound_s=120,
    )
    return seen(instance, copy_id)


def finished(instance: Instance, copy_id: str) -> Any:
    row = reached(instance, copy_id, lambda row: row["state"] in ("succeeded", "failed", "stopped"))
    assert row["state"] == "succeeded", row
    return row
