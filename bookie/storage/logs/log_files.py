"""The entry logs of a bookie: which exist, in which directory, up to where they count, and where the next is created.

Used from several lanes. Each method is a few operations on dicts, which need no lock.
"""

import errno
from contextlib import suppress
from itertools import count

from bookie.storage.errors import DamagedError
from bookie.storage.logs.entry_log_format import encode_file_header
from engine.base.disk.files import Disk, File

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


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
        """Return logs that the index does not name and that are not held, ascending. Flush lane."""
        return sorted(
            log_id
            for log_id in list(self._where)
            if log_id not in usage and log_id not in self._held
        )

    def remove(self, logs: list[int]) -> None:
        """Delete files that no index record names any more. Raises OSError."""
        touched: dict[str, None] = {}
        for log_id in logs:
            directory = self.directory(log_id)
            with suppress(FileNotFoundError):  # deleted by hand
                self._disk.remove(f"{directory}/{log_name(log_id)}")
            del self._where[log_id]
            self.ends.pop(log_id, None)
            touched[directory] = None
        for directory in touched:
            self._disk.sync_dir(directory)
