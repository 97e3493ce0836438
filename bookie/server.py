"""The bookie: opens its storage, serves connections, keeps its registration, checkpoints, looks after its disks."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from bookie.disks import Disks
from bookie.garbage import GarbageCollector, Lanes
from bookie.identity import instance_id
from bookie.metrics import BookieMetrics
from bookie.opening import Directories
from bookie.presence import Presence
from bookie.requests.connection import BookieConnection
from bookie.requests.requests import Requests
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.files import Disk, Lane
from bookie.storage.index.index import BookieIndex
from bookie.storage.journal.journal import Journal
from bookie.storage.read_queue import ReadQueue, StoredEntries
from bookie.storage.recover import Storage
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.metrics import CollectorRegistry, generate_latest
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.status import Page, StatusServer, metrics_page, ready_page

log = logging.getLogger(__name__)

CLOSE_DEADLINE_S = 10.0
Readings = dict[str, tuple[str, Callable[[], float]]]


class Bookie:
    """One bookie. ``lanes(name)`` makes a lane. ``over`` is set when it should be stopped: somebody asked, or its disk
    failed; then ``failed`` says why, nobody is answered any more, and the process should end with a non-zero status."""

    def __init__(
        self,
        settings: BookieSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        network: Network,
        store: MetadataStore,
        disk: Disk,
        lanes: Callable[[str], Lane],
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._disk = disk
        self._lanes = lanes
        self.metrics = BookieMetrics()
        self.failed: BaseException | None = None
        self.over = asyncio.Event()
        self.port = 0
        self.bookie_id = ""
        self._directories = Directories(disk, settings)
        self._tasks = TaskScope("bookie", on_error=lambda name, error: self._fail(error))
        self._made_lanes: list[Lane] = []
        self._listener = Listener(
            network, self._connection, connections_max=settings.max_connections
        )
        registry = CollectorRegistry()
        registry.register(self.metrics)
        self._status = StatusServer(
            network,
            {
                "/metrics": metrics_page(lambda: generate_latest(registry)),
                "/ready": ready_page(self.why_not_ready),
                "/api/v1/bookie/info": self._space_page,
            },
        )
        self._storage: Storage | None = None
        self._started = False
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Serving and registered; read-only counts as ready."""
        return self.why_not_ready() is None

    def why_not_ready(self) -> str | None:
        """None when ready."""
        if self.failed is not None:
            return f"failed: {self.failed}"
        if not self._started:
            return "starting: replaying the journal"
        return None if self._presence.registered else "not registered in the metadata store"

    @property
    def read_only(self) -> bool:
        return self._requests.read_only

    async def start(self) -> None:
        """Check identity, replay, listen, register. Raises IdentityError, DamagedError, OSError, store errors; then
        ``stop`` must still be called. Nothing is answered before the replay is flushed."""
        settings = self.settings
        if settings.http_server_port is not None:
            await self._status.start(settings.listening_host, settings.http_server_port)
        self._directories.make()
        initialize = settings.initialize_cluster and self._directories.are_new()
        self._instance_id = await instance_id(self._store, self._entropy, initialize=initialize)
        self.bookie_id = settings.bookie_id or f"{settings.host}:{settings.bookie_port}"
        cookie = self._directories.cookie(self.bookie_id, self._instance_id)
        await self._directories.identify(self._store, self.bookie_id, cookie)
        self._flush_lane, self._read_lane = self._lane("flush"), self._lane("read")
        started = self._clock.monotonic_s()
        storage = self._storage = await self._flush_lane.run(
            partial(self._directories.open, cookie, lambda: self._entropy.bits(64))
        )
        log.info(
            "storage open id=%s replayed_records=%d ledgers=%d logs=%d rebuilt=%s seconds=%.3f",
            self.bookie_id,
            storage.replayed,
            len(storage.ledgers),
            len(storage.logs),
            storage.rebuilt,
            self._clock.monotonic_s() - started,
        )
        self._serve(storage, cookie)
        await self._listener.start(settings.listening_host, settings.bookie_port)
        self.port = self._listener.port
        self._presence = Presence(
            self._store, self._clock, settings, self.bookie_id, self.port, self._status.port or None
        )
        await self.disks.check()
        await self._presence.register()
        self._started = True
        self._tasks.spawn("presence", self._presence.keep())
        self._tasks.spawn("checkpoints", self._checkpointer.run())
        self._tasks.spawn("disks", self.disks.run())
        self._tasks.spawn("gc", self.garbage.run())
        log.info("bookie serves id=%s port=%d", self.bookie_id, self.port)

    def request_stop(self) -> None:
        """Ask whoever runs this bookie to stop it."""
        self.over.set()

    async def stop(self) -> None:
        """Unregister, stop serving, flush, close. Safe to call after a failed start, and twice."""
        if self._stopping:
            return
        self._stopping = True
        self._listener.stop_accepting()
        await self._tasks.close()
        if self.failed is None and self._started:
            try:
                async with asyncio.timeout(CLOSE_DEADLINE_S):
                    await self._presence.unregister()
                    await self._journal.drain()
                    await self._listener.drain(CLOSE_DEADLINE_S / 2)
                    await self._checkpointer.step(checkpoint=True)
            except (OSError, TimeoutError) as error:
                log.warning("could not flush while stopping, the journal has it reason=%s", error)
        await self._listener.drain(0)
        await self._status.close()
        for lane in self._made_lanes:
            lane.close()
        if self._storage is not None:
            self.garbage.close()
            self._storage.close()
        self.over.set()

    # Start

    def _lane(self, name: str) -> Lane:
        lane = self._lanes(name)
        self._made_lanes.append(lane)
        return lane

    def _serve(self, storage: Storage, cookie: bytes) -> None:
        settings = self.settings
        self._journal = Journal(
            storage.journal,
            self._lane("journal"),
            self._fail,
            group_bytes_max=settings.journal_buffered_writes_threshold,
            group_entries_max=settings.journal_buffered_entries_threshold,
        )
        stored = StoredEntries(
            storage.entries,
            storage.reader,
            self._damaged,
            settings.read_ahead_cache_batch_bytes_size,
        )
        self._reads = ReadQueue(stored, self._read_lane, self._fail)
        self._checkpointer = Checkpointer(
            ledgers=storage.ledgers,
            journal=self._journal,
            writer=storage.journal,
            flusher=storage.flusher,
            lane=self._flush_lane,
            interval_s=settings.flush_interval_s,
            on_flushed=self._flushed,
            on_full=self._disk_full,
            spares=lambda: not self.read_only,
        )
        self.disks = Disks(
            self._disk,
            self._read_lane,
            settings,
            self._directories.journal,
            storage.logs,
            storage.ledgers.cache,
            cookie,
            self._looked_at_disks,
        )
        self.garbage = GarbageCollector(
            settings,
            storage,
            self._checkpointer,
            self.disks,
            Lanes(self._flush_lane, self._read_lane, self._lane("compaction")),
            disk=self._disk,
            store=self._store,
            clock=self._clock,
            instance_id=self._instance_id,
        )
        self._requests = Requests(
            self.settings,
            storage.ledgers,
            self._journal,
            self._reads,
            self.metrics,
            self._clock,
            on_cache_full=self._checkpointer.request,
            on_group=self._checkpointer.journal_grew,
            on_disk_full=self._disk_full,
            has_room=self.disks.has_room,
            space=lambda: self.disks.space[::-1],
            blocks=lambda ledger_id: self._read_lane.run(
                partial(_indexed, storage.entries, ledger_id)
            ),
        )
        self.metrics.gauges |= self._gauges(storage)
        self.metrics.counters |= self._counters(storage)

    def _gauges(self, storage: Storage) -> Readings:
        cache, logs = storage.ledgers.cache, storage.logs
        return {
            "bookie_ready": ("1 when serving and registered", lambda: float(self.ready)),
            "bookie_read_only": ("1 when normal adds are refused", lambda: float(self.read_only)),
            "bookie_ledgers": ("Ledgers known, with tombstones", lambda: len(storage.ledgers)),
            "bookie_write_cache_bytes": ("Bytes not yet in entry logs", lambda: cache.size),
            "bookie_journal_pending_bytes": (
                "Bytes queued for the journal",
                lambda: self._journal.pending_bytes,
            ),
            "bookie_reads_pending": ("Reads in the read lane", lambda: self._reads.pending),
            "bookie_long_polls": (
                "Reads that wait for the last confirmed entry",
                lambda: self._requests.long_polls,
            ),
            "bookie_connections": ("Open connections", lambda: len(self._listener.connections)),
            "bookie_entry_logs": ("Entry log files", lambda: len(logs)),
            "bookie_entry_log_bytes": ("Bytes in them", lambda: sum(list(logs.ends.values()))),
            "bookie_entry_log_live_bytes": (
                "Bytes in them of ledgers that were not deleted",
                lambda: storage.entries.live_bytes,
            ),
            "bookie_ledger_dir_free_bytes": (
                "Free bytes of the ledger directories' disks",
                lambda: self.disks.space[0],
            ),
            "bookie_ledger_dirs_full": ("Full ledger directories", lambda: len(logs.full)),
        }

    def _counters(self, storage: Storage) -> Readings:
        garbage, reader = self.garbage, storage.reader
        return {
            "bookie_journal_groups": ("Journal groups synced", lambda: self._journal.groups),
            "bookie_journal_bytes": ("Bytes in them", lambda: self._journal.group_bytes),
            "bookie_flushes": ("Write cache flushes", lambda: self._checkpointer.flushes),
            "bookie_flushed_bytes": ("Bytes in them", lambda: self._checkpointer.flushed_bytes),
            "bookie_read_cache_hits": ("Blocks found in memory", lambda: reader.hits),
            "bookie_read_cache_misses": ("Blocks read from disk", lambda: reader.misses),
            "bookie_disk_read_bytes": ("Bytes read for them and ahead", lambda: reader.read_bytes),
            "bookie_ledgers_deleted": ("Ledgers forgotten", lambda: garbage.ledgers_forgotten),
            "bookie_entry_logs_removed": ("Entry logs removed", lambda: garbage.logs_removed),
            "bookie_entry_logs_compacted": ("Of which compacted", lambda: garbage.logs_compacted),
            "bookie_entry_logs_kept_damaged": (
                "Entry logs not compacted because part of them cannot be read",
                lambda: garbage.logs_kept_damaged,
            ),
            "bookie_compaction_copied_bytes": ("Live bytes copied", lambda: garbage.copied_bytes),
            "bookie_compaction_copied_entries": ("Entries copied", lambda: garbage.copied_entries),
            "bookie_compaction_freed_bytes": ("Dead bytes freed", lambda: garbage.freed_bytes),
        }

    def _connection(self) -> BookieConnection:
        return BookieConnection(self._requests, self.settings.netty_max_frame_size_bytes)

    # Failures and disks

    def _fail(self, error: BaseException) -> None:
        """The disk, or a task that everything depends on, failed: answer nobody from now on."""
        if self.failed is not None or self._stopping:
            return
        self.failed = error
        log.critical("bookie stops, it cannot promise durability any more", exc_info=error)
        self._listener.stop_accepting()
        for connection in self._listener.connections:
            connection.abort()
        self.over.set()

    def _damaged(self, error: Exception) -> None:  # called in the read lane
        self.metrics.damaged += 1
        log.error("stored entry cannot be read reason=%s", error)

    def _disk_full(self, error: Exception) -> None:
        self._set_read_only(True, str(error))

    def _set_read_only(self, read_only: bool, reason: str) -> None:
        if read_only == self._requests.read_only:
            return
        self._requests.read_only = read_only
        self._presence.set_read_only(read_only)
        log.warning("bookie is %s reason=%s", "read-only" if read_only else "writable", reason)

    def _flushed(self) -> None:
        self._requests.relieve()
        self.disks.look_soon()

    def _looked_at_disks(self, read_only: bool, reason: str) -> None:
        if read_only:
            self._set_read_only(True, reason)
        elif self._checkpointer.stuck:
            self._checkpointer.request()  # there is room again: writable once what waits is written
        else:
            self._set_read_only(False, reason)

    def _space_page(self) -> Page:
        """BookKeeper's page about the disk that ledgers are kept on, in bytes, as of the last look."""
        free, total = self.disks.space
        return Page(200, b'{"freeSpace":%d,"totalSpace":%d}' % (free, total), "application/json")


def _indexed(index: BookieIndex, ledger_id: int) -> list[tuple[int, int]]:
    """First and last entry of each of a ledger's records."""
    return [(first, first + place.entries - 1) for first, place in index.blocks(ledger_id)]
