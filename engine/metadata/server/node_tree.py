"""The tree of nodes: their state, changed by ``NodeTree.apply`` only, in service and at a start (invariant Z2)."""

from enum import Enum

from engine.metadata.server.changes import (
    AclSet,
    ChildrenChanged,
    DataSet,
    NodeDeleted,
    NodePut,
)
from engine.metadata.server.node_paths import ROOT, join, split
from engine.metadata.server.protocol import OPEN_ACL, Acl, AclEntry, Permission, Stat

CONTAINER_OWNER = -(1 << 63)
_TTL_OWNER = -(1 << 56)
"""0xff in the highest byte; the two bytes after it are the kind of the extension, of which TTL is 0."""
TTL_MAX_MS = (1 << 40) - 1

READ_ACL: Acl = (AclEntry(Permission.READ, "world", "anyone"),)

TreeChange = NodePut | DataSet | AclSet | ChildrenChanged | NodeDeleted


class OwnerKind(Enum):
    """Meaning of a node's owner field."""

    NONE = "none"
    SESSION = "session"
    CONTAINER = "container"
    TTL = "ttl"


def ttl_owner(ttl_ms: int) -> int:
    """Return the owner field of a node with a time to live of 1 to TTL_MAX_MS."""
    return _TTL_OWNER | ttl_ms


def ttl_of(owner: int) -> int:
    """Return the time to live in ms that an owner field of kind TTL encodes."""
    return owner & TTL_MAX_MS


def owner_kind(owner: int) -> OwnerKind:
    """Return the kind of an owner field. Ids of sessions have another highest byte than 0xff."""
    if owner == 0:
        return OwnerKind.NONE
    if owner == CONTAINER_OWNER:
        return OwnerKind.CONTAINER
    return OwnerKind.TTL if _TTL_OWNER <= owner < 0 else OwnerKind.SESSION


def signed32(value: int) -> int:
    """Return ``value`` as a signed 32-bit number, which wraps around."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class CorruptTreeError(Exception):
    """Changes that do not make a tree."""


class ZNode:
    """State of a node; the fields of NodePut and the names of its children, None when it has none."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    data: bytes | None
    children: dict[str, None] | None

    def set(self, change: NodePut, acl: Acl) -> None:
        """Take the state of ``change``, except the children; ``acl`` is its ACL, shared between nodes."""
        (
            _,
            self.data,
            _,
            self.czxid,
            mzxid,
            self.ctime,
            mtime,
            self.version,
            self.cversion,
            self.aversion,
            self.owner,
            pzxid,
        ) = change
        self.acl = acl
        # Most nodes never change: one object for equal numbers saves up to 96 bytes a node.
        self.mzxid = self.czxid if mzxid == self.czxid else mzxid
        self.mtime = self.ctime if mtime == self.ctime else mtime
        self.pzxid = self.czxid if pzxid == self.czxid else pzxid

    def put(self, path: str) -> NodePut:
        """Return the change that makes this node at ``path``, without its children."""
        return NodePut(
            path,
            self.data,
            self.acl,
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.cversion,
            self.aversion,
            self.owner,
            self.pzxid,
        )

    def stat(self) -> Stat:
        """Return the state that clients see."""
        owner = self.owner
        children = 0 if self.children is None else len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            # The field counts creations; clients see creations and deletions.
            signed32(2 * self.cversion - children),
            self.aversion,
            0 if owner == 0 or owner_kind(owner) is not OwnerKind.SESSION else owner,
            _size(self.data),
            children,
            self.pzxid,
        )


class NodeTree:
    """Nodes by path, and the paths of ephemeral, container and TTL nodes.

    A parent is in ``nodes`` before its children. The root is there twice, as ``/`` and ``""``.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, ZNode] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        """Paths by session id."""
        self.containers: dict[str, None] = {}
        self.ttls: dict[str, None] = {}
        self.data_bytes = 0
        """Total length of the nodes' paths and data."""
        self._acls: dict[Acl, SharedAcl] = {}
        for path in (ROOT, "/zookeeper", "/zookeeper/quota"):
            self.apply(_initial(path, OPEN_ACL, 0))
        self.apply(_initial("/zookeeper/config", READ_ACL, -1))

    def apply(self, change: TreeChange) -> None:
        """Make a change. Made twice it is made once; what it concerns may be missing, as in a fuzzy snapshot."""
        if type(change) is NodePut:
            self._put(change)
        elif type(change) is NodeDeleted:
            self._delete(change.path)
        elif (node := self.nodes.get(change.path)) is None:
            pass  # A later change, which the snapshot has already, deleted it.
        elif type(change) is DataSet:
            self.data_bytes += _size(change.data) - _size(node.data)
            _, node.data, node.mzxid, node.mtime, node.version = change
        elif type(change) is ChildrenChanged:
            _, node.cversion, node.pzxid = change
        else:
            self._release(node.acl)
            node.acl = self._share(change.acl)
            node.aversion = change.aversion

    def paths(self) -> list[str]:
        """Return the paths of all nodes, parents before their children: what a snapshot stores by ``put_of``."""
        return [path for path in self.nodes if path]

    def put_of(self, path: str) -> NodePut | None:
        """Return the state of a node as a change that makes it, or None when it does not exist (any more)."""
        node = self.nodes.get(path)
        return None if node is None else node.put(path)

    def node_count(self) -> int:
        """Return the number of nodes, which counts the root twice, as ZooKeeper does."""
        return len(self.nodes)

    def ephemerals_count(self) -> int:
        return sum(map(len, self.ephemerals.values()))

    def shared_acls(self) -> list["SharedAcl"]:
        """Return the ACLs other than OPEN_ACL and how many nodes have each."""
        return list(self._acls.values())

    def verify(self) -> None:
        """Raise CorruptTreeError unless every node but the root is a child of its parent, and every child a node."""
        for path, node in self.nodes.items():
            if path not in ("", ROOT):
                parent_path, name = split(path)
                parent = self.nodes.get(parent_path)
                if parent is None or name not in (parent.children or ()):
                    raise CorruptTreeError(f"node {path!r} has no parent")
            for name in node.children or ():
                if join(path, name) not in self.nodes:
                    raise CorruptTreeError(f"child {name!r} of {path!r} does not exist")

    def _put(self, change: NodePut) -> None:
        path = change.path
        node = self.nodes.get(path)
        acl = self._share(change.acl)
        if node is None:
            node = self.nodes[path] = ZNode()
            node.children = None
            self.data_bytes += len(path) + _size(change.data)
            self._link(path, node)
        else:
            self._release(node.acl)
            self.data_bytes += _size(change.data) - _size(node.data)
            if node.owner:
                self._disown(path, node.owner)
        node.set(change, acl)
        if change.ephemeral_owner:
            self._owned(change.ephemeral_owner)[path] = None

    def _link(self, path: str, node: ZNode) -> None:
        if path == ROOT:
            self.nodes[""] = node
            return
        parent_path, name = split(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return  # The parent was deleted and created again while the snapshot was taken.
        if parent.children is None:
            parent.children = {}
        parent.children[name] = None

    def _delete(self, path: str) -> None:
        node = self.nodes.pop(path, None)
        if node is None:
            return
        self.data_bytes -= len(path) + _size(node.data)
        self._release(node.acl)
        if node.owner:
            self._disown(path, node.owner)
        parent_path, name = split(path)
        parent = self.nodes.get(parent_path)
        if parent is not None and parent.children is not None:
            parent.children.pop(name, None)
            if not parent.children:
                parent.children = None

    def _owned(self, owner: int) -> dict[str, None]:
        kind = owner_kind(owner)
        if kind is OwnerKind.SESSION:
            return self.ephemerals.setdefault(owner, {})
        return self.containers if kind is OwnerKind.CONTAINER else self.ttls

    def _disown(self, path: str, owner: int) -> None:
        owned = self._owned(owner)
        owned.pop(path, None)
        if not owned:
            self.ephemerals.pop(owner, None)

    def _share(self, acl: Acl) -> Acl:
        """Return the one object of equal ACLs, counting the node that takes it."""
        if acl is OPEN_ACL or acl == OPEN_ACL:
            return OPEN_ACL
        shared = self._acls.setdefault(acl, SharedAcl(acl))
        shared.nodes += 1
        return shared.acl

    def _release(self, acl: Acl) -> None:
        if acl is OPEN_ACL:
            return
        shared = self._acls[acl]
        shared.nodes -= 1
        if not shared.nodes:
            del self._acls[acl]


class SharedAcl:
    """An ACL of one or more nodes."""

    __slots__ = ("acl", "nodes")

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self.nodes = 0


def _initial(path: str, acl: Acl, aversion: int) -> NodePut:
    return NodePut(path, b"", acl, 0, 0, 0, 0, 0, 0, aversion, 0, 0)


def _size(data: bytes | None) -> int:
    return 0 if data is None else len(data)
