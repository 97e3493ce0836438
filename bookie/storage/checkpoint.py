"""From write cache to entry log and index, and the mark that lets the journal be used again.

Order: sample mark, swap cache (loop) · write and sync entry log, write index (lane) · at a checkpoint also flush index,
persist mark, recycle journal files. A failed flush keeps its generation and its place in the order, so the mark can
never pass entries that are not in a log.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bookie.storage.entry_log import EntryLogWriter
from bookie.storage.entry_log_format import Block, blocks_of
from bookie.storage.errors import DamagedError, DiskFullError
from bookie.storage.files import Disk, Lane
from bookie.storage.index import BookieIndex, LedgerRecord, Placed
from bookie.storage.journal import Journal, JournalWriter, as_full
from bookie.storage.journal_format import Mark, decode_mark
from bookie.storage.ledgers import Ledgers
from bookie.storage.write_cache import Generation

log = logging.getLogger(__name__)

MARK_NAME = "lastMark"


class Flush(NamedTuple):
    """One generation on its way to disk. ``mark``: every record before it is in this or an earlier generation."""

    generation: Generation
    records: list[LedgerRecord]
    mark: Mark


class Flusher:
    """The synchronous work, run in the flush lane (or inline in recovery)."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        index: BookieIndex,
        log: EntryLogWriter,
        block_bytes_max: int,
        mark: Mark,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._index = index
        self._log = log
        self._block_bytes_max = block_bytes_max
        self.flushed = mark
        """Mark of the last flush; durable only after ``checkpoint``."""
        self.persisted = mark

    def flush(self, work: Flush) -> int:
        """Write one generation; entry bytes written. Raises OSError: nothing of it counts, try the same again."""
        blocks: list[Block] = []
        for ledger_id in sorted(work.generation.ledgers):
            runs = work.generation.ledgers[ledger_id].resolved()
            blocks += blocks_of(runs, self._block_bytes_max)
        places = self._log.append(blocks)
        self._index.put(
            (
                Placed(block.ledger_id, block.first, place)
                for block, place in zip(blocks, places, strict=True)
            ),
            work.records,
        )
        self.flushed = max(self.flushed, work.mark)
        return sum(block.length for block in blocks)

    def enter_limbo(self) -> None:
        """Remember across restarts that entries may have been lost; durable with the next checkpoint."""
        self._index.set_limbo()

    def checkpoint(self) -> Mark:
        """Make everything flushed durable and persist the mark. Raises OSError."""
        mark = self.flushed
        self._index.flush()
        if mark > self.persisted:
            write_mark(self._disk, self._directory, mark)
            self.persisted = mark
        return mark


def write_mark(disk: Disk, directory: str, mark: Mark) -> None:
    """Replace the mark atomically and durably."""
    path = f"{directory}/{MARK_NAME}"
    file = disk.open(f"{path}.new", create=True)
    try:
        data = mark.encode()
        file.pwritev([data], 0)
        file.truncate(len(data))
        file.fdatasync()
    finally:
        file.close()
    disk.rename(f"{path}.new", path)
    disk.sync_dir(directory)


def read_mark(disk: Disk, directory: str) -> Mark:
    """Raises DamagedError when it is missing or does not verify."""
    path = f"{directory}/{MARK_NAME}"
    try:
        file = disk.open(path)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing: where to replay from is not known") from error
    mark = decode_mark(file.pread(file.size(), 0))
    file.close()
    if mark is None:
        raise DamagedError(f"{path} does not verify: where to replay from is not known")
    return mark


def begin_flush(ledgers: Ledgers, mark: Mark) -> Flush:
    """Swap the cache; ``mark`` must have been sampled before, with no await between."""
    generation, records = ledgers.swap()
    return Flush(generation, records, mark)


class Checkpointer:
    """Loop side: flushes when asked (cache full), checkpoints every ``interval_s`` or when the journal has grown.

    ``lock`` is held while it works; garbage collection takes it too.
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
    ) -> None:
        self._ledgers = ledgers
        self._journal = journal
        self._writer = writer
        self._flusher = flusher
        self._lane = lane
        self._interval_s = interval_s
        self._on_flushed = on_flushed
        self._on_full = on_full
        self._due = asyncio.Event()
        self._work: Flush | None = None
        self.lock = asyncio.Lock()
        self.flushes = 0
        self.flushed_bytes = 0

    @property
    def stuck(self) -> bool:
        """A flush met a full disk and waits for the next attempt."""
        return self._work is not None and not self.lock.locked()

    def request(self) -> None:
        """Flush soon."""
        self._due.set()

    def journal_grew(self) -> None:
        """Call after groups: asks for a checkpoint when the journal spans several files."""
        if self._journal.mark.file_id > self._flusher.persisted.file_id + 1:
            self._due.set()

    async def run(self) -> None:
        """Work until cancelled. Raises what the disk raised unless it was full."""
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._due.wait()
                regular = False
            except TimeoutError:
                regular = True
            self._due.clear()
            await self.step(checkpoint=regular)

    async def step(self, *, checkpoint: bool) -> bool:
        """Flush what there is; with ``checkpoint`` or a long journal also persist the mark. False: the disk is full.

        When cancelled the work under way goes on in its lane; cancel only to stop, then call it again.
        """
        async with self.lock:
            try:
                await self._flush()
                grown = self._flusher.flushed.file_id > self._flusher.persisted.file_id
                if (checkpoint or grown) and self._flusher.flushed > self._flusher.persisted:
                    mark = await self._lane.run(self._flusher.checkpoint)
                    await self._lane.run(partial(self._writer.recycle, mark))
                if self._writer.wants_spare:
                    await self._lane.run(self._writer.prepare)
            except OSError as error:
                full = as_full(error)
                if not isinstance(full, DiskFullError):
                    raise
                log.warning("disk full while flushing, will try again reason=%s", error)
                self._on_full(full)
                return False
            return True

    async def _flush(self) -> None:
        if self._work is None:
            if not self._ledgers.changed:
                return
            self._work = begin_flush(self._ledgers, self._journal.mark)
            self._on_flushed()  # the new generation has room
        self.flushed_bytes += await self._lane.run(partial(self._flusher.flush, self._work))
        self.flushes += 1
        self._work = None
        self._ledgers.cache.flushed()
        self._on_flushed()
