"""Reading of journal files: one group after another, with torn tails distinguished from damage."""

from collections.abc import Iterator
from typing import NamedTuple

from bookie.storage.errors import JournalDamagedError
from bookie.storage.journal.journal_format import (
    BLOCK,
    FileHeader,
    Record,
    decode_group_head,
    group_head_size,
    padded,
)
from engine.base.crc32c import crc32c
from engine.base.disk.files import Disk, File

SCAN_BYTES = 1 << 20
HEAD_BYTES = 64 << 10


class Group(NamedTuple):
    """A group as read: its good records, where the next group would begin, and whether it is whole."""

    sequence: int
    next_offset: int
    records: list[Record]
    whole: bool


def read_groups(
    disk: Disk, path: str, header: FileHeader, offset: int, sequence: int
) -> Iterator[Group]:
    """Yield groups from ``offset`` on; the first must have ``sequence``.

    A torn tail yields its good records with ``whole`` False and ends the iteration. Raises JournalDamagedError when
    good groups follow a bad one, or when they might have: the file is shorter than when it was begun (B2).
    """
    file = disk.open(path)
    try:
        while True:
            group = _read_group(file, header, offset, sequence)
            if group is None or not group.whole:
                after = offset + BLOCK if group is None else group.next_offset
                later = _later_group(file, header, after, sequence)
                if later is not None:
                    raise JournalDamagedError(
                        f"{path}: group {sequence} at {offset} is damaged, group {later[1]} at {later[0]} is good"
                    )
                # A crash tears the last group but never shortens the file, which was filled with zeros before.
                if file.size() < header.file_bytes:
                    raise JournalDamagedError(
                        f"{path}: has {file.size()} bytes, {header.file_bytes} when it was begun: its end is lost"
                    )
                if group is not None:
                    yield group
                return
            yield group
            offset, sequence = group.next_offset, sequence + 1
    finally:
        file.close()


def _read_group(file: File, header: FileHeader, offset: int, sequence: int) -> Group | None:
    """Return the group at ``offset``; None when no head of this sequence verifies there."""
    buf = file.pread(HEAD_BYTES, offset)
    need = group_head_size(buf, 0)
    if need > len(buf):
        buf = file.pread(need, offset)
    head = decode_group_head(buf, 0, header)
    if head is None or head.sequence != sequence:
        return None
    if head.length > len(buf):
        buf = file.pread(head.length, offset)
    records, whole = _good_records(buf, head.bodies, head.descriptors)
    return Group(sequence, offset + padded(head.length), records, whole)


def _good_records(buf: bytes, pos: int, flat: tuple[int, ...]) -> tuple[list[Record], bool]:
    records: list[Record] = []
    view = memoryview(buf)
    for i in range(0, len(flat), 4):
        kind, size, count, crc = flat[i : i + 4]
        body = view[pos : pos + size]
        if len(body) != size or crc32c(body) != crc:
            return records, False
        records.append(Record(kind, body, count))
        pos += size
    return records, True


def journal_blocks(file: File, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and first bytes of each block from ``start`` on."""
    offset = start
    while chunk := file.pread(SCAN_BYTES, offset):
        for pos in range(0, len(chunk), BLOCK):
            yield offset + pos, chunk[pos : pos + BLOCK]
        offset += len(chunk)
        if len(chunk) < SCAN_BYTES:
            return


def _later_group(
    file: File, header: FileHeader, start: int, sequence: int
) -> tuple[int, int] | None:
    """Return offset and sequence of a good group head behind a bad group; None when there is none."""
    for offset, buf in journal_blocks(file, start):
        need = group_head_size(buf, 0)
        if not need:
            continue
        head = decode_group_head(buf if need <= len(buf) else file.pread(need, offset), 0, header)
        if head is not None and head.sequence > sequence:
            return offset, head.sequence
    return None
