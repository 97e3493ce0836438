"""A metadata store whose reads come from memory for as long as watches say that they are true.

What is kept of a path is one ``_Entry``, and a read is kept only by the entry that it was begun for: whatever may have
changed the node (an event of its watch, a write of ours, a broker at our request) puts another entry in its place, so
that a read under way is answered and thrown away. Watches are those of the reads: they fire once, and a node that
nobody asks for again is neither read nor watched again.

Everything is dropped when the connection is lost, and nothing is kept or served unless the session is CONNECTED.
"""

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar, cast

from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope
from engine.metadata import account, paths
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
"""About what a path costs beside its answers, its watch included."""
NAME_BYTES = 60
"""About what a text costs beside its characters."""

T = TypeVar("T")
S = TypeVar("S", bound=MetadataStore)


GET, EXISTS, CHILDREN = "get", "exists", "children"
"""Reads, plain texts because an Enum costs more to find in a dict than all else of a read from memory."""


class _Missing(Enum):
    """Answers that are no value."""

    UNKNOWN = "not kept"
    NO_NODE = "no such node"


UNKNOWN, NO_NODE = _Missing.UNKNOWN, _Missing.NO_NODE


class _Entry:
    """``answers`` by read, and what was made of them by the function that made it."""

    __slots__ = ("answers", "reads", "size")

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self.reads: dict[str, asyncio.Task[Any]] = {}
        self.size = ENTRY_BYTES


class StaleNamespaces:
    """Namespaces of which something that was read is kept no longer: it changed, had to make room, or is not known.
    An empty text stands for what belongs to none."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self.namespaces: dict[str, None] = {}
        self.everything = False

    def take(self) -> tuple[bool, dict[str, None]]:
        """Whether anything may have changed, or else the namespaces of which something has, since the last time."""
        self._look()
        taken = self.everything, self.namespaces
        self.everything, self.namespaces = False, {}
        return taken


class CachedStore:
    """A MetadataStore over ``store``, which it owns. At most ``entries_max`` paths and about ``bytes_max`` bytes are
    kept, those unused for longest go first.

    What this session wrote is seen by its next read (C2), what others wrote when their event has come: at once while
    the service answers, else when the session is SUSPENDED (C3). No read gives a value older than one given before
    (C1). Entries, bytes and watches are bounded (C4).
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
        found = self._kept(path, GET)
        if found is UNKNOWN:
            found = await self._read(path, GET)
        if found is NO_NODE:
            raise NoNodeError(path)
        return cast(tuple[bytes, Stat], found)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        if watch is not None:
            return await self._store.exists(path, watch)
        found = self._kept(path, EXISTS)
        if found is UNKNOWN:
            found = self._kept(path, GET)
            if found is UNKNOWN:
                found = await self._read(path, EXISTS)
            elif found is not NO_NODE:
                found = found[1]
        return None if found is NO_NODE else cast(Stat, found)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if watch is not None:
            return await self._store.children(path, watch)
        return list(await self._children(path))

    async def _children(self, path: str) -> tuple[str, ...]:
        found = self._kept(path, CHILDREN)
        if found is UNKNOWN:
            found = await self._read(path, CHILDREN)
        if found is NO_NODE:
            raise NoNodeError(path)
        return cast(tuple[str, ...], found)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        """Asks the service: what is read for once is not worth keeping."""
        return await self._store.get_all(paths, parent)

    async def derived(self, path: str, make: Callable[[bytes, str], T]) -> T:
        """See ``derived``."""
        found = self._kept(path, (GET, make))
        if found is UNKNOWN:
            value, _ = await self.get(path)
            found = make(value, path)
            self._keep_derived(path, GET, value, make, found)
        return cast(T, found)

    async def derived_children(self, path: str, make: Callable[[Sequence[str], str], T]) -> T:
        """See ``derived_children``."""
        found = self._kept(path, (CHILDREN, make))
        if found is UNKNOWN:
            names = await self._children(path)
            found = make(names, path)
            self._keep_derived(path, CHILDREN, names, make, found)
        return cast(T, found)

    def _keep_derived(self, path: str, read: str, source: Any, make: Any, made: Any) -> None:
        """If what it was made of is what is kept."""
        entry = self._entries.get(path)
        if entry is None:
            return
        kept = entry.answers.get(read)
        if (kept[0] if read is GET and isinstance(kept, tuple) else kept) is source:
            entry.answers[read, make] = made
            self._charge(entry, _size(source))

    def _live(self) -> bool:
        """Whether answers may be kept and served now; what an earlier connection's watches kept true is dropped."""
        if self._store.state is SessionState.CONNECTED and not self._tasks.closed:
            if self._store.connection == self._connection:
                return True
            self._connection = self._store.connection
            self._drop_all()
            return True
        if self._entries:
            self._drop_all()
        return False

    def _kept(self, path: str, key: Any) -> Any:
        if not self._live():
            return UNKNOWN
        entry = self._entries.get(path)
        if entry is None:
            return UNKNOWN
        self._entries.move_to_end(path)
        return entry.answers.get(key, UNKNOWN)

    async def _read(self, path: str, read: str) -> Any:
        """Ask the store; everyone who asks the same meanwhile waits for this answer. A caller that is cancelled leaves
        the others theirs."""
        if not self._live():
            self._tell_all()
            return await self._ask(path, read, None)
        entry = self._entries.get(path) or self._add(path)
        task = entry.reads.get(read)
        if task is None:
            work = self._read_for(entry, path, read)
            # not in the caller's context: the watch would keep alive what belongs to his request
            task = entry.reads[read] = self._context.run(self._tasks.spawn, read, work)
            self._topic_of(path)[path] = None
        answer = await asyncio.shield(task)
        if isinstance(answer, Exception):
            raise type(answer)(*answer.args) from answer  # each caller his own
        return answer

    async def _read_for(self, entry: _Entry, path: str, read: str) -> Any:
        """The answer, or the error that it raised: a task that fails must have somebody who sees it."""
        connection = self._store.connection
        try:
            answer = await self._ask(path, read, self._changed)
        except Exception as error:
            return error
        finally:
            del entry.reads[read]
        if self._live() and self._connection == connection and self._entries.get(path) is entry:
            if _agree(entry, read, answer):
                entry.answers[read] = answer
                self._charge(entry, _size(answer))
            else:
                self.forget_path(path)
        return answer

    async def _ask(self, path: str, read: str, watch: Watch | None) -> Any:
        try:
            if read == GET:
                return await self._store.get(path, watch)
            if read == CHILDREN:
                return tuple(await self._store.children(path, watch))
            found = await self._store.exists(path, watch)
            return NO_NODE if found is None else found
        except NoNodeError:
            return NO_NODE

    # What is kept

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
            self._store.unwatch(path, self._changed)

    def _changed(self, path: str) -> None:
        """The watch of a read of ``path`` fired; there is none now."""
        if path in self._entries:
            self._remove(path)

    def _remove(self, path: str) -> None:
        self._bytes -= self._entries.pop(path).size
        self._ungroup(path)

    def _topic_of(self, path: str) -> dict[str, None]:
        """Paths of the same topic, or of its namespace beside its topics, that have something to forget."""
        namespace, topic = paths.whose(path)
        return self._topics.setdefault(namespace, {}).setdefault(topic, {})

    def follow(self) -> "StaleNamespaces":
        """What changes from now on, for as long as this store lives."""
        self._followers.append(StaleNamespaces(self._live))
        return self._followers[-1]

    def _tell_all(self) -> None:
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
        """Of a lost connection: its watches are gone, too."""
        self._entries.clear()
        self._topics.clear()
        self._tell_all()
        self._bytes = 0

    def forget_path(self, path: str) -> None:
        """The next read asks the store. The watch stays with the place of the path."""
        entry = self._entries.get(path)
        if entry is not None and (entry.answers or entry.reads):
            new = self._entries[path] = _Entry()
            self._bytes += new.size - entry.size
            self._ungroup(path)

    def forget(self, namespace: NamespaceName, topic: TopicName | None = None) -> None:
        """See ``forget``. Costs what is dropped."""
        topics = self._topics.get(paths.whose(paths.local_policies(str(namespace)))[0], {})
        if topic is None or namespace.cluster is not None:
            chosen = list(topics)
        else:
            chosen = ["", paths.whose(paths.managed_ledger(topic.managed_ledger_name))[1]]
        for name in chosen:
            for path in list(topics.get(name, ())):
                if not path.startswith(paths.POLICIES):
                    self.forget_path(path)
        for path in paths.above_namespace(namespace.tenant):
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
        """The parents that were made are new children of theirs."""
        while path != "/":
            entry = self._entries.get(path)
            if entry is not None and any(said is not NO_NODE for said in entry.answers.values()):
                return
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
        """What the node holds, None when there is none: of a change by version, what it was decided by."""
        try:
            return (await self.get(path))[0]
        except NoNodeError:
            return None

    def _forget_written(self, path: str) -> None:
        """Also after a write that failed or was cancelled: it may have happened, or may yet."""
        self.forget_path(path)
        self.forget_path(parent_of(path))


def _size(answer: Any) -> int:
    """About how many bytes an answer takes."""
    match answer:
        case tuple((bytes() as value, Stat())):
            return len(value)
        case bytes():
            return len(answer)
        case tuple() if not isinstance(answer, Stat):
            return sum(map(len, answer)) + NAME_BYTES * len(answer)
    return 0


def _agree(entry: _Entry, read: str, answer: Any) -> bool:
    """Whether what two reads say of the node is of the same time: an event that one has overtaken is still to come."""
    if read == GET:
        stat = answer if answer is NO_NODE else answer[1]
        return bool(entry.answers.get(EXISTS, stat) == stat)
    known = entry.answers.get(GET, UNKNOWN)
    if read == CHILDREN or known is UNKNOWN:
        return True
    return bool((known if known is NO_NODE else known[1]) == answer)


# For any store: a plain one keeps nothing.


async def derived(store: MetadataStore, path: str, make: Callable[[bytes, str], T]) -> T:
    """``make(value, path)``, made once for as long as the node's value is kept: not to be changed by who gets it.

    ``make`` is a function of a module, by which its results are told apart. Raises NoNodeError, and what it raises.
    """
    if isinstance(store, CachedStore):
        return await store.derived(path, make)
    return make((await store.get(path))[0], path)


async def derived_children(
    store: MetadataStore, path: str, make: Callable[[Sequence[str], str], T]
) -> T:
    """As ``derived``, of the sorted names of the children."""
    if isinstance(store, CachedStore):
        return await store.derived_children(path, make)
    return make(await store.children(path), path)


def fresh(store: S, *paths: str) -> S:
    """``store``, whose next read of each of ``paths`` asks the service: for what must not be decided by something that
    another client may have changed just now."""
    if isinstance(store, CachedStore):
        for path in paths:
            store.forget_path(path)
    return store


def forget(store: MetadataStore, namespace: NamespaceName, topic: TopicName | None = None) -> None:
    """A broker may have changed what it stores of ``topic`` and its namespace, or without ``topic`` of all topics in
    it: the next reads ask the service. Tenants, clusters and policies of namespaces stay: brokers do not write them."""
    if isinstance(store, CachedStore):
        store.forget(namespace, topic)
