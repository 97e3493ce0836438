"""Compaction: entries that live in a mostly dead log are written to another one, so that the log can be removed.

For each log: copy what lives (any lane) · sync the copy · manifest names the copy, durably · the index points there,
block by block, and is flushed (flush lane) · the log is removed. Up to the last step the source is whole; at each
crash point every entry has one indexed copy that can be read (I29, B11), because what the index no longer names is
removed only when the index says so durably. Entries added again or deleted meanwhile keep their state, and anything
that cannot be read keeps the log. Synchronous; who calls it decides when and how fast.
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
"""Copied in one go; the lane is free for others between two slices."""
SWITCH_BLOCKS = 256
"""Blocks pointed to their copies in one go of the flush lane."""


class Candidate(NamedTuple):
    """A log that nobody writes: bytes that live in it, all its bytes, the ledgers that have some there."""

    log_id: int
    live: int
    size: int
    ledgers: list[int]

    @property
    def share(self) -> float:
        return self.live / max(self.size, 1)


class Copied(NamedTuple):
    """One slice: where its blocks went, entries and bytes of them."""

    placed: list[Placed]
    entries: int
    size: int


def candidates(index: BookieIndex, logs: LogFiles, share_below: float) -> list[Candidate]:
    """Logs of which less than ``share_below`` lives, the deadest first; read from the index's counters. Flush lane."""
    found = []
    for log_id, used in index.usage.items():
        if log_id not in logs or logs.is_held(log_id) or index.is_pinned(log_id):
            continue
        live = sum(used.values())
        size = logs.ends.get(log_id, 0) - FILE_HEADER_BYTES
        candidate = Candidate(log_id, live, size, sorted(used))
        if candidate.share < share_below:
            found.append(candidate)
    return sorted(found, key=lambda candidate: (candidate.share, candidate.log_id))


def slices(index: BookieIndex, candidate: Candidate) -> Iterator[list[tuple[int, int, Location]]]:
    """What lives in a log as (ledger, first entry, place), in slices of about SLICE_BYTES. Any one lane."""
    part: list[tuple[int, int, Location]] = []
    size = 0
    for ledger_id in candidate.ledgers:
        for first, place in index.blocks_in(ledger_id, candidate.log_id):
            part.append((ledger_id, first, place))
            size += place.share
            if size >= SLICE_BYTES:
                yield part
                part, size = [], 0
    if part:
        yield part


class Copier:
    """Writes copies into logs of its own. For one lane; its reader keeps no blocks."""

    def __init__(
        self, reader: EntryLogReader, writer: EntryLogWriter, block_bytes_max: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._block_bytes_max = block_bytes_max

    def copy(self, part: list[tuple[int, int, Location]]) -> Copied:
        """One slice, not synced yet. Raises DamagedError when some of it cannot be read, OSError as the disk does; what
        was copied so far does not count then, see ``abandon``."""
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
        return Copied(placed, sum(one.place.entries for one in placed), size)

    def _run(self, ledger_id: int, first: int, place: Location) -> AddRun:
        try:
            block = self._reader.read(place)
        except OSError as error:  # of the source: it is kept, whatever else the disk can do
            raise DamagedError(f"{ledger_id}:{first} cannot be read: {error}") from error
        below = first + place.entries
        if block.ledger_id != ledger_id or first < block.first or below > block.below:
            raise DamagedError(f"{ledger_id}:{first} is not in the block that the index says")
        return block.part(first, below)

    def sync(self) -> None:
        """Make all copies durable. Raises OSError."""
        self._writer.sync()

    def switched(self) -> None:
        """What was copied is indexed now: its logs are logs like others."""
        self._writer.release_left()

    def abandon(self) -> None:
        """Leave the log being written, and let the copies in it be removed with it."""
        self._writer.leave()
        self._writer.release_left()

    def forget(self, log_id: int) -> None:
        """A log is about to be removed."""
        self._reader.drop(log_id)

    def close(self) -> None:
        self.abandon()
        self._reader.close()


def announce(logs: LogFiles, flusher: Flusher, placed: list[Placed]) -> None:
    """Let the manifest name synced copies, durably, before the index does. Flush lane. Raises OSError."""
    ends = ends_of(one.place for one in placed)
    for log_id, end in ends.items():
        logs.ends[log_id] = max(end, logs.ends.get(log_id, 0))
    flusher.secure([encode_end(log_id, logs.ends[log_id]) for log_id in ends])


def switch(index: BookieIndex, placed: list[Placed], source: int) -> int:
    """Point the index at copies that are durable; bytes switched. Flush lane; flushed by ``retire_logs``."""
    return index.move(placed, source)
