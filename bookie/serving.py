"""A bookie's storage at work: request handling, flushing, garbage collection, and observation of the disks."""

import logging
from collections.abc import Callable
from functools import partial

from bookie.disks import Disks
from bookie.garbage import GarbageCollector, Lanes
from bookie.metrics import BookieMetrics, Readings
from bookie.mode import Mode
from bookie.requests.requests import Requests
from bookie.scrubbing import Scrubber
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.index.index import PINNED
from bookie.storage.journal.journal import Journal
from bookie.storage.read_queue import ReadQueue, StoredEntries
from bookie.storage.recover import Storage
from engine.base.clock import Clock
from engine.base.disk.files import Lane
from engine.base.disk.index_disk import IndexDisk
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)


class Serving:
    """The parts that work on an open storage. ``lanes`` returns a lane by its name; flush and read are in use
    already."""

    def __init__(
        self,
        settings: BookieSettings,
        storage: Storage,
        journal_directory: str,
        cookie: bytes,
        instance_id: str,
        mode: Mode,
        metrics: BookieMetrics,
        *,
        disk: IndexDisk,
        store: MetadataStore,
        clock: Clock,
        lanes: Callable[[str], Lane],
        failed: Callable[[BaseException], None],
    ) -> None:
        flush_lane, read_lane = lanes("flush"), lanes("read")
        self.storage = storage
        self._mode = mode
        self._metrics = metrics
        self.journal = Journal(
            storage.journal,
            lanes("journal"),
            failed,
            group_bytes_max=settings.journal_buffered_writes_threshold,
            group_entries_max=settings.journal_buffered_entries_threshold,
        )
        ahead = settings.read_ahead_cache_batch_bytes_size
        stored = StoredEntries(storage.entries, storage.reader, self._damaged, ahead)
        self.reads = ReadQueue(stored, read_lane, failed)
        self.checkpointer = self._make_checkpointer(settings.flush_interval_s, flush_lane)
        self.disks = Disks(
            disk,
            read_lane,
            settings,
            journal_directory,
            storage.logs,
            storage.ledgers.cache,
            cookie,
            self._disks_checked,
        )
        storage.logs.on_failed = self._logs_lost
        self.scrubber = Scrubber(
            settings,
            storage,
            self.checkpointer,
            lanes("compaction"),
            storage.logs.directories[0],
            disk=disk,
            clock=clock,
        )
        self.garbage = GarbageCollector(
            settings,
            storage,
            self.checkpointer,
            self.disks,
            Lanes(flush_lane, read_lane, lanes("compaction")),
            disk=disk,
            store=store,
            clock=clock,
            instance_id=instance_id,
        )
        self.requests = self._make_requests(settings, clock, read_lane)
        self._logs_lost([log_id for log_id in storage.entries.usage if log_id not in storage.logs])
        metrics.gauges |= self._gauges() | self.scrubber.gauges()
        metrics.counters |= self._counters() | self.scrubber.counters()

    def _make_checkpointer(self, interval_s: float, flush_lane: Lane) -> Checkpointer:
        return Checkpointer(
            ledgers=self.storage.ledgers,
            journal=self.journal,
            writer=self.storage.journal,
            flusher=self.storage.flusher,
            lane=flush_lane,
            interval_s=interval_s,
            on_flushed=self._flushed,
            on_full=self._disk_full,
            spares=lambda: not self._mode.read_only,
        )

    def _make_requests(self, settings: BookieSettings, clock: Clock, read_lane: Lane) -> Requests:
        return Requests(
            settings,
            self.storage.ledgers,
            self.journal,
            self.reads,
            self._mode,
            self._metrics,
            clock,
            on_cache_full=self.checkpointer.request,
            on_group=self.checkpointer.journal_grew,
            on_disk_full=self._disk_full,
            has_room=self.disks.has_room,
            space=lambda: self.disks.space[::-1],
            blocks=lambda ledger_id: read_lane.run(partial(self._held, ledger_id)),
        )

    def start(self, tasks: TaskScope) -> None:
        """Start the periodic tasks."""
        tasks.spawn("checkpoints", self.checkpointer.run())
        tasks.spawn("disks", self.disks.run())
        tasks.spawn("gc", self.garbage.run())
        tasks.spawn("scrub", self.scrubber.run())

    def close(self) -> None:
        """Close the files. Call after the lanes are closed."""
        self.garbage.close()
        self.storage.close()

    def _held(self, ledger_id: int) -> list[tuple[int, int]]:  # called in the read lane
        """Return the ranges of a ledger that the index names, of logs that are there, and that are not known to be
        unreadable."""
        entries, logs = self.storage.entries, self.storage.logs
        return self.scrubber.readable(ledger_id, entries.ranges(ledger_id, logs))

    def _logs_lost(self, logs: list[int]) -> None:  # called in any lane
        """Have the ledgers that lie in ``logs``, which are gone, and only those, marked (I48)."""
        usage = self.storage.entries.usage
        for log_id in logs:
            for ledger_id in list(usage.get(log_id, ())):
                if ledger_id != PINNED:
                    self.scrubber.lost[ledger_id] = None

    def _damaged(  # called in the read lane
        self, ledger_id: int, entry_id: int, error: Exception
    ) -> None:
        self._metrics.damaged += 1
        self.scrubber.suspect(ledger_id, entry_id)
        log.error("stored entry cannot be read reason=%s", error)

    def _disk_full(self, error: Exception) -> None:
        self._mode.set(True, str(error))

    def _flushed(self) -> None:
        self.requests.relieve()
        self.disks.check_soon()

    def _disks_checked(self, read_only: bool, reason: str) -> None:
        if not read_only and self.checkpointer.stuck:
            # There is room again: writable after the waiting flush is written.
            self.checkpointer.request()
        else:
            self._mode.set(read_only, reason)

    def _gauges(self) -> Readings:
        storage = self.storage
        cache, logs = storage.ledgers.cache, storage.logs
        return {
            "bookie_read_only": (
                "1 when normal adds are refused",
                lambda: float(self._mode.read_only),
            ),
            "bookie_ledgers": ("Ledgers known, with tombstones", lambda: len(storage.ledgers)),
            "bookie_write_cache_bytes": ("Bytes not yet in entry logs", lambda: cache.size),
            "bookie_journal_pending_bytes": (
                "Bytes queued for the journal",
                lambda: self.journal.pending_bytes,
            ),
            "bookie_reads_pending": ("Reads in the read lane", lambda: self.reads.pending),
            "bookie_long_polls": (
                "Reads that wait for the last confirmed entry",
                lambda: self.requests.long_polls,
            ),
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
            "bookie_ledger_dir_used_bytes": (
                "Used bytes of the ledger directories' disks",
                lambda: self.disks.space[1] - self.disks.space[0],
            ),
            "bookie_disk_usage_ratio": (
                "Used share of its fullest disk, 0 to 1",
                lambda: self.disks.usage,
            ),
            "bookie_stored_bytes": (
                "Bytes kept of ledgers that were not deleted, those in the write cache too",
                lambda: storage.entries.live_bytes + storage.ledgers.cache.size,
            ),
            "bookie_ledger_dirs_failed": (
                "Ledger directories taken out because their disks failed",
                lambda: len(logs.failed),
            ),
            "bookie_ledger_dirs_full": ("Full ledger directories", lambda: len(logs.full)),
        }

    def _counters(self) -> Readings:
        garbage, reader = self.garbage, self.storage.reader
        return {
            "bookie_journal_groups": ("Journal groups synced", lambda: self.journal.groups),
            "bookie_journal_bytes": ("Bytes in them", lambda: self.journal.group_bytes),
            "bookie_flushes": ("Write cache flushes", lambda: self.checkpointer.flushes),
            "bookie_flushed_bytes": ("Bytes in them", lambda: self.checkpointer.flushed_bytes),
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
