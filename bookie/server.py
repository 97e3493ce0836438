"""The bookie: opens its storage, serves connections, keeps its registration, checkpoints, looks after its disks."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from bookie.connection import BookieConnection
from bookie.metrics import BookieMetrics
from bookie.registration import (
    Registration,
    check_cookie,
    cookie_text,
    instance_id,
    read_local_cookies,
    write_cookie,
    write_local_cookies,
)
from bookie.requests import Requests
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.files import Disk, Lane
from bookie.storage.gc import TOMBSTONE_MS, collect, find_deleted, remove_logs
from bookie.storage.index import BookieIndex
from bookie.storage.journal import Journal
from bookie.storage.reads import ReadQueue, StoredEntries
from bookie.storage.recover import Limits, Storage, format_storage, open_storage
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.metrics import CollectorRegistry, generate_latest
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.status import Page, StatusServer, metrics_page, ready_page

log = logging.getLogger(__name__)

CLOSE_DEADLINE_S = 10.0


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
        self._journal_dir = f"{settings.journal_root}/current"
        self._ledger_dir = f"{settings.ledger_root}/current"
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
        self._ledger_space = (0, 0)
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
        return None if self._registration.registered else "not registered in the metadata store"

    @property
    def read_only(self) -> bool:
        return self._requests.read_only

    async def start(self) -> None:
        """Check identity, replay, listen, register. Raises IdentityError, DamagedError, OSError, store errors; then
        ``stop`` must still be called. Nothing is answered before the replay is flushed."""
        settings = self.settings
        if settings.http_server_port is not None:
            await self._status.start(settings.listening_host, settings.http_server_port)
        self._instance_id = await instance_id(
            self._store, self._entropy, initialize=settings.initialize_cluster and self._is_new()
        )
        self.bookie_id = settings.bookie_id or f"{settings.host}:{settings.bookie_port}"
        journal, ledgers = (
            settings.named(settings.journal_root),
            settings.named(settings.ledger_root),
        )
        identity = cookie_text(self.bookie_id, journal, ledgers, self._instance_id)
        await self._check_identity(identity)
        self._flush_lane, self._read_lane = self._lane("flush"), self._lane("read")
        started = self._clock.monotonic_s()
        storage = self._storage = await self._flush_lane.run(partial(self._open, identity))
        log.info(
            "storage open id=%s replayed_records=%d ledgers=%d seconds=%.3f",
            self.bookie_id,
            storage.replayed,
            len(storage.ledgers),
            self._clock.monotonic_s() - started,
        )
        self._serve(storage)
        await self._listener.start(settings.listening_host, settings.bookie_port)
        self.port = self._listener.port
        self._registration = Registration(
            self._store, self._clock, settings, self.bookie_id, self.port, self._status.port or None
        )
        await self._check_disks()
        await self._registration.register()
        self._started = True
        self._tasks.spawn("registration", self._registration.keep())
        self._tasks.spawn("checkpoints", self._checkpointer.run())
        self._tasks.spawn("disks", self._watch_disks())
        self._tasks.spawn("gc", self._collect_garbage())
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
                    await self._registration.unregister()
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
            self._storage.journal.close()
            self._storage.log.leave()
            self._storage.reader.close()
            self._storage.entries.close()
        self.over.set()

    # Start

    def _lane(self, name: str) -> Lane:
        lane = self._lanes(name)
        self._made_lanes.append(lane)
        return lane

    def _is_new(self) -> bool:
        for directory in (self._journal_dir, self._ledger_dir):
            self._disk.makedirs(directory)
        cookies = read_local_cookies(self._disk, [self._journal_dir, self._ledger_dir])
        return cookies == [None, None]

    async def _check_identity(self, identity: bytes) -> None:
        directories = [self._journal_dir, self._ledger_dir]
        for directory in directories:
            self._disk.makedirs(directory)
        unfinished = f"{self._ledger_dir}/formatting"  # there from before the store's cookie until all is set up
        if not self._disk.exists(unfinished):
            local = read_local_cookies(self._disk, directories)
            if not await check_cookie(self._store, self.bookie_id, identity, local):
                return
            file = self._disk.open(unfinished, create=True)
            file.fdatasync()
            file.close()
            self._disk.sync_dir(self._ledger_dir)
        await write_cookie(self._store, self.bookie_id, identity)
        write_local_cookies(self._disk, directories, identity)
        format_storage(self._disk, self._journal_dir, self._ledger_dir, identity)
        self._disk.remove(unfinished)
        self._disk.sync_dir(self._ledger_dir)

    def _open(self, identity: bytes) -> Storage:
        settings = self.settings
        limits = Limits(
            settings.journal_file_bytes,
            settings.journal_direct,
            settings.write_cache_bytes // 2,
            settings.entry_log_bytes_max,
            settings.entry_log_direct,
            settings.entry_log_block_bytes_max,
            settings.read_cache_bytes,
        )
        return open_storage(
            self._disk,
            self._journal_dir,
            self._ledger_dir,
            identity,
            limits,
            lambda: self._entropy.bits(64),
            accept_loss=settings.accept_journal_loss,
        )

    def _serve(self, storage: Storage) -> None:
        self._journal = Journal(storage.journal, self._lane("journal"), self._fail)
        stored = StoredEntries(storage.entries, storage.reader, self._damaged)
        self._reads = ReadQueue(stored, self._read_lane, self._fail)
        self._checkpointer = Checkpointer(
            ledgers=storage.ledgers,
            journal=self._journal,
            writer=storage.journal,
            flusher=storage.flusher,
            lane=self._flush_lane,
            interval_s=self.settings.flush_interval_s,
            on_flushed=lambda: self._requests.relieve(),
            on_full=self._disk_full,
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
            has_room=self._has_room,
            space=lambda: self._ledger_space[::-1],
            blocks=lambda ledger_id: self._read_lane.run(
                partial(_indexed, storage.entries, ledger_id)
            ),
        )
        cache = storage.ledgers.cache
        self.metrics.gauges |= {
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
        }
        self.metrics.counters |= {
            "bookie_journal_groups": ("Journal groups synced", lambda: self._journal.groups),
            "bookie_journal_bytes": ("Bytes in them", lambda: self._journal.group_bytes),
            "bookie_flushes": ("Write cache flushes", lambda: self._checkpointer.flushes),
            "bookie_flushed_bytes": ("Bytes in them", lambda: self._checkpointer.flushed_bytes),
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
        self._registration.set_read_only(read_only)
        log.warning("bookie is %s reason=%s", "read-only" if read_only else "writable", reason)

    def _has_room(self) -> bool:
        return self._free_bytes > self.settings.min_usable_size_for_high_priority_writes

    async def _check_disks(self) -> None:
        worst, self._free_bytes, self._ledger_space = await self._read_lane.run(self._usage)
        if worst >= self.settings.disk_usage_threshold:
            self._set_read_only(True, f"disk usage {worst:.3f}")
        elif worst < self.settings.disk_usage_lwm_threshold:
            if self._checkpointer.stuck:
                self._checkpointer.request()  # there is room again: writable once what waits is written
            else:
                self._set_read_only(False, f"disk usage {worst:.3f}")

    def _usage(self) -> tuple[float, int, tuple[int, int]]:
        """Greatest used fraction of our disks, least free bytes, free and total bytes of the ledgers' disk."""
        worst, least, space = 0.0, 1 << 62, (0, 0)
        for directory in (self._journal_dir, self._ledger_dir):
            space = free, total = (
                self._disk.free_bytes(directory),
                self._disk.total_bytes(directory),
            )
            worst = max(worst, 1 - free / max(total, 1))
            least = min(least, free)
        return worst, least, space

    def _space_page(self) -> Page:
        """BookKeeper's page about the disk that ledgers are kept on, in bytes, as of the last look."""
        free, total = self._ledger_space
        return Page(200, b'{"freeSpace":%d,"totalSpace":%d}' % (free, total), "application/json")

    async def _watch_disks(self) -> None:
        while True:
            await asyncio.sleep(self.settings.disk_check_interval_s)
            await self._check_disks()

    # Garbage

    async def _collect_garbage(self) -> None:
        while True:
            await asyncio.sleep(self.settings.gc_wait_time_s)
            try:
                await self.collect_garbage()
            except (StoreUnavailableError, SessionExpiredError, NoNodeError) as error:
                log.warning("garbage collection put off reason=%s", error)

    async def collect_garbage(self) -> int:
        """One round; number of ledgers forgotten. Raises store errors with nothing deleted."""
        storage = self._storage
        assert storage is not None, "collect_garbage before start"
        candidates = storage.ledgers.live_ids()
        deleted = await find_deleted(candidates, self._is_deleted)
        # The store that denied them must be the cluster's own, not an empty one behind a wrong or wiped address.
        stored, _ = await self._store.get(paths.INSTANCE_ID)
        if stored.decode().strip() != self._instance_id:
            raise StoreUnavailableError(f"{paths.INSTANCE_ID} is not this cluster's")
        async with self._checkpointer.lock:
            if storage.ledgers.cache.flushing is not None:
                return 0  # a flush waits for room on the disk and would bring the ledgers back
            now = self._clock.wall_ms()
            found = [storage.ledgers.delete(ledger_id, now) for ledger_id in deleted]
            tombstones = [record for record in found if record is not None]
            expired = storage.ledgers.forget_deleted(now - TOMBSTONE_MS)
            logs = await self._flush_lane.run(
                partial(collect, storage.entries, tombstones, expired, storage.log.log_id)
            )
            await self._read_lane.run(
                partial(remove_logs, self._disk, self._ledger_dir, storage.reader, logs)
            )
        if tombstones:
            log.info("ledgers forgotten count=%d logs_removed=%d", len(tombstones), len(logs))
        return len(tombstones)

    async def _is_deleted(self, ledger_id: int) -> bool:
        return await self._store.exists(paths.ledger(ledger_id)) is None


def _indexed(index: BookieIndex, ledger_id: int) -> list[tuple[int, int]]:
    """First and last entry of each of a ledger's records."""
    return [(first, first + place.entries - 1) for first, place in index.blocks(ledger_id)]
