"""The log of changes: segments on a Disk, written by one thread and read at a start.

A segment is ``log-<number>``. It is filled with zeros ahead of its records, so that a sync has no new blocks to record,
and a full disk is noticed while there is still room for those that are due. Whole blocks are written past the page
cache; the first block of a group repeats the end of the one before. A group of transactions is one record with
one sync. The next segment begins with a snapshot. A start reads what was synced or refuses (Z8).
"""

import errno
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from engine.base.disk.files import DIRECT_BLOCK, Disk, File, Lane, write_and_sync
from engine.base.disk.later_formats import HEADER_BYTES_MAX, later_text, later_version
from engine.base.errors import MagnetarError
from engine.metadata.server.storage.change_format import (
    HEADER_BYTES,
    LOG_MAGIC,
    RECORD_HEAD_BYTES,
    SALT_BYTES,
    VERSION,
    RecordHead,
    StoreFileHeader,
    decode_header,
    decode_record_head,
    encode_record,
    verifies,
)

log = logging.getLogger(__name__)

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
TEMPORARY = ".tmp"
"""Ending of the names of files that are not complete."""
READ_BYTES = 1 << 20
FILL_BYTES_MIN, FILL_BYTES_MAX = 64 << 10, 4 << 20
"""Zeros written ahead: at least, and at most when the segment is large."""
RESERVE_BYTES = 32 << 10
"""Zeros that are left ahead of the records, for what must still be written on a full disk."""
LITTLE_BYTES = 60 << 10
"""Size of a group up to which its checksum and its copy do not keep the event loop noticeably."""
SHORT_OF_SPACE_BYTES = 16 << 20
"""Default of the free space of the file system below which the log counts as full."""


class DamagedStoreError(MagnetarError):
    """The store cannot be read; the text names the file and what can be done."""


class LogFullError(MagnetarError):
    """A group does not fit on the disk. Nothing of it counts as written, and it can be written again."""


def segment_name(number: int) -> str:
    return f"log-{number:010}"


class LogWriter:
    """Writer of groups, for one call at a time.

    After any OSError but a full disk it refuses to write: what a failed sync left on the disk is unknown.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        instance: bytes,
        draw_salt: Callable[[], bytes],
        number: int,
        sequence: int,
        free_bytes_min: int = SHORT_OF_SPACE_BYTES,
    ) -> None:
        """``number`` and ``sequence`` are those of the next segment and of its first group."""
        self._disk = disk
        self._directory = directory
        self._instance = instance
        self._draw_salt = draw_salt
        self._number = number
        self._sequence = sequence
        self._free_bytes_min = free_bytes_min
        self._file: File | None = None
        self._salt = b""
        self._offset = 0
        self._filled = 0
        self._tail = b""
        """Bytes of the block in which the next group begins, up to there."""
        self._failure: BaseException | None = None

    @property
    def number(self) -> int:
        """Number of the current segment."""
        return self._number - 1

    def begin_segment(self, zxid: int) -> StoreFileHeader:
        """Begin the next segment; it is durable on return. ``zxid``: that of the last transaction before it.

        Raises LogFullError, which leaves the current segment in use, and OSError.
        """
        self._check()
        header = StoreFileHeader(
            LOG_MAGIC, self._instance, self._draw_salt(), self._number, self._sequence, zxid
        )
        path = f"{self._directory}/{segment_name(self._number)}"
        file = self._create(path + TEMPORARY, header.encode())
        try:
            # Under its final name a segment always has a header that verifies.
            self._disk.rename(path + TEMPORARY, path)
            self._disk.sync_dir(self._directory)
        except OSError as error:
            self._failure = error  # the segment may exist: no other may be written to
            raise
        self._trim()
        self._file, self._salt = file, header.salt
        self._offset, self._filled = HEADER_BYTES, FILL_BYTES_MIN
        self._tail = header.encode()
        self._number += 1
        return header

    def _create(self, path: str, header: bytes) -> File:
        """Return a synced file with a header and zeros. A full disk leaves no file behind."""
        file: File | None = None
        try:
            file = self._disk.open(path, create=True, direct=True)
            file.truncate(0)
            file.pwritev([header.ljust(FILL_BYTES_MIN, b"\0")], 0)
            file.fdatasync()
        except OSError as error:
            if file is not None:
                file.close()
                self._disk.remove(path)
            raise self._failed(error) from error
        return file

    def append(self, body: bytes) -> bool:
        """Write and sync a group. Return whether there is room for more; the reserve is used after that.

        Raises LogFullError, and OSError after which nothing more can be written.
        """
        self._check()
        assert self._file is not None
        data = self._tail + encode_record(self._salt, self._sequence, body)
        at = self._offset - len(self._tail)
        try:
            room = self._fill(at + len(data) + RESERVE_BYTES)
            write_and_sync(self._file, [_whole_blocks(data)], at)
        except BaseException as error:
            raise self._failed(error) from error
        self._appended(data)
        return room

    def append_soon(
        self, lane: Lane, body: bytes, done: Callable[[bool | None, BaseException | None], None]
    ) -> None:
        """Append a group beside the event loop; ``done`` gets what ``append`` returns or raises.

        A little group for which there are zeros needs no thread where the kernel writes by itself.
        """
        ahead = self._filled - self._offset - RECORD_HEAD_BYTES - len(body)
        if self._failure is not None or len(body) > LITTLE_BYTES or ahead < RESERVE_BYTES:
            lane.call(partial(self.append, body), done)
            return
        assert self._file is not None
        data = self._tail + encode_record(self._salt, self._sequence, body)
        at = self._offset - len(self._tail)
        lane.write(self._file, [_whole_blocks(data)], at, partial(self._written, data, done))

    def _written(
        self,
        data: bytes,
        done: Callable[[bool | None, BaseException | None], None],
        written: int | None,
        error: BaseException | None,
    ) -> None:
        if error is None:
            self._appended(data)
            done(True, None)
        else:
            done(None, self._failed(error))

    def _appended(self, data: bytes) -> None:
        """Count a group as durable. ``data``: its record behind the ``_tail`` before it."""
        self._offset += len(data) - len(self._tail)
        # When the disk is full and groups go into the reserve, no zeros were written ahead.
        self._filled = max(self._filled, -(-self._offset // DIRECT_BLOCK) * DIRECT_BLOCK)
        self._sequence += 1
        self._tail = data[len(data) // DIRECT_BLOCK * DIRECT_BLOCK :]

    def has_room(self) -> bool:
        """Return whether there is room for groups, having filled ahead if needed. Raises OSError."""
        self._check()
        try:
            return self._fill(self._offset + RESERVE_BYTES)
        except OSError as error:
            raise self._failed(error) from error

    def _fill(self, needed: int) -> bool:
        """Write zeros up to ``needed`` and somewhat more; return False when the disk has no room for them.

        They become durable with the next group.
        """
        if needed <= self._filled:
            return True
        assert self._file is not None
        if self._disk.free_bytes(self._directory) < self._free_bytes_min:
            return False
        step = min(max(FILL_BYTES_MIN, self._filled), FILL_BYTES_MAX)
        size = -(-(needed - self._filled) // step) * step
        try:
            zeros = bytes(min(step, size))
            for at in range(self._filled, self._filled + size, step):
                self._file.pwritev([zeros], at)
        except OSError as error:
            if error.errno in FULL_ERRORS:
                return False
            raise
        self._filled += size
        return True

    def _check(self) -> None:
        if self._failure is not None:
            raise OSError(errno.EIO, f"the log failed earlier: {self._failure}")

    def _failed(self, error: BaseException) -> BaseException:
        """Return what to raise for a failed write or sync: a full disk is a state and no failure."""
        if isinstance(error, OSError) and error.errno in FULL_ERRORS:
            return LogFullError(str(error))
        # The kernel may have dropped what a failed sync was for: a second one could succeed and prove nothing.
        self._failure = error
        return error

    def _trim(self) -> None:
        """Close the current segment without the zeros at its end."""
        if self._file is not None:
            self._file.truncate(self._offset)
            self._file.close()
            self._file = None

    def close(self) -> None:
        if self._failure is None:
            self._trim()


def _whole_blocks(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // DIRECT_BLOCK) * DIRECT_BLOCK, b"\0")


class ReadSegment(NamedTuple):
    """A segment that was read: its header, the sequence of the group that would follow, and the end of its records."""

    header: StoreFileHeader
    sequence: int
    size: int


def read_segment(
    disk: Disk, directory: str, number: int, accept: Callable[[bytes], None], *, last: bool
) -> ReadSegment:
    """Pass the bodies of all groups of a segment to ``accept``.

    The tail of the last segment may be torn, because a crash met it in the middle of a write: it is cut, durably.
    Raises DamagedStoreError for any other damage.
    """
    path = f"{directory}/{segment_name(number)}"
    file = disk.open(path)
    try:
        data = file.pread(HEADER_BYTES_MAX, 0)
        refuse_later(path, data, LOG_MAGIC)
        header = decode_header(data[:HEADER_BYTES], LOG_MAGIC)
        if header is None or header.number != number:
            raise damaged(path, 0)
        sequence, offset = header.sequence, HEADER_BYTES
        last_record: tuple[int, bytes] | None = None
        for head, body in read_records(file, header, sequence):
            accept(body)
            last_record = offset, body
            sequence, offset = head.sequence + 1, offset + RECORD_HEAD_BYTES + head.length
        _check_tail(file, path, header, sequence, offset, last=last)
        if last and last_record is not None:
            _write_again(file, header, sequence - 1, *last_record)
        return ReadSegment(header, sequence, offset)
    finally:
        file.close()


def read_records(
    file: File, header: StoreFileHeader, sequence: int
) -> Iterator[tuple[RecordHead, bytes]]:
    """Yield the good records from the header on, as long as they follow each other without a gap."""
    offset = HEADER_BYTES
    buffer, start = b"", offset
    while True:
        pos = offset - start
        head = decode_record_head(buffer, pos)
        size = RECORD_HEAD_BYTES + (0 if head is None else head.length)
        if head is not None and (head.salt != header.salt or head.sequence != sequence):
            return
        if head is None or len(buffer) - pos < size:
            if offset + size > file.size():
                return
            buffer, start = file.pread(max(size, READ_BYTES), offset), offset
            if len(buffer) < size:
                return
            continue
        body = buffer[pos + RECORD_HEAD_BYTES : pos + size]
        if not verifies(head, body):
            return
        yield head, body
        offset += size
        sequence += 1


def _check_tail(
    file: File, path: str, header: StoreFileHeader, sequence: int, offset: int, *, last: bool
) -> None:
    """Cut what follows the last good group, which ends at ``offset``. Raises DamagedStoreError if it was more than a
    crash leaves behind."""
    if _is_zero(file, offset):
        return
    if not last or (later := _later_record(file, header, sequence, offset)) is not None:
        detail = "" if not last else f", byte {later} has a good group"
        raise damaged(path, offset, detail)
    log.warning(
        "cut the last group of the log, which a crash interrupted file=%s offset=%d", path, offset
    )
    file.truncate(offset)
    file.fdatasync()


def _write_again(
    file: File, header: StoreFileHeader, sequence: int, offset: int, body: bytes
) -> None:
    """Write and sync the last group of the log once more, before anyone sees what it changed.

    Its own sync may have failed: then it is in the page cache alone, and the next power loss would undo it.
    """
    file.pwritev([encode_record(header.salt, sequence, body)], offset)
    file.fdatasync()


def _is_zero(file: File, offset: int) -> bool:
    while chunk := file.pread(READ_BYTES, offset):
        if chunk.strip(b"\0"):
            return False
        offset += len(chunk)
    return True


def _later_record(file: File, header: StoreFileHeader, sequence: int, offset: int) -> int | None:
    """Return the offset of a good record of a later group behind ``offset``; None when there is none."""
    while chunk := file.pread(READ_BYTES + SALT_BYTES - 1, offset):
        pos = -1
        while (pos := chunk.find(header.salt, pos + 1)) >= 0:
            head = decode_record_head(file.pread(RECORD_HEAD_BYTES, offset + pos), 0)
            if head is None or head.sequence <= sequence:
                continue
            body_at = offset + pos + RECORD_HEAD_BYTES
            if head.length <= file.size() - body_at and verifies(
                head, file.pread(head.length, body_at)
            ):
                return offset + pos
        offset += READ_BYTES
    return None


def refuse_later(path: str, header: bytes, magic: bytes) -> None:
    """Raise DamagedStoreError, with another remedy than for damage, for a file of a later release (K6)."""
    if later := later_version(header, magic, VERSION):
        raise DamagedStoreError(later_text(path, later, VERSION))


def damaged(path: str, offset: int, detail: str = "") -> DamagedStoreError:
    """Return the error of a segment that is damaged at ``offset``."""
    directory, _, name = path.rpartition("/")
    cut = (
        f'cut it with "truncate -s {offset} {path}" and remove the later log files'
        if offset
        else f"remove {name} and the later log files"
    )
    return DamagedStoreError(
        f"{path} is damaged at byte {offset}{detail}: restore {directory} from a backup; or, to give up every change"
        f" from there on, {cut}"
    )
