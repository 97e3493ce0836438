"""The bookies of the cluster as one process sees them: who is registered, how to reach them, who failed lately."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.base.entropy import Entropy
from engine.base.tasks import TaskScope
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.cluster.explicit_lac import V3Channel
from engine.ledger.cluster.health import BookieHealth
from engine.ledger.cluster.link import BookieLink
from engine.ledger.cluster.placement import DEFAULT_RACK, Candidates, Placement, own_seats, policy
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.records import BookieRacks, BookieRegistration, RecordFormatError
from engine.metadata.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.net.network import Network

log = logging.getLogger(__name__)

RELOAD_RETRY_S = 0.5
C = TypeVar("C", bound=BookieLink)
BACKOFF_STEPS = 32
"""The first pause after a failed connect is this part of the longest."""
WATCHED = (
    paths.AVAILABLE,
    paths.READ_ONLY,
    paths.BOOKIE_RACKS,
    paths.DISABLE_HEALTH_CHECK,
)
BATCH_RETRY_S = 600.0
"""A bookie that refused a batch read is not asked for one for so long."""


class BookieCluster:
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
        self.racks: dict[str, str] = {}
        self.health = BookieHealth(settings)
        self._store = store
        self._network = network
        self._entropy = entropy
        self._settings = settings
        self._placement = (
            policy(settings.ensemble_placement_policy, entropy, settings)
            if placement is None
            else placement
        )
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskScope("bookies")
        self._channels: dict[str, BookieChannel] = {}
        self._reading: dict[str, BookieChannel] = {}
        self._v3: dict[str, V3Channel] = {}
        self._no_batches: dict[str, float] = {}
        self._no_v3: dict[str, None] = {}
        self._batches_known: dict[str, None] = {}
        self._backoff: dict[str, tuple[float, float]] = {}  # pause, until
        self._addresses: dict[str, tuple[str, int]] = {}
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
        for path in WATCHED:
            self._stops.append(self._store.watch(path, lambda _path: self._changed.set()))
        self._changed.set()
        self._tasks.spawn("registrations", self._follow())

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        await self._tasks.close()
        for channels in (self._channels, self._reading, self._v3):
            for channel in list(channels.values()):
                channel.take_down("client closed")
        await asyncio.sleep(0)  # transports let go of their sockets a turn after they are told

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
        racks = await self._load_racks()
        self.health.quarantine_off = (
            await self._store.exists(paths.DISABLE_HEALTH_CHECK) is not None
        )
        writable = [name for name in names if name != "readonly"]
        for bookie in writable:
            if bookie not in self.writable:  # new, or back again: what failed before is past
                self._forget(bookie)
        self.writable, self.read_only, self.racks = writable, read_only, racks
        self._loaded.set()
        for callback in list(self._listeners.values()):
            callback()

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

    def _forget(self, bookie_id: str) -> None:
        """What was known of a bookie that registers anew: another process may answer now."""
        self._addresses.pop(bookie_id, None)
        self._backoff.pop(bookie_id, None)
        self._no_batches.pop(bookie_id, None)
        self._batches_known.pop(bookie_id, None)
        self._no_v3.pop(bookie_id, None)
        self.health.registered(bookie_id)

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

    async def choose(self, size: int, write_quorum: int) -> list[str]:
        """Ensemble of a new ledger. Raises NotEnoughBookiesError after one fresh look at the registrations."""
        if not self._loaded.is_set() or len(self.writable) < size:
            await self._load_registrations()
        return self._placement.ensemble(size, write_quorum, self._candidates())

    def replacements(
        self, positions: Sequence[int], ensemble: Sequence[str], write_quorum: int
    ) -> dict[int, str]:
        """Bookies for ``positions`` of an ensemble, for as many as there are: no other members, none that failed
        lately. The member on one of ``positions`` may get its seat back."""
        candidates = self._candidates()
        chosen = self._placement.replacements(positions, ensemble, write_quorum, candidates)
        return own_seats(chosen, ensemble)

    def _candidates(self) -> Candidates:
        now = self._loop.time()
        return Candidates(
            writable=self.writable,
            suspect=self.health.suspects(now),
            quarantined=self.health.quarantined(now),
            load=self._load,
            racks=self.racks,
        )

    def failed(self, bookie_id: str) -> None:
        """Avoid a bookie for a while."""
        if self.health.failed(bookie_id, self._loop.time()):
            log.warning(
                "bookie fails often, avoided bookie=%s for_s=%g",
                bookie_id, self._settings.quarantine_s,
            )  # fmt: skip

    def slow(self, bookie_id: str) -> None:
        """Ask others first for a while."""
        self.health.slow(bookie_id, self._loop.time())

    def read_costs(self, bookies: Sequence[str]) -> list[tuple[int, bool]]:
        """By position, what speaks against asking it first: failures, slowness, another rack than ours."""
        now = self._loop.time()
        near, rank = self._settings.local_rack, self.health.read_rank
        return [
            (rank(bookie, now), bool(near) and self.racks.get(bookie, DEFAULT_RACK) != near)
            for bookie in bookies
        ]

    def count(self, bookie_id: str, delta: int) -> None:
        """A writer started (+1) or stopped (-1) using a bookie."""
        self._load[bookie_id] = self._load.get(bookie_id, 0) + delta

    # Connections

    def channel(self, bookie_id: str) -> BookieChannel:
        """The channel for adds, fencing and recovery, connecting when there is none. May go down at any time, and
        comes down already while a bookie cannot be connected to."""
        return self._live(self._channels, bookie_id, BookieChannel)

    def reading(self, bookie_id: str) -> BookieChannel:
        """The channel for plain reads, likewise: its answers can never be taken for those of fencing reads (C10), and
        its large answers never stand before acknowledgements."""
        return self._live(self._reading, bookie_id, BookieChannel)

    def v3(self, bookie_id: str) -> V3Channel:
        """The connection for requests that only V3 has; down at once with a bookie that closed it without an answer,
        until that registers anew."""
        if bookie_id in self._no_v3:
            channel = V3Channel(bookie_id, self._settings.unsent_bytes_max)
            channel.take_down("knows no V3")
            return channel
        return self._live(self._v3, bookie_id, V3Channel)

    def knows_batches(self, bookie_id: str) -> bool:
        """False for a while once a bookie refused a batch read, or until it registers anew."""
        until = self._no_batches.get(bookie_id, 0.0)
        return self._settings.batch_read and until <= self._loop.time()

    def refuses_batches(self, bookie_id: str) -> None:
        if self.knows_batches(bookie_id):
            log.info("bookie knows no batch reads bookie=%s", bookie_id)
        self._no_batches[bookie_id] = self._loop.time() + BATCH_RETRY_S

    def _live(self, channels: dict[str, C], bookie_id: str, make: Callable[[str, int], C]) -> C:
        channel = channels.get(bookie_id)
        if channel is not None and channel.down is None:
            return channel
        channel = make(bookie_id, self._settings.unsent_bytes_max)
        _, until = self._backoff.get(bookie_id, (0.0, 0.0))
        if self._tasks.closed:
            channel.take_down("client closed")
            return channel
        if until > self._loop.time():
            channel.take_down("cannot be connected to")
            return channel
        channel.on_down(self._channel_down)
        channels[bookie_id] = channel
        self._tasks.spawn(f"connect {bookie_id}", self._connect(channel))
        return channel

    async def _connect(self, channel: BookieLink) -> None:
        bookie_id = channel.bookie_id
        await channel.connect(
            self._network, lambda: self.address(bookie_id), self._settings.connect_timeout_s
        )
        if channel.transport is not None:
            self._backoff.pop(bookie_id, None)

    def _channel_down(self, channel: BookieLink, reason: str) -> None:
        bookie_id = channel.bookie_id
        for channels in (self._channels, self._reading, self._v3):
            if channels.get(bookie_id) is channel:
                del channels[bookie_id]
        self._addresses.pop(bookie_id, None)
        if self._tasks.closed:
            return
        log.info("bookie connection down bookie=%s reason=%s", bookie_id, reason)
        if channel.transport is None:
            self._wait_longer(bookie_id)
            self.health.unreachable(bookie_id, self._loop.time())
            return
        if isinstance(channel, BookieChannel) and self._refused_batch(channel):
            return
        if isinstance(channel, V3Channel) and channel.closed_by_peer and not channel.answered:
            self._no_v3[bookie_id] = None
            return
        self.failed(bookie_id)

    def _refused_batch(self, channel: BookieChannel) -> bool:
        """Whether the bookie closed the connection instead of answering a batch read, as those do that do not know it.
        One that died looks the same, and is asked one by one for a while."""
        if channel.batches:
            self._batches_known[channel.bookie_id] = None
        unanswered = channel.batches is False and channel.closed_by_peer
        if not unanswered or channel.bookie_id in self._batches_known:
            return False
        self.refuses_batches(channel.bookie_id)
        return True

    def _wait_longer(self, bookie_id: str) -> None:
        longest = self._settings.reconnect_backoff_max_s
        pause, _ = self._backoff.get(bookie_id, (longest / BACKOFF_STEPS / 2, 0.0))
        pause = min(pause * 2, longest)
        jittered = pause * (0.5 + self._entropy.random() / 2)
        self._backoff[bookie_id] = pause, self._loop.time() + jittered
