"""Which namespaces there are. Legacy names (``tenant/cluster/namespace``) lie one level deeper in the same tree, so
that a tenant's child may be a namespace, only hold others, or both."""

import asyncio

from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.tenancy.nodes import children, find_node

AT_ONCE = 64
"""Namespaces whose nodes are read at the same time."""


async def namespaces_of(store: MetadataStore, tenant: str, *, anew: bool = False) -> list[str]:
    """``tenant/namespace`` and ``tenant/cluster/namespace``, sorted, of those that have policies; none without the
    tenant. ``anew``: not by what is kept in memory. Reads two nodes for each child of the tenant, and one for each
    legacy namespace."""
    path = paths.tenant(tenant)
    names = [f"{tenant}/{local}" for local in await children(_for(store, path, anew), path)]
    found: list[str] = []
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        for some in await asyncio.gather(*(_at_and_below(store, name, anew) for name in batch)):
            found += some
    return sorted(found)


async def all_namespaces(store: MetadataStore, *, anew: bool = False) -> list[str]:
    """As ``namespaces_of``, of every tenant."""
    return [
        name
        for tenant in await children(_for(store, paths.POLICIES, anew), paths.POLICIES)
        for name in await namespaces_of(store, tenant, anew=anew)
    ]


async def _at_and_below(store: MetadataStore, name: str, anew: bool) -> list[str]:
    path = paths.namespace_policies(name)
    below = [f"{name}/{local}" for local in await children(_for(store, path, anew), path)]
    found = []
    for each in (name, *below):
        path = paths.namespace_policies(each)
        if await find_node(_for(store, path, anew), path) is not None:
            found.append(each)
    return found


def _for(store: MetadataStore, path: str, anew: bool) -> MetadataStore:
    return fresh(store, path) if anew else store
