"""Stored namespaces, their policies, and the records of a fresh instance; no function needs a broker.

Every change is a compare-and-set. Functions raise Refusal with Pulsar's text, and the store's errors. After
cancellation a change may or may not have happened.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    Failed,
    Forbidden,
    InvalidNameError,
    InvalidRequest,
    NotBuilt,
    NotFound,
    PreconditionFailed,
    Unsupported,
)
from engine.base.names import HASH_TOP, NamespaceName
from engine.metadata import paths
from engine.metadata.cached import derived, fresh
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.metadata.store import Found, MetadataStore, NodeExistsError, NoNodeError, NotEmptyError
from engine.metadata.tree import parent_of
from engine.metadata.update import update
from engine.tenancy.bundles import (
    Bundles,
    encode_local_policies,
    even_bundles,
)
from engine.tenancy.checks import check_expected, check_properties_size, node_name
from engine.tenancy.clusters import own_cluster
from engine.tenancy.documents import given_policies, new_policies, ordered
from engine.tenancy.geo.homes import check_peers
from engine.tenancy.listing import namespaces_of
from engine.tenancy.nodes import (
    change_node,
    children,
    create_below,
    delete_if_empty,
    delete_tree,
    find_node,
    remove_holder,
)
from engine.tenancy.policies.in_force import of_cluster, put_on_namespace
from engine.tenancy.policies.policy import Level, Policy, find
from engine.tenancy.policies.table import ALLOWED_CLUSTERS, REPLICATION, RETENTION, SIZE_QUOTA
from engine.tenancy.policies.values import fits
from engine.tenancy.settings import TenantLimits
from engine.tenancy.tenant_limits import NO_LIMITS, check_room, in_force
from engine.tenancy.tenants import get_tenant, tenant_info, tenant_name

ANYTHING = object()
"""Expected value that matches every stored value."""
POLICIES_BYTES_MAX = 512 << 10
"""Limit of a namespace's policies in bytes; they are stored in one node of at most 1 MiB."""


def namespace_name(tenant: str, local: str) -> NamespaceName:
    """Return the namespace of two path segments; the second is ``cluster/namespace`` in legacy names.

    Raises PreconditionFailed.
    """
    try:
        return NamespaceName.parse(f"{tenant}/{local}")
    except InvalidNameError as error:
        raise PreconditionFailed("Namespace name is not valid") from error


async def list_namespaces(store: MetadataStore, tenant: str) -> list[str]:
    """Return the namespaces of a tenant; see ``namespaces_of``. Raises NotFound without the tenant."""
    path = paths.tenant(tenant_name(tenant))
    if await store.exists(path) is None:
        raise NotFound("Tenant not found")
    return await namespaces_of(store, tenant)


async def list_namespaces_of_cluster(store: MetadataStore, tenant: str, cluster: str) -> list[str]:
    """Return the names ``tenant/cluster/namespace`` with this cluster, sorted. Raises NotFound without the tenant."""
    path = paths.tenant(tenant_name(tenant))
    if await store.exists(path) is None:
        raise NotFound("Tenant not found")
    below = f"{path}/{node_name('Cluster', cluster)}"
    return [f"{tenant}/{cluster}/{local}" for local in await children(store, below)]


async def get_policies(store: MetadataStore, name: NamespaceName) -> Stored:
    """Return the policies of a namespace. Raises NotFound when it is missing or being deleted."""
    policies = await find_node(store, paths.namespace_policies(str(name)))
    if policies is None and name.cluster is not None and await _legacy_exists(store, name):
        return {}
    if policies is None or policies.get("deleted"):
        raise NotFound("Namespace does not exist")
    return policies


def is_present(policies: Found, path: str) -> bool:
    """Return whether the node of a namespace's policies, as it was read, is that of one that is not being deleted."""
    document = decode_json(policies[0], path) if policies is not None and policies[0] else None
    return document is not None and not document.get("deleted")


async def get_bundles(store: MetadataStore, name: NamespaceName) -> Bundles:
    """Return the bundles of a namespace as brokers read them.

    They are stored in the local policies, which a split changes, once a broker has created these.
    Raises NotFound without the namespace, Failed when the stored bundles cannot be read.
    """
    return await bundles_beside(store, name, await get_policies(store, name))


async def bundles_beside(store: MetadataStore, name: NamespaceName, policies: Stored) -> Bundles:
    """Return the bundles of a namespace whose ``policies`` were read; see ``get_bundles``."""
    try:
        try:
            local = await derived(store, paths.local_policies(str(name)), _local_bundles)
        except NoNodeError:
            local = None
        return local or Bundles.of_policies(name, policies) or Bundles(name, (0, HASH_TOP))
    except ValueError as error:
        raise Failed(str(error)) from error


def _local_bundles(value: bytes, path: str) -> Bundles | None:
    return Bundles.decode(NamespaceName.parse(path.removeprefix(f"{paths.LOCAL_POLICIES}/")), value)


async def _legacy_exists(store: MetadataStore, name: NamespaceName) -> bool:
    """Return whether a legacy namespace (``cluster/namespace``) exists, which needs its tenant but no policies."""
    return await store.exists(paths.tenant(name.tenant)) is not None


async def create_namespace(
    store: MetadataStore,
    name: NamespaceName,
    given: Mapping[str, Any] | None,
    *,
    cluster: str,
    default_bundles: int | None = None,
    limits: TenantLimits = NO_LIMITS,
) -> None:
    """Create a namespace with the caller's policies.

    ``cluster`` is the cluster that this instance serves; ``limits`` are those that the process was started with, which
    also have the number of bundles unless ``default_bundles`` states it.
    Raises NotFound without the tenant, AlreadyExists, Forbidden for clusters that the tenant may not use,
    InvalidRequest or PreconditionFailed for invalid policies, PreconditionFailed when the limit is reached, NotBuilt
    for policies that have no effect yet.
    """
    tenant_path = paths.tenant(name.tenant)
    tenant = await find_node(fresh(store, tenant_path), tenant_path)
    if tenant is None:
        raise NotFound("Tenant does not exist")
    number = default_bundles or limits.default_number_of_namespace_bundles
    policies = given_policies(given or {}, own_cluster=cluster, default_bundles=number)
    limit = (await in_force(store, limits)).max_namespaces_per_tenant
    refusal = f"Exceed the maximum number of namespace in tenant :{name.tenant}"
    await check_room(store, tenant_path, limit, refusal)
    path = paths.namespace_policies(str(name))
    if await find_node(store, path) is not None:
        raise AlreadyExists("Namespace already exists")
    _check_clusters(name, policies["replication_clusters"], tenant)
    await check_peers(store, policies["replication_clusters"])
    await create_below(
        store,
        tenant_path,
        str(name).removeprefix(f"{name.tenant}/"),
        encode_json(policies),
        exists="Namespace already exists",
        missing="Tenant does not exist",
    )


def _check_clusters(name: NamespaceName, clusters: list[str], tenant: Stored) -> None:
    allowed = tenant.get("allowedClusters", [])
    for cluster in clusters:
        if cluster not in allowed:
            raise Forbidden(
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{name.tenant}]",
            )


async def check_clusters(
    store: MetadataStore,
    name: NamespaceName,
    policy: Policy,
    clusters: list[str],
    *,
    cluster: str,
    level: Level = Level.NAMESPACE,
) -> None:
    """Check the value of a policy that is a list of clusters; return at once for any other policy.

    ``cluster`` is the cluster that this instance serves. Raises:

    * NotFound without the namespace.
    * Forbidden for a cluster that does not exist or that the tenant may not use.
    * PreconditionFailed for a cluster that the namespace does not allow, for a topic's list without ``cluster``, and
      for a list at the level GLOBAL when the namespace is in one cluster only.
    * InvalidRequest for allowed clusters that lack a replication cluster of the namespace.
    * Conflict for a cluster and one of its peers.
    """
    if policy not in (REPLICATION, ALLOWED_CLUSTERS):
        return
    policies = await get_policies(store, name)
    if level is Level.GLOBAL and len(policies.get("replication_clusters") or []) < 2:
        raise PreconditionFailed(
            "Please do not use the global topic level policy when namespace-level replication is not enabled, because "
            "the global level policy relies on namespace-level replication"
        )
    if level is Level.TOPIC and cluster not in clusters:
        raise PreconditionFailed(
            "Can not remove local cluster from the local topic-level replication clusters policy"
        )
    if policy is REPLICATION:
        for requested in clusters:
            if await store.exists(paths.cluster(requested)) is None:
                raise Forbidden(f"Invalid cluster id: {requested}")
    _check_clusters(name, clusters, await get_tenant(store, name.tenant))
    if policy is ALLOWED_CLUSTERS:
        for replica in policies.get("replication_clusters") or []:
            if replica not in clusters:
                raise InvalidRequest(
                    f"Allowed clusters do not contain the replication cluster [{replica}]. Please remove the "
                    "replication cluster if the cluster is not allowed for this namespace"
                )
        return
    allowed = policies.get("allowed_clusters")
    for requested in clusters:
        if allowed and requested not in allowed:
            raise PreconditionFailed(f"Invalid replication cluster {requested}")
    await check_peers(store, clusters)


async def update_policies(
    store: MetadataStore, name: NamespaceName, change: Callable[[Document], None]
) -> Document:
    """Edit the policies of a namespace in place and return the stored ones.

    ``change`` runs again on newly read policies when another writer was first. Raises NotFound when missing,
    PreconditionFailed when the policies would exceed POLICIES_BYTES_MAX.
    """

    def edit(value: bytes) -> bytes:
        policies = decode_json(value, "policies")
        if not policies or policies.get("deleted"):  # an empty node only holds legacy namespaces
            raise NotFound("Namespace does not exist")
        change(policies)
        stored = encode_json(ordered(policies))
        if len(stored) > max(POLICIES_BYTES_MAX, len(value)):
            raise PreconditionFailed(
                f"policies of {name}: {len(stored)} bytes, at most {POLICIES_BYTES_MAX} are stored"
            )
        return stored

    path = paths.namespace_policies(str(name))
    return decode_json(await change_node(store, path, edit, "Namespace does not exist"), "policies")


async def set_policy(
    store: MetadataStore,
    name: NamespaceName,
    policy: Policy,
    value: Any,
    *,
    cluster: str,
    expected: Any = ANYTHING,
) -> None:
    """Store a value that ``policy.read`` returned, for ``cluster`` if it is stored per cluster; None removes it.

    Raises NotFound without the namespace, Conflict when the stored value is not ``expected``, PreconditionFailed for
    retention and backlog quota that do not fit (``fits``). Lists of clusters raise as in ``check_clusters``.
    """
    if value is not None:
        await check_clusters(store, name, policy, value, cluster=cluster)

    def change(policies: Document) -> None:
        current = find(of_cluster(policies, cluster), policy.key)
        if expected is not ANYTHING and current != expected:
            raise Conflict(f"{policy.name} was changed meanwhile; look at it again")
        put_on_namespace(policies, policy, value, cluster)
        if not fits(find(policies, SIZE_QUOTA.key), find(policies, RETENTION.key)):
            raise PreconditionFailed(
                "Retention Quota must exceed configured backlog quota for namespace."
                if policy is RETENTION
                else "Backlog Quota exceeds configured retention quota for namespace. "
                "Please increase retention quota and retry",
            )

    await update_policies(store, name, change)


async def check_deletable(store: MetadataStore, name: NamespaceName, *, force: bool) -> None:
    """Raise NotFound when the namespace is missing, Conflict while it has topics other than the system's,
    PreconditionFailed while it is in several clusters.

    ``force`` raises Unsupported, as Pulsar's default configuration does.
    """
    policies = await find_node(store, paths.namespace_policies(str(name)))
    if policies is None:
        raise NotFound(f"Namespace {name} does not exist.")
    if len(policies.get("replication_clusters") or ()) > 1:
        raise PreconditionFailed(
            f"Cannot delete the global namespace {name}. There are still more than one replication clusters configured."
        )
    if force:
        raise Unsupported("Broker doesn't allow forced deletion of namespaces")
    if not await _empty(store, name):
        raise Conflict("Cannot delete non empty namespace")


async def delete_namespace(
    store: MetadataStore,
    name: NamespaceName,
    *,
    force: bool = False,
    clear: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Delete a namespace. Raises as ``check_deletable``, and what ``clear`` raises.

    System topics must have been deleted before: this deletes only their nodes. The namespace is marked as deleted
    first, so that no broker creates a topic in it meanwhile (N2). ``clear`` removes what other parts keep for it, once
    it is marked and empty. A second call completes an interrupted deletion.
    """
    await check_deletable(store, name, force=force)
    missing = f"Namespace {name} does not exist."
    path = paths.namespace_policies(str(name))
    await change_node(store, path, _marked(True), missing)
    if not await _empty(store, name):  # a topic was created between the check and the mark
        await change_node(store, path, _marked(False), missing)
        raise Conflict("Cannot delete non empty namespace")
    if clear is not None:
        await clear()
    try:
        for parent in (paths.MANAGED_LEDGERS, paths.PARTITIONED_TOPICS, paths.SCHEMAS):
            await delete_tree(store, f"{parent}/{name}")
        await delete_tree(store, paths.local_policies(str(name)))
        await delete_tree(store, path)
    except NotEmptyError as error:  # another writer creates nodes below it at this moment
        raise Conflict("Cannot delete non empty namespace") from error
    if name.cluster is not None:
        await remove_holder(store, parent_of(path))


def _marked(deleted: bool) -> Callable[[bytes], bytes]:
    def change(value: bytes) -> bytes:
        policies = decode_json(value, "policies")
        policies["deleted"] = deleted
        return encode_json(ordered(policies))

    return change


async def _empty(store: MetadataStore, name: NamespaceName) -> bool:
    async def now(path: str) -> list[str]:
        return await children(fresh(store, path), path)

    if await now(paths.namespace_policies(str(name))):  # legacy namespaces lie below it
        return False
    for domain in ("persistent", "non-persistent"):
        if await now(paths.partitioned_topics(str(name), domain)):
            return False
    parents = [paths.managed_ledgers(str(name))]
    parents += [  # topics of a name with a slash lie one level deeper
        f"{paths.MANAGED_LEDGERS}/{name}/{legacy}/persistent"
        for legacy in await now(f"{paths.MANAGED_LEDGERS}/{name}")
        if legacy != "persistent"
    ]
    for parent in parents:
        if any(not topic.startswith("__") for topic in await now(parent)):
            return False
    return True


async def bootstrap(
    store: MetadataStore,
    *,
    cluster: str,
    broker_url: str,
    web_url: str,
    default_bundles: int = 4,
) -> None:
    """Create the missing ones of a fresh instance's records, with Pulsar's number of bundles unless it is given.

    These are the cluster, the tenants ``public`` and ``pulsar``, and the namespaces ``public/default`` and
    ``pulsar/system``.
    """
    own = encode_json(own_cluster(broker_url, web_url))
    await _create_missing(store, paths.cluster(cluster), own)
    tenant = encode_json(tenant_info({"allowedClusters": [cluster]}))
    bundles = even_bundles(default_bundles)
    policies = encode_json(new_policies([cluster], bundles, cluster))
    for name in ("public/default", "pulsar/system"):
        await _create_missing(store, paths.tenant(name.split("/")[0]), tenant)
        await _create_missing(store, paths.namespace_policies(name), policies)


async def _create_missing(store: MetadataStore, path: str, value: bytes) -> None:
    if await store.exists(path) is None:
        try:
            await store.create(path, value, make_parents=True)
        except NodeExistsError:
            return  # another broker of the instance was first


# Properties


async def namespace_properties(store: MetadataStore, name: NamespaceName) -> dict[str, str]:
    """Return the properties of a namespace. Raises NotFound without the tenant or the namespace."""
    await get_tenant(store, name.tenant)
    return dict((await get_policies(store, name)).get("properties") or {})


async def change_namespace_properties(
    store: MetadataStore,
    name: NamespaceName,
    changes: Mapping[str, str | None],
    expected: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Set the properties in ``changes``, remove those that are None there, and return the previous properties.

    Raises NotFound without the namespace, PreconditionFailed when all together exceed the limit, Conflict when the
    stored properties are not ``expected``.
    """
    before: dict[str, str] = {}

    def change(policies: Document) -> None:
        before.clear()
        before.update(policies.get("properties") or {})
        check_expected(before, expected)
        after = {key: value for key, value in {**before, **changes}.items() if value is not None}
        if any(value is not None for value in changes.values()):
            check_properties_size(after)
        policies["properties"] = after

    await update_policies(store, name, change)
    return before


async def clear_namespace_properties(store: MetadataStore, name: NamespaceName) -> None:
    """Remove all properties of a namespace. Raises NotFound without the namespace."""
    await update_policies(store, name, lambda policies: policies.update(properties={}))


# Local policies

_ANTI_AFFINITY = "namespaceAntiAffinityGroup"
_BOOKIE_AFFINITY = "bookieAffinityGroup"


async def anti_affinity(store: MetadataStore, name: NamespaceName) -> str | None:
    """Return the namespace's anti-affinity group, whose members should be on different brokers; None without one."""
    local_policies = await find_node(store, paths.local_policies(str(name)))
    return (local_policies or {}).get(_ANTI_AFFINITY)


async def set_anti_affinity(store: MetadataStore, name: NamespaceName, group: str | None) -> None:
    """Set the namespace's anti-affinity group; None removes it. Raises NotFound without the namespace."""
    await change_local_policies(store, name, _ANTI_AFFINITY, group)


async def anti_affinity_members(
    store: MetadataStore, cluster: str, tenant: str | None, group: str
) -> list[str]:
    """Return the tenant's namespaces in an anti-affinity group.

    Raises InvalidRequest without a tenant, PreconditionFailed without the cluster.
    """
    if await store.exists(paths.cluster(cluster)) is None:
        raise PreconditionFailed(f"Cluster {cluster} does not exist.")
    if not tenant:
        raise InvalidRequest("Tenant should not be null")
    names = [NamespaceName.parse(name) for name in await namespaces_of(store, tenant_name(tenant))]
    return [str(name) for name in names if await anti_affinity(store, name) == group]


async def bookie_affinity(store: MetadataStore, name: NamespaceName) -> Stored | None:
    """Return the groups of bookies that hold the namespace's ledgers, None for any.

    Raises NotFound without the namespace, or while it has no local policies.
    """
    await _require(store, name)
    local_policies = await find_node(store, paths.local_policies(str(name)))
    if local_policies is None:
        raise NotFound("Namespace local-policies does not exist")
    return local_policies.get(_BOOKIE_AFFINITY)


async def set_bookie_affinity(
    store: MetadataStore, name: NamespaceName, given: Mapping[str, Any] | None
) -> None:
    """Remove the groups of bookies of a namespace, so that any bookie may hold its ledgers.

    Raises NotBuilt when ``given`` names groups, because ledgers are not placed by groups yet. Raises NotFound without
    the namespace.
    """
    await _require(store, name)
    for field in ("bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary"):
        if given is not None and given.get(field):
            raise NotBuilt(f"{field}: ledgers are not placed by groups of bookies yet")
    await change_local_policies(store, name, _BOOKIE_AFFINITY, None)


async def _require(store: MetadataStore, name: NamespaceName) -> Stored:
    try:
        return await get_policies(store, name)
    except NotFound as error:
        raise NotFound("Namespace not found") from error


async def change_local_policies(
    store: MetadataStore, name: NamespaceName, key: str, value: Any
) -> None:
    """Set one field of a namespace's local policies; None removes it. Raises NotFound without the namespace."""
    policies = await get_policies(store, name)
    first = encode_local_policies(await bundles_beside(store, name, policies))

    def change(stored: bytes) -> bytes:
        document = decode_json(stored, "local policies")
        document.pop(key, None)
        return encode_json({**document, key: value} if value is not None else document)

    # Missing local policies are created in the same form as by the first broker that serves the namespace.
    path = paths.local_policies(str(name))
    await update(store, path, change, create=lambda: change(first))
    try:
        await get_policies(fresh(store, paths.namespace_policies(str(name))), name)
    except NotFound:  # deleted meanwhile: a later namespace of this name must not inherit them
        await delete_if_empty(store, path)
        raise
