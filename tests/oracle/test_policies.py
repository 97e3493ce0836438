"""Policies of namespaces and topics, by REST on both sides and by the official pulsar-admin on both."""

import subprocess
import sys
import time
from typing import Any

import pytest

from engine.tenancy.policies import POLICIES
from tests.oracle.conftest import Side
from tests.oracle.servers import PEER
from tests.oracle.test_rest import call

NAMESPACE = "/admin/v2/namespaces/polte/ns"
TOPIC = "/admin/v2/persistent/polte/ns/t"
VALUES: dict[str, Any] = {
    "messageTTL": 600,
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1},
    "maxProducersPerTopic": 4,
    "maxConsumersPerTopic": 5,
    "maxConsumersPerSubscription": 6,
    "maxSubscriptionsPerTopic": 7,
    "maxTopicsPerNamespace": 800,
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.5,
    },
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "deduplication": False,
}
QUOTA = {"limitSize": 1000000, "limitTime": -1, "policy": "producer_exception"}
AGE = {"limitSize": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"}
SETTLE_S = 10.0
"""Apache's brokers see a topic's policies after a while."""


@pytest.fixture(scope="module")
def prepared(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    for side in sides:
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert side.put("/admin/v2/tenants/polte", tenant) == 204
        assert side.put(NAMESPACE) == 204
        assert side.put(TOPIC) == 204
        # Apache deletes topics that nobody uses for a minute.
        assert side.put(f"{TOPIC}/subscription/kept") == 204
    return sides


def settled(side: Side, path: str, wanted: Any) -> tuple[int, Any]:
    """The answer, once it is ``wanted`` or it has had its time."""
    until = time.monotonic() + SETTLE_S
    while True:
        found = call(side, "GET", path, None)
        if found == wanted or time.monotonic() > until:
            return found
        time.sleep(0.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_each_policy_is_read_set_and_removed_as_on_apache(
    prepared: tuple[Side, Side], level: str
) -> None:
    theirs, ours = prepared
    differences = []
    for policy in POLICIES:
        name = policy.name if level == "namespace" else policy.topic_name
        if policy.name not in VALUES or not name:
            continue
        path = f"{NAMESPACE if level == 'namespace' else TOPIC}/{name}"
        value = VALUES[policy.name]
        query = f"?messageTTL={value}" if path == f"{TOPIC}/messageTTL" else ""
        for method, target, body in (
            ("GET", path, None),
            ("POST", path + query, None if query else value),
            ("GET", path, None),
            ("DELETE", path, None),
            ("GET", path, None),
        ):
            got = call(ours, method, target, body)
            want = (
                settled(theirs, target, got)
                if method == "GET"
                else call(theirs, method, target, body)
            )
            if want != got:
                differences.append(f"{method} {target} {body}\n  apache {want}\n  ours   {got}")
    assert not differences, "\n".join(differences)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("base", [NAMESPACE, TOPIC])
def test_quotas_are_read_set_and_removed_as_on_apache(
    prepared: tuple[Side, Side], base: str
) -> None:
    theirs, ours = prepared
    differences = []
    for method, path, body in (
        ("GET", "backlogQuotaMap", None),
        ("POST", "backlogQuota", QUOTA),
        ("POST", "backlogQuota?backlogQuotaType=message_age", AGE),
        ("GET", "backlogQuotaMap", None),
        ("DELETE", "backlogQuota", None),
        ("GET", "backlogQuotaMap", None),
        ("DELETE", "backlogQuota?backlogQuotaType=message_age", None),
        ("GET", "backlogQuotaMap", None),
    ):
        target = f"{base}/{path}"
        got = call(ours, method, target, body)
        want = (
            settled(theirs, target, got) if method == "GET" else call(theirs, method, target, body)
        )
        if want != got:
            differences.append(f"{method} {target}\n  apache {want}\n  ours   {got}")
    assert not differences, "\n".join(differences)


ADMIN = (
    ("namespaces set-retention --size -1 --time 3h polte/ns", "namespaces get-retention polte/ns"),
    (
        "topicPolicies set-max-consumers --max-consumers 3 persistent://polte/ns/t",
        "topicPolicies get-max-consumers persistent://polte/ns/t",
    ),
)


def admin(side: Side, words: str) -> str:
    """What pulsar-admin prints."""
    command = [sys.executable, str(PEER), "admin", "--http", side.http, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{side.name}: {words}: {done.stdout[-500:]} {done.stderr[-1000:]}"
    return done.stdout.strip()


@pytest.mark.timeout(300)
def test_the_official_tool_sets_and_gets_them(prepared: tuple[Side, Side]) -> None:
    theirs, ours = prepared
    for change, read in ADMIN:
        admin(ours, change)
        admin(theirs, change)
        got = admin(ours, read)
        until = time.monotonic() + SETTLE_S
        while (want := admin(theirs, read)) != got and time.monotonic() < until:
            time.sleep(0.5)
        assert got == want
        assert got not in ("", "null")
