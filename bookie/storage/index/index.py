"""Content of the index: places of blocks, ledger records, use of logs (docs/formats/bookie-index.md). Synchronous."""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from bookie.storage.logs.entry_log import Location
from bookie.storage.logs.log_files import LogFiles
from bookie.storage.runs import MASTER_KEY_BYTES
from engine.base.disk.index_disk import Index

IDENTITY_KEY = b"i"
LIMBO_KEY = b"s"
MARK_KEY = b"m"
PINNED = (1 << 64) - 1
"""Ledger id in ``usage`` of a log that must be kept because part of it cannot be read."""
ROWS_MAX = 4096
"""Rows deleted by one write when an index is emptied."""
_BLOCK_KEY = Struct(">cQQ")
_BLOCK = Struct(">IQIII")
_LEDGER_KEY = Struct(">cQ")
_LEDGER = Struct(">BqQ")
_EXPLICIT_LAC = _LEDGER.size + MASTER_KEY_BYTES
_USE_KEY = Struct(">cIQ")
_USE = Struct(">Q")
FENCED, LIMBO, DELETED = 1, 2, 4


class LedgerRecord(NamedTuple):
    """Durable facts of a ledger; ``last`` is -1 without entries, ``deleted_ms`` 0 while it lives."""

    ledger_id: int
    flags: int
    last: int
    deleted_ms: int
    master_key: bytes
    explicit_lac: bytes = b""
    """The writer's last explicit LAC as it was sent; empty when there was none."""

    def encode(self) -> bytes:
        """Return the record without its id, as index and manifest store it."""
        return (
            _LEDGER.pack(self.flags, self.last, self.deleted_ms)
            + self.master_key
            + self.explicit_lac
        )


def decode_ledger(ledger_id: int, value: bytes) -> LedgerRecord:
    """Decode a stored record. Raises struct.error when ``value`` is not one."""
    flags, last, deleted_ms = _LEDGER.unpack_from(value)
    master_key, lac = value[_LEDGER.size : _EXPLICIT_LAC], value[_EXPLICIT_LAC:]
    return LedgerRecord(ledger_id, flags, last, deleted_ms, master_key, lac)


class Placed(NamedTuple):
    """A written block: entries ``first .. first + place.entries - 1`` of a ledger."""

    ledger_id: int
    first: int
    place: Location


class _Changes:
    """Rows to write in one step, and the (log, ledger) pairs whose use they change."""

    __slots__ = ("deletes", "puts", "touched")

    def __init__(self) -> None:
        self.puts: list[tuple[bytes, bytes]] = []
        self.deletes: list[bytes] = []
        self.touched: dict[tuple[int, int], None] = {}


class BookieIndex:
    """Typed interface to the key-value index. Written in the flush lane alone; reads may come from any lane."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._indexed: dict[int, int] = {}
        """Highest indexed entry by ledger; no record overlaps entries above it."""
        self.usage: dict[int, dict[int, int]] = {}
        """Live bytes of each ledger in each log: the sum of its records' shares. Owned by the flush lane."""
        self.live_bytes = 0
        """The sum of all shares. Read from any lane."""
        for key, value in index.scan(b"u", b"v"):
            _, log_id, ledger_id = _USE_KEY.unpack(key)
            self.usage.setdefault(log_id, {})[ledger_id] = _USE.unpack(value)[0]
            self.live_bytes += _USE.unpack(value)[0]

    def identity(self) -> bytes | None:
        return self._index.get(IDENTITY_KEY)

    def set_identity(self, identity: bytes) -> None:
        self._index.write([(IDENTITY_KEY, identity)])

    def mark(self) -> bytes | None:
        """Return the journal's mark at the last checkpoint. An index older than the mark file was lost in part."""
        return self._index.get(MARK_KEY)

    def set_mark(self, mark: bytes) -> None:
        self._index.write([(MARK_KEY, mark)])

    def clear(self) -> None:
        """Delete all rows, durably."""
        while rows := self._index.scan_from(b"", b"\xff", ROWS_MAX):
            self._index.write([], [key for key, _ in rows])
        self._index.flush()
        self.usage.clear()
        self.live_bytes = 0
        self._indexed.clear()

    def in_limbo(self) -> bool:
        """Return whether entries of ledgers unknown here may have been lost."""
        return self._index.get(LIMBO_KEY) is not None

    def set_limbo(self) -> None:
        self._index.write([(LIMBO_KEY, b"")])

    def records(self) -> list[LedgerRecord]:
        """Return the records of all ledgers, by id."""
        rows = self._index.scan(b"l", b"m")
        return [decode_ledger(_LEDGER_KEY.unpack(key)[1], value) for key, value in rows]

    def ledgers(self) -> list[LedgerRecord]:
        """Return what ``records`` returns, and remember up to where each ledger is indexed. Called once, at the
        start."""
        records = self.records()
        self._indexed = {record.ledger_id: record.last for record in records}
        return records

    def find_range(
        self, ledger_id: int, entry_id: int, records_max: int
    ) -> list[tuple[int, Location]]:
        """Return the record that covers the entry and the following ones without a gap, at most ``records_max``."""
        start = _BLOCK_KEY.pack(b"b", ledger_id, entry_id)
        stop = _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        rows: list[tuple[int, Location]] = []
        below = entry_id
        for key, value in self._index.scan_from(start, stop, records_max):
            if key[:1] != b"b":
                break
            _, ledger, first = _BLOCK_KEY.unpack(key)
            place = Location._make(_BLOCK.unpack(value))
            if ledger != ledger_id or not first <= below < first + place.entries:
                break
            rows.append((first, place))
            below = first + place.entries
        return rows

    def blocks(self, ledger_id: int) -> list[tuple[int, Location]]:
        """Return first entry and place of each record of a ledger, in order."""
        rows = self._index.scan(
            _BLOCK_KEY.pack(b"b", ledger_id, 0), _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        )
        return [(_BLOCK_KEY.unpack(k)[2], Location._make(_BLOCK.unpack(v))) for k, v in rows]

    def ranges(self, ledger_id: int, logs: LogFiles | set[int]) -> list[tuple[int, int]]:
        """Return first and last entry of each record of a ledger that lies in one of ``logs``, in order."""
        return [
            (first, first + place.entries - 1)
            for first, place in self.blocks(ledger_id)
            if place.log_id in logs
        ]

    def blocks_from(
        self, ledger_id: int, entry_id: int, records_max: int
    ) -> tuple[list[tuple[int, Location]], bool]:
        """Return a ledger's records from the one with ``entry_id`` on, or the next behind it, at most ``records_max``,
        and whether they reach the ledger's end."""
        start = _BLOCK_KEY.pack(b"b", ledger_id, entry_id)
        stop = _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        # The first row may be before the entry.
        scanned = self._index.scan_from(start, stop, records_max + 1)
        rows = []
        for key, value in scanned:
            if key[:1] != b"b":
                continue
            _, ledger, first = _BLOCK_KEY.unpack(key)
            place = Location._make(_BLOCK.unpack(value))
            if ledger == ledger_id and first + place.entries > entry_id:
                rows.append((first, place))
        return rows, len(scanned) <= records_max

    def blocks_in(self, ledger_id: int, log_id: int) -> list[tuple[int, Location]]:
        """Return the records of a ledger that lie in one log."""
        return [row for row in self.blocks(ledger_id) if row[1].log_id == log_id]

    def ends(self) -> dict[int, int]:
        """Return where the last block that any record names ends, by log. Reads all records."""
        ends: dict[int, int] = {}
        for _, value in self._index.scan(b"b", b"c"):
            place = Location._make(_BLOCK.unpack(value))
            ends[place.log_id] = max(ends.get(place.log_id, 0), place.offset + place.size)
        return ends

    def is_pinned(self, log_id: int) -> bool:
        return PINNED in self.usage.get(log_id, ())

    # Changes: flush lane

    def pin(self, log_id: int) -> None:
        """Keep a log regardless of its records: part of it cannot be read, so its content is not fully known (I30)."""
        if not self.is_pinned(log_id):
            changes = _Changes()
            self._use(changes, log_id, PINNED, 1)
            self._write(changes)

    def put(self, placed: Iterable[Placed], records: Iterable[LedgerRecord]) -> None:
        """Add blocks (those of one ledger do not overlap each other) and ledger records."""
        changes = _Changes()
        for ledger_id, first, place in placed:
            if first <= self._indexed.get(ledger_id, -1):
                self._cut_out(ledger_id, first, place.entries)
            self._put_block(changes, ledger_id, first, place)
            last = first + place.entries - 1
            self._indexed[ledger_id] = max(self._indexed.get(ledger_id, -1), last)
        changes.puts += (
            (_LEDGER_KEY.pack(b"l", record.ledger_id), record.encode()) for record in records
        )
        self._write(changes)

    def move(self, moved: Iterable[Placed], source: int) -> int:
        """Point entries that still lie in the log ``source`` at their copies; return the bytes moved.

        Entries added again or deleted since they were copied keep their state. One step for each copied block.
        """
        switched = 0
        for ledger_id, first, copy in moved:
            changes = _Changes()
            below = first + copy.entries
            for key, start, place in self._overlapping(ledger_id, first, below):
                if place.log_id != source:  # added again since it was copied
                    continue
                low, high = max(first, start), min(below, start + place.entries)
                self._shorten(changes, ledger_id, key, start, place, low, high)
                part = _share(copy, high - low)
                self._put_block(changes, ledger_id, low, part)
                switched += part.share
            self._write(changes)
        return switched

    def _put_block(self, changes: _Changes, ledger_id: int, first: int, place: Location) -> None:
        self._use(changes, place.log_id, ledger_id, place.share)
        changes.puts.append((_BLOCK_KEY.pack(b"b", ledger_id, first), _BLOCK.pack(*place)))

    def _use(self, changes: _Changes, log_id: int, ledger_id: int, change: int) -> None:
        used = self.usage.setdefault(log_id, {})
        used[ledger_id] = used.get(ledger_id, 0) + change
        self.live_bytes += change
        changes.touched[log_id, ledger_id] = None

    def _write(self, changes: _Changes) -> None:
        """Write the changes as one batch. A log's use by a ledger is deleted when it falls to zero."""
        for log_id, ledger_id in changes.touched:
            key = _USE_KEY.pack(b"u", log_id, ledger_id)
            used = self.usage[log_id]
            if used[ledger_id] > 0:
                changes.puts.append((key, _USE.pack(used[ledger_id])))
                continue
            changes.deletes.append(key)
            del used[ledger_id]
            if not used:
                del self.usage[log_id]
        if changes.puts or changes.deletes:
            self._index.write(changes.puts, changes.deletes)

    def _overlapping(
        self, ledger_id: int, first: int, below: int
    ) -> list[tuple[bytes, int, Location]]:
        """Return key, first entry and place of the records with entries in ``first .. below - 1``."""
        floor = self._index.floor(_BLOCK_KEY.pack(b"b", ledger_id, first))
        rows = [floor] if floor is not None and floor[0][:1] == b"b" else []
        rows += self._index.scan(
            _BLOCK_KEY.pack(b"b", ledger_id, first + 1), _BLOCK_KEY.pack(b"b", ledger_id, below)
        )
        overlapping = []
        for key, value in rows:
            _, ledger, start = _BLOCK_KEY.unpack(key)
            place = Location._make(_BLOCK.unpack(value))
            if ledger == ledger_id and start + place.entries > first:
                overlapping.append((key, start, place))
        return overlapping

    def _shorten(
        self,
        changes: _Changes,
        ledger_id: int,
        key: bytes,
        start: int,
        place: Location,
        low: int,
        high: int,
    ) -> None:
        """Remove entries ``low .. high - 1`` from a record and keep those before and behind them."""
        self._use(changes, place.log_id, ledger_id, -place.share)
        changes.deletes.append(key)
        if start < low:
            self._put_block(changes, ledger_id, start, _share(place, low - start))
        if start + place.entries > high:
            tail = _share(place, start + place.entries - high)
            self._put_block(changes, ledger_id, high, tail)

    def _cut_out(self, ledger_id: int, first: int, count: int) -> None:
        """Remove entries ``first .. first + count - 1`` from the existing records.

        Written at once, so that the next block of the same batch sees the records that this one left.
        """
        changes = _Changes()
        for key, start, place in self._overlapping(ledger_id, first, first + count):
            high = min(first + count, start + place.entries)
            self._shorten(changes, ledger_id, key, start, place, max(first, start), high)
        self._write(changes)

    def delete(self, record: LedgerRecord) -> None:
        """Remove a ledger's blocks and leave ``record`` as its tombstone."""
        ledger_id = record.ledger_id
        changes = _Changes()
        start = _BLOCK_KEY.pack(b"b", ledger_id, 0)
        stop = _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        changes.deletes += [key for key, _ in self._index.scan(start, stop)]
        for log_id, used in self.usage.items():
            if ledger_id in used:
                self._use(changes, log_id, ledger_id, -used[ledger_id])
        changes.puts.append((_LEDGER_KEY.pack(b"l", ledger_id), record.encode()))
        self._write(changes)
        self._indexed.pop(ledger_id, None)

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """Remove tombstones."""
        self._index.write([], [_LEDGER_KEY.pack(b"l", ledger_id) for ledger_id in ledger_ids])

    def flush(self) -> None:
        """Make all writes durable."""
        self._index.flush()

    def compact(self) -> None:
        """Free the room of deleted rows. From any lane."""
        self._index.compact()

    def close(self) -> None:
        self._index.close()


def _share(place: Location, entries: int) -> Location:
    """Return the place of ``entries`` of a record's entries, with the proportional part of its share."""
    return place._replace(entries=entries, share=place.share * entries // place.entries)
