"""Stored tenants and their changes by compare-and-set, which need no broker.

Functions raise Refusal with Pulsar's text, and the store's errors. After cancellation a change may or may not have
happened.
"""

from collections.abc import Mapping
from typing import Any

from engine.auth.actions import Action
from engine.auth.authorization.change_rights import rights_of_tenant_change
from engine.auth.authorization.policy_view import TenantAccess
from engine.auth.resource_names import TenantName
from engine.base.errors import Conflict, Forbidden, NotFound, PreconditionFailed, Unsupported
from engine.metadata import paths
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError, NotEmptyError
from engine.tenancy.checks import entity, texts
from engine.tenancy.clusters import GLOBAL_CLUSTER, list_clusters
from engine.tenancy.listing import namespaces_of
from engine.tenancy.nodes import (
    change_node,
    children,
    create_node,
    delete_if_empty,
    read_node,
    remove_holder,
)
from engine.tenancy.settings import TenantLimits
from engine.tenancy.tenant_limits import NO_LIMITS, check_room, in_force


def tenant_name(name: str) -> str:
    """Return ``name`` if a tenant may have it. Raises PreconditionFailed."""
    return entity("Tenant", name)


def tenant_info(given: Mapping[str, Any]) -> Document:
    """Return the stored form of a tenant's data. Raises Refusal with Pulsar's texts."""
    roles = texts("adminRoles", given.get("adminRoles") or [])
    clusters = texts("allowedClusters", given.get("allowedClusters") or [])
    if any(role != role.strip() for role in roles):
        raise PreconditionFailed("AdminRoles contains whitespace in the beginning or end.")
    if not clusters or any(not name.strip() for name in clusters):
        raise PreconditionFailed("Clusters cannot be empty or blank")
    return {"adminRoles": roles, "allowedClusters": clusters}


async def list_tenants(store: MetadataStore) -> list[str]:
    """Return the names of all tenants, sorted."""
    return await children(store, paths.POLICIES)


async def get_tenant(store: MetadataStore, name: str) -> Stored:
    """Return a tenant's TenantInfo. Raises NotFound when missing."""
    return await read_node(store, paths.tenant(tenant_name(name)), "Tenant does not exist")


async def create_tenant(
    store: MetadataStore,
    name: str,
    given: Mapping[str, Any] | None,
    *,
    limits: TenantLimits = NO_LIMITS,
) -> None:
    """Create a tenant; ``limits`` are those that the process was started with.

    Raises AlreadyExists, and PreconditionFailed for unknown clusters, for no clusters, and when the limit is reached.
    """
    tenant_name(name)
    info = await _checked_info(store, given)
    path = paths.tenant(name)
    if await store.exists(path) is None:
        limit = (await in_force(store, limits)).max_tenants
        await check_room(store, paths.POLICIES, limit, "Exceed the maximum number of tenants")
    await create_node(store, path, encode_json(info), "Tenant already exist")


async def update_tenant(
    store: MetadataStore,
    name: str,
    given: Mapping[str, Any] | None,
    *,
    by_superuser: bool = True,
) -> None:
    """Replace both lists of a tenant. Raises NotFound when missing, PreconditionFailed as in ``create_tenant``, and
    Forbidden for what only a superuser may change (A15)."""
    info = await _checked_info(store, given)
    value = encode_json(info)
    tenant, path = TenantName(name), paths.tenant(tenant_name(name))

    def rewritten(stored: bytes) -> bytes:
        if not by_superuser:
            access = TenantAccess.of(decode_json(stored, path))
            needed = rights_of_tenant_change(tenant, access, TenantAccess.of(info))
            if any(action is Action.SUPERUSER for action, _ in needed):
                raise Forbidden("Only a superuser changes the clusters that a tenant is allowed")
        return value

    await change_node(store, path, rewritten, f"Tenant {name} not found")


def require_whole(record: Stored) -> None:
    """Raise Conflict for a damaged record of a tenant. It gives no right (A32), and a change of its list of
    administrators would make rights of it."""
    damage = TenantAccess.of(record).damage
    if damage:
        raise Conflict(f"The stored tenant is damaged ({damage}); replace it first")


async def set_administrators(
    store: MetadataStore, name: str, roles: list[str], *, expected: list[str]
) -> None:
    """Replace the administrators of a tenant if they are ``expected``, in any order. Raises NotFound, Conflict."""
    path = paths.tenant(tenant_name(name))

    def rewritten(stored: bytes) -> bytes:
        record = decode_json(stored, path)
        require_whole(record)
        if set(record.get("adminRoles") or ()) != set(expected):
            raise Conflict(f"The administrators of tenant {name} were changed meanwhile")
        return encode_json({**record, "adminRoles": roles})

    await change_node(store, path, rewritten, "Tenant does not exist")


async def _checked_info(store: MetadataStore, given: Mapping[str, Any] | None) -> Document:
    if given is None:
        raise PreconditionFailed("TenantInfo is null")
    info = tenant_info(given)
    known = {*await list_clusters(store), GLOBAL_CLUSTER}
    if not known.issuperset(info["allowedClusters"]):
        raise PreconditionFailed("Clusters do not exist")
    return info


async def delete_tenant(store: MetadataStore, name: str, *, force: bool = False) -> None:
    """Delete a tenant. Raises NotFound when missing, Conflict while it has namespaces.

    ``force`` raises Unsupported, as Pulsar's default configuration does.
    """
    if force:
        raise Unsupported("Broker doesn't allow forced deletion of tenants")
    path = paths.tenant(tenant_name(name))
    try:
        if await namespaces_of(store, name, anew=True):
            raise Conflict("The tenant still has active namespaces")
        for local in await children(store, path):  # parents of deleted legacy namespaces
            await remove_holder(store, f"{path}/{local}")
        await store.delete(path)
    except NoNodeError as error:
        raise NotFound("Tenant doesn't exist") from error
    except NotEmptyError as error:
        raise Conflict("The tenant still has active namespaces") from error
    for parent in (paths.LOCAL_POLICIES, paths.PARTITIONED_TOPICS, paths.MANAGED_LEDGERS):
        await delete_if_empty(store, f"{parent}/{name}")
