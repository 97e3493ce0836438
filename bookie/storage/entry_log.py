"""Entry logs on disk: one writer that appends blocks, one reader that verifies. Synchronous; run in lanes.

Every write is padded to whole pages, so that it can go past the page cache, whose copy costs more than all else that
storing a large entry does.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bookie.storage.entry_log_format import (
    FILE_HEADER_BYTES,
    Block,
    StoredBlock,
    decode_block,
    decode_file_header,
    encode_file_header,
    padding,
)
from bookie.storage.errors import DamagedError
from bookie.storage.files import Disk, File

WRITE_BYTES = 1 << 20
"""Blocks are gathered up to about this size and written, and padded, together."""
OPEN_LOGS_MAX = 64


class Location(NamedTuple):
    """Where a block lies. ``entries`` of it count, from the key's entry on; ``share`` is their part of ``size``."""

    log_id: int
    offset: int
    size: int
    entries: int
    share: int


def log_path(directory: str, log_id: int) -> str:
    return f"{directory}/{log_id:08x}.log"


def log_ids(disk: Disk, directory: str) -> list[int]:
    """Ids of the logs in a directory, ascending."""
    names = [name for name in disk.listdir(directory) if len(name) == 12 and name.endswith(".log")]
    return sorted(int(name[:8], 16) for name in names)


class EntryLogWriter:
    """Appends blocks to the newest log. After an error the log is left and the next append begins another."""

    def __init__(
        self, disk: Disk, directory: str, next_id: int, bytes_max: int, *, direct: bool
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._next_id = next_id
        self._bytes_max = bytes_max
        self._direct = direct
        self._file: File | None = None
        self._offset = 0
        self.log_id = 0
        """The log being written, 0 before the first."""

    def append(self, blocks: Iterable[Block]) -> list[Location]:
        """Write and sync; the places of ``blocks`` in order. Raises OSError; then none of them counts."""
        places: list[Location] = []
        parts: list[bytes | memoryview] = []
        waiting = 0
        try:
            for block in blocks:
                encoded, size = block.encode()
                if self._file is None or self._offset + waiting + size > self._bytes_max:
                    self._write(parts)
                    parts, waiting = [], 0
                    self._roll()
                places.append(
                    Location(self.log_id, self._offset + waiting, size, len(block.table), size)
                )
                parts += encoded
                waiting += size
                if waiting >= WRITE_BYTES:
                    self._write(parts)
                    parts, waiting = [], 0
            self._write(parts)
            if self._file is not None:
                self._file.fdatasync()
        except BaseException:
            self.leave()
            raise
        return places

    def leave(self) -> None:
        """Close the present log; what it holds stays readable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, parts: list[bytes | memoryview]) -> None:
        if parts:
            assert self._file is not None
            size = sum(map(len, parts))
            self._offset += self._file.pwritev([*parts, padding(size)], self._offset)

    def _roll(self) -> None:
        if self._file is not None:
            self._file.fdatasync()
        self.leave()
        log_id = self._next_id
        self._next_id += 1
        path = log_path(self._directory, log_id)
        file = self._disk.open(path, create=True, direct=self._direct)
        self._file = file
        self._offset = file.pwritev([encode_file_header(log_id)], 0)
        self._disk.sync_dir(self._directory)
        self.log_id = log_id


class EntryLogReader:
    """Reads and verifies blocks, keeps the latest in memory up to ``cache_bytes_max``."""

    def __init__(self, disk: Disk, directory: str, cache_bytes_max: int) -> None:
        self._disk = disk
        self._directory = directory
        self._cache_bytes_max = cache_bytes_max
        self._files: dict[int, File] = {}
        self._blocks: dict[tuple[int, int], StoredBlock] = {}
        self._cached = 0

    def read(self, place: Location) -> StoredBlock:
        """Raises DamagedError when the block does not verify or its log is missing, OSError as the disk does."""
        key = (place.log_id, place.offset)
        block = self._blocks.pop(key, None)
        if block is None:
            block = decode_block(self._file(place.log_id).pread(place.size, place.offset))
            if block is None:
                raise DamagedError(
                    f"block at {place.offset} of {log_path(self._directory, place.log_id)} does not verify"
                )
            self._cached += len(block.data)
        self._blocks[key] = block
        while self._cached > self._cache_bytes_max and len(self._blocks) > 1:
            oldest = next(iter(self._blocks))
            self._cached -= len(self._blocks.pop(oldest).data)
        return block

    def drop(self, log_id: int) -> None:
        """Forget a log that is about to be removed."""
        file = self._files.pop(log_id, None)
        if file is not None:
            file.close()
        for key in [key for key in self._blocks if key[0] == log_id]:
            self._cached -= len(self._blocks.pop(key).data)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, log_id: int) -> File:
        file = self._files.pop(log_id, None)
        if file is None:
            path = log_path(self._directory, log_id)
            try:
                file = self._disk.open(path)
            except FileNotFoundError as error:
                raise DamagedError(f"entry log {path} is missing") from error
            if decode_file_header(file.pread(FILE_HEADER_BYTES, 0)) != log_id:
                file.close()
                raise DamagedError(f"header of {path} does not verify")
        self._files[log_id] = file
        if len(self._files) > OPEN_LOGS_MAX:
            oldest = next(iter(self._files))
            self._files.pop(oldest).close()
        return file
