"""Registered bookies, their addresses and racks, followed in the metadata store."""

import logging
from collections.abc import Callable

from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.records import BookieRacks, BookieRegistration, RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError

log = logging.getLogger(__name__)

WATCHED = (
    paths.AVAILABLE,
    paths.READ_ONLY,
    paths.BOOKIE_RACKS,
    paths.DISABLE_HEALTH_CHECK,
)


class Registrations:
    """The registered bookies and their racks as last loaded. ``health_check_off`` is True while the cluster's operators
    have turned the health check off, ``loaded`` once the registrations were read."""

    def __init__(self, store: MetadataStore) -> None:
        self.writable: list[str] = []
        self.read_only: list[str] = []
        self.racks: dict[str, str] = {}
        self.health_check_off = False
        self.loaded = False
        self._store = store
        self._follower = MetadataFollower(store, "bookie registrations", WATCHED, self.load)
        self._addresses: dict[str, tuple[str, int]] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        self._on_back: list[Callable[[str], None]] = []

    def start(self) -> None:
        """Watch and load; idempotent."""
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def load(self) -> None:
        """Read the registrations now and notify the callbacks. Raises the store's errors."""
        names = await self._children(paths.AVAILABLE)
        read_only = await self._children(paths.READ_ONLY)
        racks = await self._load_racks()
        off = await self._store.exists(paths.DISABLE_HEALTH_CHECK) is not None
        writable = [name for name in names if name != "readonly"]
        returned = [bookie for bookie in writable if bookie not in self.writable]
        self.writable, self.read_only, self.racks = writable, read_only, racks
        self.health_check_off = off
        self.loaded = True
        for bookie in returned:
            self.forget_address(bookie)
            for on_back in self._on_back:
                on_back(bookie)
        for callback in list(self._listeners.values()):
            callback()

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._store.children(path)
        except NoNodeError:
            return []

    async def _load_racks(self) -> dict[str, str]:
        """Return the rack map that operators set. While it is unreadable the last one stays in use, so that a damaged
        map cannot stop writes."""
        try:
            value, _ = await self._store.get(paths.BOOKIE_RACKS)
        except NoNodeError:
            return {}
        try:
            return BookieRacks.decode(value).racks
        except RecordFormatError as e:
            log.warning("bookie rack map not used reason=%s", e)
            return dict(self.racks)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` each time the registrations were read. Return a function that removes it."""
        token = object()
        self._listeners[token] = callback

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def on_back(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with each bookie that is new or registered again. Another process may answer there, so
        earlier failures no longer count."""
        self._on_back.append(callback)

    async def address(self, bookie_id: str) -> tuple[str, int]:
        """Return host and port of a bookie as registered, or as in its id when it is not registered."""
        cached = self._addresses.get(bookie_id)
        if cached is not None:
            return cached
        for path in (paths.available_bookie(bookie_id), paths.read_only_bookie(bookie_id)):
            try:
                data, _ = await self._store.get(path)
            except NoNodeError:
                continue
            address = BookieRegistration.decode(data).address(bookie_id)
            self._addresses[bookie_id] = address
            return address
        return BookieRegistration([]).address(bookie_id)

    def forget_address(self, bookie_id: str) -> None:
        """Read a bookie's address again at its next use, because it may have changed."""
        self._addresses.pop(bookie_id, None)
