"""REST of failure domains, isolation policies, resource groups and quotas, racks and dynamic settings on both sides.

Policies name brokers that neither side has: tests of brokers cover the effects of a policy.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest

from tests.oracle.conftest import Side
from tests.oracle.test_rest import call, differences

C = "/admin/v2/clusters/standalone"
DOMAINS = f"{C}/failureDomains"
ISOLATION = f"{C}/namespaceIsolationPolicies"
QUOTA = "/admin/v2/resource-quotas/shares/ns/0x00000000_0x40000000"
GROUPS = "/admin/v2/resourcegroups"
GROUP_OF = "/admin/v2/namespaces/shares/ns/resourcegroup"
CONFIGURATION = "/admin/v2/brokers/configuration"
ALL_TYPES = "Exclusive%2CShared%2CFailover%2CKey_Shared"
RACKS = "/admin/v2/bookies/racks-info"


def policy(**more: Any) -> dict[str, Any]:
    return {
        "namespaces": ["shares/iso.*"],
        "primary": ["nobody.*"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
        **more,
    }


def failover(**parameters: Any) -> dict[str, Any]:
    return policy(auto_failover_policy={"policy_type": "min_available", "parameters": parameters})


CALLS: list[tuple[str, str, Any]] = [
    ("PUT", "/admin/v2/tenants/shares", {"adminRoles": [], "allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/namespaces/shares/ns", None),
    ("GET", DOMAINS, None),
    ("POST", f"{DOMAINS}/d1", {"brokers": ["b1:1", "b1:1"], "other": 1}),
    ("GET", f"{DOMAINS}/d1", None),
    ("POST", f"{DOMAINS}/d1", {"brokers": ["b1:1"]}),
    ("POST", f"{DOMAINS}/d2", {"brokers": ["b1:1", "b3:1"]}),
    ("POST", f"{DOMAINS}/d2", {"brokers": ["b3:1"]}),
    ("POST", f"{DOMAINS}/two%20words", {"brokers": []}),
    ("GET", DOMAINS, None),
    ("GET", f"{DOMAINS}/dx", None),
    ("GET", "/admin/v2/clusters/nocluster/failureDomains", None),
    ("GET", "/admin/v2/clusters/nocluster/failureDomains/d1", None),
    ("POST", "/admin/v2/clusters/nocluster/failureDomains/d1", {"brokers": []}),
    ("DELETE", "/admin/v2/clusters/nocluster/failureDomains/d1", None),
    ("DELETE", f"{DOMAINS}/dx", None),
    *(("DELETE", f"{DOMAINS}/{name}", None) for name in ("d1", "d2", "two%20words")),
    ("GET", DOMAINS, None),
    ("GET", ISOLATION, None),
    ("GET", f"{ISOLATION}/p1", None),
    ("GET", f"{ISOLATION}/brokers", None),
    ("DELETE", f"{ISOLATION}/p1", None),
    ("POST", f"{ISOLATION}/p1", policy()),
    ("GET", f"{ISOLATION}/p1", None),
    ("POST", f"{ISOLATION}/p1", policy(unload_scope="none")),
    ("GET", ISOLATION, None),
    ("POST", f"{ISOLATION}/p1", policy(unload_scope="bogus")),
    ("POST", f"{ISOLATION}/p2", policy(primary=["[bad"])),
    ("POST", f"{ISOLATION}/p2", policy(primary=[])),
    ("POST", f"{ISOLATION}/p2", policy(namespaces=[])),
    ("POST", f"{ISOLATION}/p2", policy(secondary=None)),
    ("POST", f"{ISOLATION}/p2", policy(auto_failover_policy=None)),
    ("POST", f"{ISOLATION}/p2", failover()),
    ("POST", f"{ISOLATION}/p2", failover(min_limit="x", usage_threshold="1")),
    ("POST", f"{ISOLATION}/p2", failover(min_limit=2, usage_threshold=900)),
    ("GET", ISOLATION, None),
    ("GET", f"{ISOLATION}/zz", None),
    ("GET", f"{ISOLATION}/brokers", None),
    ("GET", f"{ISOLATION}/brokers/nobody:1", None),
    ("GET", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies", None),
    ("GET", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies/p1", None),
    ("GET", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies/brokers", None),
    ("GET", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies/brokers/b", None),
    ("POST", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies/p1", policy()),
    ("DELETE", "/admin/v2/clusters/nocluster/namespaceIsolationPolicies/p1", None),
    *(("DELETE", f"{ISOLATION}/{name}", None) for name in ("p1", "p2", "p1")),
    ("GET", ISOLATION, None),
    ("GET", f"{ISOLATION}/brokers", None),
    ("GET", "/admin/v2/resource-quotas", None),
    ("GET", QUOTA, None),
    ("POST", QUOTA, {"msgRateIn": -5, "memory": 2}),
    ("GET", QUOTA, None),
    ("GET", "/admin/v2/resource-quotas/shares/ns/0x0_0x1", None),
    ("GET", "/admin/v2/resource-quotas/shares/ns/bogus", None),
    ("GET", "/admin/v2/resource-quotas/shares/nope/0x00000000_0x40000000", None),
    ("POST", "/admin/v2/resource-quotas/shares/nope/0x00000000_0x40000000", {}),
    ("DELETE", QUOTA, None),
    ("DELETE", QUOTA, None),
    ("GET", QUOTA, None),
    ("GET", GROUPS, None),
    ("PUT", f"{GROUPS}/g", {}),
    ("GET", f"{GROUPS}/g", None),
    ("PUT", f"{GROUPS}/g", {"publishRateInMsgs": -5, "publishRateInBytes": 3_000_000_000}),
    ("PUT", f"{GROUPS}/g", {"dispatchRateInMsgs": "7", "dispatchRateInBytes": 1.5}),
    ("GET", f"{GROUPS}/g", None),
    ("GET", GROUPS, None),
    ("GET", f"{GROUPS}/zz", None),
    ("GET", GROUP_OF, None),
    ("POST", f"{GROUP_OF}/g", None),
    ("POST", f"{GROUP_OF}/zz", None),
    ("GET", GROUP_OF, None),
    ("DELETE", f"{GROUPS}/g", None),
    ("POST", "/admin/v2/namespaces/shares/nope/resourcegroup/g", None),
    ("GET", "/admin/v2/namespaces/shares/nope/resourcegroup", None),
    ("DELETE", "/admin/v2/namespaces/shares/nope/resourcegroup", None),
    ("DELETE", GROUP_OF, None),
    ("GET", GROUP_OF, None),
    ("DELETE", f"{GROUPS}/g", None),
    ("GET", GROUPS, None),
    ("GET", RACKS, None),
    ("POST", f"{RACKS}/b1:3181?group=g1", {"rack": "/r1/", "hostname": "h"}),
    ("GET", RACKS, None),
    ("POST", f"{RACKS}/b1:3181?group=g2", {"rack": "r2"}),
    ("POST", f"{RACKS}/b2?group=g1", {}),
    ("POST", f"{RACKS}/b1:3181", {"rack": "r2"}),
    ("POST", f"{RACKS}/b1:3181?group=g1", {"rack": "/a/b/c"}),
    ("GET", RACKS, None),
    ("GET", f"{RACKS}/b1:3181", None),
    ("GET", f"{RACKS}/b3:3181", None),
    ("DELETE", f"{RACKS}/b3:3181", None),
    ("DELETE", f"{RACKS}/b1:3181", None),
    ("DELETE", f"{RACKS}/b2", None),
    ("GET", RACKS, None),
    ("GET", "/admin/v2/broker-stats/destinations", None),
    ("GET", f"{CONFIGURATION}/values", None),
    ("POST", f"{CONFIGURATION}/maxTopicsPerNamespace/1000", None),
    ("POST", f"{CONFIGURATION}/subscriptionTypesEnabled/Exclusive%2CShared", None),
    ("GET", f"{CONFIGURATION}/values", None),
    # Apache's broker keeps a value after its deletion, and others use this one: so back to where it was.
    ("POST", f"{CONFIGURATION}/subscriptionTypesEnabled/{ALL_TYPES}", None),
    ("DELETE", f"{CONFIGURATION}/subscriptionTypesEnabled", None),
    ("POST", f"{CONFIGURATION}/brokerServicePort/1", None),
    ("POST", f"{CONFIGURATION}/nosuch/1", None),
    ("DELETE", f"{CONFIGURATION}/nosuch", None),
    ("POST", f"{CONFIGURATION}/maxTopicsPerNamespace/0", None),
    ("DELETE", f"{CONFIGURATION}/maxTopicsPerNamespace", None),
    ("DELETE", f"{CONFIGURATION}/maxTopicsPerNamespace", None),
    ("GET", f"{CONFIGURATION}/values", None),
    ("GET", "/status.html", None),
    ("DELETE", "/admin/v2/namespaces/shares/ns", None),
    ("DELETE", "/admin/v2/tenants/shares", None),
]
OURS: list[tuple[str, str, Any, int, int, str]] = [
    # Apache fails over a null, or stores one and fails from then on.
    ("POST", f"{ISOLATION}/p", None, 500, 400, "Invalid format"),
    ("PUT", f"{GROUPS}/g", None, 500, 400, "body"),
    ("POST", f"{RACKS}/b:1?group=g", None, 500, 400, "body"),
    # Apache fails over what is missing.
    ("DELETE", f"{GROUPS}/zz", None, 500, 404, "ResourceGroup does not exist"),
    # Apache stores the text, and each broker finds out by itself that it is no number.
    (
        "POST",
        f"{CONFIGURATION}/maxTopicsPerNamespace/abc",
        None,
        200,
        412,
        "Invalid dynamic-config",
    ),
    # What only Apache's load balancer needs.
    (
        "POST",
        f"{CONFIGURATION}/loadBalancerSheddingIntervalMinutes/1",
        None,
        200,
        412,
        "non-dynamic",
    ),
    # Apache stores the policy and refuses it afterwards.
    ("POST", f"{ISOLATION}/p", policy(namespaces=["[bad"]), 400, 400, "Invalid format"),
]


@pytest.mark.timeout(300)
def test_every_call_has_the_same_answer_on_both_sides(sides: tuple[Side, Side]) -> None:
    wrong = differences(sides, CALLS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("method", "path", "body", "theirs_status", "status", "word"), OURS)
def test_where_ours_must_differ_it_says_why(
    sides: tuple[Side, Side],
    method: str,
    path: str,
    body: Any,
    theirs_status: int,
    status: int,
    word: str,
) -> None:
    theirs, ours = sides
    assert call(theirs, method, path, body)[0] == theirs_status
    if path.startswith(CONFIGURATION):
        assert call(theirs, "DELETE", path.rpartition("/")[0], None)[0] == 200
    got, answer = call(ours, method, path, body)
    assert got == status
    assert word in answer["reason"]


PROPERTY = re.compile(r"brokerClient_|token[A-Z]|openID|basicAuthConf")
"""Settings of Apache's that its configuration has as free properties, which its answer leaves out."""


@pytest.mark.timeout(300)
def test_settings_in_force_and_those_that_may_change_have_the_same_names(
    sides: tuple[Side, Side],
) -> None:
    theirs, ours = sides
    for path in (CONFIGURATION, f"{CONFIGURATION}/runtime"):
        want, got = (json.loads(side.call("GET", path)[1]) for side in (theirs, ours))
        assert {name for name in got if not PROPERTY.match(name)} <= set(want), path
        assert len(got) > 25, path


@pytest.mark.timeout(300)
def test_the_metadata_urls_are_in_the_same_members(sides: tuple[Side, Side]) -> None:
    path = "/admin/v2/brokers/internal-configuration"
    want, got = (json.loads(side.call("GET", path)[1]) for side in sides)
    assert set(got) == set(want)


@pytest.mark.timeout(300)
def test_the_stats_of_all_topics_have_the_same_shape(sides: tuple[Side, Side]) -> None:
    name = "persistent://shares/stats/t"
    lines = []
    for side in sides:
        side.put("/admin/v2/tenants/shares", {"allowedClusters": ["standalone"]})
        side.put("/admin/v2/namespaces/shares/stats")
        with clients(side) as (producer, consumer):
            producer.send(b"hello")
            consumer.receive(30_000)
            lines.append(line_of(side, name))
        status, body = side.call("GET", "/admin/v2/broker-stats/metrics")
        named = [metric["dimensions"].get("namespace") for metric in json.loads(body)]
        assert (status, "shares/stats" in named) == (200, True)
    want, got = lines
    [theirs], [ours] = (line["subscriptions"].pop("s")["consumers"] for line in lines)
    assert set(theirs) == set(ours)
    assert set(want["publishers"][0]) == set(got["publishers"][0])
    assert set(want) == set(got)


def line_of(side: Side, topic: str) -> dict[str, Any]:
    """Return the topic's broker-stats, which Apache counts once a minute."""
    until = time.monotonic() + 150
    while True:
        status, body = side.call("GET", "/admin/v2/broker-stats/topics")
        assert status == 200
        for domains in json.loads(body).get("shares/stats", {}).values():
            stats: dict[str, Any] = domains.get("persistent", {}).get(topic, {})
            if stats.get("publishers") and stats["subscriptions"]["s"]["consumers"]:
                return stats
        assert time.monotonic() < until
        time.sleep(1)


@contextmanager
def clients(side: Side) -> Iterator[tuple[pulsar.Producer, pulsar.Consumer]]:
    client = pulsar.Client(side.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        topic = "persistent://shares/stats/t"
        yield client.create_producer(topic), client.subscribe(topic, "s")
    finally:
        client.close()
