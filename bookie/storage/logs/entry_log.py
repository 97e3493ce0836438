"""Entry logs on disk: a writer that appends blocks, a reader that verifies them. Synchronous; run in lanes.

Every write is padded to whole pages, so that it can bypass the page cache. Copying into the cache costs more than all
other work of storing a large entry.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bookie.storage.errors import DamagedError, DirectoryFailedError
from bookie.storage.logs.entry_log_format import (
    FILE_HEADER_BYTES,
    FILE_MAGIC,
    PAGE,
    VERSION,
    Block,
    StoredBlock,
    decode_block,
    decode_file_header,
    padding,
)
from bookie.storage.logs.log_files import FULL_ERRORS, LogFiles
from engine.base.disk.files import Disk, File
from engine.base.disk.later_formats import later_text, later_version

WRITE_BYTES = 1 << 20
"""Size up to which blocks are gathered, written and padded together."""
OPEN_LOGS_MAX = 64
DIRECT_READ_BYTES = 256 << 10
"""Size from which ranges are read past the page cache: entries read in order are not read again."""
DIRECT_LOGS_MAX = 4


class Location(NamedTuple):
    """The place of a block. An index record covers ``entries`` of it, from the entry in the record's key on; ``share``
    is their proportional part of ``size``."""

    log_id: int
    offset: int
    size: int
    entries: int
    share: int


class EntryLogWriter:
    """Appends blocks to a log of its own. After an error it closes the log, and the next append begins another."""

    def __init__(self, logs: LogFiles, bytes_max: int, *, direct: bool) -> None:
        self._logs = logs
        self._bytes_max = bytes_max
        self._direct = direct
        self._file: File | None = None
        self._offset = 0
        self._left: list[int] = []
        self._directory = ""
        self.log_id = 0
        """The log being written; 0 before the first."""

    def append(self, blocks: Iterable[Block]) -> list[Location]:
        """Write and sync blocks (I26); return their places in order.

        A full directory is left for another one. Raises OSError; none of the blocks counts then, and the logs left may
        be removed.
        """
        blocks = list(blocks)
        while True:
            try:
                places = self.write(blocks)
                self.sync()
                return places
            except OSError as error:
                # When no new log could be created, the previous one may be removed already.
                if isinstance(error, DirectoryFailedError):
                    continue  # to another directory
                known = self.log_id in self._logs
                directory = self._logs.directory(self.log_id) if known else ""
                full = error.errno in FULL_ERRORS and directory not in self._logs.full
                if not (full and directory and self._logs.set_full(directory)):
                    raise
            finally:
                self.release_left()

    def write(self, blocks: Iterable[Block]) -> list[Location]:
        """Write blocks without the sync and without trying another directory; return their places.

        Logs that were left stay held until ``release_left``.
        """
        places: list[Location] = []
        parts: list[bytes | memoryview] = []
        gathered = 0
        try:
            if self.log_id not in self._logs:
                self.leave()  # its directory was taken out
            elif self._file is not None and self._directory in self._logs.full:
                self._end()
            for block in blocks:
                encoded, size = block.encode()
                if self._file is None or self._offset + gathered + size > self._bytes_max:
                    self._write(parts)
                    parts, gathered = [], 0
                    self._roll()
                places.append(
                    Location(self.log_id, self._offset + gathered, size, len(block.table), size)
                )
                parts += encoded
                gathered += size
                if gathered >= WRITE_BYTES:
                    self._write(parts)
                    parts, gathered = [], 0
            self._write(parts)
        except BaseException as error:
            self.leave()
            self._judge(error)
            raise
        return places

    def sync(self) -> None:
        """Make all written blocks durable. Raises OSError, after which the log is not used again."""
        if self._file is None:
            return
        try:
            self._file.fdatasync()
        except BaseException as error:
            self.leave()
            self._judge(error)
            raise

    def _judge(self, error: BaseException) -> None:
        """Raise DirectoryFailedError when an error of the present log took its directory out."""
        directory = self._directory
        if directory and isinstance(error, OSError) and self._logs.fail(directory, error):
            raise DirectoryFailedError(f"{directory}: {error}") from error

    def leave(self) -> None:
        """Close the present log; its content stays readable."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._left.append(self.log_id)

    def release_left(self) -> None:
        """Release the logs that were left: their blocks are indexed, or do not count."""
        for log_id in self._left:
            self._logs.release(log_id)
        self._left.clear()

    def _write(self, parts: list[bytes | memoryview]) -> None:
        if parts:
            assert self._file is not None
            size = sum(map(len, parts))
            self._offset += self._file.pwritev([*parts, padding(size)], self._offset)

    def _end(self) -> None:
        if self._file is not None:
            self._file.fdatasync()
        self.leave()

    def _roll(self) -> None:
        self._end()
        self._directory = ""  # an error from here on is the next one's
        self.log_id, self._file, self._offset = self._logs.create(direct=self._direct)
        self._directory = self._logs.directory(self.log_id)


class EntryLogReader:
    """Reads and verifies blocks, and caches the latest up to ``cache_bytes_max``. For one lane."""

    def __init__(self, disk: Disk, logs: LogFiles, cache_bytes_max: int) -> None:
        self._disk = disk
        self._logs = logs
        self._cache_bytes_max = cache_bytes_max
        self._files: dict[int, File] = {}
        self._direct: dict[int, File] = {}
        self._blocks: dict[tuple[int, int], StoredBlock] = {}
        self._cached = 0
        self.hits = 0
        self.misses = 0
        self.read_bytes = 0

    def read(self, place: Location, following: Sequence[Location] = ()) -> StoredBlock:
        """Return the block at ``place``. A miss also reads the ``following`` adjacent blocks in the same operation.

        Raises DamagedError when the block does not verify or its log is missing, OSError as the disk does. Damage in
        ``following`` is reported when those are requested.
        """
        key = (place.log_id, place.offset)
        block = self._blocks.pop(key, None)
        if block is not None:
            self._blocks[key] = block
            self.hits += 1
            return block
        self.misses += 1
        run = neighbours(place, following)
        last = run[-1]
        size = last.offset + last.size - place.offset
        buf = self._peek(place, size, direct=size >= DIRECT_READ_BYTES)
        self.read_bytes += len(buf)
        block = decode_block(buf)
        if block is None:
            raise DamagedError(
                f"block at {place.offset} of {self._logs.path(place.log_id)} does not verify"
            )
        for other in reversed(run[1:]):  # the nearest is added last and evicted last
            ahead = decode_block(buf, other.offset - place.offset)
            if ahead is not None:
                self._keep((other.log_id, other.offset), ahead)
        self._keep(key, block)
        return block

    def fresh(self, run: Sequence[Location]) -> list[StoredBlock | None]:
        """Read adjacent blocks from the disk, past all caches; None for each that does not verify.

        Raises DamagedError when the log is missing, OSError as the disk does.
        """
        first, last = run[0], run[-1]
        size = last.offset + last.size - first.offset
        buf = self._peek(first, size, direct=True)
        self.read_bytes += len(buf)
        return [decode_block(buf, place.offset - first.offset) for place in run]

    def _peek(self, place: Location, size: int, *, direct: bool) -> bytes | memoryview:
        try:
            return self._file(place.log_id, direct=direct).peek(size, place.offset)
        except OSError as error:
            self._logs.suspect(place.log_id, error)
            raise

    def has(self, place: Location) -> bool:
        """Return whether the block is in memory."""
        return (place.log_id, place.offset) in self._blocks

    def expect(self, places: Sequence[Location]) -> None:
        """Hint to the disk that these blocks will be read soon."""
        if not places or self.has(places[0]):
            return
        run = neighbours(places[0], places[1:])
        first, last = run[0], run[-1]
        size = last.offset + last.size - first.offset
        if size < DIRECT_READ_BYTES:
            self._file(first.log_id).will_need(size, first.offset)

    def _keep(self, key: tuple[int, int], block: StoredBlock) -> None:
        replaced = self._blocks.pop(key, None)
        self._cached += len(block.data) - (len(replaced.data) if replaced is not None else 0)
        self._blocks[key] = block
        while self._cached > self._cache_bytes_max and len(self._blocks) > 1:
            oldest = next(iter(self._blocks))
            self._cached -= len(self._blocks.pop(oldest).data)

    def drop(self, log_id: int) -> None:
        """Close the files and drop the blocks of a log that is about to be removed."""
        for files in (self._files, self._direct):
            file = files.pop(log_id, None)
            if file is not None:
                file.close()
        for key in [key for key in self._blocks if key[0] == log_id]:
            self._cached -= len(self._blocks.pop(key).data)

    def close(self) -> None:
        for files in (self._files, self._direct):
            for file in files.values():
                file.close()
            files.clear()

    def _file(self, log_id: int, *, direct: bool = False) -> File:
        files, limit = (self._direct, DIRECT_LOGS_MAX) if direct else (self._files, OPEN_LOGS_MAX)
        file = files.pop(log_id, None)
        if file is None:
            path = self._logs.path(log_id)
            try:
                file = self._disk.open(path, direct=direct)
            except FileNotFoundError as error:
                raise DamagedError(f"entry log {path} is missing") from error
            header = file.pread(FILE_HEADER_BYTES, 0)
            if decode_file_header(header) != log_id:
                file.close()
                if later := later_version(header, FILE_MAGIC, VERSION):
                    raise DamagedError(later_text(path, later, VERSION))
                raise DamagedError(f"header of {path} does not verify")
        files[log_id] = file
        if len(files) > limit:
            oldest = next(iter(files))
            files.pop(oldest).close()
        return file


def neighbours(first: Location, following: Sequence[Location]) -> list[Location]:
    """Return ``first`` and those of ``following`` that lie directly behind it, at most a page's padding apart."""
    run = [first]
    for place in following:
        last = run[-1]
        gap = place.offset - last.offset - last.size
        if place.log_id != last.log_id or not 0 <= gap < PAGE:
            break
        run.append(place)
    return run
