"""The ledgers that are marked as under-replicated, with what is to be copied and who does it."""

from collections import Counter
from typing import NamedTuple

from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.metadata_update import decoded
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.repair.ledger_listing import BATCH
from engine.repair.ledger_owners import owner_of
from engine.repair.marks import (
    LedgerMark,
    MarkFormatError,
    RepairRecords,
    decode_mark,
    worker_in,
)

READ_MAX = 2_000
"""Marked ledgers whose marks are read."""
COUNTED_MAX = 100_000


class MarkedLedger(NamedTuple):
    """A marked ledger. ``size``: bytes to copy; None for a ledger that is open, or whose metadata cannot be read;
    ``worker``: who repairs it now, None for no one; ``since_ms`` is 0 for a mark without a time."""

    ledger_id: int
    owner: str
    bookies: tuple[str, ...]
    since_ms: int
    size: int | None
    open: bool
    worker: str | None


class UnderReplication(NamedTuple):
    """``ledgers`` is the number of marked ledgers, and ``is_all`` False where there are more; ``rows`` are those that
    were read, oldest mark first. A ledger that is repaired meanwhile is left out of the rows."""

    ledgers: int
    is_all: bool
    rows: list[MarkedLedger]

    @property
    def size(self) -> int:
        """Bytes to copy of the rows whose size is known."""
        return sum(row.size or 0 for row in self.rows)

    @property
    def oldest_ms(self) -> int | None:
        """The time of the first mark of the rows; None without one whose time is known."""
        return min((row.since_ms for row in self.rows if row.since_ms), default=None)

    @property
    def workers(self) -> Counter[str]:
        """Ledgers under repair by worker."""
        return Counter(row.worker for row in self.rows if row.worker is not None)


async def under_replication(
    store: MetadataStore, records: RepairRecords, read_max: int = READ_MAX
) -> UnderReplication:
    """Read the marks. Raises the store's errors, MarkFormatError."""
    listed: list[int] = []
    is_all = True
    async for ledger_id in records.marked():
        if len(listed) == COUNTED_MAX:
            is_all = False
            break
        listed.append(ledger_id)
    rows: list[MarkedLedger] = []
    for i in range(0, min(len(listed), read_max), BATCH):
        rows += await _read(store, listed[i : min(i + BATCH, read_max)])
    return UnderReplication(len(listed), is_all, sorted(rows, key=lambda row: row.since_ms))


async def _read(store: MetadataStore, ids: list[int]) -> list[MarkedLedger]:
    marks, _ = await store.get_all([paths.marked_ledger(n) for n in ids])
    locks, _ = await store.get_all([paths.repair_lock(n) for n in ids])
    nodes, _ = await store.get_all([paths.ledger(n) for n in ids])
    rows = []
    for ledger_id, marked, lock, node in zip(ids, marks, locks, nodes, strict=True):
        if marked is None:
            continue
        try:
            mark = decode_mark(ledger_id, marked[0], marked[1].version)
        except MarkFormatError:
            mark = LedgerMark(ledger_id, (), 0, marked[1].version)  # its worker writes it anew
        worker = None if lock is None else worker_in(paths.repair_lock(ledger_id), lock[0])
        metadata: LedgerMetadata | None = None
        if node is not None:
            try:
                metadata = decoded(node)
            except MetadataFormatError:
                metadata = None
        is_open = metadata is not None and metadata.state is not LedgerState.CLOSED
        size = None if metadata is None or is_open else _size(metadata, mark.bookies)
        owner = "" if metadata is None else owner_of(metadata.custom)
        rows.append(
            MarkedLedger(ledger_id, owner, mark.bookies, mark.since_ms, size, is_open, worker)
        )
    return rows


def _size(metadata: LedgerMetadata, lost: tuple[str, ...]) -> int:
    """Return about how many bytes the lost bookies held of a ledger."""
    copied = metadata.length * metadata.write_quorum // metadata.ensemble_size
    held = sum(bookie in lost for segment in metadata.segments for bookie in segment.bookies)
    return copied * held // len(metadata.segments)
