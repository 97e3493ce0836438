"""ZooKeeper as the metadata store: a bridge from kazoo's threads to the event loop.

kazoo's answers and events come on its own threads; each is handed over with ``call_soon_threadsafe`` and nothing else
crosses. Every call has a deadline, because without a quorum kazoo waits for ever and reports only SUSPENDED. Watches
of the protocol fire once: they are set again before the watchers are told, so what a watcher reads is never older
than what the next event tells. After a reconnect all are set again and all watchers are told.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.serialization import int_struct, write_string
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from engine.base.errors import MisuseError
from engine.base.tasks import TaskScope
from engine.metadata.session_store import EXPIRE_FRACTION, SUSPECT_FRACTION, SessionStore
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)
from engine.metadata.tree import check_path, check_value

log = logging.getLogger(__name__)


def _translate(error: BaseException, what: str) -> Exception:
    """Our error for kazoo's."""
    match error:
        case zk.NoNodeError():
            return NoNodeError(what)
        case zk.NodeExistsError():
            return NodeExistsError(what)
        case zk.BadVersionError():
            return BadVersionError(what)
        case zk.NotEmptyError():
            return NotEmptyError(what)
        case zk.NoChildrenForEphemeralsError():
            return MisuseError(f"{what}: an ephemeral node cannot have children")
        case zk.BadArgumentsError():
            return MisuseError(f"{what}: refused by the server as an invalid argument")
        case zk.ConnectionClosedError():
            return StoreUnavailableError(f"{what}: the connection is closed")
        case zk.SessionExpiredError():
            return SessionExpiredError(what)
        case zk.NoAuthError() | zk.AuthFailedError():
            return MisuseError(f"{what}: not allowed by the node's ACL")
    return StoreUnavailableError(f"{what}: {type(error).__name__} {error}")


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(stat.version, stat.ephemeralOwner, stat.ctime, stat.mtime, stat.numChildren)


class _NoWatcherError(zk.ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """There was no watch to end: it fired meanwhile."""

    code = -121


zk.EXCEPTIONS[_NoWatcherError.code] = (
    _NoWatcherError  # kazoo drops the connection for codes it does not know
)


class _EndWatches:
    """ZooKeeper's removeWatches, which kazoo does not have: all that this session watches at ``path`` (C4)."""

    type = 18
    _ANY_KIND = 3

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self._path = path

    def serialize(self) -> bytes:
        return bytes(write_string(self._path) + int_struct.pack(self._ANY_KIND))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """On kazoo's thread that reads answers, in their order: what a later read watches is not forgotten."""
        self._client._data_watchers.pop(self._path, None)
        self._client._child_watchers.pop(self._path, None)


class ZooKeeperStore(SessionStore):
    """A session on ZooKeeper; a MetadataStore. Made by ``engine.metadata.connect``."""

    def __init__(self, hosts: str, session_timeout_s: float, chroot: str) -> None:
        super().__init__(session_timeout_s, max(session_timeout_s * SUSPECT_FRACTION, 1.0))
        self._hosts = hosts
        self._chroot = chroot
        self._asked_timeout_s = session_timeout_s
        self._context = contextvars.copy_context()
        self._tasks = TaskScope("zookeeper")
        self._client = self._new_client()
        self._session_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._calls: dict[asyncio.Future[Any], None] = {}

    @property
    def session_id(self) -> int:
        return self._session_id

    # Life of the session

    def _new_client(self) -> KazooClient:
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=0.5)
        client = KazooClient(
            hosts=self._hosts + self._chroot,
            timeout=self._asked_timeout_s,
            connection_retry=retry,
            command_retry=KazooRetry(max_tries=0),
            logger=logging.getLogger("kazoo"),
        )

        def on_state(state: str) -> None:  # on a kazoo thread
            session_id = client._session_id or 0
            self._from_thread(self._on_kazoo_state, client, state, session_id, self._loop.time())

        client.add_listener(on_state)
        return client

    def _from_thread(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(lambda: callback(*args), context=self._context.copy())
        except RuntimeError:  # the loop is closed: nobody is left to tell
            log.debug("event after the end of the loop")

    async def start(self, timeout_s: float) -> None:
        """Raises StoreUnavailableError when no server answers in time; close the store then."""
        client = self._client
        event = await self._loop.run_in_executor(None, client.start_async)
        live = await self._loop.run_in_executor(None, event.wait, timeout_s)
        if not live:
            raise StoreUnavailableError(f"no ZooKeeper at {self._hosts} within {timeout_s} s")
        await self._wait_connected(self._loop.time() + timeout_s)
        await self._make_chroot()
        self._tick()

    async def _make_chroot(self) -> None:
        if self._chroot:
            client = self._client
            await self._loop.run_in_executor(None, lambda: client.ensure_path("/"))

    def _on_kazoo_state(self, client: KazooClient, state: str, session_id: int, at: float) -> None:
        if client is not self._client or self._closed:
            return
        if state == KazooState.CONNECTED:
            if session_id != self._session_id:
                self._session_id = session_id
                self._timeout_s = client._session_timeout / 1000
                self._proof = at
            self._ping()  # its answer, not the event, proves the session
        elif state == KazooState.LOST:
            self._lost(SessionExpiredError("the session expired"))
        else:
            self._suspend()

    def _suspend(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._set_state(SessionState.SUSPENDED)

    def _lost(self, error: Exception) -> None:
        self._set_state(SessionState.EXPIRED)
        calls, self._calls = self._calls, {}
        for future in calls:
            if not future.done():
                future.set_exception(error)

    def _tick(self) -> None:
        """Prove the session now and then; give it up before the server does."""
        if self._closed:
            return
        silence = self._silence()
        if self._state is not SessionState.EXPIRED and silence > EXPIRE_FRACTION:
            self._lost(SessionExpiredError("no answer for most of the session timeout"))
            old, self._client = self._client, self._new_client()
            self._session_id = 0
            self._tasks.spawn("renew", self._renew(old))
        elif self._state is SessionState.CONNECTED and silence > SUSPECT_FRACTION:
            self._suspend()
        if self._client.connected:
            self._ping()
        period = min(self._timeout_s / 10, self._until_expiry())
        self._timer = self._loop.call_later(period, self._tick)

    def _ping(self) -> None:
        client, session_id, sent = self._client, self._session_id, self._loop.time()

        def answered(answer: Any) -> None:  # on a kazoo thread
            if answer.exception is None:
                self._from_thread(self._proven, client, session_id, sent)

        client.exists_async("/").rawlink(answered)

    def _proven(self, client: KazooClient, session_id: int, sent: float) -> None:
        if self._closed or client is not self._client or session_id != self._session_id:
            return
        self._proof = max(self._proof, sent)
        if self._state is not SessionState.CONNECTED and client.connected:
            self._arm_all()
            self._set_state(SessionState.CONNECTED)

    async def _renew(self, old: KazooClient) -> None:
        """A new session after we gave up the old one, which is closed if its server can be reached."""
        client = self._client
        await self._loop.run_in_executor(None, client.start_async)
        await self._loop.run_in_executor(None, _discard, old)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._watches.clear()
        self._state = SessionState.SUSPENDED
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)
        await self._tasks.close()
        await self._loop.run_in_executor(None, _discard, self._client)

    # Calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        value, stat = await self._read(
            "get", path, watch, lambda client, event: client.get_async(path, event)
        )
        return value, _stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        stat = await self._exists(path, watch)
        if stat is None:
            # Our server may be behind the others and not know the node yet; ledgers are deleted for less (I28).
            await self._call("sync", path, lambda client: client.sync_async(path))
            stat = await self._exists(path, watch)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = await self._read(
            "children", path, watch, lambda client, event: client.get_children_async(path, event)
        )
        return sorted(names)

    async def _read(
        self, op: str, path: str, watch: Watch | None, start: Callable[[KazooClient, Any], Any]
    ) -> Any:
        """A read of a missing node sets no watch: that it is still missing is asked, with one."""
        check_path(path)
        event = None if watch is None else self._on_event
        try:
            return await self._call(op, path, lambda client: start(client, event), watch)
        except NoNodeError:
            if watch is None or await self._exists(path, watch) is None:
                raise
        return await self._call(op, path, lambda client: start(client, event), watch)

    async def _exists(self, path: str, watch: Watch | None) -> ZnodeStat | None:
        event = None if watch is None else self._on_event
        found: ZnodeStat | None = await self._call(
            "exists", path, lambda client: client.exists_async(path, event), watch
        )
        return found

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        created: str = await self._call(
            "create",
            path,
            lambda client: client.create_async(path, value, ephemeral=ephemeral, sequence=sequence),
        )
        return created

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> int:
        check_path(path)
        check_value(path, value)
        stat = await self._call("put", path, lambda client: client.set_async(path, value, version))
        return int(stat.version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        if path == "/":
            raise MisuseError("the root cannot be deleted")
        await self._call("delete", path, lambda client: client.delete_async(path, version))

    async def _call(
        self,
        op: str,
        path: str,
        start: Callable[[KazooClient], Any],
        watch: Watch | None = None,
    ) -> Any:
        deadline = self._loop.time() + self._request_timeout_s
        await self._wait_connected(deadline)
        self._watch_read(path, watch)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls[future] = None
        sent = self._loop.time()
        start(self._client).rawlink(
            lambda answer: self._from_thread(self._answered, future, sent, answer)
        )
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError:
            raise StoreUnavailableError(
                f"{op} {path}: no answer within {self._request_timeout_s} s"
            ) from None
        except zk.KazooException as e:
            raise _translate(e, f"{op} {path}") from e
        finally:
            self._calls.pop(future, None)

    def _answered(self, future: "asyncio.Future[Any]", sent: float, answer: Any) -> None:
        error = answer.exception
        if error is None and self._state is SessionState.CONNECTED:
            self._proof = max(self._proof, sent)
        if future.done():
            return
        if error is None:
            future.set_result(answer.value)
        elif isinstance(error, Exception):
            future.set_exception(error)

    # Watches

    def _watch_added(self, path: str) -> None:
        if self._state is SessionState.CONNECTED:
            self._arm(path, node=True, children=True)

    def _arm_all(self) -> None:
        for path in self._watches:
            self._arm(path, node=True, children=True)

    def _arm(self, path: str, *, node: bool, children: bool) -> None:
        """Ask for the next event. Answers are not awaited: a broken connection arms everything again."""
        if node:
            self._client.exists_async(path, watch=self._on_event)
        if children:
            self._client.get_children_async(path, watch=self._on_event)

    def _on_event(self, event: WatchedEvent) -> None:  # on a kazoo thread
        if event.type in _ARM:
            self._from_thread(self._event, event.type, event.path)

    def _event(self, kind: str, path: str) -> None:
        if self._closed:
            return
        if path in self._watches:
            node, children = _ARM[kind]
            self._arm(path, node=node, children=children)
        self._changed(path)

    def _read_watch_removed(self, path: str) -> None:
        client = self._client
        if self._state is SessionState.CONNECTED:
            end = _EndWatches(client, f"{client.chroot}{path}")
            client._call(end, client.handler.async_result())


_ARM = {
    EventType.CREATED: (True, True),
    EventType.DELETED: (True, False),
    EventType.CHANGED: (True, False),
    EventType.CHILD: (False, True),
}
"""Event type → which one-shot watches it used up (node, children)."""


def _discard(client: KazooClient) -> None:
    """Blocking: end the session if the server can be reached, and free the client."""
    try:
        client.stop()
    except Exception as e:  # kazoo raises what its socket raised; the session then times out
        log.info("closing a ZooKeeper client failed error=%r", e)
    client.close()
