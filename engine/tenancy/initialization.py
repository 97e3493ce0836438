"""The records of a new cluster, as Apache Pulsar's initialize-cluster-metadata writes them, and their removal.

Every function may be repeated: what exists stays as it is, apart from the cluster's name, which is added.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.entropy import Entropy
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.layout import create_ledgers
from engine.metadata.records import Document, decode_json, encode_json
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from engine.metadata.update import update
from engine.tenancy.bundles import even_bundles
from engine.tenancy.clusters import GLOBAL_CLUSTER, cluster_name, initial_cluster
from engine.tenancy.documents import new_policies, ordered
from engine.tenancy.listing import namespaces_of
from engine.tenancy.nodes import delete_tree
from engine.tenancy.tenants import tenant_info

DEFAULT_BUNDLES = 16
NAMESPACES = ("public/default", "pulsar/system")
COORDINATORS = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
LOCAL_TREES = (
    *(paths.BOOKIE_RACKS, "/counters", "/loadbalance", paths.MANAGED_LEDGERS),
    *(paths.NAMESPACE, paths.SCHEMAS, "/stream"),
)
"""Trees of the metadata store that belong to a cluster."""


async def initialize_cluster(
    store: MetadataStore,
    cluster: str,
    given: Mapping[str, Any],
    entropy: Entropy,
    *,
    bundles: int,
    coordinators: int,
    with_ledgers: bool,
) -> None:
    """Create the records of a cluster. ``given``: its ClusterData. ``with_ledgers``: also BookKeeper's root nodes.

    ``bundles``: of ``public/default``. Raises InvalidRequest and PreconditionFailed for invalid data, with nothing
    written.
    """
    cluster_name(cluster)
    record, empty = encode_json(initial_cluster(given)), encode_json(initial_cluster({}))
    even_bundles(bundles)
    if with_ledgers:
        await create_ledgers(store, entropy)
    await _create_missing(store, paths.BOOKIE_RACKS, b"{}")
    await _create_missing(store, paths.cluster(cluster), record)
    await _create_missing(store, paths.cluster(GLOBAL_CLUSTER), empty)
    for name in NAMESPACES:
        await ensure_tenant(store, name.split("/")[0], cluster)
    default, system = map(NamespaceName.parse, NAMESPACES)
    await ensure_namespace(store, default, cluster, bundles)
    await ensure_namespace(store, system, cluster)
    await ensure_coordinators(store, coordinators)


async def ensure_tenant(store: MetadataStore, tenant: str, cluster: str) -> None:
    """Create a tenant, or allow it the cluster if it exists."""
    new = encode_json(tenant_info({"allowedClusters": [cluster]}))
    await _extend(store, paths.tenant(tenant), "allowedClusters", cluster, new)


async def ensure_namespace(
    store: MetadataStore, name: NamespaceName, cluster: str, bundles: int = DEFAULT_BUNDLES
) -> None:
    """Create a namespace, or add the cluster to the clusters that it is replicated to if it exists."""
    policies = new_policies([cluster], even_bundles(bundles), cluster)
    del policies["is_allow_auto_update_schema"]  # the brokers' own setting decides
    path = paths.namespace_policies(str(name))
    await _extend(store, path, "replication_clusters", cluster, encode_json(ordered(policies)))


async def ensure_coordinators(store: MetadataStore, partitions: int) -> None:
    """Create the partitioned topic by which transaction coordinators are assigned, or let it have more partitions."""
    namespace = str(COORDINATORS.namespace)
    path = paths.partitioned_topic(namespace, COORDINATORS.local, COORDINATORS.domain)
    new = encode_json({"partitions": partitions, "deleted": False})

    def change(value: bytes) -> bytes | None:
        record = decode_json(value, path)
        if int(record.get("partitions") or 0) >= partitions:
            return None
        return encode_json({"deleted": False, **record, "partitions": partitions})

    await update(store, path, change, create=lambda: new)


async def remove_cluster(store: MetadataStore, cluster: str) -> None:
    """Remove a cluster from all tenants and namespaces, then its record."""
    cluster_name(cluster)
    for tenant in await store.children(paths.POLICIES):
        for name in await namespaces_of(store, tenant):
            await _reduce(store, paths.namespace_policies(name), "replication_clusters", cluster)
        await _reduce(store, paths.tenant(tenant), "allowedClusters", cluster)
    await delete_tree(store, paths.cluster(cluster))


async def _create_missing(store: MetadataStore, path: str, value: bytes) -> None:
    try:
        await store.create(path, value, make_parents=True)
    except NodeExistsError:
        return


async def _extend(store: MetadataStore, path: str, key: str, cluster: str, new: bytes) -> None:
    """Add a cluster to the list ``key`` of a record; ``new``: the first value of the record."""

    def change(value: bytes) -> bytes | None:
        if not value:
            return new  # a node that only held others
        record = decode_json(value, path)
        clusters = list(record.get(key) or ())
        if cluster in clusters:
            return None
        return _encoded(record, key, [*clusters, cluster])

    await update(store, path, change, create=lambda: new)


async def _reduce(store: MetadataStore, path: str, key: str, cluster: str) -> None:
    def change(value: bytes) -> bytes | None:
        record = decode_json(value, path)
        clusters = list(record.get(key) or ())
        if cluster not in clusters:
            return None
        return _encoded(record, key, [name for name in clusters if name != cluster])

    try:
        await update(store, path, change)
    except NoNodeError:
        return


def _encoded(record: Document, key: str, clusters: list[str]) -> bytes:
    return encode_json({**record, key: clusters})
