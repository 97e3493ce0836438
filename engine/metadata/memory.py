"""In-memory metadata store: the reference of the contract suite, and the metadata service of the simulator.

Server and clients communicate only through timers of the running loop. Replies and events of one session keep their
order. Each side's callbacks run in the context in which that side was created. A simulator that drops the handles of a
killed node therefore drops its heartbeats too, and the session expires by the loop's time.
"""

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from engine.base.clock import Clock, LoopClock
from engine.base.errors import MagnetarError
from engine.metadata.session_store import EXPIRE_FRACTION, SUSPECT_FRACTION, SessionStore
from engine.metadata.store import (
    ANY_VERSION,
    Found,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)
from engine.metadata.tree import Tree, check_path, check_paths, check_value

RECONNECT_S = 0.05


class Fault(NamedTuple):
    """Fault injected into one call. A lost request or reply breaks the connection, as it does over TCP."""

    delay_s: float = 0.0
    reply_delay_s: float = 0.0
    lose_request: bool = False
    lose_reply: bool = False


class _Session:
    """Server side of a session."""

    def __init__(self, session_id: int, timeout_s: float, store: "MemoryStore") -> None:
        self.id = session_id
        self.timeout_s = timeout_s
        self.store = store
        self.last_seen = 0.0
        self.alive = True
        self.requests: deque[Callable[[], None]] = deque()
        self.replies: deque[Callable[[], None]] = deque()
        self.apply_at = 0.0
        self.reply_at = 0.0
        self.missed = False
        self.watched: dict[str, None] = {}
        self.read_watched: dict[str, None] = {}


class MemoryServer:
    """Tree and sessions of the service. ``on_call(session_id, operation, path)`` may inject a Fault into each call."""

    def __init__(
        self,
        clock: Clock | None = None,
        on_call: Callable[[int, str, str], Fault | None] | None = None,
    ) -> None:
        self.tree = Tree()
        self.on_call = on_call
        self._clock = clock if clock is not None else LoopClock()
        self._context = contextvars.copy_context()
        self._sessions: dict[int, _Session] = {}
        self._cut: dict[int, None] = {}
        self._last_id = 0

    def session(self, session_timeout_s: float = 10.0) -> "MemoryStore":
        """Open a connected session. Must be called inside a running loop."""
        return MemoryStore(self, session_timeout_s)

    # Faults

    def partition(self, session_id: int) -> None:
        """Drop all requests and replies of a session silently, until ``heal``."""
        self._cut[session_id] = None

    def heal(self, session_id: int) -> None:
        """End a partition. The client notices it on its next attempt."""
        self._cut.pop(session_id, None)

    def expire(self, session_id: int) -> None:
        """End a session now, as if its client had been silent; the client is notified unless it is partitioned.

        The notice overtakes delayed replies. ZooKeeper's client may rely on its session until the timeout, so only a
        client that is notified at once has no reason to believe in a session that ended early.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)
            store = session.store
            if not self._is_cut(session):
                store._loop.call_soon(store._ended, session, context=store._context)

    def break_connection(self, session_id: int) -> None:
        """Reset a session's connection: pending calls fail with unknown outcome, and the client reconnects."""
        session = self._sessions.get(session_id)
        if session is not None:
            store = session.store
            store._loop.call_soon(store._broken, context=store._context)

    # The service

    def _open(self, store: "MemoryStore") -> _Session:
        self._last_id += 1
        session = _Session(self._last_id, store.session_timeout_s, store)
        session.last_seen = store._loop.time()
        self._sessions[session.id] = session
        store._loop.call_later(session.timeout_s, self._check, session, context=self._context)
        return session

    def _check(self, session: _Session) -> None:
        if not session.alive:
            return
        loop = session.store._loop
        remaining = session.last_seen + session.timeout_s - loop.time()
        if remaining <= 0:
            self._end(session)
        else:
            loop.call_later(remaining, self._check, session, context=self._context)

    def _end(self, session: _Session) -> None:
        if session.alive:
            session.alive = False
            del self._sessions[session.id]
            self._notify(self.tree.drop_owner(session.id))

    def _is_cut(self, session: _Session) -> bool:
        return session.id in self._cut

    def _submit(
        self, session: _Session, op: str, path: str, args: tuple[Any, ...], reply: "_Reply"
    ) -> None:
        """Accept a request; called on the client's side."""
        fault = None
        if self.on_call is not None and op not in ("ping", "close"):
            fault = self.on_call(session.id, op, path)
        fault = fault or Fault()
        loop = session.store._loop
        if fault.lose_request:
            loop.call_soon(session.store._broken, context=session.store._context)
            return
        session.apply_at = max(session.apply_at, loop.time() + fault.delay_s)
        session.requests.append(partial(self._apply, session, op, path, args, reply, fault))
        # Timers of equal times have no order, so each runs the oldest request.
        loop.call_at(session.apply_at, _next, session.requests, context=self._context)

    def _apply(
        self,
        session: _Session,
        op: str,
        path: str,
        args: tuple[Any, ...],
        reply: "_Reply",
        fault: Fault,
    ) -> None:
        if self._is_cut(session):
            # Lost on the way: the client's call times out. It may have been the request of a watch.
            session.missed = True
            return
        result: Any = None
        error: Exception | None = None
        if not session.alive:
            error = SessionExpiredError(f"session {session.id} expired")
        else:
            session.last_seen = session.store._loop.time()
            try:
                result = self._execute(session, op, path, args)
            except MagnetarError as e:
                error = e
        if fault.lose_reply:
            session.store._loop.call_soon(session.store._broken, context=session.store._context)
        else:
            self._send(session, fault.reply_delay_s, reply, result, error)

    def _execute(self, session: _Session, op: str, path: str, args: tuple[Any, ...]) -> Any:
        now_ms = self._clock.wall_ms()
        if op in ("get", "exists", "children") and args[0]:
            session.read_watched[path] = None
        match op:
            case "ping":
                missed, session.missed = session.missed, False
                return missed
            case "get":
                return self.tree.get(path)
            case "exists":
                return self.tree.exists(path)
            case "children":
                return self.tree.children(path)
            case "get_all":
                paths, parent = args
                nodes = [self.tree.get(node) if self.tree.exists(node) else None for node in paths]
                listed = parent is not None and self.tree.exists(parent)
                return nodes, self.tree.children(parent) if listed else []
            case "watch":
                session.watched.update(dict.fromkeys(args))
                return None
            case "unwatch":
                session.watched.pop(path, None)
                return None
            case "unwatch_read":
                session.read_watched.pop(path, None)
                return None
            case "create":
                value, ephemeral, sequence = args
                owner = session.id if ephemeral else 0
                created, changed = self.tree.create(path, value, owner, sequence, now_ms)
                self._notify(changed)
                return created
            case "put":
                stat, changed = self.tree.put(path, args[0], args[1], now_ms)
                self._notify(changed)
                return stat
            case "delete":
                self._notify(self.tree.delete(path, args[0]))
                return None
            case "close":
                self._end(session)
                return None
        raise AssertionError(op)

    def _notify(self, paths: list[str]) -> None:
        for path in paths:
            for session in list(self._sessions.values()):
                if path in session.watched or path in session.read_watched:
                    session.read_watched.pop(path, None)
                    self._send(session, 0.0, session.store._changed, path)

    def _send(
        self, session: _Session, delay_s: float, deliver: Callable[..., None], *args: Any
    ) -> None:
        loop = session.store._loop
        session.reply_at = max(session.reply_at, loop.time() + delay_s)
        session.replies.append(partial(self._deliver, session, deliver, args))
        loop.call_at(session.reply_at, _next, session.replies, context=session.store._context)

    def _deliver(
        self, session: _Session, deliver: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        if self._is_cut(session):
            session.missed = True
        else:
            deliver(*args)


def _next(queue: deque[Callable[[], None]]) -> None:
    queue.popleft()()


class _Reply:
    """Receiver of an answer, which completes the waiting call and proves the session at the time of the request."""

    __slots__ = ("_future", "_sent", "_session", "_store")

    def __init__(
        self, store: "MemoryStore", session: _Session, future: "asyncio.Future[Any] | None"
    ) -> None:
        self._store = store
        self._session = session
        self._future = future
        self._sent = store._loop.time()

    def __call__(self, result: Any, error: Exception | None) -> None:
        store = self._store
        if self._session is store._session:
            if isinstance(error, SessionExpiredError):
                store._expired()
            else:
                store._proven(self._sent)
                if self._future is None and result:
                    # A ping whose answer reports missed events, or requests of watches that were lost.
                    store._watch_again()
                    for path in {**store._watches, **store._read_watches}:
                        store._changed(path)
        if self._future is None or self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


class MemoryStore(SessionStore):
    """A session on a MemoryServer that implements MetadataStore."""

    def __init__(self, server: MemoryServer, session_timeout_s: float) -> None:
        super().__init__(session_timeout_s, max(session_timeout_s * SUSPECT_FRACTION, 0.1))
        self._server = server
        self._context = contextvars.copy_context()
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._session = server._open(self)
        self._state = SessionState.CONNECTED
        self._timer = self._loop.call_later(session_timeout_s / 6, self._tick)

    @property
    def session_id(self) -> int:
        return self._session.id

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        node: tuple[bytes, Stat] = await self._read("get", path, watch)
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        stat: Stat | None = await self._read("exists", path, watch)
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._read("children", path, watch)
        return names

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        check_paths(paths, parent)
        answer: tuple[list[Found], list[str]] = await self._call(
            "get_all", next(iter(paths), parent or "/"), tuple(paths), parent
        )
        return answer

    async def _read(self, op: str, path: str, watch: Watch | None) -> Any:
        check_path(path)
        return await self._call(op, path, watch is not None, watch=watch)

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        created: str = await self._call("create", path, value, ephemeral, sequence)
        return created

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        check_path(path)
        check_value(path, value)
        stat: Stat = await self._call("put", path, value, version)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        await self._call("delete", path, version)

    async def close(self) -> None:
        if self._closed:
            return
        self._timer.cancel()
        if self._state is SessionState.CONNECTED:
            # If the request does not reach the server, the session expires by itself.
            with contextlib.suppress(StoreUnavailableError, SessionExpiredError):
                await self._call("close", "/")
        self._closed = True
        self._watches.clear()

    def _watch_added(self, path: str) -> None:
        self._submit("watch", path, path)

    def _watch_removed(self, path: str) -> None:
        self._submit("unwatch", path)

    def _read_watch_removed(self, path: str) -> None:
        self._submit("unwatch_read", path)

    def _submit(
        self, op: str, path: str, *args: Any, future: "asyncio.Future[Any] | None" = None
    ) -> None:
        session = self._session
        self._server._submit(session, op, path, args, _Reply(self, session, future))

    async def _call(self, op: str, path: str, *args: Any, watch: Watch | None = None) -> Any:
        deadline = self._loop.time() + self._request_timeout_s
        await self._wait_connected(deadline)
        self._watch_read(path, watch)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls[future] = None
        self._submit(op, path, *args, future=future)
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError:
            raise StoreUnavailableError(
                f"{op} {path}: no answer within {self._request_timeout_s} s"
            ) from None
        finally:
            self._calls.pop(future, None)

    # Session life

    def _tick(self) -> None:
        if self._closed:
            return
        silence = self._silence()
        if self._state is not SessionState.EXPIRED and silence > EXPIRE_FRACTION:
            self._give_up()
        elif self._state is SessionState.CONNECTED and silence > SUSPECT_FRACTION:
            self._set_state(SessionState.SUSPENDED)
            self._fail_calls(StoreUnavailableError("the metadata service does not answer"))
        if self._state is SessionState.EXPIRED:
            if not self._server._is_cut(self._session):
                self._renew()
        else:
            self._submit("ping", "/")
        period = self._timeout_s / 6
        if self._state is not SessionState.CONNECTED:
            period = min(period, RECONNECT_S)
        period = min(period, self._until_expiry())
        self._timer = self._loop.call_later(period, self._tick)

    def _proven(self, sent: float) -> None:
        self._proof = max(self._proof, sent)
        if self._state is SessionState.SUSPENDED:
            self._watch_again()
            self._set_state(SessionState.CONNECTED)

    def _watch_again(self) -> None:
        """Set all watches by one request, as ZooKeeper's clients do: the loss of one of many would repeat them all."""
        self._submit("watch", "/", *self._watches)

    def _broken(self) -> None:
        """Handle a reset connection: pending calls fail with unknown outcome."""
        if self._closed or self._state is not SessionState.CONNECTED:
            return
        self._set_state(SessionState.SUSPENDED)
        self._fail_calls(StoreUnavailableError("the connection was lost"))
        self._timer.cancel()
        self._timer = self._loop.call_later(RECONNECT_S, self._tick)

    def _give_up(self) -> None:
        """Expire the session before the server does.

        The server's side of it ends by its own timeout, or when the client opens a new session.
        """
        self._set_state(SessionState.EXPIRED)
        self._fail_calls(SessionExpiredError("no answer for most of the session timeout"))

    def _ended(self, session: _Session) -> None:
        if session is self._session and not self._closed:
            self._expired()

    def _expired(self) -> None:
        self._set_state(SessionState.EXPIRED)
        self._fail_calls(SessionExpiredError("the session expired"))
        self._timer.cancel()
        self._timer = self._loop.call_later(RECONNECT_S, self._tick)

    def _renew(self) -> None:
        self._server._end(self._session)
        self._session = self._server._open(self)
        self._proof = self._loop.time()
        self._watch_again()
        self._set_state(SessionState.CONNECTED)

    def _fail_calls(self, error: Exception) -> None:
        calls, self._calls = self._calls, {}
        for future in calls:
            if not future.done():
                # A separate exception each, because raising one appends to its traceback.
                future.set_exception(type(error)(*error.args))
