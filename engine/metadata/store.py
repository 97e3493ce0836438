"""Metadata store seam: a versioned tree of small values with ephemerals, sequences, watches and sessions."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from engine.base.errors import MagnetarError, WorldError

ANY_VERSION = -1


class Stat(NamedTuple):
    """Facts of a node at the time of a read."""

    version: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    children: int
    children_version: int
    """Rises with each child that is made or deleted."""


class NoNodeError(MagnetarError):
    """The path, or for a create its parent, does not exist."""


class NodeExistsError(MagnetarError):
    """A create met an existing node."""


class BadVersionError(MagnetarError):
    """Compare-and-set lost: the node changed since it was read. Read again and decide again."""


class NotEmptyError(MagnetarError):
    """A delete met children."""


class StoreUnavailableError(WorldError):
    """No answer in time, or the connection was lost: whether the write happened is unknown."""


class SessionExpiredError(WorldError):
    """The session is gone, and its ephemeral nodes with it."""


class SessionState(Enum):
    """CONNECTED: proven. SUSPENDED: not proven, treat ownership as lost. EXPIRED: ephemerals are gone."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


Found = tuple[bytes, Stat] | None
"""A node's value, None where there is no node."""

Watch = Callable[[str], None]
"""Called with a path."""


class MetadataStore(Protocol):
    """Paths are absolute, ``/``-separated, relative to the store's chroot. Values are bytes up to 1 MiB.

    Every call may raise StoreUnavailableError or SessionExpiredError besides what it names. Cancel-safe:
    a cancelled write may or may not have happened. Reads are linearizable unless they come from a cache.
    """

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """Id of the present session; compare with ``Stat.ephemeral_owner``."""
        ...

    @property
    def session_proven(self) -> bool:
        """Whether the service cannot have ended this session yet, judged by the clock at this moment: what its
        ephemeral nodes stand for still holds. True for a while when SUSPENDED; false before anyone sees them gone."""
        ...

    @property
    def connection(self) -> int:
        """Grows whenever the session is connected anew. The watches of reads are those of one connection."""
        ...

    # A read's ``watch`` is called on the event loop at most once: when the answer, also that there is no node, may hold
    # no longer. Watches of a lost connection are never called. Several reads of a path with the same one are one watch.
    # The children of a Stat are not watched: they are as many as at the read.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Raises NoNodeError."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """None is no older than the call, whichever server is asked."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names of children, sorted. Raises NoNodeError."""
        ...

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        """The values of several nodes, then the names of the children of ``parent``, sorted, in one request. None, or
        no names, stands for a node that is missing."""
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
        """Create and return the path (10 digits appended when ``sequence``). Raises NodeExistsError, NoNodeError."""
        ...

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        """Set an existing node's value; what is true of the node then. Raises NoNodeError, BadVersionError."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises NoNodeError, BadVersionError, NotEmptyError."""
        ...

    def unwatch(self, path: str, watch: Watch) -> None:
        """The watch that reads of ``path`` were given is not wanted any more."""
        ...

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        """Call ``callback(path)`` on the event loop after the node's value, existence or child list changed, and after
        every reconnect (changes may have been missed). Lasts until the returned function is called. May coalesce."""
        ...

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop on each session state change; returns how to stop it."""
        ...

    async def close(self) -> None:
        """End the session; its ephemerals go at once."""
        ...
