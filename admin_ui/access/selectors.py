"""Reading of rights: made by the judge's own rules of the stored tenants and policies."""

from typing import Any

from admin_ui.lists.record_order import sorted_rows
from admin_ui.params import Params, sort_of, window
from admin_ui.rights import parts_of
from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules, namespace_of, tenant_of
from engine.auth.authorization.policy_view import NamespaceAccess, TenantAccess
from engine.auth.authorization.reasons import (
    Reach,
    RightReason,
    RoleCounts,
    any_topic,
    counts_of_roles,
    is_pattern,
    reach_of,
    roles_at,
)
from engine.auth.resource_names import (
    CLUSTER,
    Resource,
    SubscriptionName,
)
from engine.auth.viewer import Viewer
from engine.base.errors import Forbidden
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import get_policies
from engine.tenancy.tenants import get_tenant
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import access_rules, rights_are_judged
from gateway.http.auth.viewers import Viewers
from gateway.services.engine_link import Engine

Body = dict[str, Any]
SORTS = ("role", "tenants", "namespaces", "grants", "subscriptions")
DEFAULT_SORT = "role"
REACH_SORTS = ("place",)
Allowed = tuple[tuple[Action, tuple[RightReason, ...]], ...]


class StoredRecords:
    """PolicyView of the records of one place, as they are stored now."""

    def __init__(self, tenant: TenantAccess | None, namespace: NamespaceAccess | None) -> None:
        self._tenant = tenant
        self._namespace = namespace

    def tenant(self, name: str) -> TenantAccess | None:
        return self._tenant

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        return self._namespace


async def records_of(engine: Engine, place: Resource) -> StoredRecords:
    """Return the records that rights at a place depend on. Raises NotFound without its tenant or namespace."""
    tenant, namespace = tenant_of(place), namespace_of(place)
    if tenant is None:
        return StoredRecords(None, None)
    access = None
    if namespace is not None:
        access = NamespaceAccess.of(await get_policies(engine.store, namespace))
    return StoredRecords(TenantAccess.of(await get_tenant(engine.store, tenant)), access)


async def access(viewer: Viewer, engine: Engine, place: Resource) -> Body:
    """Return who may do what at a place that the viewer administers. Raises NotFound."""
    rules = access_rules(engine.cluster)
    records = await records_of(engine, place)
    rows = [
        {"role": row.role, "pattern": row.is_pattern, "actions": _actions(row.allowed)}
        for row in roles_at(place, records, rules)
    ]
    namespace = namespace_of(place)
    closed = None if namespace is None else records.namespace(namespace)
    subscriptions = closed.subscriptions if closed is not None else {}
    return {
        **parts_of(place),
        "judged": rights_are_judged(),
        "rows": rows,
        "subscriptions": [
            {"name": key, "roles": sorted(roles)} for key, roles in sorted(subscriptions.items())
        ],
        "prefixed": closed is not None and closed.prefixed,
    }


def _actions(allowed: Allowed) -> list[Body]:
    return [
        {
            "action": action.value,
            "why": "; ".join(basis.why for basis in bases),
            "because": [
                {
                    "given_by": basis.source.value,
                    "role": basis.role,
                    "words": list(basis.words),
                    "why": basis.why,
                    **parts_of(basis.place),
                }
                for basis in bases
            ],
        }
        for action, bases in allowed
    ]


async def roles(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    """Return a window of the roles that records of the viewer's own tenants name, and for who sees everything those of
    all tenants and of the settings; equals by name. Raises InvalidField."""
    (offset, limit), sort = window(params), sort_of(params, SORTS, DEFAULT_SORT)
    rules = access_rules(cluster.name)
    policies = await cluster.part(Viewers).policies()
    counts = counts_of_roles(policies, rules, None if viewer.everything else viewer.tenants)
    fragment = params.get("q", "").lower()
    chosen = sorted(role for role in counts if fragment in role.lower())
    chosen = sorted_rows(chosen, sort, lambda role, field: _figure(role, counts[role], field))
    return {
        "total": len(chosen),
        "offset": offset,
        "limit": limit,
        "judged": rights_are_judged(),
        "rows": [_role(role, counts[role], rules) for role in chosen[offset : offset + limit]],
    }


def _figure(role: str, counts: RoleCounts, field: str) -> str | int:
    match field:
        case "tenants":
            return counts.tenants
        case "namespaces":
            return len(counts.namespaces)
        case "grants":
            return counts.grants
        case "subscriptions":
            return counts.subscriptions
    return role


def _role(role: str, counts: RoleCounts, rules: AccessRules) -> Body:
    return {
        "role": role,
        "pattern": is_pattern(role, rules),
        "superuser": counts.is_superuser,
        "proxy": counts.is_proxy,
        "tenants": counts.tenants,
        "namespaces": len(counts.namespaces),
        "grants": counts.grants,
        "subscriptions": counts.subscriptions,
    }


async def reach(
    viewer: Viewer, cluster: Cluster, role: str, params: Params, *, own_role: str
) -> Body:
    """Return a window of what a role may do in the viewer's own tenants, and everywhere for who sees everything or asks
    about the own role. Raises InvalidField, and Forbidden for who administers nothing."""
    (offset, limit), sort = window(params), sort_of(params, REACH_SORTS, "place")
    sees_all = viewer.everything or role == own_role
    if not sees_all and not viewer.tenants:
        raise Forbidden("Only an administrator of a tenant sees what other roles may do")
    rules = access_rules(cluster.name)
    policies = await cluster.part(Viewers).policies()
    rows = [
        row
        for row in reach_of(role, policies, rules)
        if sees_all or row.resource == CLUSTER or tenant_of(row.resource) in viewer.tenants
    ]
    if fragment := params.get("q", "").lower():
        rows = [row for row in rows if fragment in str(row.resource).lower()]
    if sort == "-place":
        rows.reverse()
    return {
        "role": role,
        "pattern": is_pattern(role, rules),
        "judged": rights_are_judged(),
        "total": len(rows),
        "offset": offset,
        "limit": limit,
        "rows": [_reach(row, policies) for row in rows[offset : offset + limit]],
    }


def _reach(row: Reach, policies: Any) -> Body:
    place = row.resource
    topics = False
    if isinstance(place, SubscriptionName):
        topic = place.topic
        topics = topic == any_topic(topic.namespace, policies.namespace(topic.namespace))
    parts = parts_of(place)
    if topics:
        parts["topic"] = ""
    return {
        **parts,
        "resource": _text(parts) if topics else str(place),
        "every_topic": topics,
        "actions": _actions(row.allowed),
    }


def _text(parts: dict[str, str]) -> str:
    return f"subscription {parts['subscription']} of {parts['tenant']}/{parts['namespace']}"
