"""WriteExecution of writes: checks in ZooKeeper's order, then changes of the tree and the triggers of watches.

Invariants Z2, Z3, Z5.
"""

from collections.abc import Callable
from typing import Any

from engine.metadata.server import acl as access
from engine.metadata.server.changes import (
    AclSet,
    ChildrenChanged,
    DataSet,
    NodeDeleted,
    NodePut,
)
from engine.metadata.server.node_paths import RESERVED, ROOT, is_valid, split
from engine.metadata.server.node_tree import (
    CONTAINER_OWNER,
    TTL_MAX_MS,
    NodeTree,
    OwnerKind,
    TreeChange,
    ZNode,
    owner_kind,
    signed32,
    ttl_owner,
)
from engine.metadata.server.protocol import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    Answer,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    ErrorCode,
    EventType,
    Multi,
    MultiAnswer,
    Op,
    Permission,
    SetAcl,
    SetData,
    Stat,
)
from engine.metadata.server.session_table import SessionClient
from engine.metadata.server.watch_table import Watches, WatchTrigger

MultiOp = Create | Delete | SetData | Check

# Looked up once: a member of an enumeration takes longer than what a write does with it.
_CREATED, _DELETED = EventType.CREATED, EventType.DELETED
_DATA_CHANGED, _CHILDREN_CHANGED = EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED
_CREATE, _CREATE2 = Op.CREATE, Op.CREATE2
_EPHEMERAL = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
_SEQUENTIAL = (
    CreateMode.PERSISTENT_SEQUENTIAL,
    CreateMode.EPHEMERAL_SEQUENTIAL,
    CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
)
_WITH_TTL = (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)


class RefusedRequestError(Exception):
    """A request that fails with ``code`` and changes nothing."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


class WriteExecution:
    """One write on the tree. ``changes`` are made already; ``triggers`` are to be fired unless it fails."""

    __slots__ = ("_now_ms", "_tree", "_undo", "_watches", "_zxid", "changes", "triggers")

    def __init__(self, tree: NodeTree, watches: Watches, zxid: int, now_ms: int) -> None:
        self.changes: list[TreeChange] = []
        self.triggers: list[WatchTrigger] = []
        self._tree = tree
        self._watches = watches
        self._zxid = zxid
        self._now_ms = now_ms
        self._undo: list[TreeChange] | None = None

    def run(self, client: SessionClient, request: MultiOp | SetAcl | Multi) -> Answer | None:
        """Execute a request and return its answer. Raises RefusedRequestError, with nothing changed."""
        return _EXECUTIONS[type(request)](self, client, request)

    def remove(self, path: str) -> None:
        """Delete a node that has no children, unchecked."""
        parent_path = split(path)[0]
        nodes = self._tree.nodes
        parent, node = nodes[parent_path], nodes[path]
        parent_path = parent_path or ROOT
        # A deletion leaves the count of creations, from which come sequence numbers.
        self._make(ChildrenChanged(parent_path, parent.cversion, self._zxid))
        self._make(NodeDeleted(path))
        self._trigger(_DELETED, path, node.acl)
        self._trigger(_CHILDREN_CHANGED, parent_path, parent.acl)

    def remove_unused(self, path: str) -> None:
        """Delete a container or TTL node.

        Raises RefusedRequestError when it has children or is another kind of node.
        """
        node = self._node(path)
        if node.children:
            raise RefusedRequestError(ErrorCode.NOT_EMPTY)
        if owner_kind(node.owner) not in (OwnerKind.CONTAINER, OwnerKind.TTL):
            raise RefusedRequestError(ErrorCode.BAD_VERSION)
        self.remove(path)

    def _create(self, client: SessionClient, request: Create) -> Created:
        path = request.path
        owner = _owner(client, request)
        if "/" not in path or "\0" in path:
            raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
        acl = _expanded(client, request.acl)
        parent_path = split(path)[0]
        parent = self._node(parent_path)
        _require(client, parent, Permission.CREATE)
        if request.flags in _SEQUENTIAL:
            path = f"{path}{parent.cversion:010d}"
        _require_valid(path)
        if path in self._tree.nodes:
            raise RefusedRequestError(ErrorCode.NODE_EXISTS)
        if parent.owner and owner_kind(parent.owner) is OwnerKind.SESSION:
            raise RefusedRequestError(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        zxid, now_ms = self._zxid, self._now_ms
        parent_path = parent_path or ROOT
        self._make(ChildrenChanged(parent_path, signed32(parent.cversion + 1), zxid))
        self._make(
            NodePut(path, request.data, acl, zxid, zxid, now_ms, now_ms, 0, 0, 0, owner, zxid)
        )
        self._trigger(_CREATED, path, acl)
        self._trigger(_CHILDREN_CHANGED, parent_path, parent.acl)
        return Created(path, None if request.op is _CREATE else self._node(path).stat())

    def _delete(self, client: SessionClient, request: Delete) -> None:
        path = request.path
        if "/" not in path or "\0" in path or path in RESERVED:
            raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
        _require(client, self._node(split(path)[0]), Permission.DELETE)
        node = self._node(path)
        _require_version(node.version, request.version)
        if node.children:
            raise RefusedRequestError(ErrorCode.NOT_EMPTY)
        self.remove(path)

    def _set_data(self, client: SessionClient, request: SetData) -> Stat:
        path = request.path
        _require_valid(path)
        node = self._node(path)
        _require(client, node, Permission.WRITE)
        _require_version(node.version, request.version)
        version = signed32(node.version + 1)
        self._make(DataSet(path, request.data, self._zxid, self._now_ms, version))
        self._trigger(_DATA_CHANGED, path, node.acl)
        return node.stat()

    def _set_acl(self, client: SessionClient, request: SetAcl) -> Stat:
        path = request.path
        _require_valid(path)
        acl = _expanded(client, request.acl)
        node = self._node(path)
        _require(client, node, Permission.ADMIN)
        _require_version(node.aversion, request.version)
        self._make(AclSet(path, acl, signed32(node.aversion + 1)))
        return node.stat()

    def _check(self, client: SessionClient, request: Check) -> None:
        _require_valid(request.path)
        node = self._node(request.path)
        _require(client, node, Permission.READ)
        _require_version(node.version, request.version)

    def _multi(self, client: SessionClient, request: Multi) -> MultiAnswer:
        """Execute all operations or none. One that fails is in the answer, which is itself a success."""
        undo: list[TreeChange] = []
        results: list[tuple[Op, Answer | None] | ErrorCode] = []
        for position, op in enumerate(request.ops, 1):
            # A refused operation has changed nothing, so that the last one's changes are never undone.
            self._undo = undo if position < len(request.ops) else None
            try:
                results.append((_op(op), self.run(client, op)))
            except RefusedRequestError as error:
                self._roll_back(undo)
                done = len(results)
                rest = len(request.ops) - done - 1
                return MultiAnswer(
                    (*[ErrorCode.OK] * done, error.code, *[ErrorCode.RUNTIME_INCONSISTENCY] * rest)
                )
        return MultiAnswer(tuple(results))

    def _roll_back(self, undo: list[TreeChange]) -> None:
        for change in reversed(undo):
            self._tree.apply(change)
        self.changes.clear()
        self.triggers.clear()

    def _make(self, change: TreeChange) -> None:
        if self._undo is not None:
            self._undo.append(_inverse(self._tree, change))
        self._tree.apply(change)
        self.changes.append(change)

    def _trigger(self, kind: EventType, path: str, acl: Acl) -> None:
        if self._watches.may_fire(path):
            self.triggers.append(WatchTrigger(kind, path, self._zxid, acl))

    def _node(self, path: str) -> ZNode:
        node = self._tree.nodes.get(path)
        if node is None:
            raise RefusedRequestError(ErrorCode.NO_NODE)
        return node


def _owner(client: SessionClient, request: Create) -> int:
    """Return the owner field of a new node. As in ZooKeeper the operation decides on containers, not the flag."""
    op, flags = request.op, request.flags
    if not flags and (op is _CREATE or op is _CREATE2):
        return 0  # which most are
    if not CreateMode.PERSISTENT <= flags <= CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL:
        raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
    if op is Op.CREATE_TTL or flags in _WITH_TTL:
        if op is not Op.CREATE_TTL or flags not in _WITH_TTL:
            raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
        if not 0 < request.ttl_ms <= TTL_MAX_MS:
            raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
        return ttl_owner(request.ttl_ms)
    if op is Op.CREATE_CONTAINER:
        return CONTAINER_OWNER
    return client.session_id if flags in _EPHEMERAL else 0


def _expanded(client: SessionClient, acl: Acl) -> Acl:
    valid = access.expanded(acl, client.identities)
    if valid is None:
        raise RefusedRequestError(ErrorCode.INVALID_ACL)
    return valid


def _require(client: SessionClient, node: ZNode, permission: int) -> None:
    if node.acl is not OPEN_ACL and not access.allows(node.acl, permission, client.identities):
        raise RefusedRequestError(ErrorCode.NO_AUTH)


def _require_valid(path: str) -> None:
    if not is_valid(path):
        raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)


def _require_version(actual: int, expected: int) -> None:
    if expected not in (ANY_VERSION, actual):
        raise RefusedRequestError(ErrorCode.BAD_VERSION)


def _op(request: MultiOp) -> Op:
    """Return the type of an operation's result in a multi's answer."""
    return request.op if type(request) is Create else _OPS[type(request)]


_OPS = {SetData: Op.SET_DATA, Delete: Op.DELETE, Check: Op.CHECK}
_EXECUTIONS: dict[type, Callable[[WriteExecution, SessionClient, Any], Answer | None]] = {
    SetData: WriteExecution._set_data,
    Create: WriteExecution._create,
    Multi: WriteExecution._multi,
    SetAcl: WriteExecution._set_acl,
    Delete: WriteExecution._delete,
    Check: WriteExecution._check,
}


def _inverse(tree: NodeTree, change: TreeChange) -> TreeChange:
    """Return the change that takes back ``change``, which is not made yet."""
    path = change.path
    node = tree.nodes.get(path)
    if node is None:
        return NodeDeleted(path)
    if type(change) is DataSet:
        return DataSet(path, node.data, node.mzxid, node.mtime, node.version)
    if type(change) is ChildrenChanged:
        return ChildrenChanged(path, node.cversion, node.pzxid)
    return node.put(path)
