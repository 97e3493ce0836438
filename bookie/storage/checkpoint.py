"""Flush from the write cache to entry log and index, and the mark that frees the journal for reuse.

Order: sample the mark and swap the cache (loop) · write and sync the entry log, write manifest and index (lane) · at a
checkpoint also sync the manifest, flush the index, persist the mark, recycle journal files. A failed flush keeps its
generation and its place in the order. The mark can therefore never pass entries that are not in a log (I26).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from bookie.storage.errors import DiskFullError
from bookie.storage.index.index import BookieIndex, LedgerRecord, Placed
from bookie.storage.index.manifest import Manifest, encode_end, encode_ledger, encode_limbo
from bookie.storage.journal.journal import Journal, JournalWriter, as_full
from bookie.storage.journal.journal_format import Mark
from bookie.storage.ledgers import Ledgers
from bookie.storage.logs.entry_log import EntryLogWriter, Location
from bookie.storage.logs.entry_log_format import Block, blocks_of
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.mark import Checkpoint, write_mark
from bookie.storage.write_cache import Generation
from engine.base.disk.files import Disk, Lane

log = logging.getLogger(__name__)


class Flush(NamedTuple):
    """A generation on its way to disk. Every record before ``mark`` is in this generation or an earlier one."""

    generation: Generation
    records: list[LedgerRecord]
    mark: Mark


class Flusher:
    """The synchronous part of a flush, run in the flush lane (or inline during recovery)."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        index: BookieIndex,
        log: EntryLogWriter,
        logs: LogFiles,
        manifest: Manifest,
        block_bytes_max: int,
        mark: Mark,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._index = index
        self._log = log
        self._logs = logs
        self._manifest = manifest
        self._block_bytes_max = block_bytes_max
        self._written: Checkpoint | None = None
        self.flushed = mark
        """Mark of the last flush; durable only after ``checkpoint``."""
        self.persisted = mark

    def flush(self, work: Flush) -> int:
        """Write one generation and return the number of entry bytes written.

        Raises OSError; nothing of the generation counts then, and the caller retries with the same ``work``.
        """
        blocks: list[Block] = []
        for ledger_id in sorted(work.generation.ledgers):
            runs = work.generation.ledgers[ledger_id].resolved()
            blocks += blocks_of(runs, self._block_bytes_max)
        # Synced before index or manifest name them, either of which may become durable at any time (I26).
        places = self._log.append(blocks)
        ends = ends_of(places)
        notes = [encode_end(log_id, end) for log_id, end in ends.items()]
        notes += [encode_ledger(record) for record in work.records]
        self._manifest.append(notes)
        self._index.put(
            (
                Placed(block.ledger_id, block.first, place)
                for block, place in zip(blocks, places, strict=True)
            ),
            work.records,
        )
        self._logs.ends.update(ends)
        self.flushed = max(self.flushed, work.mark)
        return sum(block.length for block in blocks)

    def enter_limbo(self) -> None:
        """Record across restarts that entries may have been lost; durable with the next checkpoint."""
        self._index.set_limbo()
        self._manifest.append([encode_limbo()])

    def secure(self, notes: list[bytes]) -> None:
        """Make index and manifest durable together with ``notes``, whose content is in the index and ``LogFiles.ends``
        already. Raises OSError."""
        self._manifest.append(notes)
        if self._manifest.wants_rewrite:
            self._checkpoint(self.persisted)
        else:
            self._manifest.sync()
            self._index.flush()

    def checkpoint(self) -> Mark:
        """Make everything flushed durable and persist the mark. Raises OSError."""
        return self._checkpoint(self.flushed)

    def _checkpoint(self, mark: Mark) -> Mark:
        if self._manifest.wants_rewrite:
            self._manifest.rewrite(self._state())
        else:
            self._manifest.sync()
        # Before the mark file: at the next start an index with an older mark counts as lost.
        self._index.set_mark(mark.encode())
        self._index.flush()
        checkpoint = Checkpoint(mark, self._manifest.place)
        if checkpoint != self._written:
            write_mark(self._disk, self._directory, checkpoint)
            self._written, self.persisted = checkpoint, mark
        self._manifest.remove_old()
        return mark

    def _state(self) -> Iterator[bytes]:
        """Yield the manifest records that describe the present state in full."""
        if self._index.in_limbo():
            yield encode_limbo()
        for log_id, end in self._logs.ends.items():
            yield encode_end(log_id, end)
        for record in self._index.records():
            yield encode_ledger(record)


def ends_of(places: Iterable[Location]) -> dict[int, int]:
    """Return where the last block of each log ends, by log id."""
    ends: dict[int, int] = {}
    for place in places:
        ends[place.log_id] = max(ends.get(place.log_id, 0), place.offset + place.size)
    return ends


def begin_flush(ledgers: Ledgers, mark: Mark) -> Flush:
    """Swap the cache and return the generation to flush.

    The caller must have sampled ``mark`` before, with no await in between: a record appended in between would lie
    before the mark but not in the generation (I26).
    """
    generation, records = ledgers.swap()
    return Flush(generation, records, mark)


class Checkpointer:
    """The part of flushing that runs on the event loop: flushes on request (the cache is full), checkpoints every
    ``interval_s`` or when the journal has grown.

    ``lock`` is held while it works; garbage collection acquires it too. ``spares`` returns whether there is room to
    create journal files ahead of need.
    """

    def __init__(
        self,
        *,
        ledgers: Ledgers,
        journal: Journal,
        writer: JournalWriter,
        flusher: Flusher,
        lane: Lane,
        interval_s: float,
        on_flushed: Callable[[], None],
        on_full: Callable[[Exception], None],
        spares: Callable[[], bool] = lambda: True,
    ) -> None:
        self._ledgers = ledgers
        self._journal = journal
        self._writer = writer
        self._flusher = flusher
        self._lane = lane
        self._interval_s = interval_s
        self._on_flushed = on_flushed
        self._on_full = on_full
        self._spares = spares
        self._due = asyncio.Event()
        self._work: Flush | None = None
        self._requested = False
        self._spare_asked = journal.mark.file_id
        self.lock = asyncio.Lock()
        self.flushes = 0
        self.flushed_bytes = 0

    @property
    def stuck(self) -> bool:
        """True while a flush that met a full disk waits for the next attempt."""
        return self._work is not None and not self.lock.locked()

    def forget(self, ledger_ids: list[int]) -> None:
        """Remove deleted ledgers from a flush that waits for room, which would restore them. Call with ``lock``
        held."""
        if self._work is None:
            return
        deleted = dict.fromkeys(ledger_ids)
        for ledger_id in deleted:
            self._work.generation.ledgers.pop(ledger_id, None)
        records = [record for record in self._work.records if record.ledger_id not in deleted]
        self._work = self._work._replace(records=records)

    def request(self) -> None:
        """Request a flush soon; returns at once."""
        self._requested = True
        self._due.set()

    def journal_grew(self) -> None:
        """Request a checkpoint when the journal spans several files (B13). Called after each group.

        When the journal began a file and no spare is left, another is requested once for that file.
        """
        file_id = self._journal.mark.file_id
        if file_id > self._flusher.persisted.file_id + 1:
            self.request()
        elif file_id > self._spare_asked and self._writer.wants_spare:
            self._spare_asked = file_id
            self._due.set()

    async def run(self) -> None:
        """Flush and checkpoint until cancelled. Raises the disk's errors except for a full disk."""
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._due.wait()
                regular = False
            except TimeoutError:
                regular = True
            self._due.clear()
            requested, self._requested = self._requested, False
            await self.step(flush=regular or requested, checkpoint=regular)

    async def step(self, *, checkpoint: bool, flush: bool = True) -> bool:
        """Flush what is cached; with ``checkpoint`` or after the journal grew also persist the mark. Return False when
        the disk is full.

        When cancelled, the work in progress continues in its lane. Cancel only to stop, then call it again.
        """
        async with self.lock:
            try:
                if flush:
                    await self._flush()
                    await self._checkpoint(checkpoint)
                if self._writer.wants_spare and self._spares():
                    await self._lane.run(self._writer.prepare)
            except OSError as error:
                full = as_full(error)
                if not isinstance(full, DiskFullError):
                    raise
                log.warning("disk full while flushing, the flush will be retried reason=%s", error)
                self._on_full(full)
                return False
            return True

    async def _checkpoint(self, requested: bool) -> None:
        grown = self._flusher.flushed.file_id > self._flusher.persisted.file_id
        if (requested or grown) and self._flusher.flushed > self._flusher.persisted:
            mark = await self._lane.run(self._flusher.checkpoint)
            await self._lane.run(partial(self._writer.recycle, mark))

    async def _flush(self) -> None:
        if self._work is None:
            if not self._ledgers.changed:
                return
            self._work = begin_flush(self._ledgers, self._journal.mark)
            self._on_flushed()  # at once, not after the write: the new generation has room already
        self.flushed_bytes += await self._lane.run(partial(self._flusher.flush, self._work))
        self.flushes += 1
        # Only after it succeeded: a failed flush is repeated before any later generation is written (I26).
        self._work = None
        self._ledgers.cache.flushed()
        self._on_flushed()
