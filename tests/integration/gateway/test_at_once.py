"""Many clients that change one object at once: every confirmed change is stored, and none is refused because of the
others."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

N = "/admin/v2/namespaces/crowded/ns"
T = "/admin/v2/persistent/crowded/ns/t"
C = "/admin/v2/clusters/crowded"
CLIENTS = 24
POLICIES: dict[str, tuple[str, Any]] = {
    "messageTTL": ("POST", 60),
    "maxProducersPerTopic": ("POST", 4),
    "maxConsumersPerTopic": ("POST", 5),
    "maxConsumersPerSubscription": ("POST", 6),
    "maxSubscriptionsPerTopic": ("POST", 7),
    "maxTopicsPerNamespace": ("POST", 800),
    "compactionThreshold": ("PUT", 1_000_000),
    "maxUnackedMessagesPerConsumer": ("POST", 8),
    "maxUnackedMessagesPerSubscription": ("POST", 9),
    "subscriptionExpirationTime": ("POST", 5000),
    "retention": ("POST", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
    "deduplicationSnapshotInterval": ("POST", 60),
}
OF_TOPIC = {
    "messageTTL",
    "maxProducers",
    "maxConsumers",
    "maxMessageSize",
    "maxSubscriptionsPerTopic",
}
QUOTA = {"msgRateIn": 1, "msgRateOut": 1, "bandwidthIn": 1, "bandwidthOut": 1, "memory": 1}
ISOLATED = {
    "namespaces": ["crowded/none.*"],
    "primary": ["none"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
}
Calls = list[tuple[str, str, Any]]


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        tenant = {"allowedClusters": ["standalone", "crowded"]}
        for path, body in (
            (C, {"serviceUrl": "http://127.0.0.1:1"}),
            ("/admin/v2/tenants/crowded", tenant),
            (N, None),
            (T, None),
        ):
            assert shared.rest("PUT", path, body)[0] in (200, 204)
        yield shared


def each(count: int, call: Callable[[int], tuple[str, str, Any]]) -> Calls:
    return [call(i) for i in range(count)]


CROWDS: dict[str, tuple[Calls, str, Callable[[Any], Any], Any]] = {
    "permissions of a namespace": (
        each(CLIENTS, lambda i: ("POST", f"{N}/permissions/r{i}", ["produce"])),
        f"{N}/permissions",
        sorted,
        sorted(f"r{i}" for i in range(CLIENTS)),
    ),
    "permissions of a topic": (
        each(CLIENTS, lambda i: ("POST", f"{T}/permissions/t{i}", ["consume"])),
        f"{T}/permissions",
        lambda roles: sorted(role for role in roles if role.startswith("t")),
        sorted(f"t{i}" for i in range(CLIENTS)),
    ),
    "permissions of subscriptions": (
        each(CLIENTS, lambda i: ("POST", f"{N}/permissions/subscription/s{i}", ["r"])),
        f"{N}/permissions/subscription",
        sorted,
        sorted(f"s{i}" for i in range(CLIENTS)),
    ),
    "properties of a namespace": (
        each(CLIENTS, lambda i: ("PUT", f"{N}/property/k{i}/v{i}", None)),
        f"{N}/properties",
        dict,
        {f"k{i}": f"v{i}" for i in range(CLIENTS)},
    ),
    "properties of a topic": (
        each(CLIENTS, lambda i: ("PUT", f"{T}/properties", {f"k{i}": f"v{i}"})),
        f"{T}/properties",
        dict,
        {f"k{i}": f"v{i}" for i in range(CLIENTS)},
    ),
    "isolation policies": (
        each(CLIENTS, lambda i: ("POST", f"{C}/namespaceIsolationPolicies/p{i}", ISOLATED)),
        f"{C}/namespaceIsolationPolicies",
        sorted,
        sorted(f"p{i}" for i in range(CLIENTS)),
    ),
    "failure domains": (
        each(CLIENTS, lambda i: ("POST", f"{C}/failureDomains/d{i}", {"brokers": [f"b:{i}"]})),
        f"{C}/failureDomains",
        sorted,
        sorted(f"d{i}" for i in range(CLIENTS)),
    ),
    "resource groups": (
        each(
            CLIENTS, lambda i: ("PUT", f"/admin/v2/resourcegroups/g{i}", {"publishRateInMsgs": i})
        ),
        "/admin/v2/resourcegroups",
        sorted,
        sorted(f"g{i}" for i in range(CLIENTS)),
    ),
    "racks of bookies": (
        each(
            CLIENTS,
            lambda i: (
                *("POST", f"/admin/v2/bookies/racks-info/127.0.0.9:{i + 1}?group=g"),
                {"rack": f"/r{i}"},
            ),
        ),
        "/admin/v2/bookies/racks-info",
        lambda groups: sorted(info["rack"] for info in groups["g"].values()),
        sorted(f"/r{i}" for i in range(CLIENTS)),
    ),
}


def all_at_once(instance: Instance, calls: Calls) -> list[str]:
    """Make all calls concurrently; return those that were refused."""
    with ThreadPoolExecutor(len(calls)) as clients:
        answers = clients.map(lambda call: instance.rest(*call, timeout_s=60), calls)
    return [
        f"{call} {answer}"
        for call, answer in zip(calls, answers, strict=True)
        if answer[0] not in (200, 204)
    ]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("crowd", CROWDS)
def test_no_concurrent_change_is_lost(instance: Instance, crowd: str) -> None:
    calls, path, extract, wanted = CROWDS[crowd]
    assert all_at_once(instance, calls) == []
    assert extract(instance.rest("GET", path)[1]) == wanted


@pytest.mark.timeout(180)
def test_different_policies_set_concurrently_are_all_stored(instance: Instance) -> None:
    calls: Calls = [(verb, f"{N}/{name}", value) for name, (verb, value) in POLICIES.items()]
    assert all_at_once(instance, calls) == []
    stored = {name: instance.rest("GET", f"{N}/{name}")[1] for name in POLICIES}
    assert stored == {name: value for name, (_, value) in POLICIES.items()}


@pytest.mark.timeout(180)
def test_different_policies_of_a_topic_set_concurrently_are_all_stored(instance: Instance) -> None:
    def call(name: str) -> tuple[str, str, Any]:
        return ("POST", f"{T}/{name}{'?messageTTL=9' if name == 'messageTTL' else ''}", 9)

    assert all_at_once(instance, [call(name) for name in OF_TOPIC]) == []
    assert {instance.rest("GET", f"{T}/{name}")[1] for name in OF_TOPIC} == {9}


@pytest.mark.timeout(180)
def test_bundles_split_concurrently_cover_all_hashes(instance: Instance) -> None:
    before = instance.rest("GET", f"{N}/bundles")[1]["boundaries"]
    pairs = list(pairwise(before))
    assert (
        all_at_once(instance, [("PUT", f"{N}/{low}_{high}/split", None) for low, high in pairs])
        == []
    )
    after = instance.rest("GET", f"{N}/bundles")[1]
    assert set(before) < set(after["boundaries"])
    assert after["numBundles"] == 2 * len(pairs) == len(after["boundaries"]) - 1
    quotas: Calls = [
        ("POST", f"/admin/v2/resource-quotas/crowded/ns/{low}_{high}", {**QUOTA, "dynamic": False})
        for low, high in pairwise(after["boundaries"])
    ]
    assert all_at_once(instance, quotas) == []
