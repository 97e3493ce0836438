"""Files seam: a synchronous disk, and a lane of work that runs beside the event loop.

Storage code is written synchronously against ``Disk``; a ``Lane`` runs one such call after another, in a thread when
shipped, inline with virtual time in the simulator. So the same lines run in both.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
IOV_MAX = 1024  # pwritev takes at most this many parts on Linux


class File(Protocol):
    """An open file. Offsets and sizes in bytes."""

    def pread(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes; shorter only at the end of the file."""
        ...

    def pwritev(self, parts: Sequence[bytes | memoryview | bytearray], offset: int) -> int:
        """Write all of ``parts`` at ``offset``; returns the bytes written. Raises OSError; then the range is undefined."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fdatasync(self) -> None:
        """Returns when what was written is on the disk. An OSError here is fatal: never try again."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are absolute or relative to the process."""

    def open(self, path: str, *, create: bool = False, direct: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError without ``create``."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Sorted names. Raises FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool: ...

    def makedirs(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; durable only after ``sync_dir`` of the directory."""
        ...

    def remove(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def open_index(self, path: str) -> "Index":
        """Open (creating it) an ordered key-value index."""
        ...


class Index(Protocol):
    """Ordered byte keys to byte values. Writes are durable after ``flush``, in any order before."""

    def get(self, key: bytes) -> bytes | None: ...

    def floor(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key <= ``key`` with its value."""
        ...

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Keys in [start, stop) in order."""
        ...

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Lane(Protocol):
    """Runs calls strictly one after another, off the event loop."""

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Start ``work`` after all earlier calls; the future has its result. Cancelling it does not stop the work."""
        ...

    def close(self) -> None:
        """Wait for what runs, then stop."""
        ...


class ThreadLane:
    """A lane with one thread of its own."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class SystemFile:
    """A file of the operating system."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def pwritev(self, parts: Sequence[bytes | memoryview | bytearray], offset: int) -> int:
        done = 0
        for i in range(0, len(parts), IOV_MAX):
            some = list(parts[i : i + IOV_MAX])
            want = sum(len(part) for part in some)
            wrote = os.pwritev(self._fd, some, offset + done)
            if wrote != want:  # a short write is a full disk or a limit: finish it or fail loudly
                rest = b"".join(some)[wrote:]
                while rest:
                    n = os.pwrite(self._fd, rest, offset + done + want - len(rest))
                    rest = rest[n:]
            done += want
        return done

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fdatasync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)
