"""Metadata store on ZooKeeper: kazoo's client on the event loop.

While it is connected, kazoo's connection is used by the loop itself (``connection_loan``). Changes of its state, and
failures of requests when the connection is lost, come from kazoo's thread (``kazoo_handler``). Everything is passed to
the loop in its order, as much as is pending in one turn. Every call has a deadline, because without a quorum kazoo
waits indefinitely and reports only SUSPENDED. The protocol's watches fire once. They are set again before the watchers
are notified, so that no change between a watcher's read and the next event is missed. After a reconnect all watches are
set again and all watchers are notified.
"""

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.serialization import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
)
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from engine.base.errors import MisuseError
from engine.base.settings import SettingsError
from engine.base.tasks import TaskScope
from engine.metadata.kazoo.connection_loan import ConnectionLoan
from engine.metadata.kazoo.kazoo_handler import LoopHandler
from engine.metadata.kazoo.kazoo_requests import EndWatches, MultiRead
from engine.metadata.session_store import EXPIRE_FRACTION, SUSPECT_FRACTION, SessionStore
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
from engine.metadata.tree import check_path, check_paths, check_value, parent_of
from engine.net.tls import ContextSource

log = logging.getLogger(__name__)


def _translate(error: BaseException, call: str) -> Exception:
    """Return the store's error for one of kazoo's; ``call`` has the operation and its path."""
    match error:
        case zk.NoNodeError():
            return NoNodeError(call)
        case zk.NodeExistsError():
            return NodeExistsError(call)
        case zk.BadVersionError():
            return BadVersionError(call)
        case zk.NotEmptyError():
            return NotEmptyError(call)
        case zk.NoChildrenForEphemeralsError():
            return MisuseError(f"{call}: an ephemeral node cannot have children")
        case zk.BadArgumentsError():
            return MisuseError(f"{call}: refused by the server as an invalid argument")
        case zk.ConnectionClosedError():
            return StoreUnavailableError(f"{call}: the connection is closed")
        case zk.SessionExpiredError():
            return SessionExpiredError(call)
        case zk.NoAuthError() | zk.AuthFailedError():
            return MisuseError(f"{call}: not allowed by the node's ACL")
    return StoreUnavailableError(f"{call}: {type(error).__name__} {error}")


def _note_failure(answer: Any, failed: list[Exception]) -> None:
    if answer.exception is not None:
        failed.append(answer.exception)


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        stat.version,
        stat.ephemeralOwner,
        stat.ctime,
        stat.mtime,
        stat.czxid,
        stat.cversion,
    )


_EPHEMERAL, _SEQUENCE = 1, 2
"""Flags of the protocol's create."""


class ZooKeeperStore(SessionStore):
    """A session on ZooKeeper that implements MetadataStore; created by ``engine.metadata.connect``.

    ``tls``: source of contexts for connections in TLS, which kazoo's thread calls. ``user``: ``user:password`` of the
    scheme digest. With ``private`` the created nodes are for that user alone.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        chroot: str,
        *,
        tls: ContextSource | None = None,
        user: str = "",
        private: bool = False,
    ) -> None:
        super().__init__(session_timeout_s, max(session_timeout_s * SUSPECT_FRACTION, 1.0))
        self._hosts = hosts
        self._chroot = chroot
        self._tls = tls
        self._identities = [("digest", user)] if user else []
        self._acl = CREATOR_ALL_ACL if private else OPEN_ACL_UNSAFE
        self._requested_timeout_s = session_timeout_s
        self._context = contextvars.copy_context()
        self._tasks = TaskScope("zookeeper")
        self._arrived: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._wake_scheduled = False
        self._client = self._new_client()
        self._session_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._calls: dict[asyncio.Future[Any], tuple[float, str]] = {}  # deadline, name of the call
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def session_id(self) -> int:
        return self._session_id

    # Life of the session

    def _new_client(self) -> KazooClient:
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=0.5)
        client = KazooClient(
            hosts=self._hosts + self._chroot,
            timeout=self._requested_timeout_s,
            connection_retry=retry,
            command_retry=KazooRetry(max_tries=0),
            handler=LoopHandler(self._tls),
            auth_data=self._identities,
            logger=logging.getLogger("kazoo"),
        )

        def on_state(state: str) -> None:  # on a kazoo thread
            session_id = client._session_id or 0
            self._from_thread(self._on_kazoo_state, client, state, session_id, self._loop.time())

        client.add_listener(on_state)
        client.handler.loan = ConnectionLoan(client, self._run_arrived)
        return client

    def _from_thread(self, callback: Callable[..., None], *args: Any) -> None:
        """Call ``callback(*args)`` on the loop, after all calls that arrived before. Called from any thread."""
        self._arrived.append((callback, args))
        loan = self._client.handler.loan
        if self._wake_scheduled or (loan is not None and loan.reading_here()):
            return  # ``_run_arrived`` is called, by the loan after what it reads
        self._wake_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._run_arrived, context=self._context)
        except RuntimeError:  # the loop is closed: no caller remains
            log.debug("event after the end of the loop")

    def _run_arrived(self) -> None:
        # Reset first: a call that arrives from now on schedules another turn (no lost wake-up).
        self._wake_scheduled = False
        arrived = self._arrived
        try:
            while arrived:
                callback, args = arrived.popleft()
                callback(*args)
        finally:
            if arrived:  # a callback raised: the remaining ones still run
                self._loop.call_soon(self._run_arrived, context=self._context)

    async def start(self, timeout_s: float) -> None:
        """Connect. Raises StoreUnavailableError when no server answers in time, SettingsError when the user may not use
        the chroot; the caller closes the store then."""
        client = self._client
        event = await self._loop.run_in_executor(None, client.start_async)
        live = await self._loop.run_in_executor(None, event.wait, timeout_s)
        if not live:
            raise StoreUnavailableError(
                f"no ZooKeeper at {self._hosts} within {timeout_s} s{self._reason()}"
            )
        await self._wait_connected(self._loop.time() + timeout_s)
        try:
            await self._make_chroot()
        except MisuseError as error:
            raise SettingsError(f"metadata_user may not use {self._chroot}: {error}") from error
        self._tick()

    def _reason(self) -> str:
        """Return why there is no session, with the setting that may be missing."""
        handler = self._client.handler
        if handler.failure:
            trust = "CERTIFICATE_VERIFY_FAILED" in handler.failure
            hint = ". See metadata_tls_trust_certs_file_path" if trust else ""
            return f": {handler.failure}{hint}"
        if not handler.accepted:
            return ""
        missing = (
            "metadata_tls_enabled, where it serves TLS alone"
            if self._tls is None
            else "metadata_tls_certificate_file_path, where it demands a certificate"
        )
        return f": it accepts connections, but no session. See {missing}"

    async def _make_chroot(self) -> None:
        """Create the chroot and its ancestors; kazoo creates no ancestor of a chroot."""
        if not self._chroot:
            return
        try:
            await self._call("get", "/", GetData(self._full("/"), None))  # needs the right to read
        except NoNodeError:
            await self._create_ancestors_and(self._chroot)

    async def _create_ancestors_and(self, full: str) -> None:
        """Create an empty node at a path of the server, whose missing ancestors first."""
        try:
            await self._call("create", full, Create(full, b"", self._acl, 0))
        except NodeExistsError:
            return
        except NoNodeError:
            await self._create_ancestors_and(parent_of(full))
            await self._create_ancestors_and(full)

    def _on_kazoo_state(self, client: KazooClient, state: str, session_id: int, at: float) -> None:
        if client is not self._client or self._closed:
            return
        if state == KazooState.CONNECTED:
            if session_id != self._session_id:
                self._session_id = session_id
                self._timeout_s = client._session_timeout / 1000
                self._proof = at
            self._ping()  # the event may be late: only an answer proves the session
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
        """Ping the server periodically, and give the session up before the server does."""
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
            # A refusal by an ACL is an answer as well, and the caller's request is the one to report it.
            if answer.exception is None or isinstance(answer.exception, zk.NoAuthError):
                self._from_thread(self._proven, client, session_id, sent)

        self._send_request(Exists(self._full("/"), None), answered)

    def _proven(self, client: KazooClient, session_id: int, sent: float) -> None:
        if self._closed or client is not self._client or session_id != self._session_id:
            return
        self._proof = max(self._proof, sent)
        if self._state is not SessionState.CONNECTED and client.connected:
            self._arm_all()
            self._set_state(SessionState.CONNECTED)

    async def _renew(self, old: KazooClient) -> None:
        """Start a new session, and close the old one if its server can be reached."""
        client = self._client
        await self._loop.run_in_executor(None, client.start_async)
        await self._loop.run_in_executor(None, _discard, old)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()
        self._watches.clear()
        self._state = SessionState.SUSPENDED
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)
        await self._tasks.close()
        await self._loop.run_in_executor(None, _discard, self._client)

    # Calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        value, stat = await self._read("get", GetData, path, watch)
        return value or b"", _stat(stat)  # None for a node that was created without data

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        stat = await self._exists(path, watch)
        if stat is None:
            # Our server may lag and not have the node yet, and ledgers are deleted when a node is missing (I28).
            # A session's requests are answered in order: the answer to the read implies that of the sync.
            failed: list[Exception] = []
            self._send_request(Sync(self._full(path)), lambda answer: _note_failure(answer, failed))
            stat = await self._exists(path, watch)
            if stat is None and failed:
                raise _translate(failed[0], f"sync {path}") from failed[0]
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return sorted(await self._read("children", GetChildren, path, watch))

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        check_paths(paths, parent)
        full = None if parent is None else self._full(parent)
        request = MultiRead([self._full(path) for path in paths], full)
        answers = await self._call("get_all", next(iter(paths), parent or "/"), request)
        nodes = [
            None if answer is None else (answer[0], _stat(answer[1]))
            for answer in answers[: len(paths)]
        ]
        return nodes, sorted(answers[-1] or ()) if parent is not None else []

    async def _read(
        self, op: str, kind: Callable[[str, Any], Any], path: str, watch: Watch | None
    ) -> Any:
        """Read a node; if it is missing, set the watch by an additional ``exists``.

        ZooKeeper sets no watch when a read fails. If the node exists by then, it is read again.
        """
        check_path(path)
        request = kind(self._full(path), None if watch is None else self._on_event)
        try:
            return await self._call(op, path, request, watch)
        except NoNodeError:
            if watch is None or await self._exists(path, watch) is None:
                raise
        return await self._call(op, path, request, watch)

    async def _exists(self, path: str, watch: Watch | None) -> ZnodeStat | None:
        request = Exists(self._full(path), None if watch is None else self._on_event)
        stat: ZnodeStat | None = await self._call("exists", path, request, watch)
        return stat

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        flags = ephemeral * _EPHEMERAL | sequence * _SEQUENCE
        request = Create(self._full(path), value, self._acl, flags)
        created: str = await self._call("create", path, request)
        return created.removeprefix(self._chroot)

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        check_path(path)
        check_value(path, value)
        stat = await self._call("put", path, SetData(self._full(path), value, version))
        return _stat(stat)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        if path == "/":
            raise MisuseError("the root cannot be deleted")
        await self._call("delete", path, Delete(self._full(path), version))

    def _full(self, path: str) -> str:
        """Return the path below the chroot, as the server stores it."""
        return path if not self._chroot else self._chroot if path == "/" else self._chroot + path

    async def _call(self, op: str, path: str, request: Any, watch: Watch | None = None) -> Any:
        deadline = self._loop.time() + self._request_timeout_s
        await self._wait_connected(deadline)
        self._watch_read(path, watch)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls[future] = deadline, f"{op} {path}"
        if self._expiry is None or self._expiry.when() > deadline:
            self._expire_at(deadline)
        self._send_request(
            request, partial(self._from_thread, self._answered, future, self._loop.time())
        )
        try:
            return await future
        except zk.KazooException as e:
            raise _translate(e, f"{op} {path}") from e
        finally:
            self._calls.pop(future, None)

    def _send_request(self, request: Any, answered: Callable[[Any], None]) -> None:
        """Send a request; ``answered`` is called on kazoo's thread.

        kazoo's public methods are bypassed: they validate the path again, and ``create`` allocates two results.
        """
        client = self._client
        answer = client.handler.async_result()
        answer.rawlink(answered)
        client._call(request, answer)

    def _expire_at(self, when: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        """Fail the calls whose deadline has passed; one timer serves all calls."""
        self._expiry = None
        now = self._loop.time()
        for future, (deadline, call) in self._calls.items():
            if deadline <= now and not future.done():
                reason = f"{call}: no answer within {self._request_timeout_s} s"
                future.set_exception(StoreUnavailableError(reason))
        pending = [deadline for deadline, _ in self._calls.values() if deadline > now]
        if pending:
            self._expire_at(min(pending))

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
        """Set the protocol's watches for the next event.

        Answers are not awaited, because all watches are set again after a connection was lost.
        """
        for needed, kind in (node, Exists), (children, GetChildren):
            if needed:
                self._send_request(kind(self._full(path), self._on_event), lambda _: None)

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
            self._send_request(EndWatches(client, self._full(path)), lambda _: None)


_ARM = {
    EventType.CREATED: (True, True),
    EventType.DELETED: (True, False),
    EventType.CHANGED: (True, False),
    EventType.CHILD: (False, True),
}
"""One-shot watches (node, children) that each type of event has used up."""


def _discard(client: KazooClient) -> None:
    """End the session if the server can be reached, and free the client. Blocks."""
    try:
        client.stop()
    except Exception as e:  # kazoo raises its socket's errors; the session times out then
        log.info("closing a ZooKeeper client failed error=%r", e)
    client.close()
