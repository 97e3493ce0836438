"""Policies that restrict where a bundle may be placed (L5): isolation, anti-affinity groups, failure domains. Pure.

The members of an anti-affinity group are the namespaces of a tenant that name it. Every broker computes the same
division of the brokers among the members, so no record of past decisions is needed: two members share a broker only
when there are fewer brokers than members, and a failure domain only when there are fewer domains than members.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from engine.base.names import BundleName, NamespaceName
from engine.tenancy.resources.isolation import IsolationPolicies

SYSTEM_NAMESPACE = NamespaceName("pulsar", "system")


class AntiAffinity(NamedTuple):
    """Anti-affinity group of a namespace, with the names of its members, sorted; the namespace is one of them."""

    group: str
    members: tuple[str, ...]


_NO_GROUPS: Mapping[NamespaceName, AntiAffinity] = MappingProxyType({})
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlacementPolicies:
    """Restrictions of the placement of bundles; the default restricts nothing.

    ``groups``: anti-affinity groups by namespace. ``domains``: failure domain by broker. ``draining``: brokers that
    operators drain, which are counted as absent where another one may serve a bundle (L10). ``excluded``: brokers that
    bundles are not moved to or from, with the reason.
    """

    isolation: IsolationPolicies = field(default_factory=IsolationPolicies)
    groups: Mapping[NamespaceName, AntiAffinity] = field(default_factory=lambda: _NO_GROUPS)
    domains: Mapping[str, str] = field(default_factory=lambda: _NONE)
    draining: Collection[str] = field(default_factory=lambda: _NONE)
    excluded: Mapping[str, str] = field(default_factory=lambda: _NONE)

    def without(self, excluded: Mapping[str, str]) -> "PlacementPolicies":
        """Return these policies with ``excluded`` brokers."""
        return replace(self, excluded=excluded)

    def places(self, bundle: BundleName, broker_ids: Collection[str]) -> list[str]:
        """Return the ones of ``broker_ids`` that isolation lets serve the bundle; drained ones only when there is no
        other."""
        namespace = str(bundle.namespace)
        if not self.draining:
            return self.isolation.places(namespace, broker_ids)
        staying = [broker_id for broker_id in broker_ids if broker_id not in self.draining]
        return self.isolation.places(namespace, staying) or self.isolation.places(
            namespace, broker_ids
        )

    def preferred(self, bundle: BundleName, broker_ids: Collection[str]) -> list[str]:
        """Return the ones of ``broker_ids`` that the bundle's anti-affinity group gives to its namespace; all without
        a group."""
        affinity = self.groups.get(bundle.namespace)
        namespace = str(bundle.namespace)
        if affinity is None or len(affinity.members) < 2 or namespace not in affinity.members:
            return list(broker_ids)
        by_domain: dict[str, list[str]] = {}
        for broker_id in _ranked(affinity.group, broker_ids):
            domain = self.domains.get(broker_id)
            # A broker without a failure domain fails alone.
            unit = f"broker {broker_id}" if domain is None else f"domain {domain}"
            by_domain.setdefault(unit, []).append(broker_id)
        units = [by_domain[unit] for unit in _ranked(affinity.group, by_domain)]
        return _divide(units, affinity.members.index(namespace), len(affinity.members))


def is_movable(bundle: BundleName) -> bool:
    """Return whether load balance may move the bundle: not those of brokers' own and of system namespaces."""
    return bundle.namespace.cluster is None and bundle.namespace != SYSTEM_NAMESPACE


def _ranked(group: str, names: Collection[str]) -> list[str]:
    """Return the names in an order that depends only on the group and on each name."""
    return sorted(names, key=lambda name: (_digest(f"{group}\n{name}"), name))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _divide(units: Sequence[Sequence[str]], index: int, members: int) -> list[str]:
    """Return the brokers of member ``index`` of ``members``, where ``units`` (brokers that fail together) are divided
    among the members first, and brokers of a unit only among members that must share it."""
    if not units:
        return []
    if len(units) >= members:
        return [broker for unit in units[index::members] for broker in unit]
    unit = units[index % len(units)]
    if len(unit) == 1:
        return list(unit)
    sharing = len(range(index % len(units), members, len(units)))
    return _divide([[broker] for broker in unit], index // len(units), sharing)
