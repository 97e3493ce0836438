"""Files of a backup's records: written in parts of bounded size, synced, with a SHA-256 each (K2); read in order."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from engine.backup.backup_records import (
    BODY_BYTES_MAX,
    FILE_HEADER,
    HEAD,
    Record,
    check_file_header,
    checked,
    decode,
    file_header,
)
from engine.backup.errors import DamagedBackupError
from engine.base.disk.files import Disk, File, Lane

PART_BYTES = 256 << 20
BUFFER_BYTES = 4 << 20
READ_BYTES = 4 << 20


class FileSum(NamedTuple):
    """Size and SHA-256 of a file."""

    size: int
    sha256: str


def part_name(number: int) -> str:
    """Return the name of a file of records, counted from 0."""
    return f"data-{number:05d}"


class PartWriter:
    """Writes records into files of about ``part_bytes`` in a folder that exists. ``sums`` has the finished files."""

    def __init__(self, disk: Disk, lane: Lane, folder: str, part_bytes: int = PART_BYTES) -> None:
        self.sums: dict[str, FileSum] = {}
        self._disk = disk
        self._lane = lane
        self._folder = folder
        self._part_bytes = part_bytes
        self._number = 0
        self._file: File | None = None
        self._hash = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._written = 0

    async def put(self, parts: Sequence[bytes]) -> None:
        """Write a record. Raises OSError; the files are of no use then."""
        if self._file is None:
            self._file = await self._lane.run(
                partial(self._disk.open, f"{self._folder}/{part_name(self._number)}", create=True)
            )
            await self._lane.run(partial(self._file.truncate, 0))
            self._hash, self._written = hashlib.sha256(), 0
            self._add([file_header(self._number)])
        self._add(parts)
        if self._pending_bytes >= BUFFER_BYTES:
            await self._flush()
        if self._written + self._pending_bytes >= self._part_bytes:
            await self._end_part()

    async def close(self) -> None:
        """Finish the last file. Raises OSError."""
        await self._end_part()

    def _add(self, parts: Sequence[bytes]) -> None:
        self._pending += parts
        self._pending_bytes += sum(map(len, parts))

    async def _flush(self) -> None:
        assert self._file is not None
        if self._pending:
            data = b"".join(self._pending)
            await self._lane.run(partial(self._write, self._file, data, self._written))
            self._written += len(data)
            self._pending, self._pending_bytes = [], 0

    def _write(self, file: File, data: bytes, offset: int) -> None:
        self._hash.update(data)
        file.pwritev([data], offset)

    async def _end_part(self) -> None:
        if self._file is None:
            return
        await self._flush()
        await self._lane.run(self._file.fdatasync)
        self._file.close()
        self._file = None
        self.sums[part_name(self._number)] = FileSum(self._written, self._hash.hexdigest())
        self._number += 1


async def sum_of(disk: Disk, lane: Lane, path: str) -> FileSum:
    """Return size and SHA-256 of a file. Raises OSError."""

    def compute() -> FileSum:
        file = disk.open(path)
        try:
            digest, at, size = hashlib.sha256(), 0, file.size()
            while data := file.pread(READ_BYTES, at):
                digest.update(data)
                at += len(data)
        finally:
            file.close()
        return FileSum(size, digest.hexdigest())

    return await lane.run(compute)


async def check_files(disk: Disk, lane: Lane, folder: str, expected: Mapping[str, FileSum]) -> None:
    """Raise DamagedBackupError for the first file that is missing or not as ``expected``."""
    for name, known in expected.items():
        try:
            now = await sum_of(disk, lane, f"{folder}/{name}")
        except OSError as error:
            raise DamagedBackupError(f"{name} cannot be read: {error.strerror}") from error
        if now.size != known.size:
            raise DamagedBackupError(f"{name} has {now.size} bytes instead of {known.size}")
        if now != known:
            raise DamagedBackupError(f"{name} is damaged: its SHA-256 is not that of the manifest")


async def read_parts(disk: Disk, lane: Lane, folder: str, count: int) -> AsyncIterator[Record]:
    """Yield the records of files 0 to ``count`` - 1 in order. Raises DamagedBackupError, OSError."""
    for number in range(count):
        name = part_name(number)
        file = await lane.run(partial(disk.open, f"{folder}/{name}"))
        try:
            header = await lane.run(partial(file.pread, FILE_HEADER.size, 0))
            check_file_header(header, number, name)
            at, size = FILE_HEADER.size, file.size()
            while at < size:
                head, body = await lane.run(partial(_read, file, at))
                if len(head) < HEAD.size or not checked(head, body):
                    raise DamagedBackupError(f"{name} is damaged at byte {at}")
                at += len(head) + len(body)
                yield decode(head[0], body)
        finally:
            file.close()


def _read(file: File, at: int) -> tuple[bytes, bytes]:
    """Return head and body of the record at ``at``; shorter ones at a damage."""
    head = file.pread(HEAD.size, at)
    if len(head) < HEAD.size:
        return head, b""
    size = HEAD.unpack(head)[1]
    body = file.pread(size, at + HEAD.size) if size <= BODY_BYTES_MAX else b""
    return head, body
