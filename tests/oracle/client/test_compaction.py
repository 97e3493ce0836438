"""Compaction as the official client and REST see it on both brokers: what is left, in which order, at which ids."""

import json
import time
from typing import Any

import pulsar

from tests.oracle.conftest import Side

NAMESPACE = "public/compacted"
EARLIEST = pulsar.MessageId.earliest
Pair = tuple[str | None, bytes]

ROUNDS: list[list[Pair]] = [
    [("a", b"1"), ("b", b"1"), ("a", b"2"), ("c", b"1"), (None, b"x"), ("d", b"4")],
    [("e", b"1"), ("a", b"3"), (None, b"y")],
    [("b", b"2"), ("f", b"1")],
]
"""Pairs without empty values: Apache keeps those that the C++ client sends singly, without their uncompressed size."""
BATCHES: list[list[Pair]] = [
    [*ROUNDS[0], ("b", b""), ("g", b"1")],
    [("c", b""), ("h", b"1"), ("a", b""), (None, b"")],
    [("h", b""), ("i", b"1"), ("j", b""), ("k", b"1")],
]


def length_of(number: int) -> int:
    """Bytes of it as a varint."""
    return max(-(-number.bit_length() // 7), 1)


def wait_compacted(side: Side, path: str) -> list[Any]:
    """Begin a compaction and return the statuses up to its end."""
    statuses: list[Any] = [side.call("GET", f"{path}/compaction")]
    statuses.append(side.put(f"{path}/compaction"))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        status = json.loads(side.call("GET", f"{path}/compaction")[1])
        if status["status"] != "RUNNING":
            statuses.append(status)
            return statuses
        time.sleep(0.05)
    raise AssertionError("the compaction does not end")


class Places:
    """Message ids by the order in which their ledgers appeared: ledger ids differ between brokers."""

    def __init__(self) -> None:
        self._ledgers: dict[int, int] = {}

    def of(self, message_id: Any) -> tuple[int, int, int]:
        ledger = self._ledgers.setdefault(message_id.ledger_id(), len(self._ledgers))
        return ledger, message_id.entry_id(), message_id.batch_index()


class Story:
    """The observed events of one topic."""

    def __init__(self, side: Side, client: Any, name: str) -> None:
        self.side, self.client = side, client
        self.topic = f"persistent://{NAMESPACE}/{name}"
        self.path = f"/admin/v2/persistent/{NAMESPACE}/{name}"
        self.places = Places()
        self.found: set[tuple[int, int]] = set()
        """Ledger and entry of what was read last."""
        self.events: list[Any] = []

    def publish(self, pairs: list[Pair], **options: Any) -> None:
        producer = self.client.create_producer(
            self.topic,
            "of one length, as it is stored",
            batching_max_publish_delay_ms=10_000,
            batching_max_messages=4,
            **options,
        )
        for key, value in pairs:
            more = {} if key is None else {"partition_key": key}
            producer.send_async(value, lambda result, message_id: None, **more)
        producer.flush()
        producer.close()

    def read(self, start: Any = EARLIEST, **options: Any) -> list[Any]:
        reader = self.client.create_reader(self.topic, start, is_read_compacted=True, **options)
        messages = self._rest(reader)
        reader.close()
        return messages

    def _rest(self, reader: Any) -> list[Any]:
        messages = []
        self.found = set()
        while reader.has_message_available():
            message = reader.read_next(20_000)
            at = message.message_id()
            self.found.add((at.ledger_id(), at.entry_id()))
            place = self.places.of(at)
            messages.append((message.partition_key(), message.data(), place))
        return messages

    def seek(self) -> None:
        """Seek to every third id of the topic and to its ends; read from every second id."""
        whole = self.client.create_reader(self.topic, EARLIEST)
        ids = []
        while whole.has_message_available():
            ids.append(whole.read_next(20_000).message_id())
        whole.close()
        reader = self.client.create_reader(self.topic, EARLIEST, is_read_compacted=True)
        for message_id in [*ids[::3], EARLIEST, pulsar.MessageId.latest]:
            reader.seek(message_id)
            self.events.append(("sought", self._rest(reader)))
        reader.close()
        for message_id in ids[::2]:
            self.events.append(("from", self.read(message_id, start_message_id_inclusive=True)))
            self.events.append(("behind", self.read(message_id)))

    def consume(self, name: str) -> None:
        """Read a durable subscription twice."""
        for _ in range(2):
            consumer = self.client.subscribe(
                self.topic,
                name,
                consumer_type=pulsar.ConsumerType.Failover,
                initial_position=pulsar.InitialPosition.Earliest,
                is_read_compacted=True,
            )
            messages = []
            while True:
                try:
                    message = consumer.receive(2_000)
                except pulsar.Timeout:
                    break
                messages.append((message.partition_key(), message.data()))
                if len(messages) <= 2:
                    consumer.acknowledge_cumulative(message)
            self.events.append((name, messages))
            consumer.close()

    def view(self) -> None:
        view = self.client.create_table_view(self.topic)
        self.events.append(("view", [(key, view.get(key)) for key in "abcdefghijk"]))
        view.close()

    def unload(self) -> None:
        assert self.side.put(f"{self.path}/unload") == 204


def without_end(messages: list[Any]) -> list[Any]:
    """Return messages without the empty ones at the end of a batch: Apache's broker drops these late."""
    while messages and messages[-1][:2] == ("", b""):
        messages.pop()
    return messages


def tell(side: Side, name: str, rounds: list[list[Pair]], **options: Any) -> list[Any]:
    client = pulsar.Client(side.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        story = Story(side, client, name)
        for pairs in rounds:
            story.publish(pairs, **options)
            story.events.append(("before", story.read()))
            story.events += wait_compacted(side, story.path)
            after, compacted = story.read(), story.found
            story.events.append(("after", without_end(after)))
            story.unload()
            story.events.append(("unloaded", without_end(story.read())))
        story.publish([("l", b"1"), ("a", b"9"), (None, b"z"), ("k", b"2")], **options)
        story.events.append(("and more", story.read()))
        story.seek()
        story.consume("durable")
        story.view()
        stats = json.loads(side.call("GET", f"{story.path}/internalStats")[1])
        ledger = stats["compactedLedger"]
        packed = "compression_type" in options  # two libraries
        # The numbers of ledgers are in each entry, and differ between brokers.
        numbers = sum(length_of(ledger_id) for ledger_id, _ in compacted)
        story.events.append(("ledger", ledger["entries"], packed or ledger["size"] - numbers))
        story.events.append(sorted(json.loads(side.call("GET", f"{story.path}/subscriptions")[1])))
        return story.events
    finally:
        client.close()


def make(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.put(f"/admin/v2/namespaces/{NAMESPACE}")
        retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
        assert side.post(f"/admin/v2/namespaces/{NAMESPACE}/retention", retention) == 204


def compare(theirs: list[Any], ours: list[Any]) -> None:
    for mine, apaches in zip(ours, theirs, strict=True):
        assert mine == apaches


def test_single_messages_are_compacted_alike(sides: tuple[Side, Side]) -> None:
    make(sides)
    compare(*(tell(side, "single", ROUNDS, batching_enabled=False) for side in sides))


def test_batches_are_compacted_alike(sides: tuple[Side, Side]) -> None:
    make(sides)
    compare(*(tell(side, "batches", BATCHES, batching_enabled=True) for side in sides))


def test_compressed_batches_are_compacted_alike(sides: tuple[Side, Side]) -> None:
    make(sides)
    kind = pulsar.CompressionType.ZSTD
    compare(
        *(
            tell(side, "zstd", BATCHES, batching_enabled=True, compression_type=kind)
            for side in sides
        )
    )


def test_invalid_requests_are_refused_alike(sides: tuple[Side, Side]) -> None:
    make(sides)
    answers: list[list[Any]] = []
    for side in sides:
        results: list[Any] = []
        base = f"/admin/v2/persistent/{NAMESPACE}"
        for name in ("missing", "parted", "parted-partition-0", "plain"):
            if name == "parted":
                side.put(f"{base}/parted/partitions", 2)
            if name == "plain":
                side.put(f"{base}/plain")
            path = f"{base}/{name}/compaction"
            # Begun with its parent, a partition may still be under way.
            verbs = ("GET",) if "-partition-" in name else ("GET", "PUT")
            results += [(name, verb, side.call(verb, path)[0]) for verb in verbs]
        for path, verb in ((f"/admin/v2/namespaces/{NAMESPACE}", "PUT"), (f"{base}/plain", "POST")):
            path += "/compactionThreshold"
            results += [side.call(verb, path, value)[0] for value in (-1, "x", 0, 1000)]
            results += [
                side.call("GET", path),
                side.call("DELETE", path)[0],
                side.call("GET", path),
            ]
        answers.append(results)
    compare(*answers)
