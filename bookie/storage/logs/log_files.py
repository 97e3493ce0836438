"""The entry logs of a bookie: which exist, in which directory, up to where they count, and where the next is created.

A directory whose disk fails is taken out, unless it is the first, which also holds the index: its logs count as missing
from then on (I48).

Used from several lanes. Each method is a few operations on dicts, which need no lock.
"""

import errno
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from bookie.storage.errors import DamagedError
from bookie.storage.logs.entry_log_format import encode_file_header
from engine.base.disk.files import Disk, File

log = logging.getLogger(__name__)

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
FAILURES = (errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.EUCLEAN)
"""Errors of a disk that is broken, gone, or was made read-only because its file system is damaged."""
PROBE_NAME = "probe"


def log_name(log_id: int) -> str:
    return f"{log_id:08x}.log"


def log_ids(disk: Disk, directory: str) -> list[int]:
    """Return the ids of the logs in a directory, ascending."""
    names = [name for name in disk.listdir(directory) if len(name) == 12 and name.endswith(".log")]
    return sorted(int(name[:8], 16) for name in names)


class LogFiles:
    """The logs of all ledger directories."""

    def __init__(self, disk: Disk, directories: list[str]) -> None:
        self._disk = disk
        self.directories = directories
        self._where = {
            log_id: directory for directory in directories for log_id in log_ids(disk, directory)
        }
        self._ids = count(1 + max(self._where, default=0))
        self._turn = 0
        self.ends: dict[int, int] = {}
        """The end of the data that the index may name, by log. Bytes behind it are of a write that a crash interrupted.
        Flush lane."""
        self.full: dict[str, None] = {}
        """Directories in which no log is created while another has room. Set by the observer of the disks."""
        self._held: dict[int, None] = {}
        self.failed: dict[str, str] = {}
        """Directories that were taken out, with the reason."""
        self.suspects: dict[str, str] = {}
        """Directories of which a read failed: one bad sector, or the disk. The observer of the disks probes them."""
        self.on_failed: Callable[[list[int]], None] = lambda logs: None
        """Called with the logs of a directory that was taken out. In any lane."""

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, log_id: int) -> bool:
        return log_id in self._where

    def skip_to(self, log_id: int) -> None:
        """Give new logs no id below ``log_id``. Ids are never used twice."""
        self._ids = count(max(next(self._ids), log_id))

    def ids(self) -> list[int]:
        return sorted(self._where)

    def directory(self, log_id: int) -> str:
        """Return the directory of a log. Raises DamagedError when there is no such log."""
        directory = self._where.get(log_id)
        if directory is None:
            raise DamagedError(
                f"entry log {log_name(log_id)} is missing in {', '.join(self.directories)}"
            )
        return directory

    def path(self, log_id: int) -> str:
        """Return the path of a log. Raises DamagedError when there is no such log."""
        return f"{self.directory(log_id)}/{log_name(log_id)}"

    def create(self, *, direct: bool) -> tuple[int, File, int]:
        """Create a log with its header, held until ``release``; return its id, file and size.

        A directory that turns out to be full is skipped. Raises OSError.
        """
        while True:
            directory = self._choose()
            try:
                return self._create(directory, direct)
            except OSError as error:
                if self.fail(directory, error):
                    continue
                if error.errno not in FULL_ERRORS or directory in self.full:
                    raise
                if not self.set_full(directory):
                    raise

    def _create(self, directory: str, direct: bool) -> tuple[int, File, int]:
        log_id = next(self._ids)
        file = self._disk.open(f"{directory}/{log_name(log_id)}", create=True, direct=direct)
        self._where[log_id] = directory
        try:
            offset = file.pwritev([encode_file_header(log_id)], 0)
            self._disk.sync_dir(directory)
        except BaseException:
            file.close()
            raise
        self._held[log_id] = None
        return log_id, file, offset

    def release(self, log_id: int) -> None:
        """Release a log whose writes have ended and whose blocks are indexed or do not count."""
        self._held.pop(log_id, None)

    def set_full(self, directory: str) -> bool:
        """Mark a directory full after a failed write; return whether another directory has room."""
        self.full[directory] = None
        return any(other not in self.full for other in self.directories)

    def fail(self, directory: str, error: OSError) -> bool:
        """Take a directory out if ``error`` is of a broken disk; return whether it is out now. Never the first, without
        which the bookie cannot serve."""
        if directory in self.failed:
            return True
        if error.errno not in FAILURES or directory not in self.directories[1:]:
            return False
        self.failed[directory] = str(error)
        self.directories = [other for other in self.directories if other != directory]
        self.full.pop(directory, None)
        self.suspects.pop(directory, None)
        lost = sorted(log_id for log_id, where in self._where.items() if where == directory)
        for log_id in lost:
            del self._where[log_id]
        log.error(
            "ledger directory is taken out, its disk failed directory=%s logs=%d reason=%s",
            directory,
            len(lost),
            error,
        )
        self.on_failed(lost)
        return True

    def suspect(self, log_id: int, error: OSError) -> None:
        """Have the directory of a log probed, because a read of it failed."""
        directory = self._where.get(log_id)
        if directory is not None and error.errno in FAILURES:
            self.suspects[directory] = str(error)

    def probe(self) -> None:
        """Write, sync and read a file in each directory that is suspected, and take those out where it fails.

        Raises OSError when that is the first.
        """
        for directory in list(self.suspects):
            path = f"{directory}/{PROBE_NAME}"
            try:
                file = self._disk.open(path, create=True)
                try:
                    file.pwritev([PROBE_NAME.encode()], 0)
                    file.fdatasync()
                    file.pread(len(PROBE_NAME), 0)
                finally:
                    file.close()
                self._disk.remove(path)
            except OSError as error:
                if not self.fail(directory, error) and error.errno not in FULL_ERRORS:
                    raise
            self.suspects.pop(directory, None)

    def _choose(self) -> str:
        """Return the next directory with room, in turn; when all are full, the one with the most free space."""
        n = len(self.directories)
        for i in range(n):
            directory = self.directories[(self._turn + i) % n]
            if directory not in self.full:
                self._turn = self._turn + i + 1
                return directory
        return max(self.directories, key=self._disk.free_bytes)

    def is_held(self, log_id: int) -> bool:
        return log_id in self._held

    def unreferenced(self, usage: dict[int, dict[int, int]]) -> list[int]:
        """Return logs that the index does not name and that are not held, ascending, also those of directories that
        were taken out. Flush lane."""
        return sorted(
            log_id
            for log_id in {**self._where, **self.ends}
            if log_id not in usage and log_id not in self._held
        )

    def remove(self, logs: list[int]) -> None:
        """Delete files that no index record names any more. Raises OSError."""
        touched: dict[str, None] = {}
        for log_id in logs:
            self.ends.pop(log_id, None)
            directory = self._where.get(log_id)
            if directory is None:
                continue  # of a directory that was taken out
            try:
                with suppress(FileNotFoundError):  # deleted by hand
                    self._disk.remove(f"{directory}/{log_name(log_id)}")
            except OSError as error:
                if not self.fail(directory, error):
                    raise
                continue
            del self._where[log_id]
            touched[directory] = None
        for directory in touched:
            try:
                self._disk.sync_dir(directory)
            except OSError as error:
                if not self.fail(directory, error):
                    raise
