"""Bytes of the journal; layout in docs/formats/journal.md. Pure."""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct, pack, unpack_from
from typing import NamedTuple

from bookie.storage.runs import MASTER_KEY_BYTES
from engine.base.crc32c import crc32c

BLOCK = 4096
VERSION = 2
FILE_MAGIC = b"MGJOURN1"
GROUP_MAGIC = b"MGGROUP1"
MARK_MAGIC = b"MGMARK01"
_FILE = Struct(">8sIIQQQQ")
_FILE_V1 = Struct(">8sIIQQQ")
_GROUP = Struct(">8sQQQII")
_MARK = Struct(">8sQQQ")
_FENCE = Struct(f">q{MASTER_KEY_BYTES}s")
_CRC = Struct(">I")
LAC_BODY_MIN, LAC_BODY_MAX = 16, 1024
"""Bytes of an explicit LAC body; BookKeeper's are 16 to 36."""
DESCRIPTOR_BYTES = 16
RECORDS_MAX = 1 << 20
"""Records in a group; a head with more was not written by a bookie."""


class RecordKind(IntEnum):
    ADDS = 1
    FENCE = 2
    EXPLICIT_LAC = 3


class Record(NamedTuple):
    """One record; ``entries`` is 0 unless it holds adds."""

    kind: int
    body: bytes | memoryview
    entries: int


class FileHeader(NamedTuple):
    """The header of a journal file.

    ``file_bytes``: the file's size when it was begun, below which it never falls; 0 in files of version 1.
    """

    file_id: int
    salt: int
    first_sequence: int
    file_bytes: int

    def encode(self) -> bytes:
        """Return the header as one block."""
        head = _FILE.pack(FILE_MAGIC, VERSION, BLOCK, *self)
        return (head + _CRC.pack(crc32c(head))).ljust(BLOCK, b"\0")


class Mark(NamedTuple):
    """The position where replay starts: the group ``sequence`` at ``offset`` of the file ``file_id``. Ordered by
    time."""

    file_id: int
    offset: int
    sequence: int

    def encode(self) -> bytes:
        """Return the mark as the index stores it."""
        head = _MARK.pack(MARK_MAGIC, *self)
        return head + _CRC.pack(crc32c(head))


class GroupHead(NamedTuple):
    """The verified head of a group. ``length`` is without padding.

    ``descriptors`` is flat: kind, length, count, checksum of each record.
    """

    sequence: int
    length: int
    bodies: int
    """Offset of the first body in the group."""
    descriptors: tuple[int, ...]


def padded(size: int) -> int:
    """Return ``size`` rounded up to whole blocks."""
    return (size + BLOCK - 1) & -BLOCK


def decode_file_header(block: bytes) -> FileHeader | None:
    """Return the header; None when the block is not a valid header of a known version."""
    if len(block) < _FILE.size + 4 or block[:8] != FILE_MAGIC:
        return None
    _, version, block_bytes, file_id, salt, sequence, file_bytes = _FILE.unpack_from(block)
    size = _FILE.size if version == VERSION else _FILE_V1.size
    if _CRC.unpack_from(block, size)[0] != crc32c(block[:size]):
        return None
    if version not in (1, VERSION) or block_bytes != BLOCK:
        return None
    return FileHeader(file_id, salt, sequence, file_bytes if version == VERSION else 0)


def decode_mark(data: bytes) -> Mark | None:
    """Return the mark; None when the data is damaged."""
    if len(data) != _MARK.size + 4 or data[:8] != MARK_MAGIC:
        return None
    if _CRC.unpack_from(data, _MARK.size)[0] != crc32c(data[: _MARK.size]):
        return None
    _, file_id, offset, sequence = _MARK.unpack_from(data)
    return Mark(file_id, offset, sequence)


def encode_group(
    file_id: int, salt: int, sequence: int, records: Sequence[Record]
) -> tuple[list[bytes | memoryview], int]:
    """Return the group as parts to write, and their total length: a whole number of blocks."""
    flat: list[int] = []
    bodies: list[bytes | memoryview] = []
    length = 0
    for kind, body, count in records:
        size = len(body)
        flat += (kind, size, count, crc32c(body))
        bodies.append(body)
        length += size
    n = len(records)
    length += _GROUP.size + DESCRIPTOR_BYTES * n + 4
    head = _GROUP.pack(GROUP_MAGIC, file_id, salt, sequence, n, length) + pack(f">{4 * n}I", *flat)
    parts: list[bytes | memoryview] = [head + _CRC.pack(crc32c(head))]
    parts += bodies
    total = padded(length)
    if total > length:
        parts.append(bytes(total - length))
    return parts, total


def decode_group_head(buf: bytes, pos: int, header: FileHeader) -> GroupHead | None:
    """Return the head at ``pos``; None when it does not verify or belongs to an earlier use of the file.

    ``buf`` must reach to the end of the descriptors, see ``group_head_size``.
    """
    fixed = _GROUP.size
    if len(buf) - pos < fixed + 4 or buf[pos : pos + 8] != GROUP_MAGIC:
        return None
    _, file_id, salt, sequence, n, length = _GROUP.unpack_from(buf, pos)
    if file_id != header.file_id or salt != header.salt or n > RECORDS_MAX:
        return None
    stop = pos + fixed + DESCRIPTOR_BYTES * n
    if stop + 4 > len(buf) or _CRC.unpack_from(buf, stop)[0] != crc32c(buf[pos:stop]):
        return None
    flat = unpack_from(f">{4 * n}I", buf, pos + fixed)
    if stop + 4 - pos + sum(flat[1::4]) != length:
        return None
    return GroupHead(sequence, length, stop + 4 - pos, flat)


def group_head_size(buf: bytes, pos: int) -> int:
    """Return the bytes that the head at ``pos`` claims, 0 without magic. Unverified, at most about 16 MiB."""
    if len(buf) - pos < _GROUP.size or buf[pos : pos + 8] != GROUP_MAGIC:
        return 0
    n: int = _GROUP.unpack_from(buf, pos)[4]
    return _GROUP.size + DESCRIPTOR_BYTES * n + 4 if n <= RECORDS_MAX else 0


def group_file_id(buf: bytes, pos: int) -> int:
    """Return the file id in a group head at ``pos``, 0 without magic. Unverified."""
    if len(buf) - pos < _GROUP.size or buf[pos : pos + 8] != GROUP_MAGIC:
        return 0
    file_id: int = _GROUP.unpack_from(buf, pos)[1]
    return file_id


def fence_record(ledger_id: int, master_key: bytes) -> Record:
    return Record(RecordKind.FENCE, _FENCE.pack(ledger_id, master_key), 0)


def decode_fence(body: bytes | memoryview) -> tuple[int, bytes]:
    """Return ledger id and master key. Raises ValueError when the body is not a fence."""
    if len(body) != _FENCE.size:
        raise ValueError(f"a fence record has {len(body)} bytes, not {_FENCE.size}")
    ledger_id, key = _FENCE.unpack(body)
    return ledger_id, key


def lac_record(ledger_id: int, master_key: bytes, body: bytes) -> Record:
    """Return the record of a writer's explicit LAC; ``body`` as it was sent."""
    return Record(RecordKind.EXPLICIT_LAC, _FENCE.pack(ledger_id, master_key) + body, 0)


def decode_lac(record: bytes | memoryview) -> tuple[int, bytes, bytes]:
    """Return ledger id, master key and body. Raises ValueError when the record cannot be an explicit LAC."""
    if not _FENCE.size + LAC_BODY_MIN <= len(record) <= _FENCE.size + LAC_BODY_MAX:
        raise ValueError(f"an explicit LAC record has {len(record)} bytes")
    ledger_id, key = _FENCE.unpack_from(record)
    return ledger_id, key, bytes(record[_FENCE.size :])
