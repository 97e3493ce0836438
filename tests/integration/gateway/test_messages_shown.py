"""Messages that the console shows, follows, exports and imports are those that the official client's reader receives.

The payloads are hostile: bytes that are no text, numbers beyond 64 bits, NaN, JSON of 10,000 levels, keys and
properties of many kilobytes, values near the limit of a message.
"""

import base64
import csv
import hashlib
import io
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pulsar
import pytest
from pyarrow import parquet
from websockets.sync.client import connect

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

NAMESPACE = "public/shown"
ADMIN = f"/admin/v2/persistent/{NAMESPACE}"
API = f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}"
DEEP = b"[" * 10_000 + b"]" * 10_000
HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "not-text": b"\xff\xfe\x00\x80" * 50,
    "half-character": b"caf\xc3",
    "nul": b"a\x00b",
    "long-numbers": b'{"n": 9223372036854775807, "m": 123456789012345678901234567890, "f": 1.10}',
    "nan": b'{"n": NaN, "i": -Infinity}',
    "deep": DEEP,
    "deep-object": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "twice": b'{"n": 1, "n": 2}',
    "lines": b'{"text": "a\\u2028b",\r\n"n": 3}',
    "formula": b"=cmd|'/c calc'!A1",
    "script": b"<script>alert(1)</script>",
    "large": b"x" * 4_900_000,
    "large-json": json.dumps({"n": 7, "rows": ["\u20ac" * 100] * 5_000}).encode(),
}
"""Values by the key that they are published with."""


class Stored(NamedTuple):
    """A message as a reader receives it."""

    id: str
    key: str | None
    properties: dict[str, str]
    value: bytes


def brief(message: Stored) -> tuple[str, str, int, str]:
    """Return a message as a failed comparison can state it: megabytes of a difference take minutes."""
    content = json.dumps([message.key, sorted(message.properties.items())]).encode() + message.value
    digest = hashlib.sha256(content).hexdigest()
    return message.id, (message.key or "")[:20], len(message.value), digest


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as running:
        assert running.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")[0] == 204
        retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
        path = f"/admin/v2/namespaces/{NAMESPACE}/retention"
        assert running.rest("POST", path, retention)[0] == 204
        yield running


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    opened = pulsar.Client(instance.url, logger=quiet)
    yield opened
    opened.close()


def stored_in(client: pulsar.Client, topic: str) -> list[Stored]:
    """Return all messages of a topic without partitions, as a reader receives them."""
    reader = client.create_reader(f"persistent://{NAMESPACE}/{topic}", pulsar.MessageId.earliest)
    messages = []
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=60_000)
        at = message.message_id()
        index = "" if at.batch_index() < 0 else f":{at.batch_index()}"
        messages.append(
            Stored(
                f"{at.ledger_id()}:{at.entry_id()}{index}",
                message.partition_key() or None,
                message.properties(),
                message.data(),
            )
        )
    reader.close()
    return messages


@pytest.fixture(scope="module")
def hostile(client: pulsar.Client) -> list[Stored]:
    """The stored messages of the topic ``hostile``: single ones, batches, and extreme keys and properties."""
    topic = f"persistent://{NAMESPACE}/hostile"
    single = client.create_producer(topic, batching_enabled=False)
    for key, value in HOSTILE.items():
        single.send(value, partition_key=key, properties={"kind": key})
    single.send(b"huge key", partition_key="k" * 60_000)
    single.send(b"odd key", partition_key="\u20ac \n\u2028\u202e<b>")
    single.send(b"many properties", properties={f"p{i}": "v" * 40 for i in range(3_000)})
    single.send(b"no key")
    batch = client.create_producer(
        topic, compression_type=pulsar.CompressionType.ZSTD, batching_max_publish_delay_ms=500
    )
    for number in range(50):
        batch.send_async(
            json.dumps({"n": number, "deep": {"even": number % 2 == 0}}).encode(),
            lambda *_: None,
            partition_key=f"b{number % 5}",
            properties={"even": str(number % 2 == 0)},
        )
    batch.flush()
    return stored_in(client, "hostile")


def pages(instance: Instance, topic: str, **query: Any) -> list[dict[str, Any]]:
    """Return the rows of all pages; each page counts what it looked at."""
    rows: list[dict[str, Any]] = []
    after, scanned = "", 0
    while True:
        given = urllib.parse.urlencode({**query, "after": after}, doseq=True)
        status, answer = instance.rest("GET", f"{API}/{topic}/messages?{given}", timeout_s=60)
        assert status == 200, answer
        assert answer["missing"] == []
        rows += answer["rows"]
        scanned += answer["scanned"]
        if answer["stopped"] == "end":
            assert scanned >= len(rows)
            return rows
        after = answer["after"]


def value_at(instance: Instance, topic: str, id: str) -> bytes:
    url = f"{instance.http}{API}/{topic}/messages/{urllib.parse.quote(id)}/value"
    with urllib.request.urlopen(url, timeout=60) as reply:
        content: bytes = reply.read()
    return content


def test_each_message_is_shown_with_its_key_properties_and_whole_value(
    instance: Instance, hostile: list[Stored]
) -> None:
    for start, expected in (("earliest", hostile), ("latest", hostile[::-1])):
        rows = pages(instance, "hostile", start=start, limit=17)
        shown = [(row["id"], row["key"], row["properties"]) for row in rows]
        assert [message[0] for message in shown] == [message.id for message in expected]
        assert (shown == [message[:3] for message in expected]) is True
    for message in hostile:
        assert (value_at(instance, "hostile", message.id) == message.value) is True
        path = f"{API}/hostile/messages/{message.id}"
        status, row = instance.rest("GET", path)
        assert status == 200
        value = row["value"]
        assert value["bytes"] == len(message.value)
        if value["form"] in ("json", "text"):
            text = message.value.decode()
            assert text.startswith(value["text"]) is True
            assert value["cut"] == (len(text) > len(value["text"]))
        else:
            digits = bytes.fromhex(value["text"])
            assert message.value.startswith(digits)
            assert value["cut"] == (len(digits) < len(message.value))


def has_text(text: str) -> Callable[[Stored], bool]:
    return lambda message: text.encode() in message.value and is_text(message.value)


def is_text(value: bytes) -> bool:
    try:
        return all(ord(c) >= 32 or c in "\t\r\n" for c in value.decode())
    except UnicodeDecodeError:
        return False


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Stored], bool]]] = {
    "key": ({"key": "b3"}, lambda message: message.key == "b3"),
    "huge key": ({"key": "k" * 9_000}, lambda message: False),
    "property": (
        {"property": ["even=True"]},
        lambda message: message.properties.get("even") == "True",
    ),
    "a property of thousands": ({"property": ["p2999"]}, lambda m: "p2999" in m.properties),
    "text": ({"text": "calc"}, has_text("calc")),
    "text in a large value": ({"text": "\u20ac" * 50}, has_text("\u20ac" * 50)),
    "a number of 64 bits": (
        {"path": "$.n", "equals": "9223372036854775807"},
        lambda message: message.key == "long-numbers",
    ),
    "a number of 30 digits": (
        {"path": "$.m", "equals": "123456789012345678901234567890"},
        lambda message: message.key == "long-numbers",
    ),
    "a nested value": (
        {"path": "$.deep.even", "equals": "true"},
        lambda message: message.properties.get("even") == "True",
    ),
    "a path in several": (
        {"path": "$.n", "equals": "7"},
        lambda message: message.key == "large-json" or b'"n": 7,' in message.value,
    ),
    "all conditions": (
        {"key": "b2", "property": ["even"], "path": "$.n", "equals": "12", "text": "DEEP"},
        lambda message: b'"n": 12,' in message.value,
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_conditions_leave_the_messages_that_meet_them(
    instance: Instance, hostile: list[Stored], name: str
) -> None:
    query, meets = FILTERS[name]
    rows = pages(instance, "hostile", start="earliest", limit=5, **query)
    assert [row["id"] for row in rows] == [message.id for message in hostile if meets(message)]


def export(instance: Instance, topic: str, kind: str) -> bytes:
    url = f"{instance.http}{API}/{topic}/messages/export?start=earliest&format={kind}"
    with urllib.request.urlopen(url, timeout=60) as reply:
        assert reply.headers["X-Export-Stopped"] == "end"
        content: bytes = reply.read()
        assert len(content) == int(reply.headers["Content-Length"])
    return content


def of_cells(row: dict[str, Any], value: str | None, properties: dict[str, str]) -> Stored:
    octets = row.get("value_base64") or None
    content = base64.b64decode(octets) if octets else (value or "").encode()
    return Stored(row["id"], row["key"], properties, content)


def test_exports_of_each_format_have_every_message(
    instance: Instance, hostile: list[Stored]
) -> None:
    table = parquet.read_table(io.BytesIO(export(instance, "hostile", "parquet")))
    rows = [of_cells(row, row["value"], dict(row["properties"])) for row in table.to_pylist()]
    assert list(map(brief, rows)) == list(map(brief, hostile))
    csv.field_size_limit(1 << 30)
    text = export(instance, "hostile", "csv").decode()
    cells = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["id"] for row in cells] == [message.id for message in hostile]
    by_id = {message.id: message for message in hostile}
    for row in cells:
        message = by_id[row["id"]]
        assert (json.loads(row["properties"]) == message.properties) is True
        if row["value_base64"]:
            is_same = base64.b64decode(row["value_base64"]) == message.value
        else:
            # A spreadsheet must not take a value for a formula: it is marked as a text then.
            is_same = row["value"].removeprefix("'").encode() == message.value
        assert is_same, brief(message)
    lines = export(instance, "hostile", "jsonl").decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(hostile)
    for line, message in zip(lines, hostile, strict=True):
        assert line.startswith(f'{{"id": "{message.id}"')
        if message.key in ("deep", "deep-object"):
            # Deeper than Python's own parser goes: written as it is.
            is_same = line.endswith(f"{json.dumps(message.value.decode())}}}")
            assert is_same, brief(message)
            continue
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        assert row.get("key") == message.key
        assert (row.get("properties", {}) == message.properties) is True


def test_an_import_publishes_what_its_dry_run_said(
    instance: Instance, client: pulsar.Client, hostile: list[Stored]
) -> None:
    lines = export(instance, "hostile", "jsonl").decode().rstrip("\n").split("\n")
    small = [
        (line, message)
        for line, message in zip(lines, hostile, strict=True)
        if len(line) < 100_000 and message.key not in ("deep", "deep-object")
    ]
    assert instance.rest("PUT", f"{ADMIN}/imported")[0] == 204
    path, seen = f"{API}/imported/messages", []
    for begin in range(0, len(small), 20):
        part = [line for line, _ in small[begin : begin + 20]]
        status, preview = instance.rest("POST", path, {"preview": True, "lines": part})
        assert (status, preview["wrong"], preview["problems"]) == (200, 0, [])
        before = len(stored_in(client, "imported"))
        assert before == begin, "a dry run stores nothing"
        status, receipt = instance.rest("POST", path, {"lines": part}, timeout_s=60)
        assert (status, receipt["stored"]) == (200, preview["messages"])
        seen.append(preview["bytes"])
    published = stored_in(client, "imported")
    assert [brief(message)[1:] for message in published] == [brief(row)[1:] for _, row in small]
    assert sum(seen) == sum(len(message.value) for message in published)


@pytest.mark.parametrize(
    "wrong",
    [
        '{"value": 1, "unknown": 2}',
        '{"value": "x", "kind": "chunk"}',
        '{"value_base64": "?"}',
        "no json",
        '{"value": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"value": "x", "event_time": 9223372036854775808}',
        '{"value": "\\ud800"}',
        '{"key": "k"}',
    ],
    ids=range(8),
)
def test_an_import_with_a_line_that_its_dry_run_refuses_stores_nothing(
    instance: Instance, client: pulsar.Client, wrong: str
) -> None:
    topic = "refused"
    instance.rest("PUT", f"{ADMIN}/{topic}")
    body = {"lines": ['{"value": "right"}', wrong, '{"value": "right too"}']}
    status, preview = instance.rest("POST", f"{API}/{topic}/messages", body | {"preview": True})
    assert status == 200, preview
    assert (preview["messages"], preview["wrong"]) == (3, 1)
    (problem,) = preview["problems"]
    assert problem["message"] == 1
    status, answer = instance.rest("POST", f"{API}/{topic}/messages", body)
    assert status == 400
    assert problem["reason"] in answer["reason"]
    assert stored_in(client, topic) == []


def test_a_tail_counts_every_message_of_a_burst_and_shows_stored_ones(
    instance: Instance, client: pulsar.Client
) -> None:
    count, topic = 51_000, "followed"
    assert instance.rest("PUT", f"{ADMIN}/{topic}")[0] == 204
    url = f"ws://127.0.0.1:{instance.ports['HTTP']}/api/v1/tail?rate=100"
    url += f"&topic=persistent://{NAMESPACE}/{topic}&property=even"
    shown: list[dict[str, Any]] = []
    with connect(url, max_size=None) as socket:

        def follow(done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            while True:
                answer: dict[str, Any] = json.loads(socket.recv(60))
                if answer["op"] != "rows":
                    continue
                shown.extend(answer["rows"])
                counted = answer["shown"] + answer["filtered"] + answer["passed_over"]
                assert answer["received"] == counted, "each message is counted once"
                assert answer["shown"] == len(shown)
                assert answer["problem"] is None
                if done(answer):
                    return answer

        follow(lambda answer: True)

        def publish() -> None:
            producer = client.create_producer(
                f"persistent://{NAMESPACE}/{topic}", block_if_queue_full=True
            )
            for number in range(count):
                properties = {"even": "1"} if number % 2 == 0 else {}
                producer.send_async(b"%d" % number, lambda *_: None, properties=properties)
            producer.flush()

        publishing = threading.Thread(target=publish)
        publishing.start()
        last = follow(lambda answer: bool(answer["received"] == count))
        publishing.join()
        assert last["filtered"] == count // 2
        assert 0 < last["shown"] < count // 2
        socket.send('{"op":"pause"}')
        follow(lambda answer: bool(answer["paused"]))
        before = len(shown)
        producer = client.create_producer(f"persistent://{NAMESPACE}/{topic}")
        producer.send(b"paused", properties={"even": "1"})
        follow(lambda answer: bool(answer["received"] == count + 1))
        assert len(shown) == before
        socket.send('{"op":"resume"}')
        follow(lambda answer: not answer["paused"])
        producer.send(b"resumed", properties={"even": "1"})
        follow(lambda answer: bool(answer["received"] == count + 2))
    stored = {message.id: message for message in stored_in(client, topic)}
    assert len(stored) == count + 2
    for row in shown:
        message = stored[row["id"]]
        assert (row["value"]["text"].encode(), row["properties"]) == message[3:1:-1]
    assert shown[-1]["value"]["text"] == "resumed"
    ids = [row["id"] for row in shown]
    assert len(set(ids)) == len(ids)
    stats = instance.rest("GET", f"{ADMIN}/{topic}/stats")[1]
    assert stats["subscriptions"] == {}
