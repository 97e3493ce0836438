"""Bundles of all namespaces as the metadata has them: who owns them, and what the topics in each do."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.base.errors import NotFound
from engine.base.names import BundleName, NamespaceName, bundle_hash, split_topic
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.tenancy.bundles import Bundles
from engine.tenancy.listing import all_namespaces
from engine.tenancy.namespaces import get_bundles
from engine.tenancy.nodes import children, find_node
from gateway.services import catalog
from gateway.services.index.figures import Fold
from gateway.services.index.topic_index import STEP, TopicIndex

KEPT_S = 1.0
SHARE = 20
"""At most one part in so many of the time goes into sums."""
T = TypeVar("T")

Edges = Mapping[str, tuple[int, ...]]
"""By namespace, as of ``Bundles.edges``."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Bundles of a namespace. ``owners``: the address that clients use, by the bundle's range; without one, nobody
    owns it."""

    bundles: Bundles
    owners: Mapping[str, str]


async def all_owned(store: MetadataStore) -> list[Owned]:
    """Of every namespace, sorted by name. Store errors pass through."""
    names = await all_namespaces(store)
    found = await catalog.each(names, lambda name: owned_in(store, NamespaceName.parse(name)))
    return [one for one in found if one is not None]


async def owned_in(store: MetadataStore, namespace: NamespaceName) -> Owned | None:
    """Of one namespace; None when it is not there, or is being deleted. Store errors pass through."""
    try:
        bundles = await get_bundles(store, namespace)
    except NotFound:
        return None
    held = set(await children(store, f"{paths.NAMESPACE}/{namespace}"))
    owners = {each: await _owner(store, namespace, each) for each in bundles.ranges if each in held}
    return Owned(bundles, {each: url for each, url in owners.items() if url})


async def _owner(store: MetadataStore, namespace: NamespaceName, bundle: str) -> str:
    found = await find_node(store, paths.bundle_owner(str(namespace), bundle))
    return str(found.get("nativeUrl") or "") if found is not None else ""


async def owner_now(store: MetadataStore, bundle: BundleName) -> str:
    """Address of who owns the bundle by what is stored at this moment, not by what was read before; empty: nobody."""
    path = paths.bundle_owner(str(bundle.namespace), bundle.range)
    return await _owner(fresh(store, path), bundle.namespace, bundle.range)


class Kept(Generic[T]):
    """What costs much to find out, made anew after ``KEPT_S``, or ``SHARE`` times what it took. For one event loop."""

    def __init__(self) -> None:
        self._made: tuple[object, T] | None = None
        self._until = 0.0
        self._making = asyncio.Lock()

    async def get(self, about: object, make: Callable[[], Awaitable[T]]) -> T:
        """``about``: what it depends on beside the time. Raises what ``make`` raises. Cancel-safe."""
        async with self._making:
            began = time.monotonic()
            if self._made is None or began >= self._until or self._made[0] != about:
                self._made = about, await make()
                ended = time.monotonic()
                self._until = ended + max(KEPT_S, SHARE * (ended - began))
            return self._made[1]

    def forget(self) -> None:
        """It is something else by now."""
        self._until = 0.0


class BundleMap:
    """Who owns which bundle, and what its topics do, for all who ask. For one event loop."""

    def __init__(self, index: TopicIndex) -> None:
        self._index = index
        self._owned: Kept[list[Owned]] = Kept()
        self._sums: Kept[dict[BundleName, Fold]] = Kept()

    async def owned(self, store: MetadataStore) -> list[Owned]:
        """See ``all_owned``."""
        return await self._owned.get(None, lambda: all_owned(store))

    async def sums(self, owned: list[Owned]) -> dict[BundleName, Fold]:
        """By bundle; one without topics is not among them."""
        edges = {str(one.bundles.namespace): one.bundles.edges for one in owned}
        return await self._sums.get(edges, lambda: sums(self._index, edges))

    def forget(self) -> None:
        """Bundles were changed."""
        self._owned.forget()


async def sums(index: TopicIndex, edges: Edges) -> dict[BundleName, Fold]:
    """Of the topics and partitions of these namespaces. Others have their turn meanwhile."""
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
