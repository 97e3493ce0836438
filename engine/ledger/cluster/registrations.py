"""Which bookies are registered, where they listen, in which racks they stand: the metadata store's view, watched."""

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
    """``health_check_off``: the cluster's operators turned it off. ``loaded``: read once at least."""

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
        self._when_back: list[Callable[[str], None]] = []

    def start(self) -> None:
        """Watch and load; idempotent."""
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def load(self) -> None:
        """Read them now. Raises the store's errors."""
        names = await self._children(paths.AVAILABLE)
        read_only = await self._children(paths.READ_ONLY)
        racks = await self._load_racks()
        off = await self._store.exists(paths.DISABLE_HEALTH_CHECK) is not None
        writable = [name for name in names if name != "readonly"]
        back = [bookie for bookie in writable if bookie not in self.writable]
        self.writable, self.read_only, self.racks = writable, read_only, racks
        self.health_check_off = off
        self.loaded = True
        for bookie in back:
            self.forget_address(bookie)
            for told in self._when_back:
                told(bookie)
        for callback in list(self._listeners.values()):
            callback()

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._store.children(path)
        except NoNodeError:
            return []

    async def _load_racks(self) -> dict[str, str]:
        """What operators told about racks; an unreadable map is as none, so that it cannot stop writing."""
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
        """Call after registrations were read again; returns how to stop it."""
        token = object()
        self._listeners[token] = callback

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def on_back(self, callback: Callable[[str], None]) -> None:
        """Call with each bookie that is new or back again: what failed before is past, another process may answer."""
        self._when_back.append(callback)

    async def address(self, bookie_id: str) -> tuple[str, int]:
        """Where a bookie is registered to listen, or what its id says when it is not registered."""
        known = self._addresses.get(bookie_id)
        if known is not None:
            return known
        for path in (paths.available_bookie(bookie_id), paths.read_only_bookie(bookie_id)):
            try:
                data, _ = await self._store.get(path)
            except NoNodeError:
                continue
            found = BookieRegistration.decode(data).address(bookie_id)
            self._addresses[bookie_id] = found
            return found
        return BookieRegistration([]).address(bookie_id)

    def forget_address(self, bookie_id: str) -> None:
        """It may listen elsewhere: ask again."""
        self._addresses.pop(bookie_id, None)
