"""Metadata store that serves reads from memory while watches guarantee that they are current.

The answers of a path are cached in one ``_Entry``, and a read is cached only by the entry for which it began. Any
possible change of the node (an event of its watch, our own write, a broker's write on our request) replaces or removes
the entry. The answer of a read that is in flight then is returned but not cached. Watches are set by the reads and fire
once, so that a node that is not read again is not watched again either.

All entries are dropped when the connection is lost, and none are stored or served unless the session is CONNECTED.
"""

import asyncio
import contextvars
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar, cast

from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope
from engine.metadata import account, paths
from engine.metadata.apart.routed import RoutedStore, store_at
from engine.metadata.store import (
    ANY_VERSION,
    Found,
    MetadataStore,
    NoNodeError,
    SessionState,
    Stat,
    Watch,
)
from engine.metadata.tree import parent_of

ENTRIES_MAX = 50_000
BYTES_MAX = 128 << 20
ENTRY_BYTES = 1_600
"""Approximate memory of an entry without its answers, including its watch."""
NAME_BYTES = 60
"""Approximate memory of a text without its characters."""
KEPT_MAX = 16
"""Objects of ``kept``; the least recently used one is dropped for another."""

T = TypeVar("T")
S = TypeVar("S", bound=MetadataStore)


GET, EXISTS, CHILDREN = "get", "exists", "children"
"""Kinds of reads. They are plain texts, because looking up an Enum in a dict costs more than the rest of a cached
read."""


class _Missing(Enum):
    """Results that are not a node's value."""

    UNKNOWN = "not cached"
    NO_NODE = "no such node"


UNKNOWN, NO_NODE = _Missing.UNKNOWN, _Missing.NO_NODE


class _Entry:
    """Cached ``answers`` of a path by kind of read, and values derived from them by (kind, function)."""

    __slots__ = ("answers", "reads", "size")

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self.reads: dict[str, asyncio.Task[Any]] = {}
        self.size = ENTRY_BYTES


class StaleNamespaces:
    """Namespaces with entries that were removed from the cache, because of a change or of the bounds.

    An empty text stands for paths that belong to no namespace. ``everything`` is set when any node may have changed.
    ``refresh``: check of each cache for a lost connection.
    """

    def __init__(self, *refresh: Callable[[], object]) -> None:
        self._refresh = refresh
        self.namespaces: dict[str, None] = {}
        self.everything = False

    def take(self) -> tuple[bool, dict[str, None]]:
        """Return and reset ``everything`` and ``namespaces``."""
        # A lost connection is noticed only when it is checked, and drops all entries.
        for refresh in self._refresh:
            refresh()
        taken = self.everything, self.namespaces
        self.everything, self.namespaces = False, {}
        return taken


class CachedStore:
    """Cache over ``store``, which it owns; implements MetadataStore.

    At most ``entries_max`` paths and about ``bytes_max`` bytes are cached; the least recently used are removed first.
    The next read returns what this session wrote (C2). It returns other sessions' writes once their event has arrived:
    at once while the service answers, otherwise when the session becomes SUSPENDED (C3). No read returns a value older
    than an earlier read did (C1). Entries, bytes and watches are bounded (C4).
    """

    def __init__(
        self, store: MetadataStore, *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self._store = store
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._connection = store.connection
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._topics: dict[str, dict[str, dict[str, None]]] = {}
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._tasks = TaskScope("metadata-cache")
        self._context = contextvars.copy_context()
        self._followers: list[StaleNamespaces] = []

    # The session

    @property
    def state(self) -> SessionState:
        return self._store.state

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def session_proven(self) -> bool:
        return self._store.session_proven

    @property
    def session_proven_until_s(self) -> float:
        return self._store.session_proven_until_s

    @property
    def connection(self) -> int:
        return self._store.connection

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        return self._store.on_state(callback)

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        return self._store.watch(path, callback)

    def unwatch(self, path: str, watch: Watch) -> None:
        self._store.unwatch(path, watch)

    async def close(self) -> None:
        await self._tasks.close()
        self._drop_all()
        await self._store.close()

    # Reads

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        if watch is not None:
            return await self._store.get(path, watch)
        answer = self._cached(path, GET)
        if answer is UNKNOWN:
            answer = await self._read(path, GET)
        if answer is NO_NODE:
            raise NoNodeError(path)
        return cast(tuple[bytes, Stat], answer)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        if watch is not None:
            return await self._store.exists(path, watch)
        answer = self._cached(path, EXISTS)
        if answer is UNKNOWN:
            answer = self._cached(path, GET)
            if answer is UNKNOWN:
                answer = await self._read(path, EXISTS)
            elif answer is not NO_NODE:
                answer = answer[1]
        return None if answer is NO_NODE else cast(Stat, answer)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if watch is not None:
            return await self._store.children(path, watch)
        return list(await self._children(path))

    async def _children(self, path: str) -> tuple[str, ...]:
        answer = self._cached(path, CHILDREN)
        if answer is UNKNOWN:
            answer = await self._read(path, CHILDREN)
        if answer is NO_NODE:
            raise NoNodeError(path)
        return cast(tuple[str, ...], answer)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        """Read from the service; these answers are not cached, because they are read only once."""
        return await self._store.get_all(paths, parent)

    async def derived(self, path: str, make: Callable[[bytes, str], T]) -> T:
        """See ``derived``."""
        result = self._cached(path, (GET, make))
        if result is UNKNOWN:
            value, _ = await self.get(path)
            result = make(value, path)
            self._cache_derived(path, GET, value, make, result)
        return cast(T, result)

    async def derived_children(self, path: str, make: Callable[[Sequence[str], str], T]) -> T:
        """See ``derived_children``."""
        result = self._cached(path, (CHILDREN, make))
        if result is UNKNOWN:
            names = await self._children(path)
            result = make(names, path)
            self._cache_derived(path, CHILDREN, names, make, result)
        return cast(T, result)

    def kept(self, path: str, make: Callable[[], T]) -> T:
        """See ``kept``."""
        if not self._live():
            return make()
        key = path, make
        if key not in self._kept:
            if len(self._kept) >= KEPT_MAX:
                self._kept.popitem(last=False)
            self._kept[key] = make()
        self._kept.move_to_end(key)
        return cast(T, self._kept[key])

    def _cache_derived(self, path: str, read: str, source: Any, make: Any, result: Any) -> None:
        """Cache a derived value if its source is still the cached answer."""
        entry = self._entries.get(path)
        if entry is None:
            return
        answer = entry.answers.get(read)
        if (answer[0] if read is GET and isinstance(answer, tuple) else answer) is source:
            entry.answers[read, make] = result
            self._charge(entry, _size(source))

    def _live(self) -> bool:
        """Return whether answers may be cached and served now; drop all entries of an earlier connection."""
        if self._store.state is SessionState.CONNECTED and not self._tasks.closed:
            if self._store.connection == self._connection:
                return True
            self._connection = self._store.connection
            self._drop_all()
            return True
        if self._entries:
            self._drop_all()
        return False

    def _cached(self, path: str, key: Any) -> Any:
        if not self._live():
            return UNKNOWN
        entry = self._entries.get(path)
        if entry is None:
            return UNKNOWN
        self._entries.move_to_end(path)
        return entry.answers.get(key, UNKNOWN)

    async def _read(self, path: str, read: str) -> Any:
        """Read from the store; concurrent callers of the same read share its answer.

        Cancelling one caller does not cancel the read for the others.
        """
        if not self._live():
            self._mark_everything()
            return await self._read_store(path, read, None)
        entry = self._entries.get(path) or self._add(path)
        task = entry.reads.get(read)
        if task is None:
            work = self._read_for(entry, path, read)
            # Not in the caller's context, which the watch would keep alive beyond the caller's request.
            task = entry.reads[read] = self._context.run(self._tasks.spawn, read, work)
            self._topic_of(path)[path] = None
        answer = await asyncio.shield(task)
        if isinstance(answer, Exception):
            raise type(answer)(*answer.args) from answer  # a separate exception for each caller
        return answer

    async def _read_for(self, entry: _Entry, path: str, read: str) -> Any:
        """Return the answer, or the exception that the read raised.

        The exception is returned, because all callers may be cancelled and a failed task must be retrieved by one.
        """
        connection = self._store.connection
        try:
            answer = await self._read_store(path, read, self._changed)
        except Exception as error:
            return error
        finally:
            del entry.reads[read]
        # Cached only if no change was noticed during the read (C1) and its watch belongs to this connection (C3).
        if self._live() and self._connection == connection and self._entries.get(path) is entry:
            if _agree(entry, read, answer):
                entry.answers[read] = answer
                self._charge(entry, _size(answer))
            else:
                self.forget_path(path)
        return answer

    async def _read_store(self, path: str, read: str, watch: Watch | None) -> Any:
        try:
            if read == GET:
                return await self._store.get(path, watch)
            if read == CHILDREN:
                return tuple(await self._store.children(path, watch))
            stat = await self._store.exists(path, watch)
            return NO_NODE if stat is None else stat
        except NoNodeError:
            return NO_NODE

    # Entries

    def _add(self, path: str) -> _Entry:
        entry = self._entries[path] = _Entry()
        self._bytes += entry.size
        self._shrink()
        return entry

    def _charge(self, entry: _Entry, size: int) -> None:
        entry.size += size
        self._bytes += size
        self._shrink()

    def _shrink(self) -> None:
        while len(self._entries) > self._entries_max or (
            self._bytes > self._bytes_max and len(self._entries) > 1
        ):
            path = next(iter(self._entries))
            self._remove(path)
            self._store.unwatch(path, self._changed)  # watches are bounded on the server too (C4)

    def _changed(self, path: str) -> None:
        """Remove the entry of a path whose watch fired; the path has no watch then."""
        if path in self._entries:
            self._remove(path)

    def _remove(self, path: str) -> None:
        self._bytes -= self._entries.pop(path).size
        self._ungroup(path)

    def _topic_of(self, path: str) -> dict[str, None]:
        """Return the cached paths of the same topic, or of the same namespace for paths of no topic."""
        namespace, topic = paths.whose(path)
        return self._topics.setdefault(namespace, {}).setdefault(topic, {})

    def follow(self, changes: "StaleNamespaces") -> None:
        """Record changes in ``changes`` from now on, for the lifetime of this store."""
        self._followers.append(changes)

    def _mark_everything(self) -> None:
        for follower in self._followers:
            follower.everything = True

    def _ungroup(self, path: str) -> None:
        namespace, topic = paths.whose(path)
        for follower in self._followers:
            follower.namespaces[namespace] = None
        topics = self._topics.get(namespace)
        group = topics.get(topic) if topics is not None else None
        if topics is None or group is None:
            return
        group.pop(path, None)
        if not group:
            del topics[topic]
            if not topics:
                del self._topics[namespace]

    def _drop_all(self) -> None:
        """Drop all entries of a lost connection, whose watches are lost as well."""
        self._entries.clear()
        self._topics.clear()
        self._kept.clear()
        self._mark_everything()
        self._bytes = 0

    def forget_path(self, path: str) -> None:
        """Let the next read of ``path`` ask the store.

        An empty entry replaces the old one, because the path's watch remains set and is bounded through the entries
        (C4).
        """
        entry = self._entries.get(path)
        if entry is not None and (entry.answers or entry.reads):
            new = self._entries[path] = _Entry()
            self._bytes += new.size - entry.size
            self._ungroup(path)

    def forget(self, namespace: NamespaceName, topic: TopicName | None = None) -> None:
        """See ``forget``. The cost is proportional to the number of dropped entries."""
        group = paths.whose(paths.local_policies(str(namespace)))[0]
        topics = self._topics.get(group, {})
        if topic is None or namespace.cluster is not None:
            chosen = list(topics)
        else:
            chosen = ["", paths.whose(paths.managed_ledger(topic.managed_ledger_name))[1]]
        for name in chosen:
            for path in list(topics.get(name, ())):
                if not path.startswith(paths.POLICIES):
                    self.forget_path(path)
        for path, child in paths.above_namespace(group):
            entry = self._entries.get(path)
            # Brokers create what is missing above a namespace, and delete nothing there: a list that has the child
            # is not changed by them.
            if entry is not None and not _has_child(entry, child):
                self.forget_path(path)

    # Writes

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        try:
            created = await self._store.create(
                path, value, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
            )
        finally:
            if make_parents:
                self._forget_above_missing(parent_of(path))
            self._forget_written(path)
        self.forget_path(created)
        if (accounted := account.current()) is not None:
            accounted.add(created, None, value)
        return created

    def _forget_above_missing(self, path: str) -> None:
        """Forget the ancestors that a create may have created, which changes the children of their parents."""
        while path != "/":
            entry = self._entries.get(path)
            if entry is not None and any(a is not NO_NODE for a in entry.answers.values()):
                return  # cached as existing: it was not created
            path = parent_of(path)
            self.forget_path(path)

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        accounted = account.current()
        before = None if accounted is None else await self._value(path)
        try:
            stat = await self._store.put(path, value, version)
        finally:
            self._forget_written(path)
        if accounted is not None:
            accounted.add(path, before, value)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        accounted = account.current()
        before = None if accounted is None else await self._value(path)
        try:
            await self._store.delete(path, version)
        finally:
            self._forget_written(path)
        if accounted is not None:
            accounted.add(path, before, None)

    async def _value(self, path: str) -> bytes | None:
        """Return a node's value, None without a node.

        For a change by version, this is the value that the change was based on.
        """
        try:
            return (await self.get(path))[0]
        except NoNodeError:
            return None

    def _forget_written(self, path: str) -> None:
        """Forget a written path and its parent (C2), also after a failed or cancelled write, which may take effect."""
        self.forget_path(path)
        self.forget_path(parent_of(path))
        # A change of a child shows in the list of children; a change further below may concern what is kept (C2).
        for key in [key for key in self._kept if _is_far_below(path, key[0])]:
            del self._kept[key]


def _is_far_below(path: str, ancestor: str) -> bool:
    """Return whether the path is below a child of ``ancestor``."""
    return path.startswith(f"{ancestor}/") and "/" in path[len(ancestor) + 1 :]


def _has_child(entry: _Entry, name: str) -> bool:
    """Return whether the cached names of a node's children, which are sorted, have ``name``."""
    names = entry.answers.get(CHILDREN)
    if not isinstance(names, tuple):  # not cached, or there is no node
        return False
    index = bisect_left(names, name)
    return index < len(names) and names[index] == name


def _size(answer: Any) -> int:
    """Return the approximate size of an answer in bytes."""
    match answer:
        case tuple((bytes() as value, Stat())):
            return len(value)
        case bytes():
            return len(answer)
        case tuple() if not isinstance(answer, Stat):
            return sum(map(len, answer)) + NAME_BYTES * len(answer)
    return 0


def _agree(entry: _Entry, read: str, answer: Any) -> bool:
    """Return whether an answer agrees with the entry's answer to another read of the same node.

    They differ when the node changed between the reads and its event has not arrived yet.
    """
    if read == GET:
        stat = answer if answer is NO_NODE else answer[1]
        return bool(entry.answers.get(EXISTS, stat) == stat)
    known = entry.answers.get(GET, UNKNOWN)
    if read == CHILDREN or known is UNKNOWN:
        return True
    return bool((known if known is NO_NODE else known[1]) == answer)


# Functions for any MetadataStore; only a CachedStore caches.


async def derived(store: MetadataStore, path: str, make: Callable[[bytes, str], T]) -> T:
    """Return ``make(value, path)``, which is computed once while the node's value is cached.

    Callers share the result and must not change it. ``make`` must be a function of a module, because it is part of the
    cache's key. Raises NoNodeError, and the errors of ``make``.
    """
    if isinstance(store, RoutedStore):
        with store.naming(path):
            return await derived(store.at(path), path, make)
    if isinstance(store, CachedStore):
        return await store.derived(path, make)
    return make((await store.get(path))[0], path)


async def derived_children(
    store: MetadataStore, path: str, make: Callable[[Sequence[str], str], T]
) -> T:
    """Return ``make(names, path)`` of the sorted names of the children; see ``derived``."""
    if isinstance(store, RoutedStore):
        with store.naming(path):
            return await derived_children(store.at(path), path, make)
    if isinstance(store, CachedStore):
        return await store.derived_children(path, make)
    return make(await store.children(path), path)


def kept(store: MetadataStore, path: str, make: Callable[[], T]) -> T:
    """Return the object of ``make`` that is kept for a path as long as the connection lasts, for callers that remember
    more nodes than are cached. Nothing changes it when a node changes: its owner checks what it remembers. Without a
    cache or a connection it is a new one. ``make`` must be a function of a module, as for ``derived``."""
    at_path = store_at(store, path)
    return at_path.kept(path, make) if isinstance(at_path, CachedStore) else make()


def fresh(store: S, *paths: str) -> S:
    """Return ``store``, after making its next read of each of ``paths`` ask the service.

    For decisions that must not rely on a value which another client may have just changed.
    """
    for path in paths:
        at_path = store_at(store, path)
        if isinstance(at_path, CachedStore):
            at_path.forget_path(path)
    return store


def forget(store: MetadataStore, namespace: NamespaceName, topic: TopicName | None = None) -> None:
    """Let the next reads of records that a broker may have changed ask the service.

    These are the records of ``topic`` and its namespace, or of all topics in the namespace without ``topic``. Tenants,
    clusters and policies of namespaces remain cached, because brokers do not write them.
    """
    for cache in _caches(store):
        cache.forget(namespace, topic)


def follow(store: MetadataStore) -> StaleNamespaces | None:
    """Return an object that records changes from now on, for the lifetime of ``store``; None without a cache."""
    caches = _caches(store)
    if not caches:
        return None
    changes = StaleNamespaces(*(cache._live for cache in caches))
    for cache in caches:
        cache.follow(changes)
    return changes


def _caches(store: MetadataStore) -> list[CachedStore]:
    stores = store.stores if isinstance(store, RoutedStore) else (store,)
    return [cache for cache in stores if isinstance(cache, CachedStore)]
