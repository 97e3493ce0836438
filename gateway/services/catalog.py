"""All topics of the cluster by name, read from the metadata store: plain ones and partitioned parents."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from engine.base.names import DOMAINS, PERSISTENT, TopicName, split_partition
from engine.metadata import paths
from engine.metadata.cached import derived, derived_children, follow
from engine.metadata.records import RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy.nodes import children, find_node
from engine.tenancy.topics import (
    find_partitions,
    full_names,
    names_below,
    partitioned_record,
    users_names,
)

log = logging.getLogger(__name__)

IN_FLIGHT_MAX = 64

T = TypeVar("T")
R = TypeVar("R")


async def each(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], at_once: int = IN_FLIGHT_MAX
) -> list[R]:
    """Run ``work`` on every item, ``at_once`` at a time, and return the results in order. When some fail, the others
    are still run, and the first failure is raised then."""
    given = list(items)
    indexes = iter(range(len(given)))
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def worker() -> None:
        for index in indexes:
            try:
                results[index] = await work(given[index])
            except Exception as error:  # raised below, after the others have ended
                failures.append(error)

    await asyncio.gather(*(worker() for _ in range(min(len(given), at_once))))
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(given))]


async def partition_count(store: MetadataStore, topic: TopicName) -> int:
    """Return the number of partitions, 0 when ``topic`` is not partitioned. Raises RecordFormatError."""
    record = await find_partitions(store, topic)
    return int(record["partitions"]) if record is not None else 0


async def scopes(store: MetadataStore) -> list[str]:
    """Return all ``tenant/name`` below which topics are stored, sorted: namespaces, and the parents of a cluster's
    legacy namespaces, with or without policies. Reads two nodes for each tenant, however many namespaces it has."""
    tenants = await children(store, paths.POLICIES)

    async def names_in(tenant: str) -> set[str]:
        trees = (paths.MANAGED_LEDGERS, paths.PARTITIONED_TOPICS)
        return {name for tree in trees for name in await children(store, f"{tree}/{tenant}")}

    by_tenant = zip(tenants, await each(tenants, names_in), strict=True)
    return sorted(f"{tenant}/{name}" for tenant, names in by_tenant for name in names)


async def topics(store: MetadataStore) -> dict[str, int]:
    """Return the topics of all scopes, see ``counted``, with their number of partitions (0: plain)."""
    by_scope = await each(await scopes(store), lambda scope: counted(store, scope))
    return {name: count for topics in by_scope for name, count in topics.items()}


async def topics_in(store: MetadataStore, namespace: str) -> tuple[list[str], list[str]]:
    """Return the full names of the partitioned and of the plain topics of ``tenant/namespace``, without partitions of
    existing partitioned topics and without system topics (``__`` in front)."""
    parents = [
        name
        for domain in DOMAINS
        for name in await names_below(
            store, paths.partitioned_topics(namespace, domain), full_names
        )
    ]
    return parents, (await _ledgers(store, namespace)).shown(set(parents))


class _Ledgers(NamedTuple):
    """Topics of a namespace with ledgers, without system topics. ``parts`` have names of partitions, and are listed
    by the name of the topic that they would belong to."""

    plain: list[str]
    parts: dict[str, list[str]]

    def shown(self, partitioned: Collection[str]) -> list[str]:
        """Return the names without the partitions of these topics."""
        orphans = (self.parts[parent] for parent in self.parts if parent not in partitioned)
        return [*self.plain, *(name for names in orphans for name in names)]


_NO_LEDGERS = _Ledgers([], {})


async def _ledgers(store: MetadataStore, namespace: str) -> _Ledgers:
    try:
        return await derived_children(store, paths.managed_ledgers(namespace), _by_parent)
    except NoNodeError:
        return _NO_LEDGERS


def _by_parent(parts: Sequence[str], path: str) -> _Ledgers:
    ledgers = _Ledgers([], {})
    for name in users_names(parts, path):
        base, index = split_partition(name)
        if index < 0:
            ledgers.plain.append(name)
        else:
            ledgers.parts.setdefault(base, []).append(name)
    return ledgers


async def counted(store: MetadataStore, scope: str) -> dict[str, int]:
    """Return the number of partitions (0: plain) of the topics of a scope, legacy namespaces in it included, by full
    name.

    Partitions of existing partitioned topics and system topics (``__`` in front) are left out. The partitions of a
    topic whose record cannot be read are listed by themselves.
    """
    below = set(await children(store, f"{paths.PARTITIONED_TOPICS}/{scope}"))
    stored = set(await children(store, f"{paths.MANAGED_LEDGERS}/{scope}"))
    counts = await _counted_in(store, scope, below | stored)
    legacy = (below - set(DOMAINS)) | (stored - {PERSISTENT})
    # The nodes of a legacy namespace that is called as a domain look like a topic of that name.
    for name in DOMAINS:
        topic = f"{PERSISTENT}://{scope}/{name}"
        if topic in counts and await find_node(store, paths.namespace_policies(f"{scope}/{name}")):
            legacy.add(name)
            if await _is_empty(store, f"{paths.managed_ledgers(scope)}/{name}"):
                del counts[topic]
    for name in sorted(legacy):
        counts |= await _counted_in(store, f"{scope}/{name}", DOMAINS)
    return counts


async def _counted_in(
    store: MetadataStore, namespace: str, domains: Collection[str]
) -> dict[str, int]:
    """Return what ``counted`` does for one namespace, which has topics of these domains at most."""
    partitioned: dict[str, int] = {}
    for domain in DOMAINS:
        if domain in domains:
            partitioned |= await _partitioned(store, paths.partitioned_topics(namespace, domain))
    ledgers = await _ledgers(store, namespace) if PERSISTENT in domains else _NO_LEDGERS
    return dict.fromkeys(ledgers.shown(partitioned), 0) | partitioned


async def _partitioned(store: MetadataStore, path: str) -> dict[str, int]:
    parts = await children(store, path)
    counts = await each(parts, lambda part: _recorded(store, f"{path}/{part}"))
    return {
        full_names([part], path)[0]: count
        for part, count in zip(parts, counts, strict=True)
        if count is not None
    }


async def _recorded(store: MetadataStore, path: str) -> int | None:
    """Return the number of partitions in a record; None without one, or when it cannot be read: other topics are
    listed all the same."""
    try:
        record = await derived(store, path, partitioned_record)
    except NoNodeError:
        return None
    except RecordFormatError as error:
        log.warning("record of a partitioned topic is not readable error=%r", error)
        return None
    return int(record["partitions"]) if record is not None else None


async def _is_empty(store: MetadataStore, path: str) -> bool:
    try:
        value, _ = await store.get(path)
    except NoNodeError:
        return True
    return not value


class Changed(NamedTuple):
    """Topics that are new or have another number of partitions, with that number, and deleted topics."""

    known: dict[str, int]
    gone: set[str]


class TopicCatalog:
    """The topics of a metadata store, updated as it changes. Used on one event loop.

    ``known`` is what ``topics`` returns. It is updated by scope; ``paths.whose`` returns the scope of a changed path.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.known: dict[str, int] = {}
        self._store = store
        self._changes = follow(store)
        self._parts: dict[str, dict[str, int]] = {}
        self._everything = True
        self._stale: dict[str, None] = {}
        self._changed = Changed({}, set())

    @property
    def is_current(self) -> bool:
        """True when ``refresh`` would read and return nothing."""
        self._collect_changes()
        return not (self._everything or self._stale or self._changed.known or self._changed.gone)

    async def refresh(self) -> Changed:
        """Update ``known`` from the store; return what changed since the last call that returned.

        With a cached store the work is proportional to the number of changed namespaces. Store errors pass through;
        the next call continues with what was not read. Cancel-safe.
        """
        self._collect_changes()
        if self._everything or "" in self._stale:
            present = await scopes(self._store)
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

    def _collect_changes(self) -> None:
        """Collect the reported changes. Called before anything is read, so that later changes are left to the next
        call."""
        if self._changes is None:
            self._everything = True
        else:
            everything, stale = self._changes.take()
            self._everything |= everything
            self._stale |= stale
        if self._everything:
            self._stale[""] = None

    async def _refresh(self, scope: str) -> None:
        self._put(scope, await counted(self._store, scope))
        del self._stale[scope]

    def _put(self, scope: str, new: dict[str, int]) -> None:
        old = self._parts[scope]
        self._parts[scope] = new
        for name in old.keys() - new.keys():
            del self.known[name]
            self._changed.known.pop(name, None)
            self._changed.gone.add(name)
        for name, count in new.items():
            if old.get(name) != count:
                self.known[name] = self._changed.known[name] = count
                self._changed.gone.discard(name)
