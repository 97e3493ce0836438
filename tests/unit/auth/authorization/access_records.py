"""Views of records that tests state, in the form in which they are stored."""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.auth.authorization.policy_view import NamespaceAccess, NotKnown, TenantAccess
from engine.auth.resource_names import TenantName
from engine.base.names import NamespaceName


class Records:
    """A whole view of stored tenants and policies by name; ``unloaded`` names those that are not in memory."""

    def __init__(
        self,
        tenants: Mapping[str, Mapping[str, Any]],
        policies: Mapping[str, Mapping[str, Any]],
        unloaded: Iterable[str] = (),
    ) -> None:
        self._tenants = {name: TenantAccess.of(record) for name, record in tenants.items()}
        self._spaces = {name: NamespaceAccess.of(record) for name, record in policies.items()}
        self._unloaded = frozenset(unloaded)

    def tenant(self, name: str) -> TenantAccess | None:
        if name in self._unloaded:
            raise NotKnown(TenantName(name))
        return self._tenants.get(name)

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        if str(name) in self._unloaded:
            raise NotKnown(name)
        return self._spaces.get(str(name))

    def tenants(self) -> Iterable[str]:
        return self._tenants

    def namespaces(self) -> Iterable[NamespaceName]:
        return map(NamespaceName.parse, self._spaces)


def policies(
    roles: Mapping[str, list[str]] | None = None,
    *,
    topics: Mapping[str, Mapping[str, list[str]]] | None = None,
    subscriptions: Mapping[str, list[str]] | None = None,
    mode: str | None = "None",
) -> dict[str, Any]:
    """Return stored policies with these grants."""
    return {
        "auth_policies": {
            "namespace_auth": roles or {},
            "destination_auth": topics or {},
            "subscription_auth_roles": subscriptions or {},
        },
        "subscription_auth_mode": mode,
    }
