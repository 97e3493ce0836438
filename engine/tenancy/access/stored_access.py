"""The access part of a stored record of a tenant or namespace: one reading of it, for the judge and for viewers.

A record that cannot be read gives no right to anybody but superusers, and of a namespace to the tenant's administrators
(A32, docs/decisions/0034-damaged-records-give-no-right.md).
"""

from engine.auth.authorization.policy_view import NamespaceAccess, TenantAccess
from engine.auth.resource_names import TenantName
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import derived
from engine.metadata.records import RecordFormatError, decode_json
from engine.metadata.store import MetadataStore, NoNodeError

Recorded = TenantName | NamespaceName
"""The name of a record: a tenant's or a namespace's."""
Access = TenantAccess | NamespaceAccess | None


def path_of(name: Recorded) -> str:
    """Return the path of a record in the metadata store."""
    if isinstance(name, TenantName):
        return paths.tenant(name.name)
    return paths.namespace_policies(str(name))


async def read_tenant(store: MetadataStore, name: str) -> TenantAccess | None:
    """Return the access part of a tenant's record; None without one. The store's errors pass through."""
    try:
        return await derived(store, paths.tenant(name), tenant_access)
    except NoNodeError:
        return None


async def read_namespace(store: MetadataStore, name: str) -> NamespaceAccess | None:
    """Return the access part of a namespace's policies. As ``read_tenant``."""
    try:
        return await derived(store, paths.namespace_policies(name), namespace_access)
    except NoNodeError:
        return None


def tenant_access(value: bytes, path: str) -> TenantAccess | None:
    """Return the access part of a tenant's record. An empty node is only the parent of others."""
    if not value:
        return None
    try:
        return TenantAccess.of(decode_json(value, path))
    except RecordFormatError as error:
        return TenantAccess(damage=str(error))


def namespace_access(value: bytes, path: str) -> NamespaceAccess | None:
    """Return the access part of a namespace's policies. As ``tenant_access``."""
    if not value:
        return None
    try:
        return NamespaceAccess.of(decode_json(value, path))
    except RecordFormatError as error:
        return NamespaceAccess.damaged(str(error))
