"""Ledgers that Apache's broker moved to a bucket are read by ours from the objects alone, and the other way round.

Apache's offloaders are a distribution of their own, ``pulsar-offloader-distribution``; ``PEER_OFFLOADERS`` is the
folder with its two archives.
"""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.ids import LATEST
from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.reading.entry_reader import open_entries
from engine.managed.settings import LedgerConfig
from engine.managed.stats import OffloadPhase
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.survey import survey
from engine.net.network import LoopNetwork
from engine.offload.bucket import S3, Bucket
from engine.offload.object_names import attributes_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.offload.tiered_storage import TieredStorage
from tests.crash.load import quiet_client
from tests.oracle.servers import connected, peer
from tests.support.ports import free_ports
from tests.support.stores.s3_proxy import S3Proxy
from tests.support.waiting import until, until_blocking

pytestmark = [pytest.mark.slow]

OFFLOADERS = Path(os.environ.get("PEER_OFFLOADERS", "/nowhere"))
COUNT = 450
REGION = "us-east-1"


class Apache:
    """A cluster of Apache's with a bucket. ``bucket`` is the one that it moves ledgers to."""

    def __init__(self, layout: dict[str, Any], endpoint: str) -> None:
        self.url: str = layout["url"]
        self.http: str = layout["http"]
        self.zk: str = layout["zk"]
        self.bucket = Bucket(S3, "cold", REGION, endpoint)

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.http}/admin/v2/persistent/public/default/{path}",
            data,
            {"content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def publish(self, topic: str) -> None:
        client = quiet_client(self.url)
        try:
            client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest).close()
            producer = client.create_producer(topic, batching_enabled=False)
            for number in range(COUNT):
                producer.send_async(b"message %d" % number, lambda result, _: None)
            producer.flush()
            producer.close()
        finally:
            client.close()

    def received(self, topic: str) -> list[bytes]:
        """Return the messages of the topic as a reader receives them from its beginning."""
        client = quiet_client(self.url)
        try:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            return [reader.read_next(60_000).data() for _ in range(COUNT)]
        finally:
            client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"

    def made() -> bool:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{url}/cold", method="PUT")).close()
        except OSError:
            return False
        return True

    proxy = S3Proxy(url)
    try:
        until_blocking(made, bound_s=30)
        yield proxy.url
    finally:
        proxy.close()
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def apache(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    if not list(OFFLOADERS.glob("tiered-storage-jcloud-*.nar")):
        pytest.skip("Apache's offloaders are not at hand: PEER_OFFLOADERS names no folder of them")
    folder = tmp_path_factory.mktemp("apache-offload")
    config = {
        # The driver aws-s3 asks Amazon for the place of the bucket, whatever the endpoint is.
        "managedLedgerOffloadDriver": "S3",
        "offloadersDirectory": OFFLOADERS,
        "narExtractionDirectory": folder,
        "s3ManagedLedgerOffloadBucket": "cold",
        "s3ManagedLedgerOffloadRegion": REGION,
        "s3ManagedLedgerOffloadServiceEndpoint": server,
        "managedLedgerOffloadBucket": "cold",
        "managedLedgerOffloadRegion": REGION,
        "managedLedgerOffloadServiceEndpoint": server,
        "managedLedgerOffloadDeletionLagMs": 0,
        "managedLedgerMaxEntriesPerLedger": 100,
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    }
    words = [word for pair in config.items() for word in ("--config", f"{pair[0]}={pair[1]}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCESS_KEY_ID", "id")
        patch.setenv("ACCESS_KEY_SECRET", "secret")
        layout = peer("cluster", "--dir", folder, "--bookies", 1, *words)
        try:
            yield Apache(_flat(layout), server)
        finally:
            peer("stop", "--dir", folder)


def _flat(layout: dict[str, Any]) -> dict[str, Any]:
    clusters = layout.get("clusters", {"us": layout})
    ((_, made),) = clusters.items()
    return dict(made) | {"zk": made.get("zk", layout.get("zk"))}


def bodies(runs: list[Any]) -> list[bytes]:
    """Return what follows the metadata of each entry, which is the message."""
    return [run.entry(i).rpartition(b"message ")[2] for run in runs for i in range(run.count)]


async def test_ours_reads_what_apache_moved_to_the_bucket(
    apache: Apache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    topic = "theirs"
    await asyncio.to_thread(apache.publish, topic)
    ledgers = apache.call("GET", f"{topic}/internalStats")["ledgers"]
    before = {"ledgerId": ledgers[-1]["ledgerId"], "entryId": 0, "partitionIndex": -1}
    apache.call("PUT", f"{topic}/offload", before)

    def moved() -> bool:
        status = apache.call("GET", f"{topic}/offload")
        assert status["status"] != "ERROR", status
        return bool(status["status"] == "SUCCESS")

    await asyncio.to_thread(until_blocking, moved, bound_s=90)
    store = await connected(apache.zk)
    client = LedgerClient(
        store=store, network=LoopNetwork(), clock=SystemClock(), entropy=RandomEntropy()
    )
    try:
        record = (await survey(store, f"public/default/persistent/{topic}")).record
        spans = [span for span in record.ledgers[:-1] if offload_of(span).complete]
        assert len(spans) >= 3
        assert {offload_of(span).bucket for span in spans} == {apache.bucket}
        messages = []
        for span in spans:
            reader = await open_entries(client, span, owner=False, objects=ConfiguredStores(None))
            at = 0
            while at < span.entries:
                runs = await reader.read(at, span.entries - 1, 3000)
                messages += bodies(runs)
                at += sum(run.count for run in runs)
        first = int(messages[0])
        assert messages == [b"%d" % number for number in range(first, first + len(messages))]
        assert len(messages) == sum(span.entries for span in spans) >= 300
    finally:
        await client.close()
        await store.close()


async def test_apache_reads_what_ours_moved_to_the_bucket(
    apache: Apache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    topic = "ours"
    await asyncio.to_thread(apache.publish, topic)
    apache.call("PUT", f"{topic}/unload")
    store = await connected(apache.zk)
    client = LedgerClient(
        store=store, network=LoopNetwork(), clock=SystemClock(), entropy=RandomEntropy()
    )
    stores = ConfiguredStores(None)
    factory = ManagedLedgerFactory(
        store=store,
        ledgers=client,
        clock=SystemClock(),
        entropy=RandomEntropy(),
        tiered=TieredStorage(stores, attributes_of("us", "0")),
    )
    try:
        policy = OffloadPolicy(apache.bucket, deletion_lag_s=0.0)
        ledger = await factory.open(
            f"public/default/persistent/{topic}", LedgerConfig(1, 1, 1, offload=policy)
        )
        ledger.offload(LATEST)
        await until(lambda: ledger.offload_status.phase is not OffloadPhase.RUNNING, bound_s=60)
        assert ledger.offload_status.phase is OffloadPhase.SUCCESS, ledger.offload_status
        closed = [span for span in ledger.line.ledgers if span.timestamp_ms]
        assert sum(span.entries for span in closed) == COUNT
        assert all(offload_of(span).deleted_from_bookies for span in closed)
    finally:
        await factory.close()
        await client.close()
        await store.close()
    messages = await asyncio.to_thread(apache.received, topic)
    assert messages == [b"message %d" % number for number in range(COUNT)]
