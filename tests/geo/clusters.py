"""Clusters of ours, each with metadata server, bookies and brokers as processes, that replicate over ``Links``.

Each has its own configuration store. From another cluster its brokers are reached at proxies, which the listener
``from-<other>`` advertises.
"""

import urllib.request
from collections.abc import Sequence
from pathlib import Path

from engine.base.names import NamespaceName
from engine.tenancy.clusters import create_cluster
from engine.tenancy.documents import Document
from engine.tenancy.namespaces import update_policies
from engine.tenancy.tenants import update_tenant
from tests.oracle.servers import OurBookie, OurBroker, OurMetadata, connected
from tests.support.ports import free_ports

NAMESPACE = "public/default"
SESSION_MS = 4000
BACKLOG = "pulsar_replication_backlog{"


def link_name(source: str, target: str) -> str:
    """Return the name of the link over which ``source`` sends to ``target``."""
    return f"{source}-{target}"


class GeoBroker(OurBroker):
    """A broker that advertises a proxy of its own to each of the ``others``: ``proxies`` has their ports."""

    def __init__(
        self, work: Path, name: str, zk: str, cluster: str, others: Sequence[str], copies: int
    ) -> None:
        super().__init__(
            work,
            name,
            zk,
            cluster,
            metadata_store_session_timeout_millis=SESSION_MS,
            managed_ledger_default_ensemble_size=copies,
            managed_ledger_default_write_quorum=copies,
            managed_ledger_default_ack_quorum=min(copies, 2),
        )
        self.proxies = dict(zip(others, free_ports(len(others)), strict=True))
        listeners = [f"internal:{self.url}"]
        listeners += [
            f"from-{other}:pulsar://127.0.0.1:{port}" for other, port in self.proxies.items()
        ]
        self._env["MAGNETAR_ADVERTISED_LISTENERS"] = ",".join(listeners)


class GeoCluster:
    """One of the clusters. ``parts`` are its bookies and brokers by name."""

    def __init__(
        self, work: Path, name: str, others: Sequence[str], brokers: int, bookies: int
    ) -> None:
        self.name = name
        folder = work / name
        folder.mkdir(parents=True)
        self.metadata = OurMetadata(folder)
        zk = self.metadata.zk
        copies = min(bookies, 2)
        self.bookies = [OurBookie(folder, f"bookie-{i + 1}", zk) for i in range(bookies)]
        self.brokers = [
            GeoBroker(folder, f"broker-{i + 1}", zk, name, others, copies) for i in range(brokers)
        ]

    @property
    def parts(self) -> list[OurBookie | GeoBroker]:
        return [*self.bookies, *self.brokers]

    @property
    def url(self) -> str:
        return "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def start(self) -> None:
        for part in (self.metadata, *self.bookies, *self.brokers):
            part.start()

    async def replicate_to(
        self, others: Sequence["GeoCluster"], namespace: str = NAMESPACE
    ) -> None:
        """Send a namespace to ``others``, and store what comes from them once."""
        store = await connected(self.metadata.zk)
        names = [self.name, *(other.name for other in others)]

        def change(policies: Document) -> None:
            policies["replication_clusters"] = names
            policies["deduplicationEnabled"] = True

        try:
            for other in others:
                ports = [broker.proxies[self.name] for broker in other.brokers]
                record = {
                    "brokerServiceUrl": "pulsar://" + ",".join(f"127.0.0.1:{p}" for p in ports),
                    "listenerName": f"from-{self.name}",
                }
                await create_cluster(store, other.name, record)
            await update_tenant(store, "public", {"allowedClusters": names})
            await update_policies(store, NamespaceName.parse(namespace), change)
        finally:
            await store.close()

    def backlogs(self) -> list[int]:
        """Return the backlog of each replicator that the brokers have, entries."""
        backlogs: list[int] = []
        for broker in self.brokers:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{broker.http_port}/metrics", timeout=20
                ) as reply:
                    lines = reply.read().decode().splitlines()
            except OSError:
                continue
            backlogs += [int(float(line.split()[-1])) for line in lines if line.startswith(BACKLOG)]
        return backlogs

    def stop(self) -> None:
        for part in (*self.brokers, *self.bookies, self.metadata):
            part.kill()
