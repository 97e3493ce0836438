"""Namespaces that this cluster does not hold: refused, or sent to a peer that does."""

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]
NS = "/admin/v2/namespaces/far/ns"
TOPIC = "/admin/v2/persistent/far/ns/t"
MISSING = "Namespace missing local cluster name in clusters list: local_cluster=standalone ns=far/ns clusters=[eu]"


@pytest.fixture
def moved(call: Call) -> None:
    """A namespace with a topic that was given to the cluster ``eu``."""
    eu = {"serviceUrl": "http://eu:8080", "brokerServiceUrl": "pulsar://eu:6650"}
    call("PUT", "/admin/v2/clusters/eu", eu)
    call("PUT", "/admin/v2/tenants/far", {"allowedClusters": ["standalone", "eu"]})
    call("PUT", NS, {})
    assert call("PUT", f"{TOPIC}/partitions", 2).status == 204
    assert call("POST", f"{NS}/replication", ["eu"]).status == 200


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json["reason"]


@pytest.mark.usefixtures("moved")
def test_topics_are_refused_and_can_be_listed_and_deleted(call: Call) -> None:
    assert refusal(call("GET", f"{TOPIC}/stats")) == (412, MISSING)
    assert refusal(call("PUT", f"{TOPIC}2")) == (412, MISSING)
    assert refusal(call("PUT", f"{TOPIC}2/partitions", 2)) == (412, MISSING)
    assert refusal(call("GET", "/lookup/v2/topic/persistent/far/ns/t")) == (412, MISSING)
    listed = call("GET", "/admin/v2/persistent/far/ns/partitioned").json
    assert listed == ["persistent://far/ns/t"]
    assert call("DELETE", NS).status == 409
    assert call("DELETE", f"{TOPIC}/partitions").status == 503  # no broker runs here


@pytest.mark.usefixtures("moved")
def test_a_peer_is_named_by_look_ups_and_receives_calls(call: Call) -> None:
    assert call("POST", "/admin/v2/clusters/standalone/peers", ["eu"]).status == 204
    addresses = call("GET", "/lookup/v2/topic/persistent/far/ns/t").json
    assert (addresses["brokerUrl"], addresses["httpUrl"]) == ("pulsar://eu:6650", "http://eu:8080")
    sent_on = call("GET", f"{TOPIC}/stats?getPreciseBacklog=true")
    assert sent_on.status == 307
    assert sent_on.headers["location"] == (
        f"http://eu:8080{TOPIC}/stats?getPreciseBacklog=true&authoritative=false"
    )


@pytest.mark.usefixtures("moved")
def test_an_empty_namespace_is_deleted_by_the_cluster_that_holds_it(call: Call) -> None:
    empty = "/admin/v2/namespaces/far/empty"
    assert call("PUT", empty, {"replication_clusters": ["eu"]}).status == 204
    deleted = call("DELETE", empty)
    assert (deleted.status, deleted.headers["location"]) == (
        307,
        f"http://eu:8080{empty}?authoritative=false",
    )
