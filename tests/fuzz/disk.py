"""Parsers of what lies on a bookie's disk: journal, entry logs, manifest."""

import struct

from bookie.storage.errors import DamagedError, JournalDamagedError
from bookie.storage.index import manifest
from bookie.storage.index.index import LedgerRecord
from bookie.storage.journal import journal_format
from bookie.storage.journal.journal_format import Record
from bookie.storage.journal.journal_reader import read_groups
from bookie.storage.ledgers import Ledgers
from bookie.storage.logs import entry_log_format
from bookie.storage.recover import apply_record
from bookie.storage.runs import cut_frames
from bookie.storage.write_cache import WriteCache
from engine.base.crc32c import crc32c
from engine.base.slices import AddRun
from engine.wire import (
    bookie_v3,
)
from tests.fuzz.target import Target
from tests.sim.kit.disk import FaultDisk

KEY = bytes(range(20))

HEADER = journal_format.FileHeader(7, 0x1234_5678_9ABC_DEF0, 3, 0)


def frames(ledger: int, first: int, sizes: list[int]) -> bytes:
    made = []
    for i, size in enumerate(sizes):
        head = struct.pack(">II20s", 56 + size, 0x02010000, KEY)
        made.append(head + struct.pack(">qqqq", ledger, first + i, first + i - 1, 0) + b"x" * size)
    return b"".join(made)


def journal_group(sequence: int, *more: journal_format.Record) -> bytes:
    adds = journal_format.Record(journal_format.RecordKind.ADDS, frames(1, sequence, [5, 0, 70]), 3)
    parts, _ = journal_format.encode_group(
        HEADER.file_id, HEADER.salt, sequence, [adds, journal_format.fence_record(1, KEY), *more]
    )
    return b"".join(parts)


LAC = bookie_v3.explicit_lac(1, 5, b"sums")


def journal_file(data: bytes) -> None:
    """Groups behind a good header, and what replay does with the records."""
    disk = FaultDisk()
    disk.makedirs("/d")
    file = disk.open("/d/j", create=True)
    file.pwritev([HEADER.encode(), data], 0)
    file.close()
    for group in read_groups(disk, "/d/j", HEADER, journal_format.BLOCK, 3):
        for record in group.records:
            replay(record)


def seal_groups(data: bytes) -> bytes:
    """Good checksums of bodies and heads for the first group, if its numbers allow that."""
    if len(data) < 48:
        return data
    n = min(int.from_bytes(data[32:36], "big"), 64)
    start = 44 + 16 * n
    if start > len(data):
        return data
    descriptors, at = b"", start
    for i in range(n):
        kind, size, count, _ = struct.unpack_from(">IIII", data, 40 + 16 * i)
        descriptors += struct.pack(">IIII", kind, size, count, crc32c(data[at : at + size]))
        at += size
    head = journal_format.GROUP_MAGIC + struct.pack(
        ">QQQII", HEADER.file_id, HEADER.salt, 3, n, at & 0xFFFFFFFF
    )
    head += descriptors
    return head + struct.pack(">I", crc32c(head)) + data[start:]


def journal_record(data: bytes) -> None:
    """Replayed: the first byte is the kind."""
    replay(Record(data[0] if data else 0, data[1:], 0))


def replay(record: Record) -> None:
    ledgers = Ledgers(WriteCache(1 << 20), [])
    apply_record(ledgers, record)
    for ledger_id in ledgers.live_ids():
        ledger = ledgers.get(ledger_id)
        assert ledger is not None
        assert ledger.last < 0 or ledgers.cache.find(ledger_id, ledger.last) is not None
        assert ledger.written_lac >= -1 or ledger.explicit_lac
    for runs in ledgers.swap()[0].ledgers.values():
        for run in runs.resolved():
            assert all(run.end(i) - run.offsets[i] >= 16 for i in range(run.count))


def journal_heads(data: bytes) -> None:
    journal_format.decode_file_header(data)
    journal_format.decode_mark(data)
    size = journal_format.group_head_size(data, 0)
    assert size <= 17 << 20
    journal_format.group_file_id(data, 0)
    journal_format.decode_group_head(data, 0, HEADER)


def log_block(data: bytes) -> None:
    entry_log_format.decode_file_header(data)
    entry_log_format.head_size(data)
    entry_log_format.block_size(data)
    block = entry_log_format.decode_block(data)
    if block is not None:
        for entry_id in range(block.first, min(block.below, block.first + 1000)):
            entry = block.entry(entry_id)
            assert entry is not None
            assert len(entry) <= len(data)
        assert block.entry(block.below) is None


def seal_block(data: bytes) -> bytes:
    """Good checksums for what the head claims."""
    size = entry_log_format.head_size(data)
    if not size or size > len(data):
        return data
    magic, ledger_id, first, n, _, _ = struct.unpack_from(">4sqqIII", data)
    body = data[size:]
    head = struct.pack(">4sqqIII", magic, ledger_id, first, n, len(body), crc32c(body))
    head += data[32 : size - 4]
    return head + struct.pack(">I", crc32c(head)) + body


def a_block() -> bytes:
    run = next(iter(cut_frames(frames(4, 10, [3, 90, 0, 11]))))
    [block] = entry_log_format.blocks_of([AddRun(*_of(run))], 1 << 20)
    return b"".join(block.encode()[0])


def _of(run: AddRun) -> tuple[bytes, int, int, list[int], int, bytes]:
    return run.buf, run.ledger_id, run.first, run.offsets, run.stop, run.master_key


def manifest_file(data: bytes) -> None:
    state = manifest.decode(data, 1)
    assert state.size <= len(data)


def seal_manifest(data: bytes) -> bytes:
    """Return ``data`` with a good header, and good checksums for the records as far as their lengths go."""
    out, pos = manifest.encode_header(1), manifest.HEADER_BYTES
    while pos + 7 <= len(data):
        kind, size, _ = struct.unpack_from(">BHI", data, pos)
        body = data[pos + 7 : pos + 7 + size]
        out += struct.pack(">BHI", kind, len(body), crc32c(body, crc32c(bytes((kind,))))) + body
        pos += 7 + size
    return out


def a_manifest() -> bytes:
    ledger = LedgerRecord(3, 1, 17, 0, KEY, LAC)
    return b"".join(
        (
            manifest.encode_header(1),
            manifest.encode_ledger(ledger),
            manifest.encode_ledger(ledger._replace(ledger_id=4, deleted_ms=99, explicit_lac=b"")),
            manifest.encode_end(2, 8192),
            manifest.encode_limbo(),
            manifest.encode_forgotten(4),
        )
    )


DISK: tuple[Target, ...] = (
    Target(
        "journal files",
        journal_file,
        [
            journal_group(3) + journal_group(4, journal_format.lac_record(1, KEY, LAC)),
            journal_group(3),
        ],
        (JournalDamagedError,),
        seal_groups,
    ),
    Target(
        "journal records",
        journal_record,
        [
            b"\1" + frames(1, 0, [4, 4]) + frames(2, 9, [1]),
            b"\2" + bytes(journal_format.fence_record(1, KEY).body),
            b"\3" + bytes(journal_format.lac_record(1, KEY, LAC).body),
        ],
        (JournalDamagedError,),
    ),
    Target(
        "journal heads",
        journal_heads,
        [HEADER.encode(), journal_format.Mark(1, 2, 3).encode(), journal_group(3)],
    ),
    Target(
        "entry log blocks",
        log_block,
        [a_block(), entry_log_format.encode_file_header(9)],
        (),
        seal_block,
    ),
    Target("manifests", manifest_file, [a_manifest()], (DamagedError,), seal_manifest),
)
