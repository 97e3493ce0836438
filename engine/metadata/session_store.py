"""Base of the metadata stores: session state and its proof, listeners, watches, creation of parents."""

import asyncio
import contextvars
from collections.abc import Callable

from engine.base.errors import MisuseError
from engine.metadata.store import (
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
    Watch,
)
from engine.metadata.tree import check_path, check_value, parent_of

SUSPECT_FRACTION = 2 / 3
"""Fraction of the session timeout without an answer after which the session counts as unproven."""

EXPIRE_FRACTION = 0.9
"""Fraction of the session timeout without an answer after which the client gives the session up, before the server
(O2)."""


class SessionStore:
    """Base of the metadata stores, created inside a running event loop.

    ``_proof`` is the loop time at which the last answered request was *sent*. The server restarted the session's
    timeout no earlier than that, so giving up at ``_proof + 0.9 timeout`` always precedes the server's expiry.
    """

    def __init__(self, session_timeout_s: float, request_timeout_s: float) -> None:
        if session_timeout_s <= 0 or request_timeout_s <= 0:
            raise MisuseError("session_timeout_s and request_timeout_s must be positive")
        self._loop = asyncio.get_running_loop()
        self._timeout_s = session_timeout_s
        self._request_timeout_s = request_timeout_s
        self._state = SessionState.SUSPENDED
        self._proof = self._loop.time()
        self._closed = False
        self._next_token = 0
        self._listeners: dict[int, tuple[Callable[[SessionState], None], contextvars.Context]] = {}
        self._watches: dict[str, dict[int, tuple[Watch, contextvars.Context]]] = {}
        self._read_watches: dict[str, dict[Watch, contextvars.Context]] = {}
        self._connection = 0
        self._due: dict[str, None] = {}
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def state(self) -> SessionState:
        """State of the session. CONNECTED needs a recent answer, so that a process that was frozen sees SUSPENDED."""
        if self._state is SessionState.CONNECTED and self._silence() > SUSPECT_FRACTION:
            return SessionState.SUSPENDED
        return self._state

    @property
    def session_proven(self) -> bool:
        # Asked for every confirmed run: ``_silence`` written out.
        return (
            self._state is not SessionState.EXPIRED
            and not self._closed
            and self._loop.time() - self._proof <= EXPIRE_FRACTION * self._timeout_s
        )

    @property
    def session_proven_until_s(self) -> float:
        return self._proof + EXPIRE_FRACTION * self._timeout_s

    @property
    def connection(self) -> int:
        return self._connection

    @property
    def session_timeout_s(self) -> float:
        """The timeout agreed with the server, seconds."""
        return self._timeout_s

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        check_path(path if not sequence else path + "0")
        check_value(path, value)
        try:
            return await self._create(path, value, ephemeral, sequence)
        except NoNodeError:
            if not make_parents:
                raise
        await self._create_parents(parent_of(path))
        return await self._create(path, value, ephemeral, sequence)

    async def _create_parents(self, path: str) -> None:
        """Create an empty persistent node and its missing ancestors."""
        if path == "/":
            return
        try:
            await self._create(path, b"", False, False)
        except NodeExistsError:
            return
        except NoNodeError:
            await self._create_parents(parent_of(path))
            await self._create_parents(path)

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        raise NotImplementedError

    def _watch_read(self, path: str, watch: Watch | None) -> None:
        """Register the watch of a read; called before the read is sent, because an event may precede its answer."""
        if watch is not None:
            self._read_watches.setdefault(path, {})[watch] = contextvars.copy_context()

    def unwatch(self, path: str, watch: Watch) -> None:
        watches = self._read_watches.get(path)
        if watches is not None and watches.pop(watch, None) is not None and not watches:
            del self._read_watches[path]
            if path not in self._watches:
                self._read_watch_removed(path)

    def _read_watch_removed(self, path: str) -> None:
        """Remove the server's watch of ``path``, which no watcher needs any more."""

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        check_path(path)
        token = self._token()
        first = path not in self._watches
        self._watches.setdefault(path, {})[token] = (callback, contextvars.copy_context())
        if first:
            self._watch_added(path)

        def stop() -> None:
            watchers = self._watches.get(path)
            if watchers is not None and watchers.pop(token, None) is not None and not watchers:
                del self._watches[path]
                self._watch_removed(path)

        return stop

    def _watch_added(self, path: str) -> None:
        """Set a watch of ``path`` on the server, for its first watcher."""

    def _watch_removed(self, path: str) -> None:
        """Handle the removal of the last watcher of ``path``."""

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        token = self._token()
        self._listeners[token] = (callback, contextvars.copy_context())

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _silence(self) -> float:
        """Return the time since the last proof as a fraction of the session timeout."""
        return (self._loop.time() - self._proof) / self._timeout_s

    def _until_expiry(self) -> float:
        """Return the seconds until the session must be given up unless it is proven again.

        The session timeout is returned when that time has passed.
        """
        remaining = self._proof + EXPIRE_FRACTION * self._timeout_s - self._loop.time()
        return max(remaining, 0.0) + 0.001 if remaining > -0.001 else self._timeout_s

    def _set_state(self, state: SessionState) -> None:
        if state is self._state:
            return
        self._state = state
        self._read_watches.clear()
        if state is SessionState.CONNECTED:
            self._connection += 1
        for callback, context in list(self._listeners.values()):
            self._loop.call_soon(callback, state, context=context)
        if state is SessionState.CONNECTED:
            for waiter in list(self._waiters):
                if not waiter.done():
                    waiter.set_result(None)
            for path in list(self._watches):
                self._changed(path)

    def _changed(self, path: str) -> None:
        """Schedule a call of the watchers of ``path``; several changes before the loop's next turn are one call."""
        for watch, context in self._read_watches.pop(path, {}).items():
            self._loop.call_soon(watch, path, context=context)
        self._schedule_watchers(path)

    def _schedule_watchers(self, path: str) -> None:
        if path in self._watches and path not in self._due:
            self._due[path] = None
            self._loop.call_soon(self._notify_watchers, path)

    def _notify_watchers(self, path: str) -> None:
        del self._due[path]
        for token, (callback, context) in list(self._watches.get(path, {}).items()):
            if token in self._watches.get(path, {}):  # an earlier callback may have stopped it
                self._loop.call_soon(callback, path, context=context)

    async def _wait_connected(self, deadline: float) -> None:
        """Return once connected. Raises SessionExpiredError, or StoreUnavailableError at ``deadline`` (loop time)."""
        while self._state is not SessionState.CONNECTED:
            if self._closed:
                raise SessionExpiredError("the session was closed")
            if self._state is SessionState.EXPIRED:
                raise SessionExpiredError("the session expired")
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters[waiter] = None
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                raise StoreUnavailableError(
                    f"not connected within {self._request_timeout_s} s"
                ) from None
            finally:
                self._waiters.pop(waiter, None)
        if self._closed:
            raise SessionExpiredError("the session was closed")
