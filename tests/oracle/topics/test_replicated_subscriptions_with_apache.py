"""Replicated subscriptions between Apache's brokers and ours: a consumer moves between them in both directions."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.bench.contenders import apache_missing
from tests.oracle.conftest import Side
from tests.oracle.servers import peer
from tests.support.instance import running_instance
from tests.support.instances.moving_consumer import Endpoint, move_there_and_back
from tests.support.ports import free_ports

THEIRS, OURS = "apache", "standalone"
NAMESPACE = "public/moving"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Return one cluster of each kind, which send the namespace to each other."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    work = tmp_path_factory.mktemp("moving")
    (base,) = free_ports(1, gap=100)
    folder = work / "apache"
    where = ("--dir", folder, "--base-port", base)
    try:
        layout = peer("cluster", *where, "--clusters", THEIRS, "--bookies", 1)["clusters"][THEIRS]
        with running_instance(work / "ours") as instance:
            sides = {
                THEIRS: Side(THEIRS, layout["url"], layout["http"]),
                OURS: Side(OURS, instance.url, instance.http),
            }
            for name, side in sides.items():
                introduce(side, sides[OURS if name == THEIRS else THEIRS])
            yield sides
    finally:
        peer("stop", "--dir", folder)


def introduce(side: Side, other: Side) -> None:
    """Let a cluster send the namespace to the other one."""
    record = {"serviceUrl": other.http, "brokerServiceUrl": other.url}
    tenant = {"adminRoles": [], "allowedClusters": [THEIRS, OURS]}
    namespace = f"/admin/v2/namespaces/{NAMESPACE}"
    for method, path, body in (
        ("PUT", f"/admin/v2/clusters/{other.name}", record),
        ("PUT", "/admin/v2/tenants/public", tenant),
        ("POST", "/admin/v2/tenants/public", tenant),
        ("PUT", namespace, None),
        ("POST", f"{namespace}/deduplication", True),
        ("POST", f"{namespace}/replication", [THEIRS, OURS]),
    ):
        status, text = side.call(method, path, body)
        assert status in (200, 204, 409), (side.name, method, path, status, text)


def endpoint(side: Side) -> Endpoint:
    def stats(topic: str) -> dict[str, Any]:
        status, body = side.call("GET", f"/admin/v2/persistent/{topic}/stats")
        return dict(json.loads(body)) if status == 200 else {}

    return Endpoint(side.name, side.url, stats)


@pytest.mark.parametrize(("source", "target"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_a_consumer_moves_to_the_other_cluster_and_back(
    clusters: dict[str, Side], source: str, target: str
) -> None:
    ends: Callable[[str], Endpoint] = lambda name: endpoint(clusters[name])  # noqa: E731
    move_there_and_back(ends(source), ends(target), f"{NAMESPACE}/from-{source}")


def test_the_subscription_is_replicated_in_both(clusters: dict[str, Side]) -> None:
    """Use a topic of the test before."""
    for side in clusters.values():
        topic = f"/admin/v2/persistent/{NAMESPACE}/from-{OURS}"
        status, text = side.call("GET", f"{topic}/subscription/moved/replicatedSubscriptionStatus")
        assert (status, list(json.loads(text).values())) == (200, [True])
