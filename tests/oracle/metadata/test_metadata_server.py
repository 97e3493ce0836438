"""Apache's broker, bookie and shell on our metadata server, which is killed under them."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.metadata import paths
from tests.crash.load import Load, finish
from tests.oracle.ledgers_java import JavaLedgers
from tests.oracle.servers import ApacheBookie, ApacheBroker, OurMetadata, connected, peer
from tests.oracle.story import Story
from tests.support.instance import ROOT
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow]

NAMESPACE = "persistent://public/default"
KILLS = 3
CHROOTS = {"apache": "", "ours": "/chroot/of/ours"}
"""Chroot of the cluster by the program that writes its metadata."""


class Cluster:
    """A metadata server of ours with one bookie and one broker of Apache's."""

    def __init__(self, work: Path, initialized_by: str) -> None:
        self.server = OurMetadata(work)
        self.zk = self.server.zk + CHROOTS[initialized_by]
        self.bookie = ApacheBookie(work, "bookie", self.zk, free_ports(2)[0])
        self.broker = ApacheBroker(work, "broker", self.zk, init=False, quorums="1,1,1")
        self._work = work
        self._initialized_by = initialized_by

    @property
    def uri(self) -> str:
        """The metadata URI for Apache's ledger client."""
        return f"zk+hierarchical://{self.zk}/ledgers"

    def initialize(self) -> None:
        """Write the metadata of the cluster, by Apache's command or by ours."""
        if self._initialized_by == "apache":
            ports = ("--binary-port", self.broker.port, "--http-port", self.broker.web)
            peer("initialize", "--dir", self._work, "--zk", self.zk, *ports)
            return
        store = f"zk:{self.zk}"
        words = ["--cluster", "standalone", "-md", store, "-cms", store]
        words += ["-uw", self.broker.http, "-ub", self.broker.url]
        command = [sys.executable, "-m", "engine", "initialize-cluster-metadata", *words]
        subprocess.run(command, cwd=ROOT, check=True, timeout=60)

    async def owners(self) -> dict[str, tuple[int, int]]:
        """Return session and creation of each ephemeral node by which a bookie or broker is known."""
        store = await connected(self.zk)
        owners: dict[str, tuple[int, int]] = {}
        try:
            for parent in (paths.AVAILABLE, paths.LOADBALANCE_BROKERS):
                for name in await store.children(parent):
                    stat = await store.exists(f"{parent}/{name}")
                    if stat is not None and stat.ephemeral_owner:
                        owners[f"{parent}/{name}"] = (stat.ephemeral_owner, stat.creation)
        finally:
            await store.close()
        return owners


@pytest.fixture(scope="module", params=CHROOTS)
def cluster(
    request: pytest.FixtureRequest, apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp(f"metadata-{request.param}"), request.param)
    with ExitStack() as stack:
        cluster.server.start()
        stack.callback(cluster.server.kill)
        cluster.initialize()
        stack.callback(cluster.bookie.stop)
        cluster.bookie.start()
        stack.callback(cluster.broker.stop)
        cluster.broker.start()
        yield cluster


def test_published_events_are_received(cluster: Cluster) -> None:
    story = Story(f"{NAMESPACE}/story")
    story.subscribe(cluster.broker.url)
    story.publish(cluster.broker.url, 40)
    story.publish(cluster.broker.url, 10, batched=True)
    story.acknowledge(cluster.broker.url, "up-to", [24])
    story.acknowledge(cluster.broker.url, "here and/there", [1, 3, 4, 5, 20])
    story.verify(cluster.broker.url)


def test_sessions_and_traffic_outlive_kills_of_the_server(cluster: Cluster) -> None:
    before = asyncio.run(cluster.owners())
    assert {path.rpartition("/")[0] for path in before} == {
        paths.AVAILABLE,
        paths.LOADBALANCE_BROKERS,
    }
    load = Load(cluster.broker.url, f"{NAMESPACE}/load", rate_max=1000, send_timeout_ms=60_000)
    try:
        for number in range(KILLS):
            load.wait_confirmed(300, 40)
            cluster.server.kill()
            load.wait_confirmed(100, 40)  # no message needs the server
            cluster.server.start()
            # A new topic needs it: its ledger, its record and its subscriptions are created.
            story = Story(f"{NAMESPACE}/after-{number}")
            story.subscribe(cluster.broker.url)
            story.publish(cluster.broker.url, 5)
            story.verify(cluster.broker.url)
        load.wait_confirmed(300, 40)
    except BaseException:
        load.close()
        raise
    assert finish(load) >= KILLS * 400
    assert asyncio.run(cluster.owners()) == before


def test_the_shell_of_bookkeeper_finds_bookies_and_ledgers(
    cluster: Cluster, java: JavaLedgers
) -> None:
    status, printed = java.shell(cluster.uri, "V3", "listbookies", "-rw")
    assert status == 0, printed
    assert re.findall(r"BookieID:(\S+),", printed) == [cluster.bookie.id]
    quorums = ("-ensemble", 1, "-writeQuorum", 1, "-ackQuorum", 1)
    status, printed = java.shell(cluster.uri, "V3", "simpletest", *quorums, "-numEntries", 50)
    assert status == 0, printed
    assert "50 entries written to ledger" in printed
    assert "Last entry Id 49" in printed
    status, printed = java.shell(cluster.uri, "V3", "listledgers", "-m")
    assert status == 0, printed
    assert len(re.findall(r"ledgerID: (\d+)", printed)) > 1  # those of the topics
    assert cluster.bookie.id in printed
