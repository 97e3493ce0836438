"""Rebuilding of a lost index from manifest and entry logs.

A ledger of which entries may be missing is put in limbo: it is fenced, and no entry of it is denied. Synchronous; runs
before the bookie serves requests.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from bookie.storage.index.index import DELETED, FENCED, LIMBO, BookieIndex, LedgerRecord, Placed
from bookie.storage.index.manifest import ManifestState
from bookie.storage.journal.journal_format import Mark
from bookie.storage.logs.entry_log import Location
from bookie.storage.logs.entry_log_format import (
    BLOCK_MAGIC,
    FILE_HEADER_BYTES,
    PAGE,
    BlockHead,
    StoredBlock,
    decode_block,
    decode_file_header,
    decode_head,
    head_size,
)
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.runs import MASTER_KEY_BYTES, cut_frames
from engine.base.disk.files import Disk, File
from engine.base.slices import FRAME_PREFIX

log = logging.getLogger(__name__)

SCAN_BYTES = 1 << 20
HEAD_BYTES = 64 << 10


class Piece(NamedTuple):
    """A block of a log: its place, its head, and the block itself when its data verifies. Without a head: unreadable
    bytes."""

    offset: int
    size: int
    head: BlockHead | None
    block: StoredBlock | None


def read_log(file: File, end: int) -> Iterator[Piece]:
    """Yield everything from the log's header to ``end``, in order. Damage is skipped up to the next good head."""
    offset = FILE_HEADER_BYTES
    while offset < end:
        buf = file.pread(HEAD_BYTES, offset)
        gap = -offset % PAGE
        if gap and not any(buf[:gap]):
            offset += gap  # padding: a write ended here
            continue
        head = _head(file, buf, offset)
        if head is None or offset + head.size > end:
            after = _next_head(file, offset + 1, end)
            yield Piece(offset, after - offset, None, None)
            offset = after
            continue
        block_bytes = buf if head.size <= len(buf) else file.pread(head.size, offset)
        yield Piece(offset, head.size, head, decode_block(block_bytes))
        offset += head.size


def _head(file: File, buf: bytes, offset: int) -> BlockHead | None:
    need = head_size(buf)
    return decode_head(buf if need <= len(buf) else file.pread(need, offset))


def _next_head(file: File, start: int, end: int) -> int:
    """Return where the next good head begins, or ``end``."""
    offset = start
    while offset < end:
        chunk = file.pread(min(SCAN_BYTES, end - offset), offset)
        if not chunk:
            return end
        pos = chunk.find(BLOCK_MAGIC)
        while pos >= 0:
            if _head(file, file.pread(HEAD_BYTES, offset + pos), offset + pos) is not None:
                return offset + pos
            pos = chunk.find(BLOCK_MAGIC, pos + 1)
        step = len(chunk) - len(BLOCK_MAGIC) + 1
        if step < 1 or offset + len(chunk) >= end:
            return end
        offset += step
    return end


class _UnlistedLedgers:
    """Ledgers in the logs that have no record."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.keys: dict[int, bytes] = {}
        self.limbo = False

    def add(self, piece: Piece) -> None:
        assert piece.head is not None
        ledger_id, first, entries, _ = piece.head
        self.last[ledger_id] = max(self.last.get(ledger_id, -1), first + entries - 1)
        if ledger_id not in self.keys and piece.block is not None:
            frame = piece.block.data[: piece.block.end(0)]
            [run] = cut_frames(frame) if piece.block.table[0] == FRAME_PREFIX else [None]
            if run is not None:
                self.keys[ledger_id] = run.master_key


def rebuild_index(
    disk: Disk,
    logs: LogFiles,
    index: BookieIndex,
    state: ManifestState | None,
    identity: bytes,
    mark: Mark,
) -> None:
    """Empty the index and fill it from the logs that ``state`` lists, or from all logs when the manifest is lost as
    well.

    Where a log is missing or partly unreadable, the whole bookie is in limbo from then on, and the readable part of the
    log is kept. Each log counts as far as the manifest states: later entries are replayed from the journal. Where two
    logs hold the same entry the later log wins; copies of an entry never differ in what was written. Raises OSError;
    the next start rebuilds it again then.
    """
    index.clear()
    unlisted = _UnlistedLedgers()
    unlisted.limbo = state is None or state.limbo
    known = state.ledgers if state is not None else {}
    for log_id in sorted(state.ends) if state is not None else logs.ids():
        if log_id in logs:
            _index_log(disk, logs, index, log_id, state, unlisted)
        elif state is not None and state.ends[log_id]:
            log.error("entry log is missing, entries of any ledger may be log=%08x", log_id)
            unlisted.limbo = True
    if unlisted.limbo:
        index.set_limbo()
    records = dict(known)
    for ledger_id, last in unlisted.last.items():
        if ledger_id not in records:
            key = unlisted.keys.get(ledger_id, bytes(MASTER_KEY_BYTES))
            records[ledger_id] = LedgerRecord(ledger_id, FENCED | LIMBO, last, 0, key)
    lost = FENCED | LIMBO if unlisted.limbo else 0
    index.put(
        [],
        (
            record._replace(
                flags=record.flags | (0 if record.flags & DELETED else lost),
                last=max(record.last, unlisted.last.get(ledger_id, -1)),
            )
            for ledger_id, record in sorted(records.items())
        ),
    )
    index.set_mark(mark.encode())
    index.flush()
    # Last: after a crash before this, the next start rebuilds the index again.
    index.set_identity(identity)
    index.flush()
    log.warning(
        "index rebuilt ledgers=%d logs=%d limbo=%s", len(records), len(index.usage), unlisted.limbo
    )


def _index_log(
    disk: Disk,
    logs: LogFiles,
    index: BookieIndex,
    log_id: int,
    state: ManifestState | None,
    unlisted: _UnlistedLedgers,
) -> None:
    file = disk.open(logs.path(log_id))
    try:
        size = file.size()
        end = state.ends[log_id] if state is not None else size
        if end > size or decode_file_header(file.pread(FILE_HEADER_BYTES, 0)) != log_id:
            log.error("entry log is damaged or cut off log=%08x bytes=%d of=%d", log_id, size, end)
            unlisted.limbo = unlisted.limbo or end > size
            index.pin(log_id)
        for piece in read_log(file, min(end, size)):
            if piece.head is None:
                log.error("entry log is damaged log=%08x offset=%d", log_id, piece.offset)
                unlisted.limbo = True
                index.pin(log_id)
                continue
            ledger_id, first, entries, _ = piece.head
            if state is not None and not _lives(state, ledger_id):
                continue
            unlisted.add(piece)
            place = Location(log_id, piece.offset, piece.size, entries, piece.size)
            # The journal is replayed over it, and logs are read by rising ids: later copies win (I24).
            index.put([Placed(ledger_id, first, place)], [])
    finally:
        file.close()


def _lives(state: ManifestState, ledger_id: int) -> bool:
    """Return whether the ledger is not deleted. A ledger unknown to the manifest was deleted so long ago that its
    tombstone expired."""
    record = state.ledgers.get(ledger_id)
    return record is not None and not record.flags & DELETED
