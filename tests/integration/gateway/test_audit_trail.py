"""One audit record for each call of the admin REST that changes state: actor, target, request id, before and after."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pulsar
import pytest

from tests.support.admin import openapi
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

N = "/admin/v2/namespaces/audited/ns"
T = "/admin/v2/persistent/audited/ns/t"
PT = "/admin/v2/persistent/audited/ns/pt"
BUNDLE = "0x00000000_0x40000000"
RATE = {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 2}
STORAGE = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "audited"}
VALUES: dict[str, Any] = {
    "messageTTL": 60,
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1},
    "maxProducersPerTopic": 4,
    "maxProducers": 4,
    "maxConsumersPerTopic": 5,
    "maxConsumers": 5,
    "maxConsumersPerSubscription": 6,
    "maxSubscriptionsPerTopic": 7,
    "maxTopicsPerNamespace": 800,
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.5,
    },
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 9000,
        "deleteWhileInactive": False,
    },
    "subscriptionExpirationTime": 5000,
    "delayedDelivery": {"tickTime": 2000, "active": True},
    "maxUnackedMessagesPerConsumer": 8,
    "maxUnackedMessagesOnConsumer": 8,
    "maxUnackedMessagesPerSubscription": 9,
    "maxUnackedMessagesOnSubscription": 9,
    "deduplication": False,
    "deduplicationEnabled": False,
    "deduplicationSnapshotInterval": 60,
    "publishRate": {"publishThrottlingRateInMsg": 1000, "publishThrottlingRateInByte": -1},
    "dispatchRate": RATE,
    "subscriptionDispatchRate": RATE,
    "replicatorDispatchRate": RATE,
    "shadowTopics": ["persistent://audited/ns/pt"],
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 30, "ratePeriodInSecond": 10},
    "maxMessageSize": 4000,
    "subscriptionTypesEnabled": ["Exclusive", "Shared"],
    "compactionThreshold": 1_000_000,
    "schemaCompatibilityStrategy": "FORWARD",
    "schemaAutoUpdateCompatibilityStrategy": "Forward",
    "isAllowAutoUpdateSchema": False,
    "schemaValidationEnforced": True,
    "encryptionRequired": True,
    "subscriptionAuthMode": "Prefix",
    "replication": ["standalone"],
    "allowedClusters": ["standalone"],
    "offloadPolicies": STORAGE,
    "offloadThreshold": 1000,
    "offloadThresholdInSeconds": 1000,
    "offloadDeletionLagMs": 1000,
    "backlogQuota": {"limitSize": 1000, "policy": "producer_exception"},
}
"""Values of each policy, by the last part of its path."""
STAYS = ("replication", "allowedClusters")
"""Policies that are set to their present value, so that nothing changes."""
BEFORE = f"""
PUT /admin/v2/clusters/auditedc {{"serviceUrl":"http://127.0.0.1:1"}}
POST /admin/v2/clusters/auditedc {{"serviceUrl":"http://127.0.0.1:2","authenticationParameters":"hush"}}
POST /admin/v2/clusters/auditedc/peers ["standalone"]
POST /admin/v2/clusters/auditedc/migrate?migrated=false {{"serviceUrl":"http://127.0.0.1:1"}}
POST /admin/v2/clusters/auditedc/failureDomains/d {{"brokers":["b:1"]}}
DELETE /admin/v2/clusters/auditedc/failureDomains/d
POST /admin/v2/clusters/auditedc/namespaceIsolationPolicies/p \
{{"namespaces":["audited/x.*"],"primary":["a"],"secondary":[],\
"auto_failover_policy":{{"policy_type":"min_available","parameters":{{"min_limit":"1","usage_threshold":"80"}}}}}}
DELETE /admin/v2/clusters/auditedc/namespaceIsolationPolicies/p
DELETE /admin/v2/clusters/auditedc
PUT /admin/v2/tenants/audited {{"adminRoles":["a"],"allowedClusters":["standalone"]}}
POST /admin/v2/tenants/audited {{"adminRoles":["b"],"allowedClusters":["standalone"]}}
PUT {N}
PUT {T} {{"a":"b"}}
PUT {PT}/partitions 2
POST {PT}/partitions 3
PUT {T}/properties {{"c":"d"}}
DELETE {T}/properties?key=c
PUT {T}/subscription/s
PUT {T}/subscription/s/properties {{"k":"v"}}
PUT {PT}/subscription/s
"""
AFTER = f"""
POST {T}/all_subscription/expireMessages/1
POST {PT}/subscription/s/expireMessages/1
POST {T}/s/dispatchRate {json.dumps(RATE)}
DELETE {T}/s/dispatchRate
POST {T}/permissions/r ["produce"]
DELETE {T}/permissions/r
POST {N}/permissions/r ["produce"]
DELETE {N}/permissions/r
POST {N}/permissions/subscription/s ["r","q"]
DELETE {N}/permissions/s/r
POST /admin/v2/namespaces/grantPermissionsOnTopics \
[{{"topic":"persistent://audited/ns/t","role":"z","actions":["produce"]}}]
POST /admin/v2/namespaces/revokePermissionsOnTopics [{{"topic":"persistent://audited/ns/t","role":"z"}}]
PUT {N}/properties {{"a":"b"}}
DELETE {N}/properties
PUT {N}/property/k/v
DELETE {N}/property/k
POST {N}/antiAffinity "g"
DELETE {N}/antiAffinity
PUT /admin/v2/resourcegroups/auditedg {{"publishRateInMsgs":10}}
POST {N}/resourcegroup/auditedg
DELETE {N}/resourcegroup
DELETE /admin/v2/resourcegroups/auditedg
POST /admin/v2/resource-quotas \
{{"msgRateIn":41,"msgRateOut":120,"bandwidthIn":1,"bandwidthOut":1,"memory":1,"dynamic":true}}
POST /admin/v2/resource-quotas/audited/ns/{BUNDLE} \
{{"msgRateIn":41,"msgRateOut":120,"bandwidthIn":1,"bandwidthOut":1,"memory":1,"dynamic":true}}
DELETE /admin/v2/resource-quotas/audited/ns/{BUNDLE}
POST /admin/v2/brokers/configuration/dispatchThrottlingRatePerTopicInMsg/100
DELETE /admin/v2/brokers/configuration/dispatchThrottlingRatePerTopicInMsg
POST /admin/v2/bookies/racks-info/127.0.0.1:1?group=g {{"rack":"/r"}}
DELETE /admin/v2/bookies/racks-info/127.0.0.1:1
POST /admin/v2/schemas/audited/ns/t/schema {{"type":"STRING","schema":"","properties":{{}}}}
DELETE /admin/v2/schemas/audited/ns/t/schema
PUT {N}/{BUNDLE}/split
PUT {N}/0x40000000_0x80000000/unload
POST {N}/0x40000000_0x80000000/clearBacklog
POST {N}/0x40000000_0x80000000/clearBacklog/s
POST {N}/clearBacklog
POST {N}/clearBacklog/s
POST {N}/migration true
POST {N}/migration false
PUT {N}/unload
PUT {T}/unload
POST {T}/subscription/s/replicatedSubscriptionStatus true
POST {T}/subscription/s/resetcursor/0
POST {T}/subscription/s/skip/1
POST {T}/subscription/s/skip_all
POST {T}/subscription/s/resetcursor {{"ledgerId":-1,"entryId":-1}}
POST {PT}-partition-0/subscription/s/expireMessages {{"ledgerId":-1,"entryId":-1}}
POST {T}/offloadPolicies {json.dumps(STORAGE)}
PUT {T}/offload {{"ledgerId":0,"entryId":0}}
DELETE {T}/offloadPolicies
POST {T}/trim
DELETE {T}/truncate
PUT {T}/compaction
POST {PT}/createMissedPartitions
POST {N}/0x40000000_0x80000000/unsubscribe/s
POST {N}/unsubscribe/s
PUT {T}/subscription/s
DELETE {T}/subscription/s
POST {T}/terminate
POST {PT}/terminate/partitions
DELETE {T}
DELETE {PT}/partitions
DELETE {N}
DELETE /admin/v2/tenants/audited
"""
QUIET = re.compile(
    r"createMissedPartitions|expireMessages|clearBacklog|unsubscribe|/unload|bookieAffinity$"
)
"""Calls that may find nothing to change."""
NOT_BUILT = {
    f"POST {N}/persistence/bookieAffinity": "groups of bookies",
}
"""Changes that are refused regardless of their body, by the reason."""
ELSEWHERE = re.compile(
    r"/admin/(v3/|v2/(functions|worker)/"
    r"|(namespaces|schemas|brokers|broker-stats|clusters|properties|resource-quotas)(/|$)"
    r"|.*(compatibility|version|analyzeBacklog|backlogSize)$)"
)
"""Calls that a Pulsar without workers refuses, older paths of the same resources, and calls that only read."""


class Seen(NamedTuple):
    """A call and its records in the audit log."""

    line: str
    status: int
    records: list[dict[str, Any]]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [change for record in self.records for change in record["changes"]]


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        status, quota = shared.rest("GET", "/admin/v2/resource-quotas")
        assert status == 200
        yield shared
        assert shared.rest("POST", "/admin/v2/resource-quotas", quota)[0] == 204


def call(instance: Instance, line: str) -> Seen:
    """Make the call ``METHOD path body`` and look up the records with its request id."""
    method, path, *body = line.split(" ", 2)
    identity = uuid.uuid4().hex
    headers = {"X-Request-Id": identity, "Content-Type": "application/json"}
    data = body[0].encode() if body else None
    request = Request(instance.http + path, data, headers, method=method)
    try:
        with urlopen(request, timeout=60) as reply:
            status, answered_id = reply.status, reply.headers["X-Request-Id"]
            reply.read()
    except HTTPError as error:
        with error:
            status, answered_id = error.code, error.headers["X-Request-Id"]
    target = quote(path.partition("?")[0], safe="")
    rows = instance.rest("GET", f"/api/v1/audit?q={target}&limit=50")[1]["rows"]
    records = [row for row in rows if row["request_id"] == identity]
    assert answered_id == identity or not records, line
    return Seen(line, status, records)


def publish(instance: Instance) -> None:
    """Publish messages that are skipped and expired later."""
    client = pulsar.Client(instance.url)
    for topic in ("t", "pt"):
        producer = client.create_producer(f"persistent://audited/ns/{topic}")
        for _ in range(12):
            producer.send(b"x")
    client.close()


def mutating() -> list[tuple[str, str]]:
    """Return method and path template of every implemented call that changes something. Publishing by REST is left out:
    it is not audited, like publishing by any other client."""
    paths = openapi.document()["paths"]
    calls_by_path = [(method.upper(), path) for path, calls in paths.items() for method in calls]
    return [
        (method, path)
        for method, path in calls_by_path
        if method != "GET" and not path.startswith("/topics/")
    ]


def of_policies() -> list[str]:
    """Return the calls that set and remove each policy, of the namespace and of the topic, by the verbs that it has."""
    lines = []
    for path, calls in openapi.document()["paths"].items():
        name = path.rpartition("/")[2]
        base = {"/admin/v2/namespaces/{tenant}/{namespace}/": N}
        base["/admin/v2/persistent/{tenant}/{namespace}/{topic}/"] = T
        where = base.get(path.removesuffix(name))
        if where is None or name not in VALUES:
            continue
        query = f"?messageTTL={VALUES[name]}" if path.endswith("{topic}/messageTTL") else ""
        verb = "PUT" if "put" in calls else "POST"
        lines.append(f"{verb} {where}/{name}{query} {json.dumps(VALUES[name])}")
        if "delete" in calls:
            lines.append(f"DELETE {where}/{name}")
    removed = [
        f"DELETE {N}/removeOffloadPolicies",
        f"DELETE {N}/persistence/bookieAffinity",
        f"DELETE {T}/offloadPolicies",
    ]
    return lines + removed


MADE = [line for line in BEFORE.split("\n") if line]
SCRIPT = [*MADE, *of_policies(), *(line for line in AFTER.split("\n") if line)]
MOVES = re.compile(r"/(skip|skip_all|resetcursor|expireMessages)(/|$)")


def test_every_change_leaves_one_record_with_before_and_after(instance: Instance) -> None:
    wrong, before = [], Seen("", 0, [])
    for number, line in enumerate(SCRIPT):
        if number == len(MADE):
            publish(instance)
        seen = call(instance, line)
        method, path, *body = line.split(" ", 2)
        if not 200 <= seen.status < 300 or len(seen.records) != 1:
            wrong.append(str(seen))
            continue
        [record] = seen.records
        assert record["actor"] == "anonymous"
        assert record["address"] == "127.0.0.1"
        assert (record["method"], record["target"], record["status"]) == (method, path, seen.status)
        assert record["given"] == "" if not body else record["given"]
        quiet = path.endswith(STAYS) or QUIET.search(path) or "ffloadPolicies" in path
        if not quiet and not any(change["before"] != change["after"] for change in seen.changes):
            wrong.append(f"no change: {seen}")
        where = path.partition("?")[0]
        if method == "DELETE" and f" {where} " in before.line.replace("?", " ") and before.changes:
            (put, *_), (removed, *_) = before.changes, seen.changes
            stored = (
                put["after"].get("value") if put["where"] == "set_topic_policy" else put["after"]
            )
            if not re.search("properties|schema$", path) and stored != removed["before"]:
                wrong.append(f"{line}\n  put     {put}\n  removed {removed}")
        if MOVES.search(path):
            moved = [(change["before"], change["after"]["now"]) for change in seen.changes]
            assert moved, line
            assert all(re.fullmatch(r"\d+:-?\d+", place) for pair in moved for place in pair), moved
        before = seen
    assert not wrong, "\n".join(wrong)


def test_the_script_covers_every_mutating_call() -> None:
    shapes = {
        (method, path): re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for method, path in mutating()
        if not ELSEWHERE.match(path)
    }
    calls = [line.partition("?")[0].split(" ")[:2] for line in [*SCRIPT, *NOT_BUILT]]
    covered = {
        key
        for key, pattern in shapes.items()
        if any(method == key[0] and pattern.fullmatch(path) for method, path in calls)
    }
    assert set(shapes) - covered == set()


def test_a_refused_call_is_audited_with_its_status_and_no_change(instance: Instance) -> None:
    wrong = []
    for method, path in mutating():
        path = re.sub(r"{(\w+)}", r"no-\1", path)
        seen = call(instance, f"{method} {path} {{}}")
        if re.search("/(compatibility|version|analyzeBacklog|backlogSize)$", path):
            assert not seen.records, "a read is audited as a change"
        elif 200 <= seen.status < 300:
            continue  # removing a missing object is accepted, and some calls create what is missing
        elif [record["status"] for record in seen.records] != [seen.status] or seen.changes:
            wrong.append(str(seen))
    for line in NOT_BUILT:
        seen = call(instance, line)
        if [record["status"] for record in seen.records] != [seen.status] or seen.changes:
            wrong.append(str(seen))
    assert not wrong, "\n".join(wrong)


def test_secrets_are_not_audited(instance: Instance) -> None:
    path = "/admin/v2/clusters/secretive"
    secret = {"serviceUrl": "http://127.0.0.1:2", "authenticationParameters": "hush"}
    seen = call(instance, f"PUT {path} {json.dumps(secret)}")
    assert seen.status == 200
    logged = json.dumps(seen.records)
    assert "hush" not in logged
    assert "(hidden)" in logged
    assert call(instance, f"DELETE {path}").changes[0]["after"] is None
