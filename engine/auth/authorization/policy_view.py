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
    """The roles that administer a tenant, and the clusters on which its namespaces may be.

    ``damage``: why the record cannot be read, so that it gives no right (A32); empty for one that can.
    """

    administrators: frozenset[str] = frozenset()
    allowed_clusters: frozenset[str] = frozenset()
    damage: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "TenantAccess":
        """Return what a stored TenantInfo says."""
        try:
            return cls(
                _texts(record.get("adminRoles"), "adminRoles"),
                _texts(record.get("allowedClusters"), "allowedClusters"),
            )
        except ValueError as error:
            return cls(damage=str(error))


@dataclass(frozen=True, slots=True)
class NamespaceAccess:
    """The grants on a namespace, those on topics of it by full name, and the rules of its subscriptions.

    ``subscriptions``: the roles that alone may use a subscription, by its name; not empty. ``prefixed``: subscriptions
    begin with the role that uses them. ``damage``: as that of ``TenantAccess``.
    """

    granted: Granted
    topics: Mapping[str, Granted]
    subscriptions: Mapping[str, frozenset[str]]
    prefixed: bool = False
    damage: str = ""

    @classmethod
    def of(cls, policies: Mapping[str, Any]) -> "NamespaceAccess":
        """Return what stored policies say. A mode of subscriptions that is not known counts as the strict one (A14)."""
        try:
            stored = _object(policies.get("auth_policies"), "auth_policies")
            topics = _object(stored.get("destination_auth"), "destination_auth")
            of_topics = {topic: _granted(roles, topic) for topic, roles in topics.items()}
            return cls(
                _granted(stored.get("namespace_auth"), "namespace_auth"),
                of_topics,
                {
                    name: roles
                    for name, roles in _granted(
                        stored.get("subscription_auth_roles"), "subscription_auth_roles"
                    ).items()
                    if roles
                },
                policies.get("subscription_auth_mode") not in (None, "", "None"),
            )
        except ValueError as error:
            return cls.damaged(str(error))

    @classmethod
    def damaged(cls, damage: str) -> "NamespaceAccess":
        """Return the access of policies that cannot be read."""
        return cls({}, {}, {}, prefixed=True, damage=damage)


def _granted(stored: object, name: str) -> Granted:
    return {role: _texts(actions, name) for role, actions in _object(stored, name).items()}


def _object(stored: object, name: str) -> Mapping[str, Any]:
    """Return a part of a record. Raises ValueError, which names it, for one of another kind."""
    if stored is None:
        return {}
    if not isinstance(stored, Mapping):
        raise ValueError(f"{name} is no object")
    return stored


def _texts(stored: object, name: str) -> frozenset[str]:
    """Return a list of a record. Raises as ``_object``: the letters of a text would count as names."""
    if stored is None:
        return frozenset()
    if not isinstance(stored, list | tuple | set | frozenset):
        raise ValueError(f"{name} is no list")
    if not all(isinstance(item, str) for item in stored):
        raise ValueError(f"{name} has an element that is no text")
    return frozenset(stored)


class PolicyView(Protocol):
    """Records in memory. None: there is no such tenant or namespace. Raises NotKnown for a record not in memory."""

    def tenant(self, name: str) -> TenantAccess | None: ...

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None: ...


class WholePolicyView(PolicyView, Protocol):
    """A view that also lists what there is, for callers that are shown lists."""

    def tenants(self) -> Iterable[str]: ...

    def namespaces(self) -> Iterable[NamespaceName]: ...
