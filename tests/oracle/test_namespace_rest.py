"""Administrators' changes of namespaces, bundles, permissions and positions, requested of both sides in one order."""

import pulsar
import pytest

from tests.oracle.conftest import Side
from tests.oracle.test_rest import call, differences, parsed

N = "/admin/v2/namespaces/nsrest"
T = "/admin/v2/persistent/nsrest/ns"
FUNCTIONS = "/admin/v3/functions/nsrest/ns"
CALLS = f"""
GET {N}/ns/permissions
POST {N}/ns/permissions/app ["produce","consume","produce"]
GET {N}/ns/permissions
POST {N}/ns/permissions/app ["sinks"]
POST {N}/ns/permissions/none []
POST {N}/ns/permissions/nothing
GET {N}/ns/permissions
GET {N}/missing/permissions
POST {N}/missing/permissions/app ["produce"]
GET {N}/ns/permissions/subscription
POST {N}/ns/permissions/subscription/sub ["b","a"]
POST {N}/ns/permissions/subscription/sub ["c"]
POST {N}/ns/permissions/subscription/empty []
POST {N}/ns/permissions/subscription/nothing
GET {N}/ns/permissions/subscription
DELETE {N}/ns/permissions/sub/c
GET {N}/ns/permissions/subscription
POST {T}/a/permissions/r ["produce"]
GET {T}/a/permissions
POST {T}/pt/permissions/r ["consume"]
GET {T}/pt/permissions
GET {T}/pt-partition-0/permissions
DELETE {T}/pt/permissions/r
DELETE {T}/a/permissions/r
DELETE {T}/a/permissions/r
GET {T}/missing/permissions
POST {T}/missing/permissions/r ["produce"]
DELETE {T}/missing/permissions/r
GET /admin/v2/persistent/nsrest/missing/a/permissions
GET /admin/v2/non-persistent/nsrest/ns/x/permissions
POST /admin/v2/namespaces/grantPermissionsOnTopics \
[{{"topic":"persistent://nsrest/ns/a","role":"z","actions":["produce"]}}]
GET {T}/a/permissions
POST /admin/v2/namespaces/revokePermissionsOnTopics [{{"topic":"persistent://nsrest/ns/a","role":"z"}}]
DELETE {N}/ns/permissions/app
DELETE {N}/ns/permissions/app
GET {N}/ns
GET {N}/ns/properties
PUT {N}/ns/properties {{"a":"b"}}
PUT {N}/ns/properties {{"c":"d"}}
GET {N}/ns/properties
PUT {N}/ns/property/k/v
GET {N}/ns/property/k
GET {N}/ns/property/zz
DELETE {N}/ns/property/zz
DELETE {N}/ns/property/k
DELETE {N}/ns/properties
GET {N}/ns/properties
GET {N}/missing/properties
GET /admin/v2/namespaces/nobody/ns/properties
PUT {N}/missing/properties {{"a":"b"}}
GET {N}/ns/allowedClusters
POST {N}/ns/allowedClusters ["standalone"]
GET {N}/ns/allowedClusters
POST {N}/ns/allowedClusters []
POST {N}/ns/allowedClusters ["nope"]
POST {N}/missing/allowedClusters ["standalone"]
GET {N}/ns/replication
POST {N}/ns/replication ["standalone"]
POST {N}/ns/replication []
POST {N}/ns/replication
POST {N}/ns/replication ["nope","standalone"]
POST {N}/ns/replication ["global"]
POST {N}/missing/replication ["standalone"]
GET {N}/ns/antiAffinity
POST {N}/ns/antiAffinity "grp"
GET {N}/ns/antiAffinity
POST {N}/ns/antiAffinity
POST {N}/ns/antiAffinity "grp"
GET /admin/v2/namespaces/standalone/antiAffinity/grp
GET /admin/v2/namespaces/standalone/antiAffinity/other?tenant=nsrest
GET /admin/v2/namespaces/standalone/antiAffinity/grp?tenant=nobody
GET /admin/v2/namespaces/nowhere/antiAffinity/grp?tenant=nsrest
GET /admin/namespaces/standalone/antiAffinity/other?property=nsrest
DELETE {N}/ns/antiAffinity
DELETE {N}/ns/antiAffinity
GET {N}/ns/antiAffinity
GET {N}/missing/persistence/bookieAffinity
DELETE {N}/ns/persistence/bookieAffinity
GET {N}/ns/persistence/bookieAffinity
DELETE {N}/missing/persistence/bookieAffinity
GET {N}/ns/encryptionRequired
POST {N}/ns/encryptionRequired true
GET {N}/ns/encryptionRequired
POST {N}/ns/encryptionRequired "false"
GET {N}/ns/encryptionRequired
POST {N}/missing/encryptionRequired true
GET {N}/ns/subscriptionAuthMode
POST {N}/ns/subscriptionAuthMode "Prefix"
GET {N}/ns/subscriptionAuthMode
POST {N}/ns/subscriptionAuthMode
GET {N}/ns/subscriptionAuthMode
GET {N}/ns/offloadThreshold
PUT {N}/ns/offloadThreshold 1000
PUT {N}/ns/offloadThreshold -5
GET {N}/ns/offloadThreshold
PUT {N}/ns/offloadThresholdInSeconds 1000
GET {N}/ns/offloadThresholdInSeconds
GET {N}/ns/offloadDeletionLagMs
PUT {N}/ns/offloadDeletionLagMs 1000
GET {N}/ns/offloadDeletionLagMs
GET {N}/ns/offloadPolicies
DELETE {N}/ns/offloadDeletionLagMs
GET {N}/ns/offloadDeletionLagMs
POST {N}/ns/offloadPolicies {{"managedLedgerOffloadDriver":"bogus"}}
POST {N}/ns/offloadPolicies {{"managedLedgerOffloadDriver":"aws-s3"}}
POST {N}/ns/offloadPolicies
DELETE {N}/ns/removeOffloadPolicies
GET {N}/ns/offloadPolicies
GET {N}/ns/offloadThreshold
GET {N}/missing/offloadPolicies
GET {N}/ns/replicatorDispatchRate
POST {N}/ns/replicatorDispatchRate {{"dispatchThrottlingRateInMsg":100}}
GET {N}/ns/replicatorDispatchRate
DELETE {N}/ns/replicatorDispatchRate
GET {N}/ns/replicatorDispatchRate
GET {T}/a/replicatorDispatchRate
GET {T}/a/replicatorDispatchRate?applied=true
GET {T}/a/replication
GET {T}/a/replication?applied=true
POST {T}/a/replication ["nope"]
POST {T}/a/replication ["nope","standalone"]
POST {T}/a/replication ["global","standalone"]
POST {T}/a/replication
GET {T}/a/offloadPolicies
GET {T}/a/offloadPolicies?applied=true
POST {T}/a/offloadPolicies
POST {T}/a/offloadPolicies {{}}
GET {T}/a/subscriptionExpirationTime
DELETE {T}/a/subscriptionExpirationTime
GET {T}/a/offload
GET {T}/pt/offload
GET {T}/missing/offload
PUT {T}/a/offload
PUT {T}/missing/offload {{"ledgerId":9,"entryId":2}}
PUT {T}/a/backlogSize {{"ledgerId":-1,"entryId":-1}}
PUT {T}/a/backlogSize {{"ledgerId":999999,"entryId":0}}
PUT {T}/pt/backlogSize {{"ledgerId":-1,"entryId":-1}}
PUT {T}/missing/backlogSize {{"ledgerId":-1,"entryId":-1}}
PUT {N}/ns/0x00000000_0x40000000/split
GET {N}/ns/bundles
PUT {N}/ns/0x00000000_0x40000000/split
PUT {N}/ns/zzz/split
PUT {N}/ns/0x40000000_0x80000000/split?splitAlgorithmName=bogus
PUT {N}/ns/0x40000000_0x80000000/split?splitAlgorithmName=specified_positions_divide
PUT {N}/ns/0x40000000_0x80000000/split?unload=true
GET {N}/ns/bundles
PUT {N}/missing/0x00000000_0x40000000/split
GET {T}/a/subscription/s1/position/1
GET {T}/a/subscription/s1/position/10
GET {T}/a/subscription/s1/position/11
GET {T}/missing/subscription/s1/position/1
GET {T}/pt/subscription/s1/position/1
GET {T}/a/examinemessage?initialPosition=earliest&messagePosition=1
GET {T}/a/examinemessage?initialPosition=latest&messagePosition=1
GET {T}/a/examinemessage
GET {T}/pt/examinemessage
GET {T}/pt-partition-1/examinemessage
GET {T}/missing/examinemessage
GET {T}/a/ledger/999999/entry/0
GET {T}/missing/ledger/1/entry/0
GET {T}/pt/ledger/1/entry/0
GET {T}/pt/messageid/0
GET {T}/missing/messageid/0
POST {T}/a/subscription/s1/skip/2
POST {T}/pt/subscription/s1/skip/1
POST {T}/missing/subscription/s1/skip/1
POST {T}/a/subscription/s1/expireMessages/100000
POST {T}/a/all_subscription/expireMessages/100000
POST {T}/missing/subscription/s1/expireMessages/1000
POST {T}/missing/all_subscription/expireMessages/1000
POST {T}/pt/subscription/nosub/expireMessages/10
POST {T}/pt/subscription/s1/expireMessages {{"ledgerId":1,"entryId":0}}
GET {T}/a/subscription/s1/position/1
POST {T}/a/subscription/s1/resetcursor/0
GET {T}/a/subscription/s1/position/1
POST {T}/a/subscription/s1/resetcursor {{"ledgerId":-1,"entryId":-1}}
POST {T}/a/subscription/s1/resetcursor {{"ledgerId":9223372036854775807,"entryId":9223372036854775807}}
GET {T}/a/subscription/s1/position/1
POST {T}/a/subscription/s1/resetcursor {{"ledgerId":-1,"entryId":-1,"isExcluded":true}}
POST {T}/pt/subscription/s1/resetcursor {{"ledgerId":-1,"entryId":-1}}
POST {T}/missing/subscription/s1/resetcursor {{"ledgerId":-1,"entryId":-1}}
POST {T}/pt/subscription/nosub/skip_all
POST {T}/missing/subscription/s1/skip_all
POST {N}/ns/clearBacklog
POST {T}/a/subscription/s1/expireMessages/100000
POST {N}/ns/0x00000000_0x40000000/clearBacklog
POST {N}/missing/0x00000000_0x20000000/clearBacklog
POST {N}/ns/unsubscribe/nosub
POST {N}/ns/unsubscribe/s1
GET {T}/a/subscriptions
POST {T}/a/terminate/partitions
DELETE {T}/pt/subscription/s9
DELETE {T}/missing/subscription/s9
PUT {T}/missing/unload
POST {T}/missing/trim
PUT {T}/missing/compaction
DELETE {T}/pt
DELETE {T}/a/partitions
DELETE {T}/a?force=true
DELETE {T}/a?force=true
DELETE {T}/pt/partitions?force=true
DELETE {T}/pt/partitions?force=true
DELETE {N}/ns?force=true
GET {FUNCTIONS}
GET {FUNCTIONS}/f
DELETE {FUNCTIONS}/f
POST {FUNCTIONS}/f/start
GET {FUNCTIONS}/f/0/status
GET /admin/v2/functions/nsrest/ns
GET /admin/v3/sources/builtinsources
GET /admin/v3/sinks/nsrest/ns/k/0/status
GET /admin/v2/worker/cluster
GET /admin/v2/worker-stats/metrics
GET /admin/v3/packages/function/nsrest/ns
GET /admin/v3/packages/song/nsrest/ns
DELETE /admin/v3/packages/sink/nsrest/ns/p/v1
GET /admin/v3/transactions/coordinators
PUT /admin/v3/transactions/coordinators
GET /admin/v3/transactions/slowTransactions/10
"""
OURS = f"""
404 POST {N}/missing/clearBacklog
404 POST {N}/missing/unsubscribe/s1
404 DELETE {N}/missing/permissions/app
404 DELETE {N}/ns/permissions/nosub/app
400 POST {N}/ns/permissions/app ["eat"]
400 POST {N}/ns/subscriptionAuthMode "bogus"
404 POST {N}/missing/antiAffinity "grp"
501 POST {N}/ns/persistence/bookieAffinity {{"bookkeeperAffinityGroupPrimary":"g"}}
501 POST {N}/ns/offloadPolicies {{"managedLedgerOffloadDriver":"filesystem"}}
501 PUT {T}/a/offload {{"ledgerId":9,"entryId":2}}
"""
"""Calls that Apache's answers with 204 though it ignores them, stores nonsense or fails; ours gives the reason."""


@pytest.fixture(scope="module")
def prepared(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    for side in sides:
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert side.put("/admin/v2/tenants/nsrest", tenant) == 204
        assert side.put(f"{N}/ns") == 204
        assert side.put(f"{T}/a") == 204
        assert side.put(f"{T}/pt/partitions", 2) == 204
        assert side.put(f"{T}/pt/subscription/keep") == 204
        client = pulsar.Client(side.url)
        client.subscribe("persistent://nsrest/ns/a", "s1").close()
        producer = client.create_producer(
            "persistent://nsrest/ns/a", producer_name="p", batching_enabled=False
        )
        for i in range(10):
            producer.send(b"%d" % i)
        client.close()
    return sides


@pytest.mark.timeout(300)
def test_namespaces_are_administered_as_on_apache(prepared: tuple[Side, Side]) -> None:
    _, ours = prepared
    wrong = []
    for line in OURS.strip().splitlines():
        status, what = line.split(" ", 1)
        got = call(ours, *parsed(what))
        if got[0] != int(status) or not got[1]["reason"]:
            wrong.append(f"{line}\n  ours   {got}")
    wrong += differences(prepared, map(parsed, CALLS.strip().splitlines()))
    assert not wrong, "\n".join(wrong)
