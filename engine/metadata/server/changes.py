"""Changes of the state: what the machine makes, the log stores and a start applies again.

Every change holds absolute values, so that applying one twice is applying it once. A snapshot may therefore be taken
while changes continue: those since its beginning are applied to it.
"""

from typing import NamedTuple, final

from engine.metadata.server.protocol import Acl


@final
class NodePut(NamedTuple):
    """A node with its whole state, except its children, which are other nodes."""

    path: str
    data: bytes | None
    acl: Acl
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int


@final
class DataSet(NamedTuple):
    """New data of an existing node."""

    path: str
    data: bytes | None
    mzxid: int
    mtime: int
    version: int


@final
class AclSet(NamedTuple):
    path: str
    acl: Acl
    aversion: int


@final
class ChildrenChanged(NamedTuple):
    """New counters of a parent, whose child was created or deleted by another change."""

    path: str
    cversion: int
    pzxid: int


@final
class NodeDeleted(NamedTuple):
    path: str


@final
class SessionOpened(NamedTuple):
    session_id: int
    timeout_ms: int
    password: bytes


@final
class SessionClosed(NamedTuple):
    """End of a session; the deletions of its ephemeral nodes are changes of their own, before it."""

    session_id: int


Change = NodePut | DataSet | AclSet | ChildrenChanged | NodeDeleted | SessionOpened | SessionClosed


class Transaction(NamedTuple):
    """Changes that take effect together, with their id and time. A failed write has no changes but an id."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]

    def paths(self) -> list[str]:
        """Return the paths of nodes whose state or children change; the root is ``/``."""
        return [
            change.path
            for change in self.changes
            if type(change) is not SessionOpened and type(change) is not SessionClosed
        ]
