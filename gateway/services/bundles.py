"""Bundles of all namespaces in the metadata store: their owners, and the figures of the topics in each."""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.base.errors import Failed, NotFound
from engine.base.names import BundleName, NamespaceName, bundle_hash, split_topic
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import RecordFormatError
from engine.metadata.store import MetadataStore
from engine.tenancy.bundles import Bundles
from engine.tenancy.listing import all_namespaces
from engine.tenancy.namespaces import get_bundles
from engine.tenancy.nodes import children, find_node
from gateway.services import catalog
from gateway.services.feeds.row_list import STEP
from gateway.services.index.figures import Fold
from gateway.services.index.topic_index import TopicIndex

log = logging.getLogger(__name__)

KEPT_S = 1.0
"""Least time that a computed value is kept."""
SHARE = 20
"""Share of the time, one in so many parts, that computing a value again may use."""
T = TypeVar("T")

Edges = Mapping[str, tuple[int, ...]]
"""Edges of the bundles (see ``Bundles.edges``) by namespace."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Bundles of a namespace with the addresses of their owners for clients, by range; unowned bundles have none."""

    bundles: Bundles
    owners: Mapping[str, str]


async def all_owned(store: MetadataStore) -> list[Owned]:
    """Return the bundles of every namespace, sorted by name. Store errors pass through."""
    names = await all_namespaces(store)
    read = await catalog.each(names, lambda name: owned_in(store, NamespaceName.parse(name)))
    return [owned for owned in read if owned is not None]


async def all_readable(store: MetadataStore) -> list[Owned]:
    """Return ``all_owned`` without namespaces whose records are damaged, which are logged: a list of others must
    neither fail because of them nor name them in its refusal."""

    async def owned(name: str) -> Owned | None:
        try:
            return await owned_in(store, NamespaceName.parse(name))
        except (Failed, RecordFormatError) as error:
            log.warning("bundles of a namespace are left out namespace=%s error=%r", name, error)
            return None

    read = await catalog.each(await all_namespaces(store), owned)
    return [owned for owned in read if owned is not None]


async def owned_in(store: MetadataStore, namespace: NamespaceName) -> Owned | None:
    """Return the bundles of a namespace; None when it does not exist or is being deleted. Store errors pass
    through."""
    try:
        bundles = await get_bundles(store, namespace)
    except NotFound:
        return None
    recorded = set(await children(store, f"{paths.NAMESPACE}/{namespace}"))
    owners = {
        bundle: await _owner(store, namespace, bundle)
        for bundle in bundles.ranges
        if bundle in recorded
    }
    return Owned(bundles, {bundle: url for bundle, url in owners.items() if url})


async def _owner(store: MetadataStore, namespace: NamespaceName, bundle: str) -> str:
    record = await find_node(store, paths.bundle_owner(str(namespace), bundle))
    return str(record.get("nativeUrl") or "") if record is not None else ""


async def owner_now(store: MetadataStore, bundle: BundleName) -> str:
    """Return the address of the bundle's owner, read from the store and not from the cache; empty without one."""
    path = paths.bundle_owner(str(bundle.namespace), bundle.range)
    return await _owner(fresh(store, path), bundle.namespace, bundle.range)


class Cached(Generic[T]):
    """A value that is expensive to compute, kept for ``KEPT_S`` or ``SHARE`` times what it took, whichever is longer.
    Used on one event loop."""

    def __init__(self) -> None:
        self._made: tuple[object, T] | None = None
        self._until = 0.0
        self._making = asyncio.Lock()

    async def get(self, about: object, make: Callable[[], Awaitable[T]]) -> T:
        """Return the kept value, computed by ``make`` when it is too old or ``about``, which it depends on, changed.
        Raises what ``make`` raises. Cancel-safe."""
        async with self._making:
            began = time.monotonic()
            if self._made is None or began >= self._until or self._made[0] != about:
                self._made = about, await make()
                ended = time.monotonic()
                self._until = ended + max(KEPT_S, SHARE * (ended - began))
            return self._made[1]

    def forget(self) -> None:
        """Have the value computed again at the next call."""
        self._until = 0.0


class BundleMap:
    """Owners of all bundles and figures of their topics, shared by all callers on one event loop."""

    def __init__(self, index: TopicIndex) -> None:
        self._index = index
        self._owned: Cached[list[Owned]] = Cached()
        self._sums: Cached[dict[BundleName, Fold]] = Cached()

    async def owned(self, store: MetadataStore) -> list[Owned]:
        """Return ``all_readable``, or its kept result."""
        return await self._owned.get(None, lambda: all_readable(store))

    async def sums(self, owned: list[Owned]) -> dict[BundleName, Fold]:
        """Return the sums of figures by bundle, without bundles that have no topics."""
        edges = {str(space.bundles.namespace): space.bundles.edges for space in owned}
        return await self._sums.get(edges, lambda: sums(self._index, edges))

    def forget(self) -> None:
        """Have the owners read again, after bundles were changed."""
        self._owned.forget()


async def sums(index: TopicIndex, edges: Edges) -> dict[BundleName, Fold]:
    """Return the sums of the figures of topics and partitions in these namespaces, by bundle. Yields to other tasks
    meanwhile."""
    folds: dict[tuple[str, int], Fold] = {}
    for count, shown in enumerate(list(index), 1):
        for part in shown.parts:
            name = split_topic(part.name)
            namespace = f"{name.tenant}/{name.namespace}"
            cuts = edges.get(namespace)
            if cuts is not None:
                place = min(bisect_right(cuts, bundle_hash(part.name)) - 1, len(cuts) - 2)
                fold = folds.setdefault((namespace, place), Fold())
                fold.parts[part.name] = part
                fold.replace(None, part.figures)
        if count % STEP == 0:
            await asyncio.sleep(0)
    return {
        BundleName(NamespaceName.parse(name), *edges[name][place : place + 2]): fold
        for (name, place), fold in folds.items()
    }
