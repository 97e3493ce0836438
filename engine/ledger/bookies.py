"""The bookies of the cluster as one process sees them: who is registered, how to reach them, who failed lately."""

import asyncio
import logging
from collections.abc import Callable

from engine.base.entropy import Entropy
from engine.base.tasks import TaskScope
from engine.ledger.channel import BookieChannel
from engine.ledger.placement import Placement, SpreadPlacement
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.records import BookieRegistration
from engine.metadata.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.net.network import Network

log = logging.getLogger(__name__)

RELOAD_RETRY_S = 0.5


class Bookies:
    """One per ledger client. ``start`` before use, ``close`` at the end."""

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        entropy: Entropy,
        settings: LedgerSettings,
        placement: Placement | None = None,
    ) -> None:
        self.writable: list[str] = []
        self.read_only: list[str] = []
        self._store = store
        self._network = network
        self._settings = settings
        self._placement = placement if placement is not None else SpreadPlacement(entropy)
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskScope("bookies")
        self._channels: dict[str, BookieChannel] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._suspects: dict[str, float] = {}
        self._load: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next_token = 0
        self._stops: list[Callable[[], None]] = []
        self._loaded = asyncio.Event()
        self._started = False

    def start(self) -> None:
        """Watch the registrations and load them; idempotent."""
        if self._started:
            return
        self._started = True
        for path in (paths.AVAILABLE, paths.READ_ONLY):
            self._stops.append(self._store.watch(path, lambda _path: self._changed.set()))
        self._changed.set()
        self._tasks.spawn("registrations", self._follow())

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        await self._tasks.close()
        for channel in list(self._channels.values()):
            channel.take_down("client closed")

    # Registrations

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._load_registrations()
            except (StoreUnavailableError, SessionExpiredError) as e:
                log.info("bookie registrations not read, trying again reason=%s", e)
                await asyncio.sleep(RELOAD_RETRY_S)
                self._changed.set()

    async def _load_registrations(self) -> None:
        try:
            names = await self._store.children(paths.AVAILABLE)
        except NoNodeError:
            names = []
        try:
            read_only = await self._store.children(paths.READ_ONLY)
        except NoNodeError:
            read_only = []
        writable = [name for name in names if name != "readonly"]
        for bookie in writable:
            if bookie not in self.writable:  # new, or back again: what failed before is past
                self._addresses.pop(bookie, None)
                self._suspects.pop(bookie, None)
        self.writable, self.read_only = writable, read_only
        self._loaded.set()
        for callback in list(self._listeners.values()):
            callback()

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call after registrations were read again; returns how to stop it."""
        self._next_token += 1
        token = self._next_token
        self._listeners[token] = callback

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

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

    # Placement

    async def choose(self, size: int) -> list[str]:
        """Ensemble of a new ledger. Raises NotEnoughBookiesError after one fresh look at the registrations."""
        if not self._loaded.is_set() or len(self.writable) < size:
            await self._load_registrations()
        return self._placement.ensemble(size, self.writable, self._suspected(), self._load)

    def replacements(self, count: int, staying: list[str]) -> list[str]:
        """At most ``count`` bookies that are not in ``staying`` and did not fail lately."""
        return self._placement.replacements(
            count, staying, self.writable, self._suspected(), self._load
        )

    def failed(self, bookie_id: str) -> None:
        """Avoid a bookie for a while."""
        self._suspects[bookie_id] = self._loop.time() + self._settings.suspect_s

    def _suspected(self) -> list[str]:
        now = self._loop.time()
        for bookie, until in list(self._suspects.items()):
            if until <= now:
                del self._suspects[bookie]
        return list(self._suspects)

    def healthy(self, bookie_id: str) -> bool:
        return bookie_id not in self._suspected()

    def count(self, bookie_id: str, delta: int) -> None:
        """A writer started (+1) or stopped (-1) using a bookie."""
        self._load[bookie_id] = self._load.get(bookie_id, 0) + delta

    # Connections

    def channel(self, bookie_id: str) -> BookieChannel:
        """The live channel to a bookie, connecting when there is none. May go down at any time."""
        channel = self._channels.get(bookie_id)
        if channel is None or channel.down is not None:
            channel = BookieChannel(bookie_id, self._settings.unsent_bytes_max)
            channel.on_down(self._channel_down)
            if self._tasks.closed:
                channel.take_down("client closed")
                return channel
            self._channels[bookie_id] = channel
            self._tasks.spawn(
                f"connect {bookie_id}",
                channel.connect(
                    self._network,
                    lambda: self.address(bookie_id),
                    self._settings.connect_timeout_s,
                ),
            )
        return channel

    def _channel_down(self, channel: BookieChannel, reason: str) -> None:
        if self._channels.get(channel.bookie_id) is channel:
            del self._channels[channel.bookie_id]
        self._addresses.pop(channel.bookie_id, None)
        if not self._tasks.closed:
            log.info("bookie connection down bookie=%s reason=%s", channel.bookie_id, reason)
            self.failed(channel.bookie_id)
