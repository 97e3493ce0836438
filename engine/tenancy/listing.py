"""Lists of namespaces.

Legacy names (``tenant/cluster/namespace``) lie one level deeper in the same tree. A tenant's child is therefore a
namespace, a parent of namespaces, or both.
"""

import asyncio
from contextlib import suppress

from engine.metadata import paths
from engine.metadata.cached import derived, fresh
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.nodes import children

AT_ONCE = 64
"""Namespaces whose nodes are read at the same time."""


async def namespaces_of(store: MetadataStore, tenant: str, *, anew: bool = False) -> list[str]:
    """Return the tenant's namespaces that have policies, sorted; none when the tenant is missing.

    Their names are ``tenant/namespace`` and ``tenant/cluster/namespace``. ``anew`` bypasses the cache of the store.
    Reads two nodes for each child of the tenant, and one for each legacy namespace.
    """
    path = paths.tenant(tenant)
    names = [f"{tenant}/{local}" for local in await children(_reader(store, path, anew), path)]
    namespaces: list[str] = []
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        for listed in await asyncio.gather(*(_namespaces_at(store, name, anew) for name in batch)):
            namespaces += listed
    return sorted(namespaces)


async def all_namespaces(store: MetadataStore, *, anew: bool = False) -> list[str]:
    """Return the namespaces of every tenant; see ``namespaces_of``."""
    return [
        name
        for tenant in await children(_reader(store, paths.POLICIES, anew), paths.POLICIES)
        for name in await namespaces_of(store, tenant, anew=anew)
    ]


async def _namespaces_at(store: MetadataStore, name: str, anew: bool) -> list[str]:
    """Return the namespace ``name`` and the legacy namespaces below it, as far as they have policies."""
    path = paths.namespace_policies(name)
    below = [f"{name}/{local}" for local in await children(_reader(store, path, anew), path)]
    namespaces = []
    for candidate in (name, *below):
        path = paths.namespace_policies(candidate)
        with suppress(NoNodeError):
            if await derived(_reader(store, path, anew), path, _has_value):
                namespaces.append(candidate)
    return namespaces


def _has_value(value: bytes, path: str) -> bool:
    """Return whether a node is more than a parent of others. A damaged record counts: its namespace exists, and must
    not end the lists of other tenants."""
    return bool(value)


def _reader(store: MetadataStore, path: str, anew: bool) -> MetadataStore:
    return fresh(store, path) if anew else store
