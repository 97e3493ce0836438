"""Things that one session at a time may hold: an ephemeral node, checked against the session that made it."""

import asyncio
import logging
from collections.abc import Callable

from engine.base.tasks import TaskScope
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)


class Lease:
    """A held node. ``held`` is False as soon as the session is unproven, another session, or the node was seen to go.

    It is an answer about now: ask again after every await before acting in the name of the lease.
    """

    def __init__(self, store: MetadataStore, path: str, value: bytes) -> None:
        self.path = path
        self.value = value
        self._store = store
        self._session_id = store.session_id
        self._gone = False
        self._lost: list[Callable[[], None]] = []
        self._version = 0
        self._check: asyncio.Task[None] | None = None
        self._tasks = TaskScope(f"lease {path}")
        self._stop_watch = store.watch(path, self._changed)
        self._stop_state = store.on_state(self._state_changed)

    @property
    def held(self) -> bool:
        return (
            not self._gone
            and self._store.session_id == self._session_id
            and self._store.state is SessionState.CONNECTED
        )

    @property
    def gone(self) -> bool:
        """Lost for good; while only unproven, ``held`` may come back."""
        return self._gone

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call once when the lease is gone for good."""
        if self._gone:
            callback()
        else:
            self._lost.append(callback)

    async def change(self, value: bytes) -> None:
        """Replace the node's value. Raises SessionExpiredError when the lease is gone."""
        if self._gone:
            raise SessionExpiredError(f"the lease on {self.path} is gone")
        try:
            self._version = await self._store.put(self.path, value)
        except NoNodeError:
            self._lose()
            raise SessionExpiredError(f"the lease on {self.path} is gone") from None
        self.value = value

    async def release(self) -> None:
        """Give it up: the node is deleted if it is still ours. Safe to call twice."""
        if self._gone:
            return
        self._lose()
        try:
            stat = await self._store.exists(self.path)
            if stat is not None and stat.ephemeral_owner == self._session_id:
                await self._store.delete(self.path, stat.version)
        except NoNodeError:
            return

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED or (
            state is SessionState.CONNECTED and self._store.session_id != self._session_id
        ):
            self._lose()

    def _changed(self, _path: str) -> None:
        if not self._gone and (self._check is None or self._check.done()):
            self._check = self._tasks.spawn("check", self._verify())

    async def _verify(self) -> None:
        try:
            stat = await self._store.exists(self.path)
        except SessionExpiredError:
            self._lose()
            return
        except StoreUnavailableError:
            return  # told again after the reconnect
        if stat is None or stat.ephemeral_owner != self._session_id:
            self._lose()

    def _lose(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._stop_watch()
        self._stop_state()
        self._tasks.closed = True
        callbacks, self._lost = self._lost, []
        for callback in callbacks:
            callback()


async def acquire(store: MetadataStore, path: str, value: bytes) -> Lease | None:
    """Take the ephemeral node ``path`` if nobody holds it; None when somebody does.

    A node that our own present session made before (an answer was lost) counts as taken by us. Raises
    StoreUnavailableError: it may be ours; call again to find out.
    """
    try:
        await store.create(path, value, ephemeral=True, make_parents=True)
    except NodeExistsError:
        try:
            data, stat = await store.get(path)
        except NoNodeError:
            return None  # just released; the caller decides whether to try again
        if stat.ephemeral_owner != store.session_id:
            return None
        if data != value:
            await store.put(path, value, stat.version)
    return Lease(store, path, value)


class Election:
    """One leader among all sessions that run an election on ``path``.

    ``leader`` is the lease while we lead. ``run`` takes the lead whenever it is free, until cancelled.
    """

    def __init__(self, store: MetadataStore, path: str, value: bytes, retry_s: float = 0.5) -> None:
        self.path = path
        self.lease: Lease | None = None
        self._store = store
        self._value = value
        self._retry_s = retry_s
        self._elected: list[Callable[[Lease], None]] = []
        self._wake = asyncio.Event()

    @property
    def leading(self) -> bool:
        return self.lease is not None and self.lease.held

    def on_elected(self, callback: Callable[[Lease], None]) -> None:
        """Call each time we become the leader."""
        self._elected.append(callback)

    async def run(self) -> None:
        """Stand for election until cancelled; then the lead is given up."""
        stop = self._store.watch(self.path, lambda _path: self._wake.set())
        try:
            while True:
                self._wake.clear()
                await self._stand()
                timeout = None if self.lease is not None else self._retry_s
                try:
                    async with asyncio.timeout(timeout):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            stop()
            try:
                async with asyncio.timeout(1.0):
                    await self._give_up()
            except (TimeoutError, StoreUnavailableError, SessionExpiredError):
                log.info("lead not given up explicitly path=%s", self.path)

    async def _give_up(self) -> None:
        """Release the lead, also one that was being taken when we were cancelled."""
        lease, self.lease = self.lease, None
        if lease is not None:
            await lease.release()
            return
        try:
            stat = await self._store.exists(self.path)
            if stat is not None and stat.ephemeral_owner == self._store.session_id:
                await self._store.delete(self.path, stat.version)
        except NoNodeError:
            return

    async def _stand(self) -> None:
        if self.lease is not None and not self.lease.gone:
            return
        self.lease = None
        try:
            lease = await acquire(self._store, self.path, self._value)
        except (StoreUnavailableError, SessionExpiredError) as e:
            log.info("election waits path=%s reason=%s", self.path, e)
            return
        if lease is None:
            return
        self.lease = lease
        lease.on_lost(self._wake.set)
        for callback in list(self._elected):
            callback(lease)
