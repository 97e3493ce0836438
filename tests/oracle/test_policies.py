"""Policies of namespaces and topics, by REST on both sides and by the official pulsar-admin on both."""

import time
from pathlib import Path
from typing import Any

import pytest

from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.table import POLICIES
from tests.interop.pulsar_shell import Shell
from tests.oracle.conftest import Side
from tests.oracle.test_rest import call

NAMESPACE = "/admin/v2/namespaces/polte/ns"
TOPIC = "/admin/v2/persistent/polte/ns/t"
RATE = {
    "dispatchThrottlingRateInMsg": 100,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": True,
    "ratePeriodInSecond": 2,
}
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
    "deduplicationSnapshotInterval": 60,
    "publishRate": {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 20},
    "dispatchRate": RATE,
    "subscriptionDispatchRate": RATE,
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 10},
    "maxMessageSize": 4000,
    "subscriptionTypesEnabled": ["Exclusive", "Shared"],
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
        # Apache deletes topics that are unused for a minute.
        assert side.put(f"{TOPIC}/subscription/kept") == 204
    return sides


def settled(side: Side, path: str, wanted: Any) -> tuple[int, Any]:
    """Return the answer once it is ``wanted``, or after SETTLE_S."""
    until = time.monotonic() + SETTLE_S
    while True:
        answer = call(side, "GET", path, None)
        if answer == wanted or time.monotonic() > until:
            return answer
        time.sleep(0.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_each_policy_is_read_set_and_removed_as_on_apache(
    prepared: tuple[Side, Side], level: str
) -> None:
    theirs, ours = prepared
    differences = []
    for policy in POLICIES:
        route = policy.route_at(Level(level))
        if policy.name not in VALUES or route is None:
            continue
        path = f"{NAMESPACE if level == 'namespace' else TOPIC}/{route.path}"
        value = VALUES[policy.name]
        query = f"?{route.value_query}={value}" if route.value_query else ""
        assert route.removal is not None
        for method, target, body in (
            ("GET", path, None),
            (route.method, path + query, None if query else value),
            ("GET", path, None),
            (route.removal.method, path, route.removal.body),
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


@pytest.mark.timeout(300)
def test_a_subscriptions_rate_is_read_set_and_removed_as_on_apache(
    prepared: tuple[Side, Side],
) -> None:
    theirs, ours = prepared
    target = f"{TOPIC}/kept/dispatchRate"
    for method, path, body in (
        ("GET", target, None),
        ("GET", f"{target}?applied=true", None),
        ("POST", target, RATE),
        ("GET", target, None),
        ("GET", f"{target}?applied=true", None),
        ("DELETE", target, None),
        ("GET", target, None),
    ):
        got = call(ours, method, path, body)
        want = settled(theirs, path, got) if method == "GET" else call(theirs, method, path, body)
        assert want == got, f"{method} {path}"


ADMIN = (
    (
        "namespaces set-publish-rate -m 5 -b 6000 polte/ns",
        "namespaces get-publish-rate polte/ns",
    ),
    (
        "namespaces set-dispatch-rate -md 5 -bd 6000 -dt 2 polte/ns",
        "namespaces get-dispatch-rate polte/ns",
    ),
    (
        "topicPolicies set-publish-rate -m 5 -b 6000 persistent://polte/ns/t",
        "topicPolicies get-publish-rate persistent://polte/ns/t",
    ),
    (
        "topicPolicies set-max-message-size -m 1000 persistent://polte/ns/t",
        "topicPolicies get-max-message-size persistent://polte/ns/t",
    ),
    ("namespaces set-retention --size -1 --time 3h polte/ns", "namespaces get-retention polte/ns"),
    (
        "topicPolicies set-max-consumers --max-consumers 3 persistent://polte/ns/t",
        "topicPolicies get-max-consumers persistent://polte/ns/t",
    ),
)


@pytest.mark.timeout(300)
def test_the_official_tool_sets_and_gets_them(prepared: tuple[Side, Side], tmp_path: Path) -> None:
    changes, reads = ([f"admin {pair[i]}" for pair in ADMIN] for i in (0, 1))
    for side in prepared:
        output = Shell(side.url, side.http, tmp_path).run(changes)
        assert not any(output), output
    time.sleep(SETTLE_S)  # Apache's topic policies come by a topic
    want, got = (Shell(side.url, side.http, tmp_path).run(reads) for side in prepared)
    assert got == want
    assert not {"", "null"} & {*got}
