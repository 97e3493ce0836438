"""From write cache to entry log and index, and the mark that lets the journal be used again.

Order: sample mark, swap cache (loop) · write and sync entry log, write index (lane) · at a checkpoint also flush index,
persist mark, recycle journal files. A failed flush keeps its generation and its place in the order, so the mark can
never pass entries that are not in a log.
"""

from typing import NamedTuple

from bookie.storage.entry_log import EntryLogWriter
from bookie.storage.entry_log_format import Block, blocks_of
from bookie.storage.errors import DamagedError
from bookie.storage.files import Disk
from bookie.storage.index import BookieIndex, LedgerRecord, Placed
from bookie.storage.journal_format import Mark, decode_mark
from bookie.storage.ledgers import Ledgers
from bookie.storage.write_cache import Generation

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
