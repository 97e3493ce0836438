"""Tenants, their namespaces, and the policies in force on a namespace with their levels."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from admin_ui.params import Params, window
from admin_ui.policies import selectors as policies
from admin_ui.policies.selectors import OF_NAMESPACES
from admin_ui.tenants.quota_use import has_size_quota, quotas_of
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField, MagnetarError
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.records import Stored
from engine.tenancy.documents import new_policies
from engine.tenancy.listing import namespaces_of
from engine.tenancy.namespaces import bundles_beside, get_policies, list_namespaces
from engine.tenancy.nodes import find_node
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.policy import Level, Policy, find
from engine.tenancy.tenants import get_tenant, list_tenants
from gateway.clusters.cluster import Cluster
from gateway.services import catalog
from gateway.services.clock import now_ms
from gateway.services.collection.snapshot import Snapshot
from gateway.services.engine_link import Engine
from gateway.services.index.selection import Chosen
from gateway.services.index.sums import TenantNumbers

FIRST_TOPICS = 10
SORTS = (
    *("name", "topics", "backlog", "oldest_age", "msg_rate_in", "msg_rate_out"),
    "storage_bytes",
)
"""Fields that the lists of tenants and namespaces can be sorted by."""
Body = dict[str, Any]


async def tenants(viewer: Viewer, cluster: Cluster, engine: Engine, params: Params) -> Body:
    """Return a window of the tenants that are seen and whose names contain ``q``. Raises InvalidField."""
    seen = [name for name in await list_tenants(engine.store) if viewer.sees_tenant(name)]
    snapshot = await _snapshot(cluster)
    numbers_of = None if snapshot is None else partial(snapshot.topics.sums.of_tenant, viewer)
    names, answer = _window_of(seen, params, numbers_of)
    rows = await catalog.each(names, lambda name: _tenant(viewer, engine, name))
    listed = [
        {**row, "numbers": numbers_of and numbers_of(row["name"])}
        for row in rows
        if row is not None
    ]
    return {**answer, "rows": listed}


async def _snapshot(cluster: Cluster) -> Snapshot | None:
    """Return what is known. None when no numbers are known, for whatever reason: tenants are then listed without
    numbers."""
    try:
        return await cluster.collector.snapshot()
    except (MagnetarError, RuntimeError):
        return None


async def tenant(viewer: Viewer, engine: Engine, name: str) -> Body:
    """Return the row of a tenant, with the number of its namespaces that are seen. Raises NotFound."""
    info = await get_tenant(engine.store, name)
    return _tenant_row(name, info, len(await _seen_namespaces(viewer, engine, name)))


async def _seen_namespaces(viewer: Viewer, engine: Engine, tenant_name: str) -> list[str]:
    return [name for name in await list_namespaces(engine.store, tenant_name) if viewer.sees(name)]


async def namespaces(
    viewer: Viewer, cluster: Cluster, engine: Engine, tenant_name: str, params: Params
) -> Body:
    """Return the tenant, and a window of its namespaces that are seen and whose names contain ``q``. Raises
    InvalidField, NotFound."""
    info = await get_tenant(engine.store, tenant_name)
    full = await _seen_namespaces(viewer, engine, tenant_name)
    snapshot = await _snapshot(cluster)

    def numbers_of(local: str) -> TenantNumbers | None:
        name = f"{tenant_name}/{local}"
        return None if snapshot is None else snapshot.topics.sums.of_namespace(viewer, name)

    def largest_bytes(local: str) -> int | None:
        chosen = Chosen(tenant=tenant_name, namespace=local, sort="-storage_bytes")
        if snapshot is None:
            return None
        _, rows = snapshot.rows(viewer, chosen, 0, 1)
        return rows[0]["storage_bytes"] if rows else 0

    locals_seen = [name.partition("/")[2] for name in full]
    names, answer = _window_of(locals_seen, params, numbers_of if snapshot else None)

    async def row_of(local: str) -> Body | None:
        read = await _namespace(engine, tenant_name, local)
        if read is None:
            return None
        row, stored = read
        numbers = numbers_of(local)
        quotas = quotas_of(
            stored,
            topics=row.pop("with_partitions"),
            numbers=numbers,
            largest_bytes=largest_bytes(local) if has_size_quota(stored) else None,
            now_ms=now_ms(),
        )
        return {**row, "numbers": numbers, "quotas": quotas}

    rows = await catalog.each(names, row_of)
    return {
        "tenant": _tenant_row(tenant_name, info, len(full)),
        **answer,
        "rows": [row for row in rows if row is not None],
    }


async def namespace(engine: Engine, name: NamespaceName) -> Body:
    """Return a namespace with all its policies. Without an answer of a broker the values that only brokers know are
    null, and ``unknown`` is the reason. Raises NotFound."""
    record = await get_policies(engine.store, name)
    bundles = await bundles_beside(engine.store, name, record)
    stored = of_cluster(record, engine.cluster)
    parents, plain = await catalog.topics_in(engine.store, str(name))
    topics = sorted(parents + plain)
    values, unknown = await policies.on_namespace(engine, name, stored)
    return {
        "tenant": name.tenant,
        "name": name.below_tenant,
        "bundles": len(bundles),
        "topics": len(topics),
        "first_topics": topics[:FIRST_TOPICS],
        "unknown": unknown,
        "properties": dict(stored.get("properties") or {}),
        "policies": [
            policies.row(policy, Level.NAMESPACE, values[policy.name]) for policy in OF_NAMESPACES
        ],
    }


def _is_set(policy: Policy, stored: Stored, cluster: str) -> bool:
    """Return whether the namespace has a value other than the one that it is created with in ``cluster``."""
    value = policy.says(Level.NAMESPACE, stored)
    initial = of_cluster(new_policies([cluster], {}, cluster), cluster)
    return value is not None and value != find(initial, policy.key)


async def _tenant(viewer: Viewer, engine: Engine, name: str) -> Body | None:
    """Return the row of a tenant; None when it was deleted meanwhile."""
    info = await find_node(engine.store, paths.tenant(name))
    if info is None:
        return None
    names = await namespaces_of(engine.store, name)
    return _tenant_row(name, info, sum(map(viewer.sees, names)))


def _tenant_row(name: str, info: Stored, count: int) -> Body:
    return {
        "name": name,
        "admin_roles": info.get("adminRoles") or [],
        "allowed_clusters": info.get("allowedClusters") or [],
        "namespaces": count,
    }


async def _namespace(engine: Engine, tenant_name: str, local: str) -> tuple[Body, Stored] | None:
    """Return the row of a namespace, and its policies; None when it was deleted meanwhile."""
    full = f"{tenant_name}/{local}"
    stored = await find_node(engine.store, paths.namespace_policies(full))
    if stored is None:
        return None
    stored = of_cluster(stored, engine.cluster)
    parents, plain = await catalog.topics_in(engine.store, full)
    counts = await catalog.each(
        parents, lambda name: catalog.partition_count(engine.store, TopicName.parse(name))
    )
    row = {
        "name": local,
        "topics": len(parents) + len(plain),
        "with_partitions": sum(counts) + len(plain),
        "policies": sum(_is_set(policy, stored, engine.cluster) for policy in OF_NAMESPACES),
        "deleting": bool(stored.get("deleted")),
    }
    return row, stored


def _window_of(
    names: list[str], params: Params, numbers_of: Callable[[str], TenantNumbers | None] | None
) -> tuple[list[str], Body]:
    """Return the names of a list request, and the other members of its answer. Without numbers the list is ordered by
    name. Raises InvalidField."""
    offset, limit = window(params)
    sort = params.get("sort", "")
    key, descending = sort.removeprefix("-"), sort.startswith("-")
    if key not in ("", *SORTS):
        raise InvalidField("sort", f"must be one of {', '.join(SORTS)}, '-' in front to turn round")
    fragment = params.get("q", "").lower()
    chosen = [name for name in names if fragment in name.lower()]
    if key == "name":
        chosen.sort(reverse=descending)
    elif key and numbers_of is not None:
        figures = {name: _figure(numbers_of(name), key) for name in chosen}
        chosen.sort(key=figures.__getitem__, reverse=descending)
    answer = {"total": len(chosen), "offset": offset, "limit": limit}
    return chosen[offset : offset + limit], answer


def _figure(numbers: TenantNumbers | None, key: str) -> float:
    """Return the number to sort by. An age is the greater the earlier its time; without a known one it is the least."""
    if numbers is None:
        return 0.0
    if key == "oldest_age":
        return -float(numbers["oldest_at"] or inf)
    figures: dict[str, Any] = {**numbers, "backlog": numbers["backlog_messages"]}
    return float(figures[key])
