"""Metadata of an Apache Pulsar cluster as its REST interface states them, in the layout of a metadata store.

What services read of tenants, namespaces, topics, brokers and bookies is the same for both sources. A change of the
store is a call of the REST interface, where there is one (``changes``), and is refused otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from engine.base.errors import Unsupported
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Found,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    Stat,
    Watch,
)
from engine.metadata.tree import Tree, check_path, parent_of
from gateway.services.clock import now_ms


class StoreChange(NamedTuple):
    """A write of a service: the value before and after it, None without a node."""

    path: str
    before: bytes | None
    after: bytes | None


class MirrorStore:
    """The tree, for one event loop; implements MetadataStore. ``perform`` carries a change out at the cluster, and
    raises Refusal; the tree has it afterwards."""

    state = SessionState.CONNECTED
    """Old figures stay readable while the cluster does not answer; ``ClusterSource.check`` reports that it does not."""
    session_id = 1
    session_proven = True
    session_proven_until_s = float("inf")
    connection = 1

    def __init__(self, perform: Callable[[StoreChange], Awaitable[None]]) -> None:
        self._tree = Tree()
        self._perform = perform
        self._read_watches: dict[str, dict[Watch, None]] = {}
        self._watches: dict[str, list[Watch]] = {}

    # Reads

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        self._add_watch(path, watch)
        return self._tree.get(path)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        self._add_watch(path, watch)
        return self._tree.exists(path)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._add_watch(path, watch)
        return self._tree.children(path)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        nodes: list[Found] = [
            self._tree.get(path) if self._tree.exists(path) is not None else None for path in paths
        ]
        is_there = parent is not None and self._tree.exists(parent) is not None
        return nodes, self._tree.children(parent) if is_there and parent is not None else []

    def _add_watch(self, path: str, watch: Watch | None) -> None:
        check_path(path)
        if watch is not None:
            self._read_watches.setdefault(path, {})[watch] = None

    def unwatch(self, path: str, watch: Watch) -> None:
        self._read_watches.get(path, {}).pop(watch, None)

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        self._watches.setdefault(path, []).append(callback)
        return lambda: self._watches[path].remove(callback)

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        return lambda: None  # the state never changes

    async def close(self) -> None:
        self._read_watches.clear()
        self._watches.clear()

    # Changes by services

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        if ephemeral or sequence:
            raise Unsupported("An Apache Pulsar cluster has no nodes of this console")
        if self._tree.exists(path) is not None:
            raise NodeExistsError(path)
        if not make_parents and self._tree.exists(parent_of(path)) is None:
            raise NoNodeError(parent_of(path))
        await self._perform(StoreChange(path, None, value))
        self.set(path, value)
        return path

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        before, stat = self._tree.get(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersionError(path)
        if before != value:
            await self._perform(StoreChange(path, before, value))
        self.set(path, value)
        return self._tree.get(path)[1]

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        before, stat = self._tree.get(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersionError(path)
        if self._tree.children(path):
            raise NotEmptyError(path)
        await self._perform(StoreChange(path, before, None))
        self.remove(path)

    # Reports of the cluster

    def set(self, path: str, value: bytes) -> None:
        """Note that a node has this value."""
        at = now_ms()
        if self._tree.exists(path) is None:
            missing = []
            parent = parent_of(path)
            while self._tree.exists(parent) is None:
                missing.append(parent)
                parent = parent_of(parent)
            for name in reversed(missing):
                self._notify(self._tree.create(name, b"", 0, False, at)[1])
            self._notify(self._tree.create(path, value, 0, False, at)[1])
        elif self._tree.get(path)[0] != value:
            self._notify(self._tree.put(path, value, ANY_VERSION, at)[1])

    def remove(self, path: str) -> None:
        """Note that a node and all below it are gone."""
        if self._tree.exists(path) is None:
            return
        for name in self._tree.children(path):
            self.remove(f"{path}/{name}")
        self._notify(self._tree.delete(path, ANY_VERSION))

    def replace_children(self, path: str, values: Mapping[str, bytes]) -> None:
        """Note that a node has exactly these children."""
        self.set_parent(path)
        for name in self._tree.children(path):
            if name not in values:
                self.remove(f"{path}/{name}")
        for name, value in values.items():
            self.set(f"{path}/{name}", value)

    def keep_children(self, path: str, names: Sequence[str]) -> None:
        """Note that a node has no other children than these."""
        self.set_parent(path)
        for name in set(self._tree.children(path)) - set(names):
            self.remove(f"{path}/{name}")

    def set_parent(self, path: str) -> None:
        """Note that a node exists, whatever its value."""
        if self._tree.exists(path) is None:
            self.set(path, b"")

    def _notify(self, paths: Sequence[str]) -> None:
        for path in paths:
            for watch in self._read_watches.pop(path, ()):
                watch(path)
            for callback in list(self._watches.get(path, ())):
                callback(path)
