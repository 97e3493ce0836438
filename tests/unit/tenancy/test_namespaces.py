"""Metadata changes against the reference store; stored bytes are those dumped from a live Apache Pulsar 4.0.8."""

import json
from itertools import pairwise
from typing import Any

import pytest

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    Failed,
    Forbidden,
    InvalidField,
    InvalidRequest,
    NotAcceptable,
    NotBuilt,
    NotFound,
    PreconditionFailed,
    Refusal,
    Unsupported,
)
from engine.base.names import NamespaceName, TopicName
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.tenancy import topics
from engine.tenancy.clusters import (
    create_cluster,
    delete_cluster,
    get_cluster,
    list_clusters,
    set_peer_clusters,
    update_cluster,
)
from engine.tenancy.grants import grant
from engine.tenancy.namespaces import (
    anti_affinity,
    anti_affinity_members,
    bookie_affinity,
    bootstrap,
    change_namespace_properties,
    create_namespace,
    delete_namespace,
    get_bundles,
    get_policies,
    list_namespaces,
    namespace_name,
    namespace_properties,
    set_anti_affinity,
    set_bookie_affinity,
    set_policy,
    update_policies,
)
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.table import BY_NAME
from engine.tenancy.settings import TenantLimits
from engine.tenancy.tenants import (
    create_tenant,
    delete_tenant,
    get_tenant,
    list_tenants,
    update_tenant,
)

GOLDEN_CLUSTER = (
    b'{"brokerServiceUrl":"pulsar://127.0.0.1:18250","brokerClientTlsEnabled":false,'
    b'"tlsAllowInsecureConnection":false,"brokerClientSslFactoryPlugin":'
    b'"org.apache.pulsar.common.util.DefaultPulsarSslFactory","brokerClientTlsEnabledWithKeyStore":false,'
    b'"brokerClientTlsTrustStoreType":"JKS","brokerClientTlsKeyStoreType":"JKS",'
    b'"serviceUrl":"http://127.0.0.1:18200"}'
)
GOLDEN_POLICIES = (
    b'{"auth_policies":{"namespace_auth":{},"destination_auth":{},"subscription_auth_roles":{}},'
    b'"replication_clusters":["standalone"],"allowed_clusters":[],"bundles":{"boundaries":["0x00000000",'
    b'"0x40000000","0x80000000","0xc0000000","0xffffffff"],"numBundles":4},"backlog_quota_map":{},'
    b'"clusterDispatchRate":{},"topicDispatchRate":{},"subscriptionDispatchRate":{},'
    b'"replicatorDispatchRate":{},"clusterSubscribeRate":{},"publishMaxMessageRate":{},'
    b'"latency_stats_sample_rate":{},%s"deleted":false,"encryption_required":false,'
    b'"subscription_auth_mode":"None","offload_threshold":-1,"offload_threshold_in_seconds":-1,'
    b'"schema_compatibility_strategy":"UNDEFINED","is_allow_auto_update_schema":true,'
    b'"schema_validation_enforced":false,"subscription_types_enabled":[],"properties":{},"migrated":false,'
    b'"clusterThatCanDeleteNamespace":"standalone"}'
)
RETENTION = b'"retention_policies":{"retentionTimeInMinutes":10,"retentionSizeInMB":100},'
NS = NamespaceName.of("t1", "ns1")
TENANT = {"adminRoles": ["adm"], "allowedClusters": ["standalone"]}


@pytest.fixture
async def store() -> MetadataStore:
    session = MemoryServer().session()
    await bootstrap(
        session,
        cluster="standalone",
        broker_url="pulsar://127.0.0.1:18250",
        web_url="http://127.0.0.1:18200",
    )
    return session


async def refused(call: Any) -> tuple[type[Refusal], str]:
    with pytest.raises(Refusal) as error:
        await call
    return type(error.value), error.value.reason


async def with_namespace(store: MetadataStore) -> None:
    await create_tenant(store, "t1", TENANT)
    await create_namespace(store, NS, None, cluster="standalone", default_bundles=4)


async def test_bootstrap_stores_apaches_bytes_and_leaves_alone_what_is_there(
    store: MetadataStore,
) -> None:
    assert (await store.get("/admin/clusters/standalone"))[0] == GOLDEN_CLUSTER
    tenant = (await store.get("/admin/policies/public"))[0]
    assert tenant == b'{"adminRoles":[],"allowedClusters":["standalone"]}'
    for namespace in ("public/default", "pulsar/system"):
        assert (await store.get(f"/admin/policies/{namespace}"))[0] == GOLDEN_POLICIES % b""
    await set_policy(
        store, NamespaceName.of("public", "default"), BY_NAME["messageTTL"], 5, cluster="standalone"
    )
    await bootstrap(store, cluster="standalone", broker_url="x", web_url="y")
    assert (await store.get("/admin/clusters/standalone"))[0] == GOLDEN_CLUSTER
    policies = await get_policies(store, NamespaceName.of("public", "default"))
    assert policies["message_ttl_in_seconds"] == 5


async def test_a_rate_is_stored_for_its_cluster_and_others_keep_theirs(
    store: MetadataStore,
) -> None:
    await with_namespace(store)
    rate = BY_NAME["dispatchRate"].read({"dispatchThrottlingRateInMsg": 100})
    await set_policy(store, NS, BY_NAME["dispatchRate"], rate, cluster="elsewhere")
    await set_policy(store, NS, BY_NAME["dispatchRate"], rate, cluster="standalone")
    stored = await get_policies(store, NS)
    assert stored["topicDispatchRate"] == {"elsewhere": rate, "standalone": rate}
    assert stored["clusterDispatchRate"] == stored["topicDispatchRate"]
    assert of_cluster(stored, "standalone")["topicDispatchRate"] == rate
    await set_policy(store, NS, BY_NAME["dispatchRate"], None, cluster="standalone", expected=rate)
    stored = await get_policies(store, NS)
    assert stored["topicDispatchRate"] == stored["clusterDispatchRate"] == {"elsewhere": rate}
    assert of_cluster(stored, "standalone")["topicDispatchRate"] is None
    types = BY_NAME["subscriptionTypesEnabled"]
    await set_policy(store, NS, types, ["Shared"], cluster="standalone")
    await set_policy(store, NS, types, None, cluster="standalone")
    assert (await get_policies(store, NS))["subscription_types_enabled"] == []


async def test_a_policy_is_stored_at_its_place(store: MetadataStore) -> None:
    await with_namespace(store)
    retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}
    await set_policy(store, NS, BY_NAME["retention"], retention, cluster="standalone")
    value, stat = await store.get("/admin/policies/t1/ns1")
    assert (value, stat.version) == (GOLDEN_POLICIES % RETENTION, 1)
    await set_policy(store, NS, BY_NAME["retention"], None, cluster="standalone")
    assert (await store.get("/admin/policies/t1/ns1"))[0] == GOLDEN_POLICIES % b""


async def test_tenants_refuse_as_pulsar_does(store: MetadataStore) -> None:
    create = create_tenant
    await create(store, "t1", TENANT)
    stored = b'{"adminRoles":["adm"],"allowedClusters":["standalone"]}'
    assert (await store.get("/admin/policies/t1"))[0] == stored
    assert await list_tenants(store) == ["public", "pulsar", "t1"]
    assert await refused(create(store, "t1", TENANT)) == (AlreadyExists, "Tenant already exist")
    assert await refused(create(store, "bad ten!", TENANT)) == (
        PreconditionFailed,
        "Tenant name is not valid",
    )
    assert await refused(create(store, "..", TENANT)) == (
        PreconditionFailed,
        "Tenant name is not valid",
    )
    unknown = {"adminRoles": [], "allowedClusters": ["nope"]}
    assert await refused(create(store, "t2", unknown)) == (
        PreconditionFailed,
        "Clusters do not exist",
    )
    none = {"adminRoles": [], "allowedClusters": []}
    assert await refused(create(store, "t2", none)) == (
        PreconditionFailed,
        "Clusters cannot be empty or blank",
    )
    assert await refused(create(store, "t2", None)) == (PreconditionFailed, "TenantInfo is null")
    blanks = {"adminRoles": [" x "], "allowedClusters": ["standalone"]}
    text = "AdminRoles contains whitespace in the beginning or end."
    assert await refused(create(store, "t2", blanks)) == (PreconditionFailed, text)
    wrong = {"adminRoles": "x", "allowedClusters": ["standalone"]}
    assert await refused(create(store, "t2", wrong)) == (
        InvalidRequest,
        "adminRoles: must be a list of texts",
    )
    assert await refused(get_tenant(store, "nope")) == (NotFound, "Tenant does not exist")
    assert await refused(update_tenant(store, "nope", TENANT)) == (
        NotFound,
        "Tenant nope not found",
    )
    assert await refused(delete_tenant(store, "nope")) == (NotFound, "Tenant doesn't exist")
    await create_namespace(store, NS, None, cluster="standalone")
    text = "The tenant still has active namespaces"
    assert await refused(delete_tenant(store, "t1")) == (Conflict, text)
    text = "Broker doesn't allow forced deletion of tenants"
    assert await refused(delete_tenant(store, "t1", force=True)) == (Unsupported, text)
    await delete_namespace(store, NS)
    await delete_tenant(store, "t1")
    assert await list_tenants(store) == ["public", "pulsar"]


@pytest.mark.parametrize(
    ("given", "kind", "reason"),
    [
        (
            {"replication_clusters": ["nope"]},
            Forbidden,
            "Cluster [nope] is not in the list of allowed clusters list for tenant [t1]",
        ),
        (
            {"bundles": {"boundaries": ["0x00000000", "0x80000000"], "numBundles": 1}},
            InvalidRequest,
            "Input bundles do not cover the whole hash range. first:0x00000000, last:0x80000000",
        ),
        ({"message_ttl_in_seconds": -1}, PreconditionFailed, "Invalid value for message TTL"),
        (
            {"message_ttl_in_seconds": "x"},
            InvalidField,
            "messageTTL: expected a whole number, got a string",
        ),
        ({"bundles": {"numBundles": "x"}}, InvalidRequest, "numBundles: must be a whole number"),
        ({"backlog_quota_map": []}, InvalidRequest, "backlog_quota_map: must be a JSON object"),
        (
            {"retention_policies": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}},
            InvalidRequest,
            "Invalid ret",
        ),
        ({"entryFilters": {"entryFilterNames": "a"}}, NotBuilt, "entryFilters: nothing acts upon"),
        (
            {"auth_policies": {"namespace_auth": {"joe": ["eat"]}}},
            InvalidField,
            "actions: 'eat' is none of produce",
        ),
        ({"offload_threshold": 0}, NotBuilt, "offload_threshold: nothing acts upon"),
    ],
)
async def test_namespaces_refuse_bad_policies(
    store: MetadataStore, given: dict[str, Any], kind: type[Refusal], reason: str
) -> None:
    await create_tenant(store, "t1", TENANT)
    call = create_namespace(store, NS, given, cluster="standalone")
    refusal, refusal_reason = await refused(call)
    assert (refusal, refusal_reason[: len(reason)]) == (kind, reason)


async def test_namespaces_live_and_refuse_as_pulsar_does(store: MetadataStore) -> None:
    missing_tenant = create_namespace(store, NS, None, cluster="standalone")
    assert await refused(missing_tenant) == (NotFound, "Tenant does not exist")
    await with_namespace(store)
    again = create_namespace(store, NS, None, cluster="standalone")
    assert await refused(again) == (AlreadyExists, "Namespace already exists")
    eight = NamespaceName.of("t1", "nb8")
    given = {"bundles": {"numBundles": 8}, "message_ttl_in_seconds": None, "antiAffinityGroup": "x"}
    await create_namespace(store, eight, given, cluster="standalone")
    policies = await get_policies(store, eight)
    assert policies["bundles"]["boundaries"][:3] == ["0x00000000", "0x20000000", "0x40000000"]
    assert "message_ttl_in_seconds" not in policies
    assert "antiAffinityGroup" not in policies
    assert await list_namespaces(store, "t1") == ["t1/nb8", "t1/ns1"]
    assert await refused(list_namespaces(store, "nope")) == (NotFound, "Tenant not found")
    nope = NamespaceName.of("t1", "nope")
    assert await refused(get_policies(store, nope)) == (NotFound, "Namespace does not exist")
    text = "Namespace t1/nope does not exist."
    assert await refused(delete_namespace(store, nope)) == (NotFound, text)
    text = "Broker doesn't allow forced deletion of namespaces"
    assert await refused(delete_namespace(store, NS, force=True)) == (Unsupported, text)
    with pytest.raises(Refusal, match="Namespace name is not valid"):
        namespace_name("t1", "bad ns!")


async def test_a_node_that_holds_legacy_namespaces_is_no_namespace(store: MetadataStore) -> None:
    await with_namespace(store)
    legacy, holder = NamespaceName.parse("t1/c/orders"), NamespaceName.of("t1", "c")
    await create_namespace(store, legacy, None, cluster="standalone")
    assert await list_namespaces(store, "t1") == ["t1/c/orders", "t1/ns1"]
    missing = (NotFound, "Namespace does not exist")
    assert await refused(get_policies(store, holder)) == missing
    assert await refused(update_policies(store, holder, lambda policies: None)) == missing
    assert (await refused(delete_namespace(store, holder)))[0] is NotFound
    await create_namespace(store, holder, None, cluster="standalone")
    assert await list_namespaces(store, "t1") == ["t1/c", "t1/c/orders", "t1/ns1"]
    again = create_namespace(store, holder, None, cluster="standalone")
    assert await refused(again) == (AlreadyExists, "Namespace already exists")
    assert await refused(delete_namespace(store, holder)) == (
        Conflict,
        "Cannot delete non empty namespace",
    )
    assert await get_policies(store, legacy)


async def test_a_tenant_is_deleted_after_its_last_legacy_namespace(store: MetadataStore) -> None:
    await with_namespace(store)
    legacy = NamespaceName.parse("t1/c/orders")
    await create_namespace(store, legacy, None, cluster="standalone")
    await delete_namespace(store, NS)
    assert (await refused(delete_tenant(store, "t1")))[0] is Conflict
    await store.create("/admin/policies/t1/left-behind")
    await delete_namespace(store, legacy)
    await delete_tenant(store, "t1")
    assert await store.exists("/admin/policies/t1") is None


async def test_a_cluster_that_a_legacy_namespace_is_placed_on_is_not_deleted(
    store: MetadataStore,
) -> None:
    await with_namespace(store)
    await create_namespace(store, NamespaceName.parse("t1/c/orders"), None, cluster="standalone")
    for other in ("t1/ns1", "public/default", "pulsar/system"):
        await delete_namespace(store, NamespaceName.parse(other))
    assert await refused(delete_cluster(store, "standalone")) == (
        PreconditionFailed,
        "Cluster not empty",
    )


async def test_a_namespace_with_topics_is_not_deleted(store: MetadataStore) -> None:
    await with_namespace(store)
    await topics.create_missing(store, NS.topic("x"))
    text = "Cannot delete non empty namespace"
    assert await refused(delete_namespace(store, NS)) == (Conflict, text)
    assert not (await get_policies(store, NS))["deleted"]
    await store.delete("/managed-ledgers/t1/ns1/persistent/x")
    await topics.create_missing(store, TopicName.parse("persistent://t1/ns1/a/b"))
    assert await refused(delete_namespace(store, NS)) == (Conflict, text)
    await store.delete("/managed-ledgers/t1/ns1/a/persistent/b")
    await delete_namespace(store, NS)
    assert await store.exists("/admin/policies/t1/ns1") is None
    assert await store.exists("/managed-ledgers/t1/ns1") is None


async def test_clusters_live_and_refuse_as_pulsar_does(store: MetadataStore) -> None:
    data = {
        "serviceUrl": "http://127.0.0.1:1",
        "brokerServiceUrl": "pulsar://127.0.0.1:2",
        "zzz": 1,
    }
    await create_cluster(store, "c2", data)
    assert await get_cluster(store, "c2") == {
        "serviceUrl": "http://127.0.0.1:1",
        "brokerServiceUrl": "pulsar://127.0.0.1:2",
        "brokerClientTlsEnabled": False,
        "tlsAllowInsecureConnection": False,
        "brokerClientTlsEnabledWithKeyStore": False,
    }
    assert await list_clusters(store) == ["c2", "standalone"]
    create = create_cluster
    assert await refused(create(store, "c2", data)) == (AlreadyExists, "Cluster already exists")
    assert await refused(create(store, "bad name!", data)) == (
        PreconditionFailed,
        "Cluster name is not valid",
    )
    text = "Illegal service url, example: http://pulsar.example.com:8080"
    assert await refused(create(store, "c4", {"serviceUrl": "nonsense"})) == (InvalidRequest, text)
    assert await refused(create(store, "c5", None)) == (InvalidRequest, "cluster data is required")
    assert await refused(get_cluster(store, "no")) == (NotFound, "Cluster does not exist")
    assert await refused(update_cluster(store, "no", {})) == (NotFound, "Cluster does not exist")
    peers = set_peer_clusters
    await peers(store, "c2", ["standalone"])
    assert (await get_cluster(store, "c2"))["peerClusterNames"] == ["standalone"]
    assert await refused(peers(store, "c2", ["nope"])) == (
        PreconditionFailed,
        "Peer cluster nope does not exist",
    )
    assert await refused(peers(store, "c2", ["c2"])) == (
        PreconditionFailed,
        "c2 itself can't be part of peer-list",
    )
    assert await refused(peers(store, "no", ["c2"])) == (NotFound, "Cluster does not exist")
    assert await refused(delete_cluster(store, "standalone")) == (
        PreconditionFailed,
        "Cluster not empty",
    )
    await delete_cluster(store, "c2")
    assert await refused(delete_cluster(store, "c2")) == (NotFound, "Cluster does not exist")


async def test_partitioned_topics_live_and_refuse_as_pulsar_does(store: MetadataStore) -> None:
    await with_namespace(store)
    pt3, plain, nope = NS.topic("pt3"), NS.topic("tp"), NS.topic("nope")
    await topics.create_missing(store, plain)
    await topics.create_partitioned(store, pt3, 3)
    stored = (await store.get("/admin/partitioned-topics/t1/ns1/persistent/pt3"))[0]
    assert stored == b'{"partitions":3,"deleted":false}'
    parts = [f"{pt3}-partition-{index}" for index in range(3)]
    assert await topics.list_topics(store, NS) == (*parts, str(plain))
    assert await topics.list_partitioned(store, NS) == (str(pt3),)
    assert await topics.get_partitions(store, plain) == {"partitions": 0, "deleted": False}
    create = topics.create_partitioned
    assert await refused(create(store, pt3, 3)) == (AlreadyExists, "This topic already exists")
    assert await refused(create(store, plain, 3)) == (AlreadyExists, "This topic already exists")
    assert await refused(create(store, nope, 0)) == (
        NotAcceptable,
        "Number of partitions should be more than 0",
    )
    assert (await refused(create(store, nope, 10_001)))[0] is NotAcceptable
    text = "Partitioned Topic Name should not contain '-partition-'"
    with pytest.raises(PreconditionFailed, match=text):
        topics.check_parent(NS.topic("x-partition-1"))
    missing = NamespaceName.of("t1", "nope").topic("x")
    assert await refused(create(store, missing, 2)) == (NotFound, "Namespace not found")
    text = f"Topic {nope} not found"
    assert await refused(topics.get_partitions(store, nope)) == (NotFound, text)


async def test_a_topic_named_like_a_partition_needs_its_partitioned_topic(
    store: MetadataStore,
) -> None:
    await with_namespace(store)
    check = topics.check_new_topic
    text = (
        'Can\'t create topic x-partition-0 with "-partition-" followed by numeric value '
        "if there isn't a partitioned topic x created."
    )
    assert await refused(check(store, NS.topic("x-partition-0"))) == (PreconditionFailed, text)
    await topics.create_partitioned(store, NS.topic("x"), 3)
    text = (
        'Can\'t create topic x-partition-7 with "-partition-" followed by a number '
        "smaller than number of partition of partitioned topic x"
    )
    assert await refused(check(store, NS.topic("x-partition-7"))) == (PreconditionFailed, text)
    await check(store, NS.topic("x-partition-1"))
    exists = (AlreadyExists, "This topic already exists")
    assert await refused(topics.create_topic(store, NS.topic("x-partition-1"), b"")) == exists
    assert await refused(check(store, NS.topic("x"))) == exists
    await check(store, NS.topic("y"))


async def test_no_topic_is_made_under_the_name_of_a_log_of_transactions(
    store: MetadataStore,
) -> None:
    await with_namespace(store)
    name = NS.topic("a-s__transaction_pending_ack")
    text = f"Can not create transaction system topic {name}"
    assert await refused(topics.check_new_topic(store, name)) == (PreconditionFailed, text)


async def test_topics_are_listed_by_bundle_and_without_system_topics(store: MetadataStore) -> None:
    await with_namespace(store)
    for local in ("üml:aut", "pl us", "a~b", "__change_events"):
        await topics.create_missing(store, NS.topic(local))
    everything = await topics.list_topics(store, NS)
    assert everything == tuple(str(NS.topic(name)) for name in ("a~b", "pl us", "üml:aut"))
    assert len(await topics.list_topics(store, NS, include_system=True)) == 4
    boundaries = (await get_policies(store, NS))["bundles"]["boundaries"]
    by_bundle = [
        await topics.list_topics(store, NS, bundle=f"{low}_{high}")
        for low, high in pairwise(boundaries)
    ]
    assert tuple(sorted(topic for part in by_bundle for topic in part)) == everything
    assert await topics.list_topics(store, NS, bundle="zzz") == ()


async def test_unknown_policies_of_newer_brokers_survive_a_change(store: MetadataStore) -> None:
    await with_namespace(store)
    value = json.loads((await store.get("/admin/policies/t1/ns1"))[0])
    await store.put("/admin/policies/t1/ns1", json.dumps({**value, "newer": {"x": 1}}).encode())
    await set_policy(store, NS, BY_NAME["messageTTL"], 60, cluster="standalone")
    policies = await get_policies(store, NS)
    assert (policies["newer"], policies["message_ttl_in_seconds"]) == ({"x": 1}, 60)


async def test_a_new_namespace_has_enough_bundles_for_several_brokers(store: MetadataStore) -> None:
    await create_tenant(store, "t1", TENANT)
    await create_namespace(store, NS, None, cluster="standalone")
    assert len(await get_bundles(store, NS)) == 32
    limits = TenantLimits(default_number_of_namespace_bundles=7)
    name = NamespaceName("t1", "ns2")
    await create_namespace(store, name, None, cluster="standalone", limits=limits)
    assert len(await get_bundles(store, name)) == 7


async def test_bundles_are_read_where_a_split_writes_them(store: MetadataStore) -> None:
    await with_namespace(store)
    assert len(await get_bundles(store, NS)) == 4
    split = {"bundles": {"boundaries": ["0x00000000", "0x40000000", "0xffffffff"], "numBundles": 2}}
    path = "/admin/local-policies/t1/ns1"
    await store.create(path, json.dumps(split).encode(), make_parents=True)
    assert (await get_bundles(store, NS)).ranges == [
        "0x00000000_0x40000000",
        "0x40000000_0xffffffff",
    ]
    await store.put(path, b'{"bundles":{"boundaries":["0x1"]}}')
    with pytest.raises(Failed, match="do not cover"):
        await get_bundles(store, NS)
    assert await refused(get_bundles(store, NamespaceName.of("t1", "nope"))) == (
        NotFound,
        "Namespace does not exist",
    )


async def test_a_namespace_may_be_created_with_permissions(store: MetadataStore) -> None:
    await create_tenant(store, "t1", TENANT)
    given = {"auth_policies": {"namespace_auth": {"joe": ["consume", "produce"]}}}
    await create_namespace(store, NS, given, cluster="standalone")
    assert (await get_policies(store, NS))["auth_policies"] == {
        "namespace_auth": {"joe": ["produce", "consume"]},
        "destination_auth": {},
        "subscription_auth_roles": {},
    }


async def test_a_namespace_is_held_by_clusters_of_its_tenant(
    store: MetadataStore,
) -> None:
    await create_cluster(store, "far", {"serviceUrl": "http://far:8080"})
    await with_namespace(store)

    async def refused(policy: str, clusters: list[str]) -> type[Refusal]:
        with pytest.raises(Refusal) as caught:
            await set_policy(store, NS, BY_NAME[policy], clusters, cluster="standalone")
        return caught.type

    await set_policy(store, NS, BY_NAME["replication"], ["standalone"], cluster="standalone")
    assert await refused("replication", ["nowhere"]) is Forbidden
    assert await refused("replication", ["far"]) is Forbidden  # not the tenant's
    assert await refused("allowedClusters", []) is InvalidRequest
    await update_tenant(store, NS.tenant, {"allowedClusters": ["standalone", "far"]})
    await set_policy(store, NS, BY_NAME["replication"], ["far"], cluster="standalone")
    await set_policy(store, NS, BY_NAME["replication"], ["standalone", "far"], cluster="standalone")
    await set_policy(store, NS, BY_NAME["replication"], ["standalone"], cluster="standalone")
    await set_policy(store, NS, BY_NAME["allowedClusters"], ["standalone"], cluster="standalone")
    assert await refused("replication", ["standalone", "far"]) is PreconditionFailed


async def test_numbers_of_offloading_lie_in_its_policies(store: MetadataStore) -> None:
    await with_namespace(store)
    for name, value in (("offloadThreshold", 7), ("offloadDeletionLagMs", 9)):
        await set_policy(store, NS, BY_NAME[name], value, cluster="standalone")
    await set_policy(store, NS, BY_NAME["offloadDeletionLagMs"], None, cluster="standalone")
    stored = await get_policies(store, NS)
    assert stored["offload_threshold"] == -1
    assert stored["offload_policies"]["managedLedgerOffloadThresholdInBytes"] == 7
    assert stored["offload_policies"]["managedLedgerOffloadMaxThreads"] == 2
    assert "managedLedgerOffloadDeletionLagInMillis" not in stored["offload_policies"]
    await set_policy(store, NS, BY_NAME["offloadPolicies"], None, cluster="standalone")
    await set_policy(store, NS, BY_NAME["offloadDeletionLagMs"], None, cluster="standalone")
    assert "offload_policies" not in await get_policies(store, NS)


async def test_properties_of_a_namespace_are_bounded(store: MetadataStore) -> None:
    await with_namespace(store)
    await change_namespace_properties(store, NS, {"a": "b"})
    before = await change_namespace_properties(store, NS, {"c": "d", "a": None})
    assert before == {"a": "b"}
    assert await namespace_properties(store, NS) == {"c": "d"}
    with pytest.raises(PreconditionFailed, match="properties: 70004 bytes"):
        await change_namespace_properties(store, NS, {"e": "x" * 70_001})
    assert await namespace_properties(store, NS) == {"c": "d"}


async def test_policies_that_do_not_fit_a_node_are_refused(store: MetadataStore) -> None:
    await with_namespace(store)
    with pytest.raises(PreconditionFailed, match="at most 524288 are stored"):
        await grant(store, NS, "r" * 600_000, ["produce"])


async def test_groups_lie_in_local_policies_that_brokers_may_not_have_made(
    store: MetadataStore,
) -> None:
    await create_tenant(store, "t1", TENANT)
    await create_namespace(store, NS, {"bundles": {"numBundles": 2}}, cluster="standalone")
    with pytest.raises(NotFound, match="local-policies"):
        await bookie_affinity(store, NS)
    await set_anti_affinity(store, NS, "apart")
    assert len(await get_bundles(store, NS)) == 2
    assert await anti_affinity(store, NS) == "apart"
    members = await anti_affinity_members(store, "standalone", NS.tenant, "apart")
    assert members == [str(NS)]
    with pytest.raises(NotBuilt, match="bookkeeperAffinityGroupPrimary"):
        await set_bookie_affinity(store, NS, {"bookkeeperAffinityGroupPrimary": "ssd"})
    await set_bookie_affinity(store, NS, None)
    assert await bookie_affinity(store, NS) is None
    await set_anti_affinity(store, NS, None)
    assert await anti_affinity(store, NS) is None
