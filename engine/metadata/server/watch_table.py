"""Watches of clients, and which of them a change fires.

As in ZooKeeper there are two tables: data watches (also of nodes that do not exist) and child watches. A persistent
watch is in both, a recursive one only among the data watches, so that it sees no CHILDREN_CHANGED. Invariant Z4.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from engine.metadata.server import acl as access
from engine.metadata.server.node_paths import ROOT
from engine.metadata.server.protocol import Acl, Event, EventType, Permission, WatcherKind
from engine.metadata.server.session_table import SessionClient

ONCE: Final = 1
PERSISTENT: Final = 2
RECURSIVE: Final = 4
"""Ways to watch a path, of which a client may use several at once; plain integers, as those of a flag are slow."""

_OF_CHILDREN = (EventType.CHILDREN_CHANGED, EventType.DELETED)
"""Events that fire child watches."""


class WatchTrigger(NamedTuple):
    """A change of a node that may fire watches. Only clients that may read the node, by ``acl``, get the event."""

    type: EventType
    path: str
    zxid: int
    acl: Acl


class WatchNotice(NamedTuple):
    """An event for a client."""

    client: SessionClient
    event: Event


class WatchLimitError(Exception):
    """A watch more than the server keeps."""


class WatchTable:
    """Watches of one kind, by path and by client, in about 150 bytes each.

    Most paths have one client, which is stored without a collection.
    """

    def __init__(self) -> None:
        self.size = 0
        """Pairs of client and path."""
        self.clients: dict[str, SessionClient | dict[SessionClient, None]] = {}
        self._modes: dict[SessionClient, dict[str, int]] = {}
        self.recursive = 0

    def add(self, path: str, client: SessionClient, mode: int) -> None:
        modes = self._modes.setdefault(client, {})
        before = modes.get(path, 0)
        self._set(path, client, modes, before, before | mode)

    def remove(self, path: str, client: SessionClient, mode: int | None) -> bool:
        """Remove one mode of watching, or all with None. Return whether there was one."""
        modes = self._modes.get(client)
        before = 0 if modes is None else modes.get(path, 0)
        after = 0 if mode is None else before & ~mode
        if modes is None or before == after:
            return False
        self._set(path, client, modes, before, after)
        return True

    def has(self, path: str, client: SessionClient, mode: int | None) -> bool:
        modes = self._modes.get(client, {}).get(path, 0)
        return bool(modes if mode is None else modes & mode)

    def remove_client(self, client: SessionClient) -> None:
        modes = self._modes.get(client)
        if modes is not None:
            for path, before in list(modes.items()):
                self._set(path, client, modes, before, 0)

    def may_fire(self, path: str) -> bool:
        """Return False when no client watches ``path``."""
        return path in self.clients or self.recursive > 0

    def fire(self, path: str) -> dict[SessionClient, None]:
        """Return the clients that watch ``path``, or recursively a node above it; those of mode ONCE end."""
        clients: dict[SessionClient, None] = {}
        for client in self._watching(path):
            clients[client] = None
            modes = self._modes[client]
            before = modes[path]
            self._set(path, client, modes, before, before & ~ONCE)
        if self.recursive:
            for above in _above(path):
                for client in self._watching(above):
                    if self._modes[client][above] & RECURSIVE:
                        clients[client] = None
        return clients

    def paths_count(self) -> int:
        return len(self.clients)

    def clients_count(self) -> int:
        return len(self._modes)

    def _watching(self, path: str) -> Sequence[SessionClient]:
        clients = self.clients.get(path, ())
        if isinstance(clients, SessionClient):
            return (clients,)
        return tuple(clients)

    def _enter(self, path: str, client: SessionClient) -> None:
        clients = self.clients.setdefault(path, client)
        if clients is client:
            return
        if isinstance(clients, SessionClient):
            clients = self.clients[path] = {clients: None}
        clients[client] = None

    def _leave(self, path: str, client: SessionClient) -> None:
        clients = self.clients[path]
        if isinstance(clients, dict):
            del clients[client]
        if clients is client or not clients:
            del self.clients[path]

    def _set(
        self, path: str, client: SessionClient, modes: dict[str, int], before: int, after: int
    ) -> None:
        self.recursive += bool(after & RECURSIVE) - bool(before & RECURSIVE)
        if after:
            modes[path] = after
            if not before:
                self.size += 1
                self._enter(path, client)
            return
        self.size -= 1
        del modes[path]
        if not modes:
            del self._modes[client]
        self._leave(path, client)


class Watches:
    """The watches of all clients, at most ``limit`` pairs of client, path and table."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = WatchTable()
        self._children = WatchTable()

    def size(self) -> int:
        return self._data.size + self._children.size

    def data_watches(self) -> tuple[int, int, int]:
        """Return the numbers of clients, paths and data watches, which ZooKeeper's ``wchs`` shows; quick."""
        return self._data.clients_count(), self._data.paths_count(), self._data.size

    def reserve(self, watches: int) -> None:
        """Raise WatchLimitError unless that many watches more fit."""
        if self.size() + watches > self._limit:
            raise WatchLimitError(f"the limit of {self._limit} watches is reached")

    def watch_data(self, path: str, client: SessionClient) -> None:
        """Watch the data or the existence of a node, once. Raises WatchLimitError."""
        self.reserve(1)
        self._data.add(path, client, ONCE)

    def watch_children(self, path: str, client: SessionClient) -> None:
        """Watch the children of a node, once. Raises WatchLimitError."""
        self.reserve(1)
        self._children.add(path, client, ONCE)

    def watch_always(self, path: str, client: SessionClient, recursive: bool) -> None:
        """Watch a path until the watch is removed or the client is gone. Raises WatchLimitError."""
        self.reserve(2)
        if recursive:
            self._data.add(path, client, RECURSIVE)
        else:
            self._data.add(path, client, PERSISTENT)
            self._children.add(path, client, PERSISTENT)

    def has(self, path: str, client: SessionClient, kind: WatcherKind) -> bool:
        """Return whether the client watches the path in this way."""
        return any(
            table.has(path, client, mode)
            for table, mode in self._of_kind(kind)
            # As in ZooKeeper a persistent watch counts among the data watches only.
            if table is self._data or kind is not WatcherKind.PERSISTENT
        )

    def remove(self, path: str, client: SessionClient, kind: WatcherKind) -> bool:
        """Remove the client's watches of this kind. Return whether there were any. It sends no event."""
        removed = [table.remove(path, client, mode) for table, mode in self._of_kind(kind)]
        return any(removed)

    def remove_client(self, client: SessionClient) -> None:
        """Remove all watches of a client that is gone."""
        self._data.remove_client(client)
        self._children.remove_client(client)

    def may_fire(self, path: str) -> bool:
        """Return False when no change of the node at ``path`` fires a watch."""
        data = self._data
        return path in data.clients or path in self._children.clients or data.recursive > 0

    def fire(self, triggers: list[WatchTrigger]) -> list[WatchNotice]:
        """Return the notices of changes, in order, and end the watches that fired once."""
        data, children = self._data, self._children
        notices: list[WatchNotice] = []
        for trigger in triggers:
            kind, path, _, _ = trigger
            # A client that watches data and children of a deleted node gets one event.
            clients: dict[SessionClient, None] = {}
            if kind is not EventType.CHILDREN_CHANGED and data.may_fire(path):
                clients |= data.fire(path)
            if kind in _OF_CHILDREN and children.may_fire(path):
                clients |= children.fire(path)
            if clients:
                notices += _notices(trigger, clients)
        return notices

    def _of_kind(self, kind: WatcherKind) -> list[tuple[WatchTable, int | None]]:
        data, children = self._data, self._children
        match kind:
            case WatcherKind.CHILDREN:
                return [(children, ONCE)]
            case WatcherKind.DATA:
                return [(data, ONCE)]
            case WatcherKind.PERSISTENT:
                return [(children, PERSISTENT), (data, PERSISTENT)]
            case WatcherKind.PERSISTENT_RECURSIVE:
                return [(data, RECURSIVE)]
            case WatcherKind.ANY:
                return [(children, None), (data, None)]


def _notices(trigger: WatchTrigger, clients: Iterable[SessionClient]) -> list[WatchNotice]:
    event = Event(trigger.type, trigger.path, trigger.zxid)
    return [
        WatchNotice(client, event)
        for client in clients
        if access.allows(trigger.acl, Permission.READ, client.identities)
    ]


def _above(path: str) -> Iterator[str]:
    """Yield the paths of the nodes above ``path``, the nearest first."""
    while path not in ("", ROOT):
        path = path.rpartition("/")[0] or ROOT
        yield path
