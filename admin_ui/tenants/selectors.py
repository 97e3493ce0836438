"""Tenants, their namespaces, and the policies in force on a namespace with their levels."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from admin_ui.params import Params, sort_of, window
from admin_ui.policies import selectors as policies
from admin_ui.policies.selectors import OF_NAMESPACES
from admin_ui.tenants.quota_use import has_size_quota, quotas_of
from engine.auth.viewer import Viewer
from engine.base.errors import MagnetarError
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
from gateway.services.index.sums import SORTED_BY, TenantNumbers, figure_without_topics

FIRST_TOPICS = 10
SORTS = ("name", *SORTED_BY)
"""Fields that the lists of tenants and namespaces can be sorted by."""
Body = dict[str, Any]


async def tenants(viewer: Viewer, cluster: Cluster, engine: Engine, params: Params) -> Body:
    """Return a window of the tenants that are seen and whose names contain ``q``. Raises InvalidField."""
    seen = [name for name in await list_tenants(engine.store) if viewer.sees_tenant(name)]
    snapshot = await _snapshot(cluster)
    numbers_of = None if snapshot is None else partial(snapshot.topics.sums.of_tenant, viewer)

    def figure_of(field: str) -> Callable[[str], float] | None:
        return None if numbers_of is None else lambda name: _figure(numbers_of(name), field)

    names, answer = _window_of(seen, params, figure_of)
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

    def figure_of(field: str) -> Callable[[str], float] | None:
        if snapshot is None:
            return None
        # Most of very many namespaces have no topics: only the others have figures of their own.
        figures = snapshot.topics.sums.figures_of_namespaces(viewer, tenant_name, field)
        without = figure_without_topics(field)
        return lambda local: figures.get(local, without)

    start = len(tenant_name) + 1
    names, answer = _window_of([name[start:] for name in full], params, figure_of)
    initial = of_cluster(new_policies([engine.cluster], {}, engine.cluster), engine.cluster)
    read = await catalog.each(names, lambda local: _namespace(engine, tenant_name, local, initial))
    present = [item for item in read if item is not None]
    limited = {f"{tenant_name}/{row['name']}" for row, stored in present if has_size_quota(stored)}
    largest: dict[str, int | None] = {}
    if snapshot is not None and limited:
        largest = snapshot.topics.largest_stored(viewer, limited)

    def shown(row: Body, stored: Stored) -> Body:
        numbers, full_name = numbers_of(row["name"]), f"{tenant_name}/{row['name']}"
        quotas = quotas_of(
            stored,
            topics=row.pop("with_partitions"),
            numbers=numbers,
            largest_bytes=None if snapshot is None else largest.get(full_name, 0),
            now_ms=now_ms(),
        )
        return {**row, "numbers": numbers, "quotas": quotas}

    return {
        "tenant": _tenant_row(tenant_name, info, len(full)),
        **answer,
        "rows": [shown(row, stored) for row, stored in present],
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


def _is_set(policy: Policy, stored: Stored, initial: Stored) -> bool:
    """Return whether the namespace has a value other than the one that it is created with."""
    value = policy.says(Level.NAMESPACE, stored)
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


async def _namespace(
    engine: Engine, tenant_name: str, local: str, initial: Stored
) -> tuple[Body, Stored] | None:
    """Return the row of a namespace, and its policies; None when it was deleted meanwhile. ``initial``: the policies
    that a namespace is created with."""
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
        "policies": sum(_is_set(policy, stored, initial) for policy in OF_NAMESPACES),
        "deleting": bool(stored.get("deleted")),
    }
    return row, stored


def _window_of(
    names: list[str], params: Params, figure_of: Callable[[str], Callable[[str], float] | None]
) -> tuple[list[str], Body]:
    """Return the names of a list request, and the other members of its answer. ``figure_of(field)`` returns the
    function to sort by, or None without numbers: the list is ordered by name then. Raises InvalidField."""
    offset, limit = window(params)
    sort = sort_of(params, SORTS, "name")
    key, descending = sort.removeprefix("-"), sort.startswith("-")
    fragment = params.get("q", "").lower()
    chosen = [name for name in names if fragment in name.lower()] if fragment else list(names)
    if key == "name":
        chosen.sort(reverse=descending)
    elif (figure := figure_of(key)) is not None:
        chosen.sort(key=figure, reverse=descending)
    answer = {"total": len(chosen), "offset": offset, "limit": limit}
    return chosen[offset : offset + limit], answer


def _figure(numbers: TenantNumbers, key: str) -> float:
    """Return the number to sort by. An age is the greater the earlier its time; without a known one it is the least."""
    if key == "oldest_age":
        return -float(numbers["oldest_at"] or inf)
    figures: dict[str, Any] = {**numbers, "backlog": numbers["backlog_messages"]}
    return float(figures[key])
