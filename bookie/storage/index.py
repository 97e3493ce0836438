"""What the index holds: block places, ledger records, use of logs (docs/formats/bookie-index.md). Synchronous."""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from bookie.storage.entry_log import Location
from bookie.storage.files import Index

IDENTITY_KEY = b"i"
LIMBO_KEY = b"s"
_BLOCK_KEY = Struct(">cQQ")
_BLOCK = Struct(">IQII")
_LEDGER_KEY = Struct(">cQ")
_LEDGER = Struct(">BqQ")
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


class Placed(NamedTuple):
    """A block that was written: entries ``first .. first + place.entries - 1`` of a ledger."""

    ledger_id: int
    first: int
    place: Location


class BookieIndex:
    """Typed face of the key-value index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._indexed: dict[
            int, int
        ] = {}  # highest entry indexed by ledger: above it nothing can overlap
        self.usage: dict[int, dict[int, int]] = {}
        """Bytes of each ledger in each log. Owned by the flush lane."""
        for key, value in index.scan(b"u", b"v"):
            _, log_id, ledger_id = _USE_KEY.unpack(key)
            self.usage.setdefault(log_id, {})[ledger_id] = _USE.unpack(value)[0]

    def identity(self) -> bytes | None:
        return self._index.get(IDENTITY_KEY)

    def set_identity(self, identity: bytes) -> None:
        self._index.write([(IDENTITY_KEY, identity)])

    def in_limbo(self) -> bool:
        """Whether entries of ledgers unknown here may have been lost."""
        return self._index.get(LIMBO_KEY) is not None

    def set_limbo(self) -> None:
        self._index.write([(LIMBO_KEY, b"")])

    def ledgers(self) -> list[LedgerRecord]:
        """All ledgers, by id. Call once, at the start: it also learns up to where each is indexed."""
        records = []
        for key, value in self._index.scan(b"l", b"m"):
            _, ledger_id = _LEDGER_KEY.unpack(key)
            flags, last, deleted_ms = _LEDGER.unpack_from(value)
            records.append(LedgerRecord(ledger_id, flags, last, deleted_ms, value[_LEDGER.size :]))
            self._indexed[ledger_id] = last
        return records

    def find(self, ledger_id: int, entry_id: int) -> tuple[int, Location] | None:
        """First entry and place of the record that covers the entry."""
        row = self._index.floor(_BLOCK_KEY.pack(b"b", ledger_id, entry_id))
        if row is None or row[0][:1] != b"b":
            return None
        _, ledger, first = _BLOCK_KEY.unpack(row[0])
        place = Location._make(_BLOCK.unpack(row[1]))
        return (first, place) if ledger == ledger_id and entry_id < first + place.entries else None

    def blocks(self, ledger_id: int) -> list[tuple[int, Location]]:
        """First entry and place of each record of a ledger, in order."""
        rows = self._index.scan(
            _BLOCK_KEY.pack(b"b", ledger_id, 0), _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        )
        return [(_BLOCK_KEY.unpack(k)[2], Location._make(_BLOCK.unpack(v))) for k, v in rows]

    def put(self, placed: Iterable[Placed], records: Iterable[LedgerRecord]) -> None:
        """Enter blocks (those of one ledger do not overlap each other) and ledger records."""
        puts: list[tuple[bytes, bytes]] = []
        touched: dict[tuple[int, int], None] = {}
        for ledger_id, first, place in placed:
            used = self.usage.setdefault(place.log_id, {})
            used[ledger_id] = used.get(ledger_id, 0) + place.size
            touched[place.log_id, ledger_id] = None
            if first <= self._indexed.get(ledger_id, -1):
                self._cut_out(ledger_id, first, place.entries)
            puts.append((_BLOCK_KEY.pack(b"b", ledger_id, first), _BLOCK.pack(*place)))
            last = first + place.entries - 1
            self._indexed[ledger_id] = max(self._indexed.get(ledger_id, -1), last)
        for log_id, ledger_id in touched:
            size = _USE.pack(self.usage[log_id][ledger_id])
            puts.append((_USE_KEY.pack(b"u", log_id, ledger_id), size))
        puts += (
            (
                _LEDGER_KEY.pack(b"l", record.ledger_id),
                _LEDGER.pack(record.flags, record.last, record.deleted_ms) + record.master_key,
            )
            for record in records
        )
        if puts:
            self._index.write(puts)

    def _cut_out(self, ledger_id: int, first: int, count: int) -> None:
        """Cut entries ``first .. first + count - 1`` out of the records there are. Written at once, so that the next
        block of the same batch meets what this one left."""
        below = first + count
        found = self._index.floor(_BLOCK_KEY.pack(b"b", ledger_id, first))
        rows = [found] if found is not None else []
        rows += self._index.scan(
            _BLOCK_KEY.pack(b"b", ledger_id, first + 1), _BLOCK_KEY.pack(b"b", ledger_id, below)
        )
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for key, value in rows:
            if key[:1] != b"b":
                continue
            _, ledger, start = _BLOCK_KEY.unpack(key)
            place = Location._make(_BLOCK.unpack(value))
            if ledger != ledger_id or start + place.entries <= first:
                continue
            deletes.append(key)
            if start < first:
                puts.append((key, _BLOCK.pack(*place._replace(entries=first - start))))
            if start + place.entries > below:
                rest = place._replace(entries=start + place.entries - below)
                puts.append((_BLOCK_KEY.pack(b"b", ledger_id, below), _BLOCK.pack(*rest)))
        if deletes:
            self._index.write(puts, deletes)

    def delete(self, record: LedgerRecord) -> list[int]:
        """Remove a ledger's blocks, leaving ``record`` as its tombstone; logs that hold no live ledger any more."""
        ledger_id = record.ledger_id
        start = _BLOCK_KEY.pack(b"b", ledger_id, 0)
        stop = _BLOCK_KEY.pack(b"b", ledger_id + 1, 0)
        deletes = [key for key, _ in self._index.scan(start, stop)]
        empty = []
        for log_id, used in self.usage.items():
            if used.pop(ledger_id, None) is not None:
                deletes.append(_USE_KEY.pack(b"u", log_id, ledger_id))
                if not used:
                    empty.append(log_id)
        for log_id in empty:
            del self.usage[log_id]
        value = _LEDGER.pack(record.flags, record.last, record.deleted_ms) + record.master_key
        self._index.write([(_LEDGER_KEY.pack(b"l", ledger_id), value)], deletes)
        self._indexed.pop(ledger_id, None)
        return empty

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """Remove tombstones."""
        self._index.write([], [_LEDGER_KEY.pack(b"l", ledger_id) for ledger_id in ledger_ids])

    def flush(self) -> None:
        self._index.flush()

    def close(self) -> None:
        self._index.close()
