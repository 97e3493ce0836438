"""Clusters for tests, over links that they make."""

from pathlib import Path

from django.conf import settings

from engine.metadata.apart.stores import StoreUrls
from gateway.apache_settings import ApacheCluster
from gateway.clusters.cluster import Cluster
from gateway.environment import ClusterSettings
from gateway.services.engine_link import EngineLink
from gateway.services.source import OWN

URL = "zk:127.0.0.1:2181"


def cluster_of(link: EngineLink, name: str = "standalone", folder: Path | None = None) -> Cluster:
    """Return a cluster behind ``link``, whose history is in ``folder``, else in the data directory. The metadata URL of
    its settings is not used."""
    data_dir = settings.ENVIRONMENT.data_dir
    return Cluster(
        ClusterSettings(name, StoreUrls(f"{URL}/{name}"), folder or data_dir, data_dir), link
    )


def cluster_before(apache: ApacheCluster, link: EngineLink, folder: Path) -> Cluster:
    """Return a cluster of Apache Pulsar as the console serves it, with its files in ``folder``."""
    settings = ClusterSettings(apache.name, StoreUrls(apache.url), folder, folder, apache=apache)
    return Cluster(settings, link)


class NoLink(EngineLink):
    """A link that is used for nothing, on no loop and without a thread."""

    def __init__(self) -> None:
        self.address = URL
        self.source = OWN


def cluster_without_link(name: str = "standalone") -> Cluster:
    """Return a cluster whose engine is not used."""
    return cluster_of(NoLink(), name)
