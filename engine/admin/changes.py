"""Changes of clusters, tenants and namespaces: metadata only, by compare-and-set, no broker needed.

Every function raises AdminError with Pulsar's status and text when it refuses, and the store's own errors when the
store fails. Cancelled: a change may or may not have happened. Documents are JSON objects in Pulsar's shapes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.admin import documents
from engine.admin.documents import Document
from engine.admin.nodes import (
    change_node,
    children,
    create_node,
    delete_if_empty,
    delete_tree,
    find_node,
    read_node,
)
from engine.base.errors import AdminError, InvalidNameError
from engine.base.names import NamespaceName, check_entity
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

GLOBAL_CLUSTER = "global"
"""A name Pulsar lets tenants and namespaces give although no such cluster need exist."""


def tenant_name(name: str) -> str:
    """``name`` when valid, else AdminError 412."""
    return _entity("Tenant", name)


def cluster_name(name: str) -> str:
    """``name`` when valid, else AdminError 412."""
    return _entity("Cluster", name)


def _entity(what: str, name: str) -> str:
    try:
        return check_entity(what.lower(), name)
    except InvalidNameError as error:
        raise AdminError(412, f"{what} name is not valid") from error


def namespace_name(tenant: str, local: str) -> NamespaceName:
    """Namespace of two path segments, else AdminError 412."""
    try:
        return NamespaceName.of(tenant, local)
    except InvalidNameError as error:
        raise AdminError(412, "Namespace name is not valid") from error


# Clusters


async def list_clusters(store: MetadataStore) -> list[str]:
    """Names, sorted, without the pseudo cluster ``global``."""
    return [name for name in await children(store, paths.CLUSTERS) if name != GLOBAL_CLUSTER]


async def get_cluster(store: MetadataStore, name: str) -> Document:
    """ClusterData; 404 when missing."""
    return await read_node(store, paths.cluster(cluster_name(name)), 404, "Cluster does not exist")


async def create_cluster(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """409 when it exists, 400 for bad data."""
    if given is None:
        raise AdminError(400, "cluster data is required")
    path, value = paths.cluster(cluster_name(name)), documents.encode(documents.cluster(given))
    await create_node(store, path, value, "Cluster already exists")


async def update_cluster(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """Replaces all of its data; 404 when missing."""
    if given is None:
        raise AdminError(400, "cluster data is required")
    value = documents.encode(documents.cluster(given))
    await change_node(
        store, paths.cluster(cluster_name(name)), lambda _: value, "Cluster does not exist"
    )


async def set_peer_clusters(store: MetadataStore, name: str, peers: list[str]) -> None:
    """Replaces the peers; 412 for the cluster itself or an unknown one."""
    known = set(await list_clusters(store))
    if name in known:
        for peer in peers:
            if peer == name:
                raise AdminError(412, f"{name} itself can't be part of peer-list")
            if peer not in known:
                raise AdminError(412, f"Peer cluster {peer} does not exist")

    def change(value: bytes) -> bytes:
        data = documents.decode(value)
        data["peerClusterNames"] = list(dict.fromkeys(peers))
        return documents.encode(data)

    await change_node(store, paths.cluster(cluster_name(name)), change, "Cluster does not exist")


async def delete_cluster(store: MetadataStore, name: str) -> None:
    """404 when missing, 412 while a namespace is placed on it."""
    await get_cluster(store, name)
    for tenant in await list_tenants(store):
        for namespace in await children(store, paths.tenant(tenant)):
            policies = await find_node(store, paths.namespace_policies(f"{tenant}/{namespace}"))
            if policies is not None and name in policies.get("replication_clusters", []):
                raise AdminError(412, "Cluster not empty")
    await delete_tree(store, paths.cluster(name))


# Tenants


async def list_tenants(store: MetadataStore) -> list[str]:
    """Names, sorted."""
    return await children(store, paths.POLICIES)


async def get_tenant(store: MetadataStore, name: str) -> Document:
    """TenantInfo; 404 when missing."""
    return await read_node(store, paths.tenant(tenant_name(name)), 404, "Tenant does not exist")


async def create_tenant(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """409 when it exists, 412 for unknown or no clusters."""
    tenant_name(name)
    info = await _tenant_info(store, given)
    await create_node(store, paths.tenant(name), documents.encode(info), "Tenant already exist")


async def update_tenant(store: MetadataStore, name: str, given: Mapping[str, Any] | None) -> None:
    """Replaces both lists; 404 when missing."""
    info = await _tenant_info(store, given)
    value = documents.encode(info)
    await change_node(
        store, paths.tenant(tenant_name(name)), lambda _: value, f"Tenant {name} not found"
    )


async def _tenant_info(store: MetadataStore, given: Mapping[str, Any] | None) -> Document:
    if given is None:
        raise AdminError(412, "TenantInfo is null")
    info = documents.tenant(given)
    known = {*await list_clusters(store), GLOBAL_CLUSTER}
    if not known.issuperset(info["allowedClusters"]):
        raise AdminError(412, "Clusters do not exist")
    return info


async def delete_tenant(store: MetadataStore, name: str, *, force: bool = False) -> None:
    """404 when missing, 409 while it has namespaces. Forcing is refused with 405, as Pulsar does by default."""
    if force:
        raise AdminError(405, "Broker doesn't allow forced deletion of tenants")
    path = paths.tenant(tenant_name(name))
    try:
        if await children(store, path):
            raise AdminError(409, "The tenant still has active namespaces")
        await store.delete(path)
    except NoNodeError as error:
        raise AdminError(404, "Tenant doesn't exist") from error
    except NotEmptyError as error:
        raise AdminError(409, "The tenant still has active namespaces") from error
    for parent in (paths.LOCAL_POLICIES, paths.PARTITIONED_TOPICS, paths.MANAGED_LEDGERS):
        await delete_if_empty(store, f"{parent}/{name}")


# Namespaces


async def list_namespaces(store: MetadataStore, tenant: str) -> list[str]:
    """``tenant/namespace``, sorted; 404 without the tenant."""
    path = paths.tenant(tenant_name(tenant))
    if await store.exists(path) is None:
        raise AdminError(404, "Tenant not found")
    return [f"{tenant}/{local}" for local in await children(store, path)]


async def get_policies(store: MetadataStore, name: NamespaceName) -> Document:
    """Policies; 404 when missing or being deleted."""
    policies = await find_node(store, paths.namespace_policies(str(name)))
    if policies is None and name.cluster is not None and await _legacy(store, name):
        return {}
    if policies is None or policies.get("deleted"):
        raise AdminError(404, "Namespace does not exist")
    return policies


async def _legacy(store: MetadataStore, name: NamespaceName) -> bool:
    """Namespaces of legacy names need no policies of their own, only their tenant: ``a/b`` as a local name is one."""
    return await store.exists(paths.tenant(name.tenant)) is not None


async def create_namespace(
    store: MetadataStore,
    name: NamespaceName,
    given: Mapping[str, Any] | None,
    *,
    cluster: str,
    default_bundles: int = 4,
) -> None:
    """``cluster`` is the one this instance serves. 404 without the tenant, 409 when it exists, 403 for clusters the
    tenant may not use, 400 or 412 for bad policies."""
    tenant = await find_node(store, paths.tenant(name.tenant))
    if tenant is None:
        raise AdminError(404, "Tenant does not exist")
    policies = documents.policies(given or {}, own_cluster=cluster, default_bundles=default_bundles)
    path = paths.namespace_policies(str(name))
    if await store.exists(path) is not None:
        raise AdminError(409, "Namespace already exists")
    _check_clusters(name, policies["replication_clusters"], tenant)
    await create_node(store, path, documents.encode(policies), "Namespace already exists")


def _check_clusters(name: NamespaceName, clusters: list[str], tenant: Document) -> None:
    allowed = tenant.get("allowedClusters", [])
    for cluster in clusters:
        if cluster not in allowed:
            raise AdminError(
                403,
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{name.tenant}]",
            )


async def update_policies(
    store: MetadataStore, name: NamespaceName, change: Callable[[Document], None]
) -> Document:
    """Edit the policies in place (``change`` may run again on fresh ones); returns what is stored. 404 when missing."""

    def edit(value: bytes) -> bytes:
        policies = documents.decode(value)
        if policies.get("deleted"):
            raise AdminError(404, "Namespace does not exist")
        change(policies)
        documents.check_numbers(policies)
        return documents.encode(documents.ordered(policies))

    path = paths.namespace_policies(str(name))
    return documents.decode(await change_node(store, path, edit, "Namespace does not exist"))


async def set_policy(store: MetadataStore, name: NamespaceName, key: str, value: Any) -> None:
    """Store one policy under its key of Pulsar's Policies; None removes it."""

    def change(policies: Document) -> None:
        policies[key] = value

    await update_policies(store, name, change)


async def delete_namespace(
    store: MetadataStore, name: NamespaceName, *, force: bool = False
) -> None:
    """404 when missing, 409 while it has topics. Forcing is refused with 405, as Pulsar does by default.

    The namespace is marked as deleted first, so that no broker creates a topic in it meanwhile; interrupted, a second
    call finishes.
    """
    missing = f"Namespace {name} does not exist."
    path = paths.namespace_policies(str(name))
    if await store.exists(path) is None:
        raise AdminError(404, missing)
    if force:
        raise AdminError(405, "Broker doesn't allow forced deletion of namespaces")
    if not await _empty(store, name):
        raise AdminError(409, "Cannot delete non empty namespace")
    await change_node(store, path, _marked(True), missing)
    if not await _empty(store, name):  # a topic was created since we looked
        await change_node(store, path, _marked(False), missing)
        raise AdminError(409, "Cannot delete non empty namespace")
    try:
        for parent in (paths.MANAGED_LEDGERS, paths.PARTITIONED_TOPICS, paths.SCHEMAS):
            await delete_tree(store, f"{parent}/{name}")
        await delete_tree(store, paths.local_policies(str(name)))
        await delete_tree(store, path)
    except NotEmptyError as error:  # someone writes below it right now
        raise AdminError(409, "Cannot delete non empty namespace") from error


def _marked(deleted: bool) -> Callable[[bytes], bytes]:
    def change(value: bytes) -> bytes:
        policies = documents.decode(value)
        policies["deleted"] = deleted
        return documents.encode(documents.ordered(policies))

    return change


async def _empty(store: MetadataStore, name: NamespaceName) -> bool:
    for domain in ("persistent", "non-persistent"):
        if await children(store, paths.partitioned_topics(str(name), domain)):
            return False
    parents = [paths.managed_ledgers(str(name))]
    parents += [  # topics of a name with a slash lie one level deeper
        f"{paths.MANAGED_LEDGERS}/{name}/{legacy}/persistent"
        for legacy in await children(store, f"{paths.MANAGED_LEDGERS}/{name}")
        if legacy != "persistent"
    ]
    for parent in parents:
        if any(not topic.startswith("__") for topic in await children(store, parent)):
            return False
    return True


# Bootstrap


async def bootstrap(
    store: MetadataStore, *, cluster: str, broker_url: str, web_url: str, default_bundles: int = 4
) -> None:
    """Create what a fresh instance starts with, and leave alone what is there: the cluster, tenants ``public`` and
    ``pulsar``, namespaces ``public/default`` and ``pulsar/system``."""
    own = documents.encode(documents.own_cluster(broker_url, web_url))
    await _create_missing(store, paths.cluster(cluster), own)
    tenant = documents.encode(documents.tenant({"allowedClusters": [cluster]}))
    bundles = documents.even_bundles(default_bundles)
    policies = documents.encode(documents.new_policies([cluster], bundles, cluster))
    for name in ("public/default", "pulsar/system"):
        await _create_missing(store, paths.tenant(name.split("/")[0]), tenant)
        await _create_missing(store, paths.namespace_policies(name), policies)


async def _create_missing(store: MetadataStore, path: str, value: bytes) -> None:
    if await store.exists(path) is None:
        try:
            await store.create(path, value, make_parents=True)
        except NodeExistsError:
            return  # another broker of the instance was first
