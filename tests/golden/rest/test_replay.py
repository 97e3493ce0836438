"""Calls that were recorded on Apache Pulsar 4.0.8, made to our gateway: same status, same body.

Each group runs in its recorded order from a small prepared world. What needs a broker is replayed by the integration
tests; what we answer differently on purpose is listed with the reason.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.tenancy.settings import TenantLimits

Call = Callable[..., Any]
HERE = Path(__file__).parent
RETENTION = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5}
TENANT = {"adminRoles": ["admin1"], "allowedClusters": ["standalone"]}
C2 = ("PUT", "/admin/v2/clusters/c2", {"serviceUrl": "http://127.0.0.1:1"})
T1 = ("PUT", "/admin/v2/tenants/t1", TENANT)
NS1 = ("PUT", "/admin/v2/namespaces/t1/ns1", None)
Step = tuple[str, str, Any]

# Calls that create the resources of a group before its recorded calls.
WORLD: dict[str, list[Step]] = {
    "tenants": [C2],
    "namespaces": [T1],
    "bundles": [T1, NS1],
    "failure-domains": [C2],
    "resource-quotas": [T1, NS1],
    "resource-groups": [T1, NS1],
    "topics": [T1, NS1],
    "namespace-policies": [
        T1,
        ("PUT", "/admin/v2/namespaces/t1/pol", None),
        ("PUT", "/admin/v2/namespaces/t1/nrc1", None),
    ],
}
# Calls of other groups that came between, to make before the first call of that case.
BETWEEN: dict[tuple[str, str, str], list[Step]] = {
    ("tenants", "not empty", "DELETE /admin/v2/tenants/t1"): [NS1],
    ("tenants", "ok", "DELETE /admin/v2/tenants/tdel"): [("PUT", "/admin/v2/tenants/tdel", TENANT)],
    ("namespaces", "ok", "GET /admin/v2/namespaces/t1"): [
        ("PUT", "/admin/v2/namespaces/t1/nbb", None),
        ("PUT", "/admin/v2/namespaces/t1/ngo", {"retention_policies": RETENTION}),
        ("PUT", "/admin/v2/namespaces/t1/nnull", None),
        ("PUT", "/admin/v2/namespaces/t1/nrc1", None),
    ],
    ("namespaces", "not empty", "DELETE /admin/v2/namespaces/t1/ns1"): [
        ("PUT", "/admin/v2/persistent/t1/ns1/x/partitions", 1)
    ],
    ("resource-groups", "in use", "DELETE /admin/v2/resourcegroups/rg1"): [
        ("POST", "/admin/v2/namespaces/t1/ns1/resourcegroup/rg1", None)
    ],
    ("resource-groups", "ok", "DELETE /admin/v2/resourcegroups/rg1"): [
        ("DELETE", "/admin/v2/namespaces/t1/ns1/resourcegroup", None)
    ],
    (
        "namespace-policies",
        "quota over retention",
        "POST /admin/v2/namespaces/t1/pol/backlogQuota",
    ): [
        (
            "POST",
            "/admin/v2/namespaces/t1/pol/retention",
            {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10},
        )
    ],
}  # fmt: skip
# Calls that are answered differently on purpose, with the reason.
OURS: dict[tuple[str, str, str], tuple[int, str]] = {
    ("clusters", "cluster of live namespaces and tenants", "DELETE /admin/v2/clusters/standalone"): (
        412, "deleting a cluster that namespaces live on would orphan them",
    ),
    ("http-generic", "admin root", "GET /admin"): (404, "nothing lives at the root of the tree"),
    ("http-generic", "delete (no such row)", "DELETE /admin/v2/namespaces/t1/pol/replication"): (
        405, "a known word is not taken for a bundle",
    ),
}  # fmt: skip
# Calls with Pulsar's status and our reason: a missing namespace has one text everywhere, and limits are named.
OUR_WORDS = {
    ("namespaces", "negative ttl"),
    ("namespace-policies", "missing ns"),
    ("namespace-policies", "bad: partitioned without number"),
    ("namespace-policies", "bad: too large"),
    ("namespace-policies", "bad: one zero"),
    ("namespace-policies", "no policy"),
}
SKIPPED = {
    ("namespace-policies", "old limit key"): "a limit that is not given is none, not 0",
    ("clusters", "production layout"): "another server's list",
    ("bundles", "after split"): "splitting is not built",
    ("bundles", "ok"): "unloading needs a broker; reading is compared in namespaces",
    ("namespaces", "default"): "topics of a longer history",
    ("namespaces", "mode=ALL"): "topics of a longer history",
    ("namespaces", "mode=NON_PERSISTENT"): "topics of a longer history",
    ("namespaces", "mode=PERSISTENT"): "topics of a longer history",
}
METADATA_GROUPS = (
    "http-generic",
    "tenants",
    "clusters",
    "namespaces",
    "bundles",
    "namespace-policies",
    "failure-domains",
    "ns-isolation",
    "resource-quotas",
    "resource-groups",
    "bookies",
)


def samples(group: str) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads((HERE / f"{group}.json").read_text())["samples"]
    return recorded


def make(call: Call, sample: dict[str, Any]) -> Any:
    method, target = sample["request"].split(" ", 1)
    body = sample.get("request_body")
    # The recorder requested JSON unless it notes another type; without Accept the container answers in HTML.
    headers = {"accept": sample.get("request_accept") or "application/json"}
    return call(
        method,
        target,
        body.encode() if body is not None else None,
        content_type=sample.get("request_content_type"),
        headers=headers,
    )


def normal(body: Any) -> Any:
    """Remove addresses and the container's name, which differ between servers."""
    if isinstance(body, dict):
        gone = ("servlet", "serviceUrl", "brokerServiceUrl")
        return {key: normal(value) for key, value in body.items() if key not in gone}
    return body


@pytest.fixture(autouse=True)
def four_bundles(settings: Any) -> None:
    """Give new namespaces as many bundles as the recorded server did."""
    settings.TENANT_LIMITS = TenantLimits(default_number_of_namespace_bundles=4)


@pytest.mark.parametrize("group", METADATA_GROUPS)
def test_recorded_calls_are_answered_as_recorded(call: Call, group: str) -> None:
    for method, target, body in WORLD.get(group, []):
        assert call(method, target, body).status < 300, target
    differences: list[str] = []
    compared = 0
    for sample in samples(group):
        key = (group, sample["case"], sample["request"])
        if key[2].endswith("/deduplication") and sample.get("request_body") != "false":
            continue  # only false is taken until it is built
        if key[:2] in SKIPPED:
            continue
        for method, target, body in BETWEEN.get(key, []):
            assert call(method, target, body).status < 300, target
        answer = make(call, sample)
        compared += 1
        if key in OURS:
            assert answer.status == OURS[key][0], OURS[key][1]
        elif answer.status != sample["status"]:
            differences.append(
                f"{key}: {answer.status} {answer.body[:200]!r}, recorded {sample['status']}"
            )
        elif (
            key[:2] not in OUR_WORDS
            and "body" in sample
            and normal(answer.json if answer.body else None) != normal(sample["body"])
        ):
            differences.append(f"{key}: {answer.body[:900]!r}, recorded {sample['body']}")
    assert not differences, "\n".join(differences)
    assert compared >= 4
