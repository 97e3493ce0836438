"""The interface's first version, which some tools still ask: the same answers below ``/admin/`` without ``v2``."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from engine.metadata import paths
from gateway.services.admin import brokers
from gateway.services.engine_link import EngineLink
from tests.support.admin.gateway_client import HOST

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("older", "path"),
    [
        ("brokers", "brokers"),
        ("brokers/standalone", "brokers/standalone"),
        ("brokers/health?topicVersion=V2", "brokers/health?topicVersion=V2"),
        ("brokers/version", "brokers/version"),
        ("brokers/internal-configuration", "brokers/internal-configuration"),
        ("brokers/configuration", "brokers/configuration"),
        ("broker-stats/topics", "broker-stats/topics"),
        ("broker-stats/metrics", "broker-stats/metrics"),
        ("clusters", "clusters"),
        ("clusters/standalone", "clusters/standalone"),
        ("clusters/nope", "clusters/nope"),
        ("properties", "tenants"),
        ("properties/public", "tenants/public"),
        ("namespaces/public", "namespaces/public"),
        ("namespaces/nope", "namespaces/nope"),
        ("resource-quotas", "resource-quotas"),
    ],
)
def test_an_older_path_answers_as_the_newer_one(call: Call, older: str, path: str) -> None:
    answers = [call("GET", f"/admin/{where}") for where in (older, f"v2/{path}")]
    assert answers[0].status == answers[1].status
    assert answers[0].headers.get("content-type") == answers[1].headers.get("content-type")
    if answers[0].status == 200:
        assert answers[0].body == answers[1].body
    assert answers[0].status != 404 or "nope" in older


def test_changes_by_older_paths_are_made_and_recorded(call: Call) -> None:
    info = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert call("PUT", "/admin/properties/t", info).status == 204
    assert call("GET", "/admin/v2/tenants/t").json["allowedClusters"] == ["standalone"]
    assert call("PUT", "/admin/namespaces/t/standalone/n", {}).status == 204
    assert call("GET", "/admin/namespaces/t/standalone").json == ["t/standalone/n"]
    assert call("GET", "/admin/namespaces/t/elsewhere").json == []
    assert call("GET", "/admin/namespaces/nope/standalone").status == 404
    rows = call("GET", "/api/v1/audit").json["rows"]
    assert [(row["method"], row["target"]) for row in reversed(rows)] == [
        ("PUT", "/admin/properties/t"),
        ("PUT", "/admin/namespaces/t/standalone/n"),
    ]


def test_web_addresses_are_those_of_the_rest_interface(
    call: Call, engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answer with an address for managers: a broker's own port refuses requests without the internal token."""

    async def report(_: Any) -> dict[str, Any]:
        return {"webServiceUrl": "http://private:1", "pulsarServiceUrl": "pulsar://b:6650"}

    monkeypatch.setattr(brokers, "load_report", report)
    answer = call("GET", "/admin/broker-stats/load-report").json
    assert answer == {"webServiceUrl": f"http://{HOST}", "pulsarServiceUrl": "pulsar://b:6650"}
    leader = b'{"serviceUrl": "http://private:1", "brokerId": "private:1"}'
    engine.run(lambda it: it.store.create(paths.LOADBALANCE_LEADER, leader, make_parents=True))
    answer = call("GET", "/admin/v2/brokers/leaderBroker").json
    assert answer == {"serviceUrl": f"http://{HOST}", "brokerId": "private:1"}


@pytest.mark.parametrize("encoded", ["a%0Ab", "a%0Db", "%E2%80%AEgnp.exe", "a%09", "%7F"])
def test_names_with_control_characters_are_taken_whole_and_kept_on_one_line(
    call: Call, encoded: str
) -> None:
    """Accept such names, as Pulsar does, and escape them where they are written, so that none passes for two lines."""
    topic = f"/admin/v2/persistent/public/default/{encoded}/partitions"
    assert call("PUT", topic, 1).status == 204
    assert call("GET", topic).json["partitions"] == 1
    [listed] = call("GET", "/admin/v2/persistent/public/default/partitioned").json
    assert listed == f"persistent://public/default/{unquote(encoded)}"
    [row] = call("GET", "/api/v1/audit").json["rows"]
    assert row["target"] == topic
