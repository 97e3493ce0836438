"""Records of a backup's files, as bytes; docs/formats/backup.md has the table. Pure.

A record is a kind (u8), the length of its body (u32), CRC-32C of both and the body (u32), and the body; all big-endian.
"""

from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from engine.backup.errors import DamagedBackupError
from engine.base.crc32c import crc32c
from engine.base.slices import Slice

HEAD = Struct(">BII")
_CHECKED = Struct(">BI")
_NODE = Struct(">Iq")
_ID = Struct(">q")
_ENTRIES = Struct(">qqI")
_LEDGER_END = Struct(">qqqI")
BODY_BYTES_MAX = 64 << 20
"""Bytes of a body; an entry has 5 MiB at most, and a record about 1 MiB beyond its first entry."""
FILE_HEADER = Struct(">8sII")
MAGIC = b"MGBACKUP"
VERSION = 1


class BackupRecordKind(IntEnum):
    """Kinds of records by their numbers in the file."""

    NODE = 1
    LEDGER = 2
    ENTRIES = 3
    LEDGER_END = 4


class SavedNode(NamedTuple):
    """A node of the metadata. ``next_number``: the number that a sequential child of it would have had; 0 where it has
    none."""

    path: str
    value: bytes
    next_number: int = 0


class SavedLedger(NamedTuple):
    """The beginning of a ledger. ``metadata`` is encoded, as it was read."""

    ledger_id: int
    metadata: bytes


class SavedEntries(NamedTuple):
    """Entries of the ledger whose beginning precedes them, contiguous."""

    ledger_id: int
    first: int
    run: Slice


class SavedEnd(NamedTuple):
    """The end of a ledger. ``length`` is the payload bytes of all entries, ``checksum`` their CRC-32C. A ledger without
    it was deleted while it was read, and is no part of the backup."""

    ledger_id: int
    last_entry: int
    length: int
    checksum: int


Record = SavedNode | SavedLedger | SavedEntries | SavedEnd


def file_header(number: int) -> bytes:
    """Return the first bytes of file ``number``."""
    return FILE_HEADER.pack(MAGIC, VERSION, number)


def check_file_header(data: bytes, number: int, name: str) -> None:
    """Raise DamagedBackupError unless ``data`` is the header of file ``number``."""
    if len(data) < FILE_HEADER.size:
        raise DamagedBackupError(f"{name} has no header")
    magic, version, stored = FILE_HEADER.unpack(data)
    if magic == MAGIC and version != VERSION:
        raise DamagedBackupError(
            f"{name} has format {version}, and this release reads {VERSION}: restore it with the release that wrote it"
        )
    if (magic, stored) != (MAGIC, number):
        raise DamagedBackupError(f"{name} is no file of a backup, or another one's")


def encode_node(node: SavedNode) -> list[bytes]:
    """Return a node's record in parts."""
    path = node.path.encode()
    return _record(
        BackupRecordKind.NODE, [_NODE.pack(len(path), node.next_number) + path, bytes(node.value)]
    )


def encode_ledger(ledger: SavedLedger) -> list[bytes]:
    """Return the record of a ledger's beginning in parts."""
    return _record(BackupRecordKind.LEDGER, [_ID.pack(ledger.ledger_id), ledger.metadata])


def encode_entries(run: Slice) -> list[bytes]:
    """Return the record of a ledger's entries in parts."""
    payloads = [run.entry(i) for i in range(run.count)]
    sizes = Struct(f">{run.count}I").pack(*map(len, payloads))
    head = _ENTRIES.pack(run.ledger_id, run.first, run.count)
    return _record(BackupRecordKind.ENTRIES, [head + sizes, *payloads])


def encode_end(end: SavedEnd) -> list[bytes]:
    """Return the record of a ledger's end in parts."""
    return _record(BackupRecordKind.LEDGER_END, [_LEDGER_END.pack(*end)])


def _record(kind: BackupRecordKind, body: list[bytes]) -> list[bytes]:
    size = sum(map(len, body))
    checksum = crc32c(_CHECKED.pack(kind, size))
    for part in body:
        checksum = crc32c(part, checksum)
    return [HEAD.pack(kind, size, checksum), *body]


def checked(head: bytes, body: bytes) -> bool:
    """Return whether a record's checksum is that of its head and body."""
    kind, size, checksum = HEAD.unpack(head)
    return bool(crc32c(body, crc32c(_CHECKED.pack(kind, size))) == checksum)


def decode(kind: int, body: bytes) -> Record:
    """Decode a record whose checksum is right. Raises DamagedBackupError."""
    try:
        match BackupRecordKind(kind):
            case BackupRecordKind.NODE:
                size, next_number = _NODE.unpack_from(body)
                start = _NODE.size + size
                return SavedNode(body[_NODE.size : start].decode(), body[start:], next_number)
            case BackupRecordKind.LEDGER:
                return SavedLedger(_ID.unpack_from(body)[0], body[_ID.size :])
            case BackupRecordKind.ENTRIES:
                return _entries(body)
            case BackupRecordKind.LEDGER_END:
                return SavedEnd(*_LEDGER_END.unpack(body))
    except (ValueError, error) as cause:
        raise DamagedBackupError(f"a record of kind {kind} cannot be read: {cause}") from cause


def _entries(body: bytes) -> SavedEntries:
    ledger_id, first, count = _ENTRIES.unpack_from(body)
    sizes = Struct(f">{count}I").unpack_from(body, _ENTRIES.size)
    at = _ENTRIES.size + 4 * count
    if at + sum(sizes) != len(body) or not count:
        raise ValueError(f"{count} entries of ledger {ledger_id} have other sizes")
    spans: list[int] = []
    for size in sizes:
        spans += (at, at + size)
        at += size
    return SavedEntries(ledger_id, first, Slice(body, spans, sum(sizes)))
