"""The metadata seam on ZooKeeper's bare protocol: what the server answers, without kazoo's threads, retries and state.

One connection is one session: it is not opened again once lost. ``watch`` is a persistent watch of the server, which
kazoo's store does not use.
"""

import asyncio
from collections.abc import Sequence

from engine.base.errors import MisuseError
from engine.metadata.server.protocol import (
    OPEN_ACL,
    AddWatch,
    Answer,
    Children,
    CloseSession,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    ErrorCode,
    Event,
    EventType,
    Exists,
    FindWatches,
    GetChildren,
    GetData,
    MultiAnswer,
    MultiRead,
    Op,
    Ping,
    Request,
    SetData,
    Sync,
    WatcherKind,
)
from engine.metadata.server.protocol import Stat as NodeStat
from engine.metadata.session_store import SessionStore
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Found,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)
from engine.metadata.tree import check_path, check_paths, check_value
from engine.net.network import Network
from tests.support.zookeeper.seam_client import SeamClient

REQUEST_TIMEOUT_S = 10.0
ERRORS: dict[int, type[Exception]] = {
    ErrorCode.NO_NODE: NoNodeError,
    ErrorCode.NODE_EXISTS: NodeExistsError,
    ErrorCode.BAD_VERSION: BadVersionError,
    ErrorCode.NOT_EMPTY: NotEmptyError,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: MisuseError,
    ErrorCode.BAD_ARGUMENTS: MisuseError,
    ErrorCode.SESSION_EXPIRED: SessionExpiredError,
}
MODES = {
    (False, False): CreateMode.PERSISTENT,
    (False, True): CreateMode.PERSISTENT_SEQUENTIAL,
    (True, False): CreateMode.EPHEMERAL,
    (True, True): CreateMode.EPHEMERAL_SEQUENTIAL,
}
"""Create modes by whether a node is ephemeral, and whether it is one of a sequence."""


def stat_of(stat: object) -> Stat:
    assert isinstance(stat, NodeStat), stat
    return Stat(
        stat.version, stat.ephemeral_owner, stat.ctime, stat.mtime, stat.czxid, stat.cversion
    )


class RawStore(SessionStore):
    """A session that implements MetadataStore on one connection; made by ``open``."""

    def __init__(self, client: SeamClient, chroot: str) -> None:
        assert client.session is not None
        super().__init__(client.session.timeout_ms / 1000, REQUEST_TIMEOUT_S)
        self._client = client
        self._chroot = chroot
        client.on_event = self._on_event
        client.lost.add_done_callback(lambda _: self._set_state(SessionState.SUSPENDED))
        self._set_state(SessionState.CONNECTED)
        self._pings = self._loop.create_task(self._ping_forever())

    @classmethod
    async def open(
        cls, network: Network, port: int, *, chroot: str = "", session_timeout_s: float
    ) -> "RawStore":
        """Connect, and create the chroot if it is missing."""
        timeout_ms = round(session_timeout_s * 1000)
        client = await SeamClient.open(network, port, timeout_ms=timeout_ms)
        if chroot:
            create = Create(Op.CREATE, chroot, b"", OPEN_ACL, CreateMode.PERSISTENT)
            assert await client.code(create) in (ErrorCode.OK, ErrorCode.NODE_EXISTS)
        return cls(client, chroot)

    @property
    def session_id(self) -> int:
        assert self._client.session is not None
        return self._client.session.session_id

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._pings.cancel()
        self._watches.clear()
        if not self._client.lost.done():
            await self._client.code(CloseSession())
            self._client.close()
        self._state = SessionState.SUSPENDED

    async def _ping_forever(self) -> None:
        while not self._client.lost.done():
            sent = self._loop.time()
            await self._client.send(Ping())
            self._proof = sent
            await asyncio.sleep(self._timeout_s / 10)

    # Calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        answer = await self._read(path, GetData(self._full(path), watch is not None), watch)
        assert isinstance(answer, Data), answer
        return answer.data or b"", stat_of(answer.stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        stat = await self._exists(path, watch)
        if stat is None:  # the server may lag: its answer after a sync is not older than the call
            await self._call(path, Sync(self._full(path)))
            stat = await self._exists(path, watch)
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        request = GetChildren(self._full(path), watch is not None, stat=False)
        answer = await self._read(path, request, watch)
        assert isinstance(answer, Children), answer
        return sorted(answer.names)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        check_paths(paths, parent)
        parts: list[GetData | GetChildren] = [GetData(self._full(path), False) for path in paths]
        if parent is not None:
            parts.append(GetChildren(self._full(parent), False, stat=False))
        answer = await self._call("get_all", MultiRead(tuple(parts)))
        assert isinstance(answer, MultiAnswer), answer
        nodes: list[Found] = []
        names: list[str] = []
        for result in answer.results:
            match result:
                case (_, Children(children, _)):
                    names = sorted(children)
                case (_, Data(data, stat)):
                    nodes.append((data or b"", stat_of(stat)))
                case _:
                    assert result == ErrorCode.NO_NODE, result
                    nodes.append(None)
        return nodes[: len(paths)], names

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        check_path(path)
        check_value(path, value)
        return stat_of(await self._call(path, SetData(self._full(path), value, version)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        await self._call(path, Delete(self._full(path), version))

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        mode = MODES[ephemeral, sequence]
        answer = await self._call(path, Create(Op.CREATE, self._full(path), value, OPEN_ACL, mode))
        assert isinstance(answer, Created), answer
        return answer.path.removeprefix(self._chroot)

    async def _read(self, path: str, request: Request, watch: Watch | None) -> Answer | None:
        """Read a node; the server sets no watch when that fails, so ``exists`` sets it on a missing node."""
        check_path(path)
        try:
            return await self._call(path, request, watch)
        except NoNodeError:
            if watch is None or await self._exists(path, watch) is None:
                raise
        return await self._call(path, request, watch)

    async def _exists(self, path: str, watch: Watch | None) -> Stat | None:
        try:
            return stat_of(
                await self._call(path, Exists(self._full(path), watch is not None), watch)
            )
        except NoNodeError:
            return None

    def _full(self, path: str) -> str:
        return path if not self._chroot else self._chroot if path == "/" else self._chroot + path

    async def _call(self, path: str, request: Request, watch: Watch | None = None) -> Answer | None:
        await self._wait_connected(self._loop.time() + REQUEST_TIMEOUT_S)
        self._watch_read(path, watch)
        try:
            reply = await self._client.send(request)
        except OSError as error:
            raise StoreUnavailableError(f"{type(request).__name__} {path}: {error}") from error
        if reply.code == ErrorCode.OK:
            return reply.answer
        raise ERRORS[reply.code](f"{type(request).__name__} {path}")

    # Watches

    def _watch_added(self, path: str) -> None:
        self._client.send(AddWatch(self._full(path), 0))

    def _watch_removed(self, path: str) -> None:
        self._client.send(FindWatches(self._full(path), WatcherKind.PERSISTENT, remove=True))

    def _read_watch_removed(self, path: str) -> None:
        self._client.send(FindWatches(self._full(path), WatcherKind.ANY, remove=True))

    def _on_event(self, event: Event) -> None:
        if event.type <= EventType.CHILDREN_CHANGED:  # the others confirm that a watch was removed
            self._changed(event.path.removeprefix(self._chroot) or "/")
