"""Two clusters of one kind, of which the first sends a namespace to the second: ours over links that can be slowed and
cut, or Apache's."""

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.base.names import NamespaceName
from engine.tenancy.initialization import ensure_namespace
from tests.bench.contenders import cpu_s
from tests.geo.clusters import GeoCluster, link_name
from tests.geo.links import Links
from tests.oracle.servers import connected, peer, peer_status
from tests.support.ports import free_ports

SENT, KEPT = "public/geo", "public/default"
"""Namespaces that are sent to the other cluster, and that are not."""


@dataclass
class Pair:
    """The clusters ``us`` and ``eu``. ``brokers``: ids of their brokers' processes; ``bookies`` likewise."""

    name: str
    source: str
    target: str
    brokers: tuple[int, int]
    bookies: tuple[int, int]
    links: Links | None = None
    """The links between ours."""

    def cpu_s(self, side: int) -> float:
        """Return the CPU seconds that a side's broker used so far."""
        return cpu_s([self.brokers[side]])

    def cpu_of_each_s(self) -> dict[str, float]:
        """Return the CPU seconds that each broker and bookie used so far."""
        return {
            f"{side}'s {kind}": cpu_s([ids[i]])
            for i, side in enumerate(("source", "target"))
            for kind, ids in (("broker", self.brokers), ("bookie", self.bookies))
        }


@contextmanager
def our_pair(work: Path) -> Iterator[Pair]:
    us, eu = (GeoCluster(work, *names, brokers=1, bookies=1) for names in NAMES)
    ports = {
        link_name("us", "eu"): [(b.proxies["us"], b.port) for b in eu.brokers],
        link_name("eu", "us"): [(b.proxies["eu"], b.port) for b in us.brokers],
    }
    links = Links(ports)
    try:
        for cluster, other in ((us, eu), (eu, us)):
            cluster.start()
            asyncio.run(_add_namespace(cluster))
            asyncio.run(cluster.replicate_to([other], namespace=SENT))
        yield Pair(
            "ours",
            us.url,
            eu.url,
            (us.brokers[0].pid, eu.brokers[0].pid),
            (us.bookies[0].pid, eu.bookies[0].pid),
            links,
        )
    finally:
        us.stop()
        eu.stop()
        links.close()


NAMES = (("us", ["eu"]), ("eu", ["us"]))


async def _add_namespace(cluster: GeoCluster) -> None:
    store = await connected(cluster.metadata.zk)
    try:
        await ensure_namespace(store, NamespaceName.parse(SENT), cluster.name, 4)
    finally:
        await store.close()


def _post(url: str) -> None:
    """Switch on what is at a URL."""
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, b"true", headers), timeout=75).close()


@contextmanager
def apache_pair(work: Path) -> Iterator[Pair]:
    """Run Apache's with a synced journal. Its configuration store is shared."""
    folder = work / "apache"
    folder.mkdir()
    (port,) = free_ports(1, gap=160)
    try:
        started = peer(
            *("cluster", "--dir", folder, "--bookies", 1, "--clusters", "us,eu"),
            *("--base-port", port, "--config", "brokerDeleteInactiveTopicsEnabled=false"),
            timeout_s=300,
        )
        us, eu = (started["clusters"][name] for name in ("us", "eu"))
        _post(f"{us['http']}/admin/v2/namespaces/{SENT}/deduplication")
        pids = {line["name"]: int(line["pid"]) for line in peer_status(folder)}

        def of(kind: str) -> tuple[int, int]:
            us_id, eu_id = (
                next(pid for name, pid in pids.items() if name.startswith(f"{side}-{kind}"))
                for side in ("us", "eu")
            )
            return us_id, eu_id

        yield Pair("apache", us["url"], eu["url"], of("broker"), of("bookie"))
    finally:
        peer("stop", "--dir", folder)
