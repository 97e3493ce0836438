"""Reading back of what a bookie keeps, past every cache, so that damage is detected before a reader needs the
entries (I47). Synchronous; for one lane, with a reader of its own.

The checksum of a block covers its bytes as they were received, whatever the ledger's digest. A digest needs the
ledger's metadata, and ``check`` is given by who has that.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bookie.storage.errors import DamagedError
from bookie.storage.index.index import BookieIndex
from bookie.storage.logs.entry_log import EntryLogReader, Location, neighbours
from bookie.storage.logs.entry_log_format import StoredBlock

RECORDS_MAX = 64
"""Records of the index that one part covers at most."""

Check = Callable[[bytes, int, int, int, int], bool]
"""Returns whether ``buf[start:stop]`` is the intact entry of a ledger: (buf, start, stop, ledger, entry)."""
Row = tuple[int, Location]


class Unreadable(NamedTuple):
    """Entries that the index names and that do not come back intact."""

    ledger_id: int
    first: int
    last: int
    reason: str
    digest: bool = False
    """The block verifies, and the entry's digest does not."""


class ReadPart(NamedTuple):
    """The result of reading a part of a ledger; ``next``: the entry to go on with, None at the end."""

    next: int | None
    entries: int
    size: int
    unreadable: list[Unreadable]


def read_part(
    index: BookieIndex,
    reader: EntryLogReader,
    ledger_id: int,
    at: int,
    bytes_max: int,
    check: Check | None,
) -> ReadPart:
    """Read about ``bytes_max`` bytes of a ledger from entry ``at`` on, at least one record, and verify them."""
    rows, complete = index.blocks_from(ledger_id, at, RECORDS_MAX)
    chosen: list[Row] = []
    size = 0
    for row in rows:
        if chosen and size + row[1].size > bytes_max:
            complete = False
            break
        chosen.append(row)
        size += row[1].size
    unreadable: list[Unreadable] = []
    try:
        for run in _adjacent(chosen):
            unreadable += _read_run(index, reader, ledger_id, run, check)
    finally:
        reader.close()  # a log that was removed meanwhile frees its space
    entries = sum(place.entries for _, place in chosen)
    behind = chosen[-1][0] + chosen[-1][1].entries if chosen else 0
    return ReadPart(None if complete else behind, entries, size, unreadable)


def _adjacent(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield the records in groups whose blocks one operation can read."""
    i = 0
    while i < len(rows):
        run = neighbours(rows[i][1], [place for _, place in rows[i + 1 :]])
        yield rows[i : i + len(run)]
        i += len(run)


def _read_run(
    index: BookieIndex,
    reader: EntryLogReader,
    ledger_id: int,
    run: list[Row],
    check: Check | None,
) -> Iterator[Unreadable]:
    try:
        blocks = reader.fresh([place for _, place in run])
    except (DamagedError, OSError) as error:
        if len(run) == 1:
            yield from _failed(index, reader, ledger_id, run[0], str(error), check)
            return
        for row in run:  # which of them is it?
            yield from _read_run(index, reader, ledger_id, [row], check)
        return
    for row, block in zip(run, blocks, strict=True):
        if block is None or not _covers(block, ledger_id, row):
            yield from _failed(index, reader, ledger_id, row, "does not verify", check)
        elif check is not None:
            yield from _wrong_digests(block, ledger_id, row, check)


def _covers(block: StoredBlock, ledger_id: int, row: Row) -> bool:
    first, place = row
    return (
        block.ledger_id == ledger_id
        and block.first <= first
        and first + place.entries <= block.below
    )


def _failed(
    index: BookieIndex,
    reader: EntryLogReader,
    ledger_id: int,
    row: Row,
    reason: str,
    check: Check | None,
) -> Iterator[Unreadable]:
    """Yield the record's entries, unless compaction or a deletion has taken them away since it was looked up."""
    first, place = row
    now = index.find_range(ledger_id, first, 1)
    if now and now[0][1].offset == place.offset and now[0][1].log_id == place.log_id:
        yield Unreadable(
            ledger_id,
            first,
            first + place.entries - 1,
            f"block at {place.offset} of log {place.log_id:08x}: {reason}",
        )
    elif now:
        yield from _read_run(index, reader, ledger_id, now, check)


def _wrong_digests(
    block: StoredBlock, ledger_id: int, row: Row, check: Check
) -> Iterator[Unreadable]:
    first, place = row
    for entry in range(first, first + place.entries):
        i = entry - block.first
        if not check(block.data, block.table[i], block.end(i), ledger_id, entry):
            yield Unreadable(ledger_id, entry, entry, "its digest is wrong", digest=True)
