"""Clusters that hold the topics of a namespace: this one, or others of which a peer of this cluster may be one.

Texts and order of the checks were read from Apache Pulsar 4.0.8.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.errors import Conflict, MagnetarError, PreconditionFailed
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import Stored
from engine.metadata.store import MetadataStore
from engine.tenancy.nodes import find_node


class HeldElsewhereError(MagnetarError):
    """Another cluster, whose REST interface has the address ``url``, holds the namespace."""

    def __init__(self, name: NamespaceName, url: str) -> None:
        super().__init__(f"Another cluster holds namespace {name}: {url}")
        self.url = url


def holds(policies: Mapping[str, Any], cluster: str) -> bool:
    """Return whether ``cluster`` holds the topics of a namespace with these policies, as every cluster does that is
    named nowhere."""
    clusters = policies.get("replication_clusters")
    return (
        not clusters or cluster in clusters or cluster in (policies.get("allowed_clusters") or ())
    )


async def peer_holding(
    store: MetadataStore, name: NamespaceName, policies: Mapping[str, Any], cluster: str
) -> Stored | None:
    """Return the record of the peer of ``cluster`` that holds the namespace; None where ``cluster`` itself does.

    Raises PreconditionFailed where neither does, and the store's errors.
    """
    if holds(policies, cluster):
        return None
    clusters = policies["replication_clusters"]
    own = await find_node(store, paths.cluster(cluster)) or {}
    for peer in own.get("peerClusterNames") or ():
        if peer in clusters or peer in (policies.get("allowed_clusters") or ()):
            record = await find_node(store, paths.cluster(peer))
            if record is not None:
                return record
    raise PreconditionFailed(
        f"Namespace missing local cluster name in clusters list: local_cluster={cluster} ns={name} "
        f"clusters=[{', '.join(clusters)}]"
    )


async def check_peers(store: MetadataStore, clusters: Sequence[str]) -> None:
    """Raise Conflict for a list with a cluster and one of its peers: a peer stands in for it. Raises the store's
    errors."""
    for cluster in clusters:
        record = await find_node(store, paths.cluster(cluster)) or {}
        peers = [peer for peer in record.get("peerClusterNames") or () if peer in clusters]
        if peers:
            raise Conflict(
                f"{cluster}'s peer-clusters [{', '.join(record['peerClusterNames'])}] can't be part of "
                f"replication-clusters [{', '.join(clusters)}]"
            )
