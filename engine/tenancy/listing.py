"""Lists of namespaces.

Legacy names (``tenant/cluster/namespace``) lie one level deeper in the same tree. A tenant's child is therefore a
namespace, a parent of namespaces, or both.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from engine.metadata import paths
from engine.metadata.cached import derived, fresh, kept
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.nodes import children

AT_ONCE = 64
"""Namespaces whose nodes are read at the same time."""
CACHED_MAX = 5_000
"""Children of a tenant up to which each is cached with its watches."""
BATCH, BATCHES_AT_ONCE = 256, 4
"""Nodes that are read in one request, and such requests at the same time."""
REMEMBERED_S = 600.0
"""Time after which all children of a large tenant are read again."""


async def namespaces_of(store: MetadataStore, tenant: str, *, anew: bool = False) -> list[str]:
    """Return the tenant's namespaces that have policies, sorted; none when the tenant is missing.

    Their names are ``tenant/namespace`` and ``tenant/cluster/namespace``. ``anew`` bypasses the cache of the store.
    Reads two nodes for each child of the tenant, and one for each legacy namespace. Of a tenant with more than
    CACHED_MAX children, which would fill the cache, only new children are read, many in one request: see
    ``_LargeTenant``.
    """
    path = paths.tenant(tenant)
    names = await children(_reader(store, path, anew), path)
    if len(names) <= CACHED_MAX:
        return sorted(await _namespaces_among(store, tenant, names, anew))
    # A new one remembers nothing.
    known = _LargeTenant() if anew else kept(store, path, _LargeTenant)
    return list(await known.namespaces(store, tenant, names, anew))


async def _namespaces_among(
    store: MetadataStore, tenant: str, children_names: Sequence[str], anew: bool
) -> list[str]:
    """Return the namespaces at and below these children of a tenant."""
    names = [f"{tenant}/{local}" for local in children_names]
    namespaces: list[str] = []
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        for listed in await asyncio.gather(*(_namespaces_at(store, name, anew) for name in batch)):
            namespaces += listed
    return namespaces


class _LargeTenant:
    """The children of a tenant that are namespaces without legacy ones below, which are not read again.

    That they are removed or new shows in the list of the tenant's children. A legacy namespace that another client
    creates below one of them shows after REMEMBERED_S.
    """

    def __init__(self) -> None:
        self._plain: set[str] = set()
        self._since_s = 0.0
        self._names: list[str] = []
        self._namespaces: list[str] = []
        """Result for ``_names``; empty while it has to be made again."""
        self._lock = asyncio.Lock()

    async def namespaces(
        self, store: MetadataStore, tenant: str, names: list[str], anew: bool
    ) -> list[str]:
        """Return the namespaces of the tenant with these children, sorted; not to be changed."""
        async with self._lock:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._since_s > REMEMBERED_S:
                self._plain, self._namespaces, self._since_s = set(), [], now_s
            if self._namespaces and names == self._names:
                return self._namespaces
            known = self._plain.intersection(names)
            unknown = [name for name in names if name not in known]
            plain = await _plain_among(store, tenant, unknown)
            others = [name for name in unknown if name not in plain]
            self._plain = known | plain
            others_listed = await _namespaces_among(store, tenant, others, anew)
            listed = [f"{tenant}/{name}" for name in names if name in self._plain]
            namespaces = sorted(listed + others_listed)
            # With others the result may change although the tenant's children are the same.
            self._names, self._namespaces = names, [] if others else namespaces
            return namespaces


async def _plain_among(store: MetadataStore, tenant: str, names: Sequence[str]) -> set[str]:
    """Return the children of a tenant that have policies and never had children. Reads from the service."""
    plain: set[str] = set()

    async def look(batch: Sequence[str]) -> None:
        nodes = [paths.namespace_policies(f"{tenant}/{name}") for name in batch]
        policies, _ = await store.get_all(nodes)
        plain.update(
            name
            for name, node in zip(batch, policies, strict=True)
            if node is not None and node[0] and node[1].children_version == 0
        )

    for start in range(0, len(names), BATCH * BATCHES_AT_ONCE):
        several = range(start, min(start + BATCH * BATCHES_AT_ONCE, len(names)), BATCH)
        await asyncio.gather(*(look(names[at : at + BATCH]) for at in several))
    return plain


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
