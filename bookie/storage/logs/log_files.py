"""The entry logs of a bookie: which there are, in which directory, up to where they count, and where the next one goes.

Used by several lanes: each method is a few operations on dicts that need no lock.
"""

import errno
from contextlib import suppress
from itertools import count

from bookie.storage.errors import DamagedError
from bookie.storage.files import Disk, File
from bookie.storage.logs.entry_log_format import encode_file_header

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


def log_name(log_id: int) -> str:
    return f"{log_id:08x}.log"


def log_ids(disk: Disk, directory: str) -> list[int]:
    """Ids of the logs in a directory, ascending."""
    names = [name for name in disk.listdir(directory) if len(name) == 12 and name.endswith(".log")]
    return sorted(int(name[:8], 16) for name in names)


class LogFiles:
    """Logs of all ledger directories."""

    def __init__(self, disk: Disk, directories: list[str]) -> None:
        self._disk = disk
        self.directories = directories
        self._where = {
            log_id: directory for directory in directories for log_id in log_ids(disk, directory)
        }
        self._ids = count(1 + max(self._where, default=0))
        self._turn = 0
        self.ends: dict[int, int] = {}
        """Where the data ends that the index may name, by log; what lies behind was cut off by a crash. Flush lane."""
        self.full: dict[str, None] = {}
        """Directories that get no new log while another can: set by whoever watches the disks."""
        self._held: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, log_id: int) -> bool:
        return log_id in self._where

    def skip_to(self, log_id: int) -> None:
        """Give no id below ``log_id`` to new logs: ids are never used again."""
        self._ids = count(max(next(self._ids), log_id))

    def ids(self) -> list[int]:
        return sorted(self._where)

    def directory(self, log_id: int) -> str:
        """Raises DamagedError when there is no such log."""
        directory = self._where.get(log_id)
        if directory is None:
            raise DamagedError(
                f"entry log {log_name(log_id)} is missing in {', '.join(self.directories)}"
            )
        return directory

    def path(self, log_id: int) -> str:
        """Raises DamagedError when there is no such log."""
        return f"{self.directory(log_id)}/{log_name(log_id)}"

    def create(self, *, direct: bool) -> tuple[int, File, int]:
        """A new log with its header, held until ``release``: id, file, size. A directory that turns out to be full is
        passed over. Raises OSError."""
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
        """Nobody writes this log, or is about to index what it wrote there, any more."""
        self._held.pop(log_id, None)

    def set_full(self, directory: str) -> bool:
        """A write met the end of the disk there; whether another directory has room."""
        self.full[directory] = None
        return any(other not in self.full for other in self.directories)

    def _choose(self) -> str:
        """In turn among those with room, else where most is left."""
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
        """Logs that the index does not name and nobody writes, ascending. Flush lane."""
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
            with suppress(FileNotFoundError):  # somebody was faster
                self._disk.remove(f"{directory}/{log_name(log_id)}")
            del self._where[log_id]
            self.ends.pop(log_id, None)
            touched[directory] = None
        for directory in touched:
            self._disk.sync_dir(directory)
