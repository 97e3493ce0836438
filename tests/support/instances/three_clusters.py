"""An instance of three clusters, and a namespace that is in all of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

CLUSTERS = ("us-east", "eu-west", "ap-south")
NAMESPACE = "public/geo"


def path_of(cluster: str) -> str:
    """Return the path of the gateway below which Pulsar's interfaces of a cluster are."""
    return f"/clusters/{cluster}/admin/v2"


@contextmanager
def three_clusters(folder: Path, **options: Any) -> Iterator[Instance]:
    """Run an instance of three clusters for the length of the block."""
    with running_instance(folder, clusters=CLUSTERS, **options) as instance:
        # The gateway answers once its first cluster is healthy.
        for part in instance.control("status")["children"]:
            if part["cluster"] is not None:
                instance.wait_running(part["name"])
        yield instance


def replicate(
    instance: Instance, namespace: str = NAMESPACE, clusters: Sequence[str] = CLUSTERS
) -> None:
    """Create a namespace whose topics are sent from each of ``clusters`` to the others."""
    assert instance.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] in (204, 409)
    path = f"/admin/v2/namespaces/{namespace}/replication"
    status, text = instance.rest("POST", path, list(clusters))
    assert status in (200, 204), (status, text)


def linked(instance: Instance, topic: str, clusters: Sequence[str] = CLUSTERS) -> None:
    """Wait until a loaded topic (``tenant/namespace/name``) is connected from the first cluster to the others."""

    def connected() -> bool:
        status, stats = instance.rest("GET", f"{path_of(clusters[0])}/persistent/{topic}/stats")
        links = stats.get("replication", {}) if status == 200 else {}
        return all(links.get(name, {}).get("connected") for name in clusters[1:])

    until_blocking(connected, instance.logs)
