"""The latest value of each key of a topic, as the official client's reader of the compacted topic ends with them."""

import json
import random
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until_blocking

NAMESPACE = "public/latest"
ADMIN = f"/admin/v2/persistent/{NAMESPACE}"
API = f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}"


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as running:
        assert running.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")[0] == 204
        retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
        path = f"/admin/v2/namespaces/{NAMESPACE}/retention"
        assert running.rest("POST", path, retention)[0] == 204
        yield running


def read_by_client(client: pulsar.Client, topic: str) -> dict[str, bytes]:
    """Return the last value of each key that a reader of the compacted topic receives; none for empty ones."""
    reader = client.create_reader(
        f"persistent://{NAMESPACE}/{topic}", pulsar.MessageId.earliest, is_read_compacted=True
    )
    values: dict[str, bytes] = {}
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=60_000)
        values.pop(message.partition_key(), None)
        if message.data():
            values[message.partition_key()] = message.data()
    reader.close()
    return values


def read_by_pages(instance: Instance, topic: str, limit: int, **query: str) -> dict[str, bytes]:
    values: dict[str, bytes] = {}
    after = ""
    while True:
        given = {"compacted": "true", "limit": str(limit), "after": after, **query}
        status, page = instance.rest(
            "GET", f"{API}/{topic}/messages?{urllib.parse.urlencode(given)}"
        )
        assert status == 200, page
        for removed in page["compacted"]["removed"]:
            values.pop(removed["key"], None)
        for row in page["rows"]:
            values[row["key"]] = row["value"]["text"].encode()
        if page["stopped"] == "end":
            return values
        after = page["after"]


def compact(instance: Instance, topic: str) -> None:
    assert instance.rest("PUT", f"{ADMIN}/{topic}/compaction")[0] == 204

    def done() -> Any:
        status = instance.rest("GET", f"{ADMIN}/{topic}/compaction")[1]
        return status["status"] == "SUCCESS"

    until_blocking(done)


@pytest.mark.parametrize("batches", [True, False])
def test_pages_and_export_have_what_a_reader_of_the_compacted_topic_has(
    instance: Instance, batches: bool
) -> None:
    topic = f"folded-{batches}".lower()
    chance = random.Random(topic)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        producer = client.create_producer(
            f"persistent://{NAMESPACE}/{topic}", batching_enabled=batches
        )
        for part in range(3):
            for number in range(300):
                key = f"k{chance.randrange(40)}"
                value = b"" if chance.random() < 0.1 else b"%d/%d" % (part, number)
                producer.send_async(value, lambda *_: None, partition_key=key)
            producer.flush()
            expected = read_by_client(client, topic)
            assert len(expected) > 20
            for limit in (7, 1000):
                assert read_by_pages(instance, topic, limit) == expected
            # What follows the last round is not compacted.
            if part < 2:
                compact(instance, topic)
                assert read_by_client(client, topic) == expected
        some = next(iter(expected))
        assert read_by_pages(instance, topic, 50, key=some) == {some: expected[some]}
        status, text = instance.rest(
            "GET", f"{API}/{topic}/messages/export?compacted=true&format=jsonl"
        )
        assert status == 200
        rows = [json.loads(line) for line in text.splitlines()]
        assert {row["key"]: row["value"].encode() for row in rows} == expected
        status, refusal = instance.rest(
            "GET", f"{API}/{topic}/messages/export?compacted=true&limit=3"
        )
        assert status == 422, "a part of the keys is no file"
        assert "more than 3 keys" in refusal["reason"]
        # The topic is loaded by the first read after this.
        assert instance.rest("PUT", f"{ADMIN}/{topic}/unload")[0] == 204
        assert read_by_pages(instance, topic, 1000) == expected
        stats = instance.rest("GET", f"{ADMIN}/{topic}/stats")[1]
        assert set(stats["subscriptions"]) <= {"__compaction"}
    finally:
        client.close()


def test_messages_in_chunks_are_whole_as_a_reader_receives_them(instance: Instance) -> None:
    topic = "chunked"
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        # Two producers at a time: chunks of one message are between those of another.
        producers = [
            client.create_producer(
                f"persistent://{NAMESPACE}/{topic}",
                batching_enabled=False,
                chunking_enabled=True,
                compression_type=kind,
            )
            for kind in (pulsar.CompressionType.NONE, pulsar.CompressionType.ZLib)
        ]
        chance = random.Random(topic)
        for part in range(2):
            for number in range(2):
                for producer in producers:
                    size = chance.randrange(5 << 20, 8 << 20)
                    value = chance.randbytes(1 << 16).hex().encode() * (size >> 17)
                    producer.send_async(
                        b"%d-%d " % (part, number) + value,
                        lambda *_: None,
                        partition_key=f"k{number}",
                    )
            for producer in producers:
                producer.flush()
            if part == 0:
                compact(instance, topic)
        expected = read_by_client(client, topic)
        assert max(map(len, expected.values())) > 5 << 20, "more than an entry may have"
        shown = {}
        after = ""
        while True:
            status, answer = instance.rest(
                "GET", f"{API}/{topic}/messages?compacted=true&limit=1&after={after}"
            )
            assert status == 200, answer
            shown |= {row["key"]: row for row in answer["rows"]}
            if answer["stopped"] == "end":
                break
            after = answer["after"]
        assert {row["kind"] for row in shown.values()} == {"message"}
        sizes = {key: (row["value"]["bytes"], row["problem"]) for key, row in shown.items()}
        assert sizes == {key: (len(value), None) for key, value in expected.items()}
        status, text = instance.rest(
            "GET", f"{API}/{topic}/messages/export?compacted=true&format=jsonl", timeout_s=60
        )
        assert status == 200
        rows = [json.loads(line) for line in text.splitlines()]
        assert {row["key"]: row["value"].encode() for row in rows} == expected
    finally:
        client.close()


def test_a_place_to_begin_at_is_refused(instance: Instance) -> None:
    assert instance.rest("PUT", f"{ADMIN}/placed")[0] == 204
    for given in ("start=earliest", "time=1", "position=1:2", "direction=forward"):
        status, refusal = instance.rest("GET", f"{API}/placed/messages?compacted=true&{given}")
        assert status == 400
        assert given.split("=")[0] in refusal["reason"]
    status, refusal = instance.rest("GET", f"{API}/placed/messages?compacted=maybe")
    assert status == 400
    assert "compacted" in refusal["reason"]
