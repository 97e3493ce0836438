"""The interface's first version, which some tools still ask: the same answers below ``/admin/`` without ``v2``."""

from collections.abc import Callable
from typing import Any

import pytest

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
