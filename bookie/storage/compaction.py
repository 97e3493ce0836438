"""Compaction: rewrite the live entries of mostly dead logs, so that the logs can be removed.

For each log: copy the live entries (any lane) · sync the copy · name the copy in the manifest, durably · point the
index at it, block by block, and flush the index (flush lane) · remove the log. The source stays whole up to the last
step. At each crash point every entry has one indexed copy that can be read (I29, B11), because a log is removed only
when the index durably no longer names it. Entries added again or deleted meanwhile keep their state. A log with
anything unreadable in it is kept. Synchronous; the caller decides when and how fast.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from bookie.storage.checkpoint import Flusher, ends_of
from bookie.storage.errors import DamagedError
from bookie.storage.index.index import BookieIndex, Placed
from bookie.storage.index.manifest import encode_end
from bookie.storage.logs.entry_log import EntryLogReader, EntryLogWriter, Location
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES, blocks_of
from bookie.storage.logs.log_files import LogFiles
from engine.base.slices import AddRun

SLICE_BYTES = 1 << 20
"""Bytes copied in one call; other work can use the lane between two slices."""
SWITCH_BLOCKS = 256
"""Blocks pointed to their copies in one call in the flush lane."""


class Candidate(NamedTuple):
    """A log that is not being written: its live bytes, its size in bytes, and the ledgers with entries in it."""

    log_id: int
    live: int
    size: int
    ledgers: list[int]

    @property
    def share(self) -> float:
        return self.live / max(self.size, 1)


class Copied(NamedTuple):
    """The result of copying one slice: places of its blocks, number of entries and bytes."""

    placed: list[Placed]
    entries: int
    size: int


def candidates(index: BookieIndex, logs: LogFiles, share_below: float) -> list[Candidate]:
    """Return logs of which less than ``share_below`` is live, smallest share first.

    Reads the index's counters alone. Flush lane.
    """
    chosen = []
    for log_id, used in index.usage.items():
        if log_id not in logs or logs.is_held(log_id) or index.is_pinned(log_id):
            continue
        live = sum(used.values())
        size = logs.ends.get(log_id, 0) - FILE_HEADER_BYTES
        candidate = Candidate(log_id, live, size, sorted(used))
        if candidate.share < share_below:
            chosen.append(candidate)
    return sorted(chosen, key=lambda candidate: (candidate.share, candidate.log_id))


def slices(index: BookieIndex, candidate: Candidate) -> Iterator[list[tuple[int, int, Location]]]:
    """Yield the live blocks of a log as (ledger, first entry, place), in slices of about SLICE_BYTES.

    Runs in any lane, but in the same one throughout.
    """
    rows: list[tuple[int, int, Location]] = []
    size = 0
    for ledger_id in candidate.ledgers:
        for first, place in index.blocks_in(ledger_id, candidate.log_id):
            rows.append((ledger_id, first, place))
            size += place.share
            if size >= SLICE_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


class Copier:
    """Writes copies into logs of its own. For one lane; its reader caches no blocks."""

    def __init__(
        self, reader: EntryLogReader, writer: EntryLogWriter, block_bytes_max: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._block_bytes_max = block_bytes_max

    def copy(self, part: list[tuple[int, int, Location]]) -> Copied:
        """Copy one slice without syncing it.

        Raises DamagedError when some of it cannot be read, OSError as the disk does. Nothing copied so far counts then;
        the caller calls ``abandon``.
        """
        placed: list[Placed] = []
        size = 0
        for ledger_id, group in groupby(part, key=lambda row: row[0]):
            runs = [self._run(ledger_id, first, place) for _, first, place in group]
            blocks = list(blocks_of(runs, self._block_bytes_max))
            places = self._writer.write(blocks)
            placed += [
                Placed(ledger_id, block.first, place)
                for block, place in zip(blocks, places, strict=True)
            ]
            size += sum(block.length for block in blocks)
        return Copied(placed, sum(block.place.entries for block in placed), size)

    def _run(self, ledger_id: int, first: int, place: Location) -> AddRun:
        try:
            block = self._reader.read(place)
        except (
            OSError
        ) as error:  # DamagedError keeps this log and continues with the next candidate
            raise DamagedError(f"{ledger_id}:{first} cannot be read: {error}") from error
        below = first + place.entries
        if block.ledger_id != ledger_id or first < block.first or below > block.below:
            raise DamagedError(f"{ledger_id}:{first} is not in the block that the index says")
        return block.part(first, below)

    def sync(self) -> None:
        """Make all copies durable. Raises OSError."""
        self._writer.sync()

    def switched(self) -> None:
        """Release the logs of the copies, which the index names by now."""
        self._writer.release_left()

    def abandon(self) -> None:
        """Close the log being written and release it, so that the copies in it are removed with it."""
        self._writer.leave()
        self._writer.release_left()

    def forget(self, log_id: int) -> None:
        """Drop cached blocks and files of a log that is about to be removed."""
        self._reader.drop(log_id)

    def close(self) -> None:
        self.abandon()
        self._reader.close()


def announce(logs: LogFiles, flusher: Flusher, placed: list[Placed]) -> None:
    """Name synced copies in the manifest, durably, before the index does. Flush lane. Raises OSError."""
    ends = ends_of(copy.place for copy in placed)
    for log_id, end in ends.items():
        logs.ends[log_id] = max(end, logs.ends.get(log_id, 0))
    flusher.secure([encode_end(log_id, logs.ends[log_id]) for log_id in ends])


def switch(index: BookieIndex, placed: list[Placed], source: int) -> int:
    """Point the index at durable copies and return the bytes switched. Flush lane; ``retire_logs`` flushes it."""
    return index.move(placed, source)
