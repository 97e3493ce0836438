"""Tenants and their namespaces."""

from admin_ui.resource import Resource
from admin_ui.tenants.api import (
    NamespacesView,
    NamespaceView,
    PropertiesView,
    TenantsView,
    TenantView,
)

_TENANT = "tenants/<seg:tenant>"
_NAMESPACE = f"{_TENANT}/namespaces/<seg:namespace>"

TENANTS = Resource(
    routes={
        "tenants": TenantsView,
        _TENANT: TenantView,
        f"{_TENANT}/namespaces": NamespacesView,
        _NAMESPACE: NamespaceView,
        f"{_NAMESPACE}/properties": PropertiesView,
    }
)
