"""WriteExecution of reads, which may set watches, and of requests about watches (invariant Z4)."""

from collections.abc import Iterable

from engine.metadata.server import acl as access
from engine.metadata.server.node_paths import ROOT, join
from engine.metadata.server.node_tree import NodeTree, ZNode
from engine.metadata.server.node_writes import RefusedRequestError
from engine.metadata.server.protocol import (
    AclAnswer,
    AddWatch,
    Answer,
    Children,
    Data,
    ErrorCode,
    Event,
    EventType,
    Exists,
    FindWatches,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiAnswer,
    MultiRead,
    Number,
    Op,
    Paths,
    Permission,
    Read,
    SetWatches,
    Stat,
    WatcherKind,
    WatchRequest,
)
from engine.metadata.server.session_table import SessionClient
from engine.metadata.server.watch_table import Watches, WatchNotice


def paths_of(request: Read | WatchRequest) -> Iterable[str] | None:
    """Return the paths whose changes a request's answer shows, or None when any change may be in it."""
    match request:
        case GetEphemerals() | GetAllChildrenNumber():
            return None
        case MultiRead(ops):
            paths = [op.path for op in ops]
        case SetWatches():
            paths = [*request.data, *request.exist, *request.child]
        case AddWatch() | FindWatches():
            return ()
        case _:
            paths = [request.path]
    return [path or ROOT for path in paths]


class NodeReader:
    """Reads of a tree and its watches. Methods raise RefusedRequestError and WatchLimitError, with nothing watched."""

    def __init__(self, tree: NodeTree, watches: Watches) -> None:
        self._tree = tree
        self._watches = watches

    def read(self, client: SessionClient, request: Read) -> Answer:
        if isinstance(request, GetData):
            return self._get_data(client, request)
        if isinstance(request, Exists):
            return self._exists(client, request)
        if isinstance(request, GetChildren):
            return self._get_children(client, request)
        if isinstance(request, MultiRead):
            return MultiAnswer(tuple(self._result(client, op) for op in request.ops))
        if isinstance(request, GetAcl):
            return self._get_acl(client, request)
        if isinstance(request, GetEphemerals):
            return self._get_ephemerals(client, request)
        return self._get_number(client, request)

    def watch(self, client: SessionClient, request: WatchRequest) -> list[WatchNotice]:
        """Execute a request about watches. Returns the events of those that fire at once."""
        if isinstance(request, SetWatches):
            return self._set_watches(client, request)
        if isinstance(request, AddWatch):
            if request.mode not in (0, 1):
                raise RefusedRequestError(ErrorCode.MARSHALLING_ERROR)
            self._watches.watch_always(request.path, client, recursive=request.mode == 1)
            return []
        if request.kind not in WatcherKind.__members__.values():
            raise RefusedRequestError(ErrorCode.MARSHALLING_ERROR)
        find = self._watches.remove if request.remove else self._watches.has
        if not find(request.path, client, WatcherKind(request.kind)):
            raise RefusedRequestError(ErrorCode.NO_WATCHER)
        return []

    def _get_data(self, client: SessionClient, request: GetData) -> Data:
        node = self._node(client, request.path)
        if request.watch:
            self._watches.watch_data(request.path, client)
        return Data(node.data, node.stat())

    def _exists(self, client: SessionClient, request: Exists) -> Stat:
        if "\0" in request.path:
            raise RefusedRequestError(ErrorCode.BAD_ARGUMENTS)
        node = self._tree.nodes.get(request.path)
        if node is not None:
            _require(client, node, Permission.READ)
        if request.watch:
            self._watches.watch_data(request.path, client)
        if node is None:
            raise RefusedRequestError(ErrorCode.NO_NODE)
        return node.stat()

    def _get_children(self, client: SessionClient, request: GetChildren) -> Children:
        node = self._node(client, request.path)
        if request.watch:
            self._watches.watch_children(request.path, client)
        return Children(tuple(node.children or ()), node.stat() if request.stat else None)

    def _result(
        self, client: SessionClient, op: GetData | GetChildren
    ) -> tuple[Op, Answer | None] | ErrorCode:
        try:
            if isinstance(op, GetData):
                return Op.GET_DATA, self._get_data(client, op._replace(watch=False))
            return Op.GET_CHILDREN, self._get_children(client, GetChildren(op.path, False, False))
        except RefusedRequestError as error:
            return error.code

    def _get_acl(self, client: SessionClient, request: GetAcl) -> AclAnswer:
        node = self._node(client, request.path, Permission.READ | Permission.ADMIN)
        whole = access.allows(node.acl, Permission.ADMIN, client.identities)
        return AclAnswer(node.acl if whole else access.redacted(node.acl), node.stat())

    def _get_ephemerals(self, client: SessionClient, request: GetEphemerals) -> Paths:
        paths = sorted(self._tree.ephemerals.get(client.session_id, ()))
        if request.prefix.strip() in ("", ROOT):
            return Paths(tuple(paths))
        return Paths(tuple(path for path in paths if path.startswith(request.prefix)))

    def _get_number(self, client: SessionClient, request: GetAllChildrenNumber) -> Number:
        """Count the nodes below one."""
        path = request.path or ROOT
        node = self._node(client, path)
        nodes = self._tree.nodes
        count = 0
        below = [(path, node)]
        while below:
            path, node = below.pop()
            for name in node.children or ():
                count += 1
                child_path = join(path, name)
                child = nodes[child_path]
                if child.children:
                    below.append((child_path, child))
        return Number(count)

    def _set_watches(self, client: SessionClient, request: SetWatches) -> list[WatchNotice]:
        watches, nodes = self._watches, self._tree.nodes
        always = (*request.persistent, *request.persistent_recursive)
        watches.reserve(
            len(request.data) + len(request.exist) + len(request.child) + 2 * len(always)
        )
        events: list[Event] = []
        for path in request.data:
            node = nodes.get(path)
            if node is None:
                events.append(Event(EventType.DELETED, path))
            elif node.mzxid > request.relative_zxid:
                events.append(Event(EventType.DATA_CHANGED, path))
            else:
                watches.watch_data(path, client)
        for path in request.exist:
            if path in nodes:
                events.append(Event(EventType.CREATED, path))
            else:
                watches.watch_data(path, client)
        for path in request.child:
            node = nodes.get(path)
            if node is None:
                events.append(Event(EventType.DELETED, path))
            elif node.pzxid > request.relative_zxid:
                events.append(Event(EventType.CHILDREN_CHANGED, path))
            else:
                watches.watch_children(path, client)
        for path in request.persistent:
            watches.watch_always(path, client, recursive=False)
        for path in request.persistent_recursive:
            watches.watch_always(path, client, recursive=True)
        return [WatchNotice(client, event) for event in events]

    def _node(self, client: SessionClient, path: str, permission: int = Permission.READ) -> ZNode:
        node = self._tree.nodes.get(path)
        if node is None:
            raise RefusedRequestError(ErrorCode.NO_NODE)
        _require(client, node, permission)
        return node


def _require(client: SessionClient, node: ZNode, permission: int) -> None:
    if not access.allows(node.acl, permission, client.identities):
        raise RefusedRequestError(ErrorCode.NO_AUTH)
