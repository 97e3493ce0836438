"""Tenants, their namespaces, and what is in force on a namespace and why."""

import asyncio
from typing import Any

from admin_ui.params import Params, window
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import Stored
from engine.tenancy.documents import new_policies
from engine.tenancy.namespaces import get_policies, list_namespaces
from engine.tenancy.nodes import children, find_node
from engine.tenancy.policies import POLICIES, Level, Policy, completed, find
from engine.tenancy.tenants import get_tenant, list_tenants
from gateway.http.errors import describe
from gateway.services import catalog, policies
from gateway.services.engine_link import Engine

FIRST_TOPICS = 10
BROKER_TIMEOUT_S = 5.0
"""What is stored is shown without the brokers' values rather than not at all."""
EXACT_MAX = (1 << 53) - 1
"""Larger whole numbers are changed by JavaScript."""
Body = dict[str, Any]

_AS_MADE = new_policies([], {}, "")


async def tenants(engine: Engine, params: Params) -> Body:
    """A window of the tenants whose name has ``q`` in it. Raises InvalidField."""
    names, answer = _part(await list_tenants(engine.store), params)
    rows = await catalog.each(names, lambda name: _tenant(engine, name))
    return {**answer, "rows": [row for row in rows if row is not None]}


async def tenant(engine: Engine, name: str) -> Body:
    """One tenant's row; 404 when missing."""
    info = await get_tenant(engine.store, name)
    return _tenant_row(name, info, len(await list_namespaces(engine.store, name)))


async def namespaces(engine: Engine, tenant_name: str, params: Params) -> Body:
    """The tenant and a window of its namespaces whose name has ``q`` in it. Raises InvalidField, and 404."""
    info = await get_tenant(engine.store, tenant_name)
    full = await list_namespaces(engine.store, tenant_name)
    names, answer = _part([name.partition("/")[2] for name in full], params)
    rows = await catalog.each(names, lambda name: _namespace(engine, tenant_name, name))
    return {
        "tenant": _tenant_row(tenant_name, info, len(full)),
        **answer,
        "rows": [row for row in rows if row is not None],
    }


async def namespace(engine: Engine, name: NamespaceName) -> Body:
    """One namespace with all its policies; 404 when missing. Without a broker's answer what only it knows is null, and
    ``unknown`` says why."""
    stored = await get_policies(engine.store, name)
    parents, plain = await catalog.topics_in(engine.store, str(name))
    topics = sorted(parents + plain)
    inherited, unknown = await _inherited(engine, name)
    return {
        "tenant": name.tenant,
        "name": name.local,
        "bundles": int(stored["bundles"]["numBundles"]),
        "topics": len(topics),
        "first_topics": topics[:FIRST_TOPICS],
        "unknown": unknown,
        "policies": [_policy_row(policy, stored, inherited) for policy in POLICIES],
    }


async def policy(engine: Engine, name: NamespaceName, asked: Policy) -> Body:
    """One policy's row; 404 without the namespace."""
    stored = await get_policies(engine.store, name)
    inherited, _ = await _inherited(engine, name)
    return _policy_row(asked, stored, inherited)


async def own(engine: Engine, name: NamespaceName, asked: Policy) -> tuple[Any, Any]:
    """What the namespace says of a policy, as stored and as it is shown. 404 without the namespace."""
    stored = await policies.of_namespace(engine, name, asked)
    return stored, exact(stored)


async def _inherited(engine: Engine, name: NamespaceName) -> tuple[Body, str]:
    """The brokers' values by name of each policy, or why they are not known."""
    try:
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            found = await policies.in_force_on_namespace(engine, name)
    except Exception as error:
        status, reason = describe(error)
        if status != 503:
            raise
        return {}, reason
    return {policy: said["default"] for policy, said in found.items()}, ""


def _is_set(policy: Policy, stored: Stored) -> bool:
    """Whether the namespace has more to say than what it was made with."""
    said = policy.says(Level.NAMESPACE, stored)
    return said is not None and said != find(_AS_MADE, policy.key)


def _policy_row(policy: Policy, stored: Stored, inherited: Body) -> Body:
    """``inherited`` is empty when no broker answers. Computed from what is stored, not taken from a broker: its cache
    may not have heard yet of a change that was just made."""
    said, default = find(stored, policy.key), inherited.get(policy.name)
    silent = policy.says(Level.NAMESPACE, stored) is None
    value = default if silent else completed(default, said)
    level = Level.BROKER if silent else Level.NAMESPACE
    return {
        "name": policy.name,
        "title": policy.title,
        "meaning": policy.meaning,
        "parts": _parts(policy),
        "topics_own": bool(policy.topic_key),
        "value": exact(value),
        "level": level.value if value is not None else None,
        "own": exact(said),
        "inherited": exact(default),
    }


def _parts(policy: Policy) -> list[Body]:
    schema = policy.form.schema()
    found = schema.get("fields") or [{"name": "", "required": True, **schema}]
    return [_policy_part(**field) for field in found]


def _policy_part(*, required: bool, **rest: Any) -> Body:
    for bound in ("minimum", "maximum"):
        if bound in rest:
            rest[bound] = str(rest[bound])
    return {**rest, "optional": not required}


def exact(value: Any) -> Any:
    """A stored value as it is shown: see ``admin_ui.tenants.shapes``."""
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    is_long = isinstance(value, int) and abs(value) > EXACT_MAX
    return str(value) if is_long else value


async def _tenant(engine: Engine, name: str) -> Body | None:
    """None when it was deleted meanwhile."""
    info = await find_node(engine.store, paths.tenant(name))
    if info is None:
        return None
    return _tenant_row(name, info, len(await children(engine.store, paths.tenant(name))))


def _tenant_row(name: str, info: Stored, count: int) -> Body:
    return {
        "name": name,
        "admin_roles": info.get("adminRoles") or [],
        "allowed_clusters": info.get("allowedClusters") or [],
        "namespaces": count,
    }


async def _namespace(engine: Engine, tenant_name: str, local: str) -> Body | None:
    """None when it was deleted meanwhile."""
    full = f"{tenant_name}/{local}"
    stored = await find_node(engine.store, paths.namespace_policies(full))
    if stored is None:
        return None
    parents, plain = await catalog.topics_in(engine.store, full)
    return {
        "name": local,
        "topics": len(parents) + len(plain),
        "policies": sum(_is_set(policy, stored) for policy in POLICIES),
        "deleting": bool(stored.get("deleted")),
    }


def _part(names: list[str], params: Params) -> tuple[list[str], Body]:
    """The names that a list request asks for, and what its answer says of the rest. Raises InvalidField."""
    offset, limit = window(params)
    part = params.get("q", "").lower()
    chosen = [name for name in names if part in name.lower()]
    answer = {"total": len(chosen), "offset": offset, "limit": limit}
    return chosen[offset : offset + limit], answer
