"""The schedule of garbage collection: ledgers deleted in metadata, logs without live entries, and compaction of logs
with few. Compaction works slice by slice, at a bounded rate, and never during a flush."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from bookie.disks import Disks
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.compaction import (
    SWITCH_BLOCKS,
    Candidate,
    Copied,
    Copier,
    announce,
    candidates,
    slices,
    switch,
)
from bookie.storage.errors import DamagedError, DirectoryFailedError
from bookie.storage.gc import (
    TOMBSTONE_MS,
    find_deleted,
    forget_ledgers,
    remove_logs,
    retire_logs,
)
from bookie.storage.index.index import Placed
from bookie.storage.logs.entry_log import EntryLogReader, EntryLogWriter, Location
from bookie.storage.logs.log_files import FULL_ERRORS
from bookie.storage.recover import Storage
from engine.base.clock import Clock
from engine.base.disk.files import Disk, Lane
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)


class Lanes(NamedTuple):
    flush: Lane
    read: Lane
    copy: Lane


@dataclass(slots=True)
class CompactionKind:
    """A kind of compaction. ``suspended``: none begins, and one under way ends after its present log. ``rounds`` have
    ended since the start, the last one at ``ended_ms``, before one the time of the start."""

    ended_ms: int
    suspended: bool = False
    running: bool = False
    rounds: int = 0


class GarbageCollector:
    """Collects garbage and compacts logs. One task runs ``run``; call ``close`` after the lanes are closed."""

    def __init__(
        self,
        settings: BookieSettings,
        storage: Storage,
        checkpointer: Checkpointer,
        disks: Disks,
        lanes: Lanes,
        *,
        disk: Disk,
        store: MetadataStore,
        clock: Clock,
        instance_id: str,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._checkpointer = checkpointer
        self._disks = disks
        self._lanes = lanes
        self._store = store
        self._clock = clock
        self._instance_id = instance_id
        self._copier = Copier(
            EntryLogReader(disk, storage.logs, 0),
            EntryLogWriter(
                storage.logs, settings.entry_log_bytes_max, direct=settings.entry_log_direct
            ),
            settings.entry_log_block_bytes_max,
        )
        self._minor_at = self._major_at = clock.monotonic_s()
        started_ms = clock.wall_ms()
        self.minor, self.major = CompactionKind(started_ms), CompactionKind(started_ms)
        self.index = CompactionKind(started_ms)
        self.forced = False
        self.ledgers_forgotten = 0
        self.logs_removed = 0
        self.logs_compacted = 0
        self.logs_kept_damaged = 0
        self.copied_bytes = 0
        self.copied_entries = 0
        self.freed_bytes = 0

    async def run(self) -> None:
        """Collect every ``gc_wait_time_s`` until cancelled. Raises a disk's errors except for a full disk."""
        while True:
            await asyncio.sleep(self._settings.gc_wait_time_s)
            try:
                await self.collect()
            except (StoreUnavailableError, SessionExpiredError, NoNodeError) as error:
                log.warning("garbage collection postponed reason=%s", error)
                continue
            await self._compact_if_due()

    def close(self) -> None:
        self._copier.close()

    async def collect(self) -> int:
        """Run one round without compaction and return the number of ledgers forgotten.

        Raises store errors with nothing deleted.
        """
        storage = self._storage
        deleted = await find_deleted(storage.ledgers.live_ids(), self._is_deleted)
        # Checked last: an empty or foreign store behind a wrong address would report every ledger as deleted (I28).
        stored, _ = await self._store.get(paths.INSTANCE_ID)
        if stored.decode().strip() != self._instance_id:
            raise StoreUnavailableError(f"{paths.INSTANCE_ID} is not this cluster's")
        try:
            async with self._checkpointer.lock:
                forgotten = await self._forget(deleted)
            removed = await self._remove_dead()
        except OSError as error:
            if error.errno not in FULL_ERRORS:
                raise
            log.warning(
                "disk full while collecting garbage, the next round retries reason=%s", error
            )
            return 0
        if forgotten or removed:
            log.info("garbage collected ledgers=%d logs=%d", forgotten, removed)
        return forgotten

    async def _forget(self, deleted: list[int]) -> int:
        ledgers, now = self._storage.ledgers, self._clock.wall_ms()
        records = [ledgers.delete(ledger_id, now) for ledger_id in deleted]
        tombstones = [record for record in records if record is not None]
        self._checkpointer.forget([record.ledger_id for record in tombstones])
        # While a flush waits for room the journal is not trimmed and may hold adds to deleted ledgers; without its
        # tombstone a replay would create such a ledger again.
        stuck = ledgers.cache.flushing is not None
        expired = [] if stuck else ledgers.forget_deleted(now - TOMBSTONE_MS)
        await self._lanes.flush.run(
            partial(
                forget_ledgers, self._storage.entries, self._storage.flusher, tombstones, expired
            )
        )
        self.ledgers_forgotten += len(tombstones)
        return len(tombstones)

    async def _remove_dead(self) -> int:
        storage = self._storage
        dead = await self._lanes.flush.run(
            partial(retire_logs, storage.entries, storage.logs, storage.flusher)
        )
        for log_id in dead:
            await self._lanes.copy.run(partial(self._copier.forget, log_id))
        removed = await self._lanes.read.run(
            partial(remove_logs, storage.logs, storage.reader, dead)
        )
        self.logs_removed += removed
        return removed

    async def _is_deleted(self, ledger_id: int) -> bool:
        """Return whether the store has no such ledger. Raises the store's errors: without an answer the ledger may
        still exist (I28)."""
        return await self._store.exists(paths.ledger(ledger_id)) is None

    # Compaction

    async def _compact_if_due(self) -> None:
        settings, now = self._settings, self._clock.monotonic_s()
        if (
            settings.compacts_major
            and not self.major.suspended
            and now - self._major_at >= settings.major_compaction_interval_s
        ):
            self._major_at = self._minor_at = now  # a major compaction includes a minor one
            await self._compact_as(
                self.major,
                settings.major_compaction_threshold,
                settings.major_compaction_max_time_s,
            )
        elif (
            settings.compacts_minor
            and not self.minor.suspended
            and now - self._minor_at >= settings.minor_compaction_interval_s
        ):
            self._minor_at = now
            await self._compact_as(
                self.minor,
                settings.minor_compaction_threshold,
                settings.minor_compaction_max_time_s,
            )

    async def collect_now(self, share_below: float) -> None:
        """Collect on request, and compact unless that is suspended. The caller has set ``forced``, so that no second
        request is carried out meanwhile. Raises store errors."""
        try:
            await self.collect()
            if not self.major.suspended:
                await self._compact_as(self.major, share_below)
        finally:
            self.forced = False

    async def compact_index(self) -> None:
        """Compact the files of the index."""
        with self._counted(self.index):
            await self._lanes.copy.run(self._storage.entries.compact)

    async def _compact_as(
        self, kind: CompactionKind, share_below: float, time_max_s: float = 0.0
    ) -> None:
        with self._counted(kind):
            await self.compact(share_below, time_max_s, kind)

    @contextmanager
    def _counted(self, kind: CompactionKind) -> Iterator[None]:
        kind.running = True
        try:
            yield
            kind.rounds += 1
            kind.ended_ms = self._clock.wall_ms()
        finally:
            kind.running = False

    async def compact(
        self, share_below: float, time_max_s: float = 0.0, kind: CompactionKind | None = None
    ) -> int:
        """Compact logs of which less than ``share_below`` is live, smallest share first; return the number of logs
        compacted.

        ``time_max_s``: begin no further log after that time, 0 for no bound; none either once ``kind`` is suspended.
        When cancelled, copies made so far are removed at the next start.
        """
        if self._disks.all_full and not self._settings.is_force_gc_allow_when_no_space:
            log.warning("compaction waits for room on the disks")
            return 0
        storage, started, done = self._storage, self._clock.monotonic_s(), 0
        chosen = await self._lanes.flush.run(
            partial(candidates, storage.entries, storage.logs, share_below)
        )
        for candidate in chosen:
            if 0 < time_max_s <= self._clock.monotonic_s() - started:
                break
            if kind is not None and kind.suspended:
                break
            try:
                done += await self._compact_log(candidate)
            except OSError as error:
                await self._lanes.copy.run(self._copier.abandon)
                if error.errno not in FULL_ERRORS and not isinstance(error, DirectoryFailedError):
                    raise
                log.warning("compaction is interrupted reason=%s", error)
                break
        return done

    async def _compact_log(self, candidate: Candidate) -> bool:
        if not self._fits(candidate):
            return False
        began = self._clock.monotonic_s()
        try:
            placed = await self._copy(candidate)
        except DamagedError as error:
            self.logs_kept_damaged += 1
            log.error("entry log cannot be compacted, it is kept reason=%s", error)
            await self._lanes.copy.run(self._copier.abandon)
            await self._lanes.flush.run(partial(self._storage.entries.pin, candidate.log_id))
            return False
        await self._switch(candidate, placed)
        await self._remove_dead()
        self.logs_compacted += 1
        self.freed_bytes += candidate.size - candidate.live
        log.info(
            "entry log compacted log=%08x live=%d of=%d seconds=%.3f",
            candidate.log_id,
            candidate.live,
            candidate.size,
            self._clock.monotonic_s() - began,
        )
        return True

    def _fits(self, candidate: Candidate) -> bool:
        """Return whether a copy leaves room for entries that are not in entry logs yet."""
        needed = candidate.live + 2 * self._storage.ledgers.cache.generation_bytes_max
        if self._disks.free_bytes >= needed:
            return True
        log.warning("no room to compact log=%08x bytes=%d", candidate.log_id, candidate.live)
        return False

    async def _copy(self, candidate: Candidate) -> list[Placed]:
        """Copy all live entries of a log, durably, and return their places. Raises DamagedError, OSError."""
        placed: list[Placed] = []
        parts = slices(self._storage.entries, candidate)
        while True:
            async with self._checkpointer.lock:
                pass  # waits while a flush is in progress, which has the disk to itself
            began = self._clock.monotonic_s()
            copied = await self._lanes.copy.run(partial(self._copy_next, parts))
            if copied is None:
                break
            placed += copied.placed
            self.copied_bytes += copied.size
            self.copied_entries += copied.entries
            await asyncio.sleep(
                max(0.0, began + self._duration_s(copied) - self._clock.monotonic_s())
            )
        await self._lanes.copy.run(self._copier.sync)
        return placed

    def _copy_next(self, parts: Iterator[list[tuple[int, int, Location]]]) -> Copied | None:
        part = next(parts, None)
        return None if part is None else self._copier.copy(part)

    def _duration_s(self, copied: Copied) -> float:
        """Return the seconds that copying this much should take at the configured rate."""
        if self._settings.is_throttle_by_bytes:
            return copied.size / self._settings.compaction_rate_by_bytes
        return copied.entries / self._settings.compaction_rate_by_entries

    async def _switch(self, candidate: Candidate, placed: list[Placed]) -> None:
        storage = self._storage
        flush = self._lanes.flush
        if lost := {copy.place.log_id for copy in placed if copy.place.log_id not in storage.logs}:
            raise DirectoryFailedError(f"logs {sorted(lost)} of copies are gone")
        await flush.run(partial(announce, storage.logs, storage.flusher, placed))
        for i in range(0, len(placed), SWITCH_BLOCKS):
            batch = placed[i : i + SWITCH_BLOCKS]
            await flush.run(partial(switch, storage.entries, batch, candidate.log_id))
        await self._lanes.copy.run(self._copier.switched)
