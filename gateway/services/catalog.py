"""Every topic of the cluster by name, from the metadata store: plain ones and partitioned parents."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from engine.base.names import DOMAINS, PARTITION_SUFFIX, TopicName
from engine.metadata import paths
from engine.metadata.cached import CachedStore, derived_children
from engine.metadata.records import Stored
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.nodes import children, find_node
from engine.tenancy.topics import find_partitions, full_names, names_below, users_names

IN_FLIGHT_MAX = 64

T = TypeVar("T")
R = TypeVar("R")


async def each(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], at_once: int = IN_FLIGHT_MAX
) -> list[R]:
    """``work`` on every item, so many ``at_once``; results in order. Waits for all of them, and raises then what the
    first that failed raised."""
    given = list(items)
    ahead = iter(range(len(given)))
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def worker() -> None:
        for index in ahead:
            try:
                results[index] = await work(given[index])
            except Exception as error:  # raised below, when the others have ended
                failures.append(error)

    await asyncio.gather(*(worker() for _ in range(min(len(given), at_once))))
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(given))]


async def namespaces(store: MetadataStore) -> list[str]:
    """All ``tenant/namespace``, sorted."""
    tenants = await children(store, paths.POLICIES)
    found = await each(tenants, lambda tenant: children(store, paths.tenant(tenant)))
    return [
        f"{tenant}/{name}" for tenant, names in zip(tenants, found, strict=True) for name in names
    ]


async def partition_count(store: MetadataStore, topic: TopicName) -> int:
    """Partitions of a partitioned topic, 0 when ``topic`` is none."""
    record = await find_partitions(store, topic)
    return int(record["partitions"]) if record is not None else 0


async def topics(store: MetadataStore) -> dict[str, int]:
    """All topics as of ``topics_in``, with their number of partitions (0: plain)."""
    found = await each(await namespaces(store), lambda namespace: counted(store, namespace))
    return {name: count for part in found for name, count in part.items()}


async def topics_in(store: MetadataStore, namespace: str) -> tuple[list[str], list[str]]:
    """Partitioned topics of ``tenant/namespace`` and plain ones, by full name. Partitions of a known parent are left
    out; system topics (``__`` in front) too."""
    parents = [
        name
        for domain in DOMAINS
        for name in await names_below(
            store, paths.partitioned_topics(namespace, domain), full_names
        )
    ]
    try:
        ledgers = await derived_children(store, paths.managed_ledgers(namespace), _by_parent)
    except NoNodeError:
        return parents, []
    known = set(parents)
    orphans = [
        name for parent, parts in ledgers.parts.items() if parent not in known for name in parts
    ]
    return parents, [*ledgers.plain, *orphans]


class _Ledgers(NamedTuple):
    """Topics of a namespace without the system's: ``parts`` are named as partitions of a topic are, by its name."""

    plain: list[str]
    parts: dict[str, list[str]]


def _by_parent(parts: Sequence[str], path: str) -> _Ledgers:
    found = _Ledgers([], {})
    for name in users_names(parts, path):
        base, mark, index = name.rpartition(PARTITION_SUFFIX)
        if mark and index.isdecimal():
            found.parts.setdefault(base, []).append(name)
        else:
            found.plain.append(name)
    return found


async def counted(store: MetadataStore, namespace: str) -> dict[str, int]:
    """Topics of ``tenant/namespace`` as of ``topics_in``, with their number of partitions (0: plain)."""
    _, plain = await topics_in(store, namespace)
    found = dict.fromkeys(plain, 0)
    for domain in DOMAINS:
        path = paths.partitioned_topics(namespace, domain)
        for part, record in await _records(store, path):
            (name,) = full_names([part], path)
            found[name] = int(record["partitions"]) if record is not None else 0
    return found


async def _records(store: MetadataStore, path: str) -> list[tuple[str, Stored | None]]:
    parts = await children(store, path)
    records = await each(parts, lambda part: find_node(store, f"{path}/{part}"))
    return list(zip(parts, records, strict=True))


class Changed(NamedTuple):
    """Topics that are new or have another number of partitions, with that number; and those that are gone."""

    known: dict[str, int]
    gone: set[str]


class Catalog:
    """``known``: all topics as of ``topics``, kept up with a store. For one event loop."""

    def __init__(self, store: MetadataStore) -> None:
        self.known: dict[str, int] = {}
        self._store = store
        self._changes = store.follow() if isinstance(store, CachedStore) else None
        self._parts: dict[str, dict[str, int]] = {}
        self._everything = True
        self._stale: dict[str, None] = {}
        self._changed = Changed({}, set())

    @property
    def is_current(self) -> bool:
        """Whether ``refresh`` would do nothing and give nothing."""
        self._take_changes()
        return not (self._everything or self._stale or self._changed.known or self._changed.gone)

    async def refresh(self) -> Changed:
        """Bring ``known`` up to the store; what changed since the last call that returned. With a cached store the work
        is in proportion to the namespaces that changed. Store errors pass through: the next call does what is left.
        Cancel-safe."""
        self._take_changes()
        if self._everything or "" in self._stale:
            present = await namespaces(self._store)
            self._stale |= dict.fromkeys(
                present if self._everything else [n for n in present if n not in self._parts]
            )
            for name in self._parts.keys() - present:
                self._put(name, {})
                del self._parts[name]
            self._parts |= {name: {} for name in present if name not in self._parts}
            self._everything = False
            del self._stale[""]
        await each([name for name in self._stale if name in self._parts], self._refresh)
        self._stale.clear()
        changed, self._changed = self._changed, Changed({}, set())
        return changed

    def _take_changes(self) -> None:
        """Before anything is read: what changes meanwhile is for the next call."""
        if self._changes is None:
            self._everything = True
        else:
            everything, stale = self._changes.take()
            self._everything |= everything
            self._stale |= stale
        if self._everything:
            self._stale[""] = None

    async def _refresh(self, namespace: str) -> None:
        self._put(namespace, await counted(self._store, namespace))
        del self._stale[namespace]

    def _put(self, namespace: str, new: dict[str, int]) -> None:
        old = self._parts[namespace]
        self._parts[namespace] = new
        for name in old.keys() - new.keys():
            del self.known[name]
            self._changed.known.pop(name, None)
            self._changed.gone.add(name)
        for name, count in new.items():
            if old.get(name) != count:
                self.known[name] = self._changed.known[name] = count
                self._changed.gone.discard(name)
