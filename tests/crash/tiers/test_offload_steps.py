"""Processes die, topics go and policies change in the middle of a move to a bucket; nothing is lost or left over.

The bucket is a real server of the S3 protocol, with a proxy in front of it that stops at a chosen request.
"""

import asyncio
import re
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest

from engine.offload.bucket import S3, Bucket
from engine.offload.stores.obstore_stores import ConfiguredStores
from tests.crash.load import quiet_client
from tests.crash.test_kill import kill
from tests.support.instance import Instance, running_instance
from tests.support.stores.s3_proxy import FORBIDDEN, S3Proxy, unfinished_uploads
from tests.support.waiting import until_blocking

pytestmark = pytest.mark.slow
NAMESPACE = "public/default"
COUNT = 35
PER_LEDGER = 10
BOUND_S = 90
Body = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    for bucket in ("cold", "colder"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT")).close()
    yield url
    running.stop()


class ColdInstance:
    """An instance that moves ledgers to a bucket behind a proxy, on request."""

    def __init__(self, instance: Instance, server: str, proxy: S3Proxy) -> None:
        self.instance = instance
        self.server = server
        self.proxy = proxy

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call Pulsar's REST until the answer is one that counts, and return it."""
        answers: list[Any] = []

        def answered() -> bool:
            status, answer = self.instance.rest(method, f"/admin/v2/{path}", body)
            answers.append(answer)
            return 200 <= status < 300

        until_blocking(answered, lambda: f"{method} {path}: {answers[-1]}", bound_s=BOUND_S)
        return answers[-1]

    def publish(self, topic: str, first: int = 0, count: int = COUNT) -> None:
        client = quiet_client(self.instance.url)
        try:
            client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest).close()
            producer = client.create_producer(topic, batching_enabled=False)
            for number in range(first, first + count):
                producer.send(b"message %d" % number, partition_key=str(number % 3))
        finally:
            client.close()

    def received(self, topic: str, count: int = COUNT) -> list[bytes]:
        client = quiet_client(self.instance.url)
        try:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            return [reader.read_next(60_000).data() for _ in range(count)]
        finally:
            client.close()

    def ledgers(self, topic: str) -> list[Body]:
        ledgers: list[Body] = self.call("GET", f"persistent/{NAMESPACE}/{topic}/internalStats")[
            "ledgers"
        ]
        return ledgers

    def offload(self, topic: str) -> None:
        """Begin to move all closed ledgers."""
        last = self.ledgers(topic)[-1]["ledgerId"]
        body = {"ledgerId": last, "entryId": 0, "partitionIndex": -1}
        self.call("PUT", f"persistent/{NAMESPACE}/{topic}/offload", body)

    def tiers(self, topic: str) -> Body:
        path = f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}/{topic}/tiers"
        status, answer = self.instance.rest("GET", path)
        assert status == 200, answer
        tiers: Body = answer
        return tiers

    def move(self, topic: str) -> None:
        """Move all closed ledgers, and wait until they are only in the bucket."""

        def moved() -> bool:
            if self.tiers(topic)["states"][0]["status"] != "RUNNING":
                self.offload(topic)
            places = [row["tier"] for row in self.tiers(topic)["ledgers"] if row["closed_ms"]]
            return bool(places) and set(places) == {"store"}

        until_blocking(moved, lambda: f"not moved: {self.tiers(topic)}", bound_s=BOUND_S)

    def objects(self, bucket: str = "cold") -> list[str]:
        with urllib.request.urlopen(f"{self.server}/{bucket}?list-type=2") as answer:
            return sorted(re.findall(r"<Key>([^<]+)</Key>", answer.read().decode()))

    def objects_of(self, ledger_ids: set[int], bucket: str = "cold") -> list[str]:
        """Return the objects of ledgers, also those of attempts that no record names any more."""
        ids = {str(ledger_id) for ledger_id in ledger_ids}
        return [
            key
            for key in self.objects(bucket)
            if key.partition("-ledger-")[2].partition("-")[0] in ids
        ]

    def ids(self, topic: str) -> set[int]:
        return {ledger["ledgerId"] for ledger in self.ledgers(topic)}

    def change(self, gone: str) -> None:
        """Delete an object, and put one that is none of tiered storage."""

        async def nothing() -> AsyncIterator[bytes]:
            yield b""

        async def work() -> None:
            store = ConfiguredStores(None).open(Bucket(S3, "cold", "us-east-1", self.server))
            await store.delete([gone])
            await store.put("other.txt", nothing(), {})

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", "id")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            asyncio.run(work())

    def nothing_remains(self, ledger_ids: set[int]) -> None:
        """Wait until the bucket has no object of the ledgers and no part of an upload."""

        def text() -> str:
            return f"remaining: {self.objects_of(ledger_ids)}"

        until_blocking(lambda: not self.objects_of(ledger_ids), text, bound_s=BOUND_S)
        assert unfinished_uploads(self.server) == 0

    def each_once(self, topic: str) -> None:
        """Wait until the bucket has exactly the two objects of each moved ledger."""
        moved = {row["ledger_id"] for row in self.tiers(topic)["ledgers"] if row["closed_ms"]}

        def text() -> str:
            return f"{len(moved)} ledgers, {self.objects_of(moved)}"

        until_blocking(lambda: len(self.objects_of(moved)) == 2 * len(moved), text, bound_s=BOUND_S)

    @contextmanager
    def held(self, method: str, ending: str = "") -> Iterator[threading.Event]:
        """Hold the next request of ``method`` whose path ends so; yield what is set when it has arrived. It continues
        behind the block."""
        arrived, may_go = threading.Event(), threading.Event()

        def before(made: str, path: str) -> None:
            if made == method and path.endswith(ending) and not arrived.is_set():
                arrived.set()
                may_go.wait(60)

        self.proxy.before = before
        try:
            yield arrived
        finally:
            may_go.set()
            self.proxy.before = lambda _method, _path: None


@pytest.fixture(scope="module")
def cold(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ColdInstance]:
    proxy = S3Proxy(server)
    settings = {
        "MANAGED_LEDGER_OFFLOAD_DRIVER": "aws-s3",
        "MANAGED_LEDGER_OFFLOAD_BUCKET": "cold",
        "MANAGED_LEDGER_OFFLOAD_REGION": "us-east-1",
        "MANAGED_LEDGER_OFFLOAD_SERVICE_ENDPOINT": proxy.url,
        "MANAGED_LEDGER_OFFLOAD_DELETION_LAG_MS": "0",
        "MANAGED_LEDGER_MAX_ENTRIES_PER_LEDGER": str(PER_LEDGER),
        "MANAGED_LEDGER_MIN_LEDGER_ROLLOVER_TIME_MINUTES": "0",
    }
    environment = {f"MAGNETAR_{name}": value for name, value in settings.items()}
    credentials = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    folder = tmp_path_factory.mktemp("cold")
    try:
        with running_instance(folder, **environment, **credentials) as instance:
            yield ColdInstance(instance, server, proxy)
    finally:
        proxy.close()


def messages(count: int = COUNT) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


def test_console_and_scan_show_the_contents_of_the_bucket(cold: ColdInstance) -> None:
    topic = "truth"
    cold.publish(topic)
    cold.move(topic)
    tiers = cold.tiers(topic)
    stored = [row for row in tiers["ledgers"] if row["tier"] == "store"]
    assert len(stored) == 3
    sums = {row["tier"]: (row["ledgers"], row["bytes"]) for row in tiers["sums"]}
    sizes = {ledger["ledgerId"]: ledger["size"] for ledger in cold.ledgers(topic)}
    assert sums["store"] == (3, sum(sizes[row["ledger_id"]] for row in stored))
    stats = cold.call("GET", f"persistent/{NAMESPACE}/{topic}/stats")
    assert stats["offloadedStorageSize"] == sums["store"][1]
    assert stats["storageSize"] == sum(size for _, size in sums.values())
    assert [ledger["offloaded"] for ledger in cold.ledgers(topic)[:3]] == [True] * 3
    ids = {row["ledger_id"] for row in stored}
    scan = cold.call("GET", f"namespaces/{NAMESPACE}/scanOffloadedLedgers")
    rows = [row for row in scan["objects"] if row["ledger"] in ids]
    assert sorted(row["name"] for row in rows) == cold.objects_of(ids)
    assert {row["status"] for row in rows} == {"OK"}
    assert sum(row["size"] for row in rows if not row["name"].endswith("-index")) > sums["store"][1]
    gone = rows[0]["name"]
    cold.change(gone)
    scan = cold.call("GET", f"namespaces/{NAMESPACE}/scanOffloadedLedgers")
    assert [row["status"] for row in scan["objects"] if row["name"] == gone] == ["MISSING"]
    assert scan["unknown"] >= 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", range(1, 8))
def test_a_broker_that_is_killed_at_any_request_leaves_all_messages_and_no_object(
    cold: ColdInstance, step: int
) -> None:
    topic = f"step-{step}"
    cold.publish(topic)
    requests: list[str] = []
    killed = threading.Event()

    def count(method: str, path: str) -> None:
        requests.append(f"{method} {path}")
        if len(requests) == step:
            kill(cold.instance, "broker-1")
            killed.set()

    cold.proxy.before = count
    cold.offload(topic)
    assert killed.wait(60), requests
    cold.proxy.before = lambda _method, _path: None
    cold.instance.wait_running("broker-1")
    cold.move(topic)
    assert cold.received(topic) == messages()
    cold.each_once(topic)
    assert unfinished_uploads(cold.server) == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["", "-index"])
def test_a_topic_that_is_deleted_during_an_upload_leaves_no_object(
    cold: ColdInstance, ending: str
) -> None:
    topic = f"deleted{ending}"
    cold.publish(topic)
    ledger_ids = cold.ids(topic)
    deleted: list[int] = []

    def delete() -> None:
        path = f"/admin/v2/persistent/{NAMESPACE}/{topic}?force=true"
        deleted.append(cold.instance.rest("DELETE", path, timeout_s=60)[0])

    with cold.held("PUT", ending) as arrived:
        cold.offload(topic)
        assert arrived.wait(60)
        deleting = threading.Thread(target=delete)
        deleting.start()
        deleting.join(3)
    deleting.join()

    def is_gone() -> bool:
        delete()
        return deleted[-1] == 404

    until_blocking(is_gone, lambda: f"answers {deleted}", bound_s=BOUND_S)
    cold.nothing_remains(ledger_ids)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["unload", "truncate"])
def test_a_topic_that_is_unloaded_or_truncated_during_an_upload_keeps_what_it_must_and_no_more(
    cold: ColdInstance, how: str
) -> None:
    topic = how
    cold.publish(topic)
    ledger_ids = cold.ids(topic)
    method, path = ("PUT", "unload") if how == "unload" else ("DELETE", "truncate")
    with cold.held("PUT") as arrived:
        cold.offload(topic)
        assert arrived.wait(60)
        cold.call(method, f"persistent/{NAMESPACE}/{topic}/{path}")
    if how == "truncate":
        cold.nothing_remains(ledger_ids)
        return
    cold.move(topic)
    assert cold.received(topic) == messages()
    cold.each_once(topic)


@pytest.mark.timeout(300)
def test_a_policy_that_changes_during_an_upload_counts_from_the_next_one(
    cold: ColdInstance,
) -> None:
    topic = "changed"
    cold.publish(topic)
    with cold.held("PUT") as arrived:
        cold.offload(topic)
        assert arrived.wait(60)
        cold.call(
            "POST",
            f"persistent/{NAMESPACE}/{topic}/offloadPolicies",
            {
                "managedLedgerOffloadDriver": "aws-s3",
                "managedLedgerOffloadBucket": "colder",
                "managedLedgerOffloadRegion": "us-east-1",
                "managedLedgerOffloadDeletionLagInMillis": 0,
            },
        )
        until_blocking(
            lambda: cold.tiers(topic)["policy"]["store"] == "aws-s3 colder", bound_s=BOUND_S
        )
    cold.publish(topic, COUNT)
    cold.move(topic)
    ids = {row["ledger_id"] for row in cold.tiers(topic)["ledgers"]}
    assert cold.objects_of(ids, "cold")
    assert cold.objects_of(ids, "colder")
    assert cold.received(topic, 2 * COUNT) == messages(2 * COUNT)


def test_a_store_that_refuses_is_named_while_publishing_goes_on_and_moving_begins_again(
    cold: ColdInstance,
) -> None:
    topic = "refused"
    cold.publish(topic)
    cold.proxy.refusal = FORBIDDEN
    try:
        cold.offload(topic)
        until_blocking(
            lambda: cold.tiers(topic)["states"][0]["trouble"] == "forbidden", bound_s=BOUND_S
        )
        cold.publish(topic, COUNT)
        status = cold.call("GET", f"persistent/{NAMESPACE}/{topic}/offload")
        assert status["status"] == "ERROR"
        assert status["lastError"]
    finally:
        cold.proxy.refusal = None
    cold.move(topic)
    assert cold.received(topic, 2 * COUNT) == messages(2 * COUNT)
    cold.each_once(topic)


@pytest.mark.timeout(300)
def test_a_bookie_that_is_killed_during_an_upload_only_delays_it(cold: ColdInstance) -> None:
    topic = "bookie"
    cold.publish(topic)
    with cold.held("PUT") as arrived:
        cold.offload(topic)
        assert arrived.wait(60)
        kill(cold.instance, "bookie-1")
    cold.instance.wait_running("bookie-1")
    cold.move(topic)
    assert cold.received(topic) == messages()
    cold.each_once(topic)


def test_a_reader_in_the_middle_of_a_ledger_reads_on_when_that_leaves_the_bookies(
    cold: ColdInstance,
) -> None:
    topic = "middle"
    cold.publish(topic)
    client = quiet_client(cold.instance.url)
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=1)
        read = [reader.read_next(60_000).data() for _ in range(5)]
        cold.move(topic)
        read += [reader.read_next(60_000).data() for _ in range(COUNT - 5)]
        assert read == messages()
    finally:
        client.close()


@pytest.mark.timeout(300)
def test_moved_ledgers_are_compacted(cold: ColdInstance) -> None:
    topic = "compacted"
    cold.publish(topic)
    cold.move(topic)
    kill(cold.instance, "broker-1")  # nothing is in memory
    cold.instance.wait_running("broker-1")
    path = f"persistent/{NAMESPACE}/{topic}/compaction"
    cold.call("PUT", path)
    until_blocking(lambda: cold.call("GET", path)["status"] == "SUCCESS", bound_s=BOUND_S)
    client = quiet_client(cold.instance.url)
    try:
        consumer = client.subscribe(
            topic,
            "compacted",
            initial_position=pulsar.InitialPosition.Earliest,
            is_read_compacted=True,
        )
        last = {consumer.receive(60_000).data() for _ in range(3)}
    finally:
        client.close()
    assert last == set(messages()[-3:])
