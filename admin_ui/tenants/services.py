"""Changes of tenants, namespaces and their policies."""

from typing import Any

from django.conf import settings

from admin_ui.tenants import selectors
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.policies import Policy
from engine.tenancy.tenants import create_tenant, update_tenant
from gateway.services import policies
from gateway.services.engine_link import Engine

Body = dict[str, Any]


async def make_tenant(
    engine: Engine, name: str, *, admin_roles: list[str], allowed_clusters: list[str]
) -> Body:
    """Its row; 409 when it exists, 412 for a bad name or unknown clusters."""
    await create_tenant(engine.store, name, _info(admin_roles, allowed_clusters))
    return await selectors.tenant(engine, name)


async def change_tenant(
    engine: Engine, name: str, *, admin_roles: list[str], allowed_clusters: list[str]
) -> Body:
    """Replaces both lists; its row. 404 when missing, 412 for unknown clusters."""
    await update_tenant(engine.store, name, _info(admin_roles, allowed_clusters))
    return await selectors.tenant(engine, name)


def _info(admin_roles: list[str], allowed_clusters: list[str]) -> Body:
    return {"adminRoles": admin_roles, "allowedClusters": allowed_clusters}


async def make_namespace(engine: Engine, name: NamespaceName, *, bundles: int) -> Body:
    """Its page; 404 without the tenant, 409 when it exists, 403 when the tenant may not use this cluster."""
    given = {"bundles": {"numBundles": bundles}}
    cluster = settings.ENVIRONMENT.cluster_name
    await create_namespace(engine.store, name, given, cluster=cluster)
    return await selectors.namespace(engine, name)


async def set_policy(
    engine: Engine, name: NamespaceName, policy: Policy, *, value: Any, expected: Any
) -> Body:
    """Store a value as a caller gave it, None removes it; the policy's row as it is now. ``expected`` is what the
    namespace said when it was shown: 409 when that changed. 400, 412 or 501 for what the value may not be."""
    read = None if value is None else policy.read(value)
    stored, shown = await selectors.own(engine, name, policy)
    await policies.set_on_namespace(
        engine, name, policy, read, expected=stored if shown == expected else expected
    )
    return await selectors.policy(engine, name, policy)
