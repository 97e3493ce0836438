"""Changes of tenants and namespaces."""

from typing import Any

from django.conf import settings

from admin_ui.tenants import selectors
from engine.auth.viewer import Viewer
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import change_namespace_properties, create_namespace
from engine.tenancy.tenants import create_tenant, update_tenant
from gateway.services.engine_link import Engine

Body = dict[str, Any]


async def make_tenant(
    viewer: Viewer,
    engine: Engine,
    name: str,
    *,
    admin_roles: list[str],
    allowed_clusters: list[str],
) -> Body:
    """Create a tenant and return its row. Raises AlreadyExists, and PreconditionFailed for a wrong name or unknown
    clusters."""
    await create_tenant(
        engine.store, name, _info(admin_roles, allowed_clusters), limits=settings.TENANT_LIMITS
    )
    return await selectors.tenant(viewer, engine, name)


async def change_tenant(
    viewer: Viewer,
    engine: Engine,
    name: str,
    *,
    admin_roles: list[str],
    allowed_clusters: list[str],
) -> Body:
    """Replace both lists of a tenant and return its row. Raises NotFound, PreconditionFailed for unknown clusters, and
    Forbidden for other clusters by a viewer who does not see everything."""
    info = _info(admin_roles, allowed_clusters)
    await update_tenant(engine.store, name, info, by_superuser=viewer.everything)
    return await selectors.tenant(viewer, engine, name)


def _info(admin_roles: list[str], allowed_clusters: list[str]) -> Body:
    return {"adminRoles": admin_roles, "allowedClusters": allowed_clusters}


async def make_namespace(engine: Engine, name: NamespaceName, *, bundles: int) -> Body:
    """Create a namespace and return its page. Raises NotFound without the tenant, AlreadyExists, and Forbidden when the
    tenant may not use this cluster."""
    given = {"bundles": {"numBundles": bundles}}
    await create_namespace(
        engine.store, name, given, cluster=engine.cluster, limits=settings.TENANT_LIMITS
    )
    return await selectors.namespace(engine, name)


async def set_properties(
    engine: Engine, name: NamespaceName, value: dict[str, str], expected: dict[str, str]
) -> dict[str, str]:
    """Set the properties of the namespace to ``value`` if they are ``expected``, and return them. Raises Conflict,
    NotFound."""
    changes: dict[str, str | None] = {key: None for key in expected if key not in value}
    await change_namespace_properties(engine.store, name, {**changes, **value}, expected)
    return value
