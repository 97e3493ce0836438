"""Interface of the metadata store: a versioned tree of small values with ephemerals, sequences, watches, sessions."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from engine.base.errors import MagnetarError, WorldError

ANY_VERSION = -1


class Stat(NamedTuple):
    """State of a node at the time of a read."""

    version: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    """Times of the creation and of the last change; 0 in a store without times (etcd)."""
    creation: int
    """Number of the creation: differs between nodes that exist one after the other at a path."""
    children_version: int | None
    """Number that grows with each child that is created or deleted; None in a store without it (etcd)."""


class NoNodeError(MagnetarError):
    """The path, or for a create its parent, does not exist. A parent that exists only as a part of its children's paths
    (see MetadataStore) is no reason for it."""


class NodeExistsError(MagnetarError):
    """The node to be created exists."""


class BadVersionError(MagnetarError):
    """A compare-and-set failed because the node changed since it was read; the caller reads it again."""


class NotEmptyError(MagnetarError):
    """The node to be deleted has children."""


class StoreUnavailableError(WorldError):
    """No answer in time, or a lost connection: whether the write happened is unknown."""


class SessionExpiredError(WorldError):
    """The session ended, and its ephemeral nodes are deleted."""


class SessionState(Enum):
    """State of a session.

    CONNECTED: proven by recent answers. SUSPENDED: not proven, ownership must be treated as lost. EXPIRED: ephemeral
    nodes are deleted.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


Found = tuple[bytes, Stat] | None
"""A node's value and state, None for a missing node."""

Watch = Callable[[str], None]
"""Callback of a watch, which receives the path."""


class MetadataStore(Protocol):
    """A session with the metadata store.

    Paths are absolute, ``/``-separated, relative to the store's chroot. Values are at most ``tree.VALUE_MAX`` bytes.

    Every store refuses to create a node without its parent, to create one below an ephemeral node, and to delete one
    that has children. On etcd another program (Apache Pulsar) writes nodes without their parents, and deletes parents
    of nodes. Such a parent is missing for ``get``, ``exists``, ``put`` and ``delete``, but its children are listed, and
    others can be created beside them. Not every store has times and counts of children's changes: see Stat.

    Every call may raise StoreUnavailableError or SessionExpiredError besides the errors it names. Calls are
    cancel-safe: a cancelled write may or may not have happened. Reads are linearizable unless they come from a cache.
    """

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """Id of the current session, to be compared with ``Stat.ephemeral_owner``."""
        ...

    @property
    def session_proven(self) -> bool:
        """True while the service cannot have ended this session yet, by the current time.

        While it is true, the session's ephemeral nodes exist. It remains true for some time in SUSPENDED, and becomes
        false before any client can see the nodes deleted.
        """
        ...

    @property
    def session_proven_until_s(self) -> float:
        """Time of the loop up to which ``session_proven`` holds without a further answer of the service, unless the
        session is ended before. It has no meaning while ``session_proven`` is false."""
        ...

    @property
    def connection(self) -> int:
        """Number that grows with each new connection of the session. A read's watch belongs to one connection."""
        ...

    # A read's ``watch`` is called on the event loop at most once, when the answer may have become invalid; this
    # includes the answer that the node is missing. Watches of a lost connection are never called. Several reads of a
    # path with the same watch are one watch. The ``children_version`` of a Stat is not watched.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Return a node's value and state. Raises NoNodeError."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return a node's state, None when it is missing.

        None is never older than the call, even when the server lags.
        """
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, sorted. Raises NoNodeError.

        On etcd this reads a thousand keys in each request, and the keys of all descendants but for the rest of those
        below the last child of each thousand.
        """
        ...

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        """Read several nodes and the sorted names of the children of ``parent``, as they were at one moment.

        A missing node is None; a missing ``parent`` has no names. It is one request, on etcd one for 64 nodes.
        """
        ...

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create and return the path. Raises NodeExistsError, NoNodeError.

        ``sequence`` appends a number of at least 10 digits, larger than those before it under the same parent while
        that exists; others may be left out. On etcd it is the version of the parent, which is written: a sequence's
        parent should have no value of its own.
        """
        ...

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        """Set an existing node's value and return its new state. Raises NoNodeError, BadVersionError."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        ...

    def unwatch(self, path: str, watch: Watch) -> None:
        """Remove the watch that was passed to reads of ``path``."""
        ...

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        """Call ``callback(path)`` on the event loop after each change of the node's value, existence or child list.

        It is also called after every reconnect, because changes may have been missed. Several changes may be one call.
        The returned function ends the watch.
        """
        ...

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop on each change of the session state; the returned function ends this."""
        ...

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes at once."""
        ...
