"""The bookie's registration: its ephemeral node under /ledgers/available, restored in every session."""

import asyncio
import logging
from contextlib import suppress

from bookie.cookies import IdentityError
from bookie.settings import BookieSettings
from engine.base.clock import Clock
from engine.metadata import paths
from engine.metadata.records import BookieRegistration
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Presence:
    """Maintains the ephemeral node of the present mode across sessions. One task runs ``keep``."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        settings: BookieSettings,
        bookie_id: str,
        port: int,
        http_port: int | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._writable = paths.available_bookie(bookie_id)
        self._read_only = paths.read_only_bookie(bookie_id)
        self._cookie = paths.cookie(bookie_id)
        registration = BookieRegistration.at(settings.host, port, http_port, tls=settings.has_tls)
        self._value = registration.encode()
        self._changed = asyncio.Event()
        self.read_only = False
        self.registered = False

    def set_read_only(self, read_only: bool) -> None:
        """Change the mode; ``keep`` then changes the registration."""
        if read_only != self.read_only:
            self.read_only = read_only
            self._changed.set()

    async def register(self) -> None:
        """Create the node of the present mode, then remove the other one. Raises store errors.

        A node of another session is this bookie's from before a crash and is replaced at once: the cookie binds the id
        to its disks, and the index is locked by this process. Raises IdentityError when such a node returns repeatedly,
        because another process then uses the id, and when the cookie is gone: the bookie was taken out of the cluster
        while it started, or was cut off (I44).
        """
        mine, other = self._writable, self._read_only
        if self.read_only:
            mine, other = other, mine
        session_id = self._store.session_id
        deadline = self._clock.monotonic_s() + 2 * self._settings.zk_timeout_s
        replaced = False
        while True:
            try:
                await self._store.create(mine, self._value, ephemeral=True, make_parents=True)
                break
            except NodeExistsError:
                stat = await self._store.exists(mine)
                if stat is not None and stat.ephemeral_owner == self._store.session_id:
                    break
            if self._clock.monotonic_s() > deadline:
                raise IdentityError(f"{mine} is held by another process: two bookies with one id")
            if replaced:
                await asyncio.sleep(min(RETRY_S, self._settings.zk_timeout_s / 4))
            replaced = True
            with suppress(NoNodeError):
                await self._store.delete(mine)
        with suppress(NoNodeError):
            await self._store.delete(other)
        if await self._store.exists(self._cookie) is None:
            with suppress(NoNodeError):
                await self._store.delete(mine)
            raise IdentityError(f"{self._cookie} is gone: this bookie was decommissioned")
        # A call that waited for a connection may have completed in a later session; ``keep`` then registers in that.
        self.registered = self._store.session_id == session_id

    async def keep(self) -> None:
        """Register again after every expired session, change of mode, and loss of the node, until cancelled.

        The node can be lost when a deletion sent by an earlier process of this bookie arrives after this one has
        registered.
        """
        stops = [
            self._store.on_state(self._on_state),
            self._store.watch(self._writable, lambda _: self._changed.set()),
            self._store.watch(self._read_only, lambda _: self._changed.set()),
        ]
        self._changed.set()  # for changes before the watches were set
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self.register()
                except (StoreUnavailableError, SessionExpiredError) as error:
                    log.warning("registration failed, retrying reason=%s", error)
                    await asyncio.sleep(RETRY_S)
                    self._changed.set()
        finally:
            for stop in stops:
                stop()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.registered = False
        self._changed.set()

    async def unregister(self) -> None:
        """Remove the node so that clients stop choosing this bookie at once. Best effort: the session's end removes it
        as well."""
        self.registered = False
        for path in (self._writable, self._read_only):
            try:
                await self._store.delete(path)
            except NoNodeError:
                continue
            except (StoreUnavailableError, SessionExpiredError) as error:
                log.warning("could not unregister path=%s reason=%s", path, error)
                return
