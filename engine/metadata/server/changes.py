"""Changes of the state: what the machine makes, the log stores and a start applies again.

Every change holds absolute values, so that applying one twice is applying it once. A snapshot may therefore be taken
while changes go on: those since its beginning are applied to it.
"""

from typing import NamedTuple

from engine.metadata.server.protocol import Acl


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


class DataSet(NamedTuple):
    """New data of an existing node."""

    path: str
    data: bytes | None
    mzxid: int
    mtime: int
    version: int


class AclSet(NamedTuple):
    path: str
    acl: Acl
    aversion: int


class ChildrenChanged(NamedTuple):
    """New counters of a parent, whose child was created or deleted by another change."""

    path: str
    cversion: int
    pzxid: int


class NodeDeleted(NamedTuple):
    path: str


class SessionOpened(NamedTuple):
    session_id: int
    timeout_ms: int
    password: bytes


class SessionClosed(NamedTuple):
    """End of a session; the deletions of its ephemeral nodes are changes of their own, before it."""

    session_id: int


Change = NodePut | DataSet | AclSet | ChildrenChanged | NodeDeleted | SessionOpened | SessionClosed


class Transaction(NamedTuple):
    """Changes that take effect together, with their id and time. A failed write has no changes but an id."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]
