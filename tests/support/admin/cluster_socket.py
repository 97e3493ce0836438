"""A socket of Pulsar's WebSocket endpoints of a cluster, on the loop of the test."""

from engine.client.client import PulsarClient
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters, serving
from gateway.ws.routing import application
from tests.support.admin.clusters import cluster_without_link
from tests.support.net.socket_pair import SocketPair


def cluster_with(client: PulsarClient, name: str = "standalone") -> Cluster:
    """Return a cluster of which only the client is used."""
    cluster = cluster_without_link(name)
    cluster.client = client
    return cluster


class ClusterSocket(SocketPair):
    """A socket on ``path`` of a gateway that serves ``cluster``, and ``others``."""

    def __init__(self, cluster: Cluster, path: str, *others: Cluster) -> None:
        super().__init__(serving(Clusters(cluster, *others), application), path)
        self.cluster = cluster
