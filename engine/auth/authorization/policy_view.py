"""A view of the stored records of tenants and namespaces, in memory, by which calls are judged. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.auth.resource_names import TenantName
from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName

Granted = Mapping[str, frozenset[str]]
"""Actions by role."""


class NotKnown(MagnetarError):
    """A record is not in memory. The caller loads ``resource`` and asks again."""

    retriable = True

    def __init__(self, resource: TenantName | NamespaceName) -> None:
        self.resource = resource
        super().__init__(f"The record of {resource} is not loaded")


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """The roles that administer a tenant, and the clusters on which its namespaces may be."""

    administrators: frozenset[str] = frozenset()
    allowed_clusters: frozenset[str] = frozenset()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "TenantAccess":
        """Return what a stored TenantInfo says."""
        return cls(
            frozenset(record.get("adminRoles") or ()),
            frozenset(record.get("allowedClusters") or ()),
        )


@dataclass(frozen=True, slots=True)
class NamespaceAccess:
    """The grants on a namespace, those on topics of it by full name, and the rules of its subscriptions.

    ``subscriptions``: the roles that alone may use a subscription, by its name; not empty. ``prefixed``: subscriptions
    begin with the role that uses them.
    """

    granted: Granted
    topics: Mapping[str, Granted]
    subscriptions: Mapping[str, frozenset[str]]
    prefixed: bool = False

    @classmethod
    def of(cls, policies: Mapping[str, Any]) -> "NamespaceAccess":
        """Return what stored policies say. A mode of subscriptions that is not known counts as the strict one (A14)."""
        stored = policies.get("auth_policies") or {}
        return cls(
            _granted(stored.get("namespace_auth")),
            {
                topic: _granted(roles)
                for topic, roles in (stored.get("destination_auth") or {}).items()
            },
            {
                name: frozenset(roles)
                for name, roles in (stored.get("subscription_auth_roles") or {}).items()
                if roles
            },
            policies.get("subscription_auth_mode") not in (None, "", "None"),
        )


def _granted(stored: Mapping[str, Iterable[str]] | None) -> Granted:
    return {role: frozenset(actions or ()) for role, actions in (stored or {}).items()}


class PolicyView(Protocol):
    """Records in memory. None: there is no such tenant or namespace. Raises NotKnown for a record not in memory."""

    def tenant(self, name: str) -> TenantAccess | None: ...

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None: ...


class WholePolicyView(PolicyView, Protocol):
    """A view that also lists what there is, for callers that are shown lists."""

    def tenants(self) -> Iterable[str]: ...

    def namespaces(self) -> Iterable[NamespaceName]: ...
