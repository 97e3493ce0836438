"""A disk in memory that keeps two halves of everything: what programs see, and what survives a crash.

Written bytes become durable by ``fdatasync``, names by ``sync_dir``, index writes by ``flush``. ``crash`` drops the
rest: each unsynced sector and each name survives or not as ``keep`` decides (nothing by default). Faults are a plan: a
function that is asked before each operation and may raise an OSError, ``Crashed``, or return a number of bytes after
which a write stops.
"""

import asyncio
import errno
import os
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from engine.base.disk.files import File, Parts, Written, settle, write_and_sync

SECTOR = 512
T = TypeVar("T")

Keep = Callable[[], bool]
Plan = Callable[[str, str], int | None]
"""Asked with operation (open, pread, pwritev, truncate, fdatasync, rename, remove, sync_dir, index_write, index_flush)
and path. May raise; for pwritev a number cuts the write short, and ``Crashed`` follows."""

PLENTY = 1 << 40


class Crashed(BaseException):
    """The machine stopped here. Not an Exception: nothing may handle it and go on."""


class _Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.dirty: dict[int, None] = {}
        self.size_dirty = False

    def touch(self, start: int, stop: int) -> None:
        for sector in range(start // SECTOR, (stop + SECTOR - 1) // SECTOR):
            self.dirty[sector] = None

    def _settle_run(self, first: int, behind: int) -> None:
        """Make sectors ``first .. behind - 1`` durable."""
        start = first * SECTOR
        part = self.data[start : behind * SECTOR]
        if len(self.durable) < start:
            self.durable.extend(bytes(start - len(self.durable)))
        self.durable[start : start + len(part)] = part

    def sync(self) -> None:
        first = behind = 0
        for sector in self.dirty:
            if sector != behind:
                self._settle_run(first, behind)
                first = sector
            behind = sector + 1
        self._settle_run(first, behind)
        del self.durable[len(self.data) :]
        if len(self.durable) < len(self.data):
            self.durable.extend(bytes(len(self.data) - len(self.durable)))
        self.dirty.clear()

    def crash(self, keep: Keep) -> None:
        for sector in sorted(self.dirty):
            if keep():
                self._settle_run(sector, sector + 1)
        self.dirty.clear()
        self.data = bytearray(self.durable)


class FaultFile:
    """An open file of a FaultDisk."""

    def __init__(self, disk: "FaultDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._open = True

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.ask("pread", self._path)
        assert self._open, f"read of closed file {self._path}"
        return bytes(self._inode.data[offset : offset + size])

    def peek(self, size: int, offset: int) -> bytes | memoryview:
        return self.pread(size, offset)

    def will_need(self, size: int, offset: int) -> None:
        assert self._open, f"hint about closed file {self._path}"

    def pwritev(self, parts: Sequence[bytes | memoryview | bytearray], offset: int) -> int:
        assert self._open, f"write to closed file {self._path}"
        cut = self._disk.ask("pwritev", self._path)
        data = b"".join(parts)
        whole = len(data)
        if cut is not None:
            data = data[:cut]
        inode = self._inode
        grown = max(0, offset + len(data) - len(inode.data))
        if grown > self._disk.free_bytes(self._path):
            raise OSError(errno.ENOSPC, "No space left on device", self._path)
        if len(inode.data) < offset:
            inode.touch(len(inode.data), offset)
            inode.data.extend(bytes(offset - len(inode.data)))
        inode.data[offset : offset + len(data)] = data
        inode.touch(offset, offset + len(data))
        if len(data) < whole:
            raise Crashed(f"write cut at {len(data)} of {whole} bytes of {self._path}")
        return whole

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._disk.ask("truncate", self._path)
        inode = self._inode
        if size < len(inode.data):
            del inode.data[size:]
            inode.dirty = {sector: None for sector in inode.dirty if sector * SECTOR < size}
        else:
            inode.data.extend(bytes(size - len(inode.data)))

    def fdatasync(self) -> None:
        self._disk.ask("fdatasync", self._path)
        assert self._open, f"sync of closed file {self._path}"
        self._inode.sync()
        self._disk.synced = self._inode

    def close(self) -> None:
        self._open = False


class FaultIndex:
    """Sorted keys in memory. Unflushed writes survive a crash as a prefix: RocksDB writes its memtables in order."""

    def __init__(self, disk: "FaultDisk", path: str, store: "_IndexStore") -> None:
        self._disk = disk
        self._path = path
        self._store = store

    def get(self, key: bytes) -> bytes | None:
        return self._store.now.get(key)

    def floor(self, key: bytes) -> tuple[bytes, bytes] | None:
        keys = self._store.keys()
        i = bisect_right(keys, key)
        return (keys[i - 1], self._store.now[keys[i - 1]]) if i else None

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        keys, now = self._store.keys(), self._store.now
        return [(key, now[key]) for key in keys[bisect_left(keys, start) : bisect_left(keys, stop)]]

    def scan_from(self, key: bytes, stop: bytes, rows_max: int) -> list[tuple[bytes, bytes]]:
        keys, now = self._store.keys(), self._store.now
        first = max(bisect_right(keys, key) - 1, 0)
        behind = min(first + rows_max, bisect_left(keys, stop))
        return [(key, now[key]) for key in keys[first:behind]]

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        self._disk.ask("index_write", self._path)
        batch = (list(puts), list(deletes))
        self._store.write(batch)

    def flush(self) -> None:
        self._disk.ask("index_flush", self._path)
        self._store.flush()

    def compact(self) -> None:
        """Do nothing: nothing is kept twice here."""

    def close(self) -> None:
        self._disk.opened_indexes.pop(self._path, None)


_Batch = tuple[list[tuple[bytes, bytes]], list[bytes]]


def _apply(rows: dict[bytes, bytes], batch: _Batch) -> None:
    puts, deletes = batch
    for key in deletes:
        rows.pop(key, None)
    rows.update(puts)


class _IndexStore:
    def __init__(self) -> None:
        self.now: dict[bytes, bytes] = {}
        self.durable: dict[bytes, bytes] = {}
        self.unflushed: list[_Batch] = []
        self._keys: list[bytes] | None = []

    def keys(self) -> list[bytes]:
        """Return the keys of ``now`` in order; the caller must not change the list."""
        if self._keys is None:
            self._keys = sorted(self.now)
        return self._keys

    def write(self, batch: _Batch) -> None:
        puts, deletes = batch
        if self._keys is not None:
            if deletes:
                self._keys = None
            else:
                for key in dict(puts):
                    if key not in self.now:
                        insort(self._keys, key)
        _apply(self.now, batch)
        self.unflushed.append(batch)

    def flush(self) -> None:
        for batch in self.unflushed:
            _apply(self.durable, batch)
        self.unflushed.clear()

    def crash(self, keep: Keep) -> None:
        for batch in self.unflushed:
            if not keep():
                break
            _apply(self.durable, batch)
        self.unflushed.clear()
        self.now = dict(self.durable)
        self._keys = None


class FaultDisk:
    """Implements ``engine.base.disk.files.Disk``. ``capacity_bytes`` bounds the sizes of all files together."""

    def __init__(self, capacity_bytes: int = PLENTY) -> None:
        self.capacity_bytes = capacity_bytes
        self.mounts: dict[str, int] = {}
        """Directories that are disks of their own, with their capacities in bytes."""
        self.plan: Plan | None = None
        self.broken: dict[str, int] = {}
        """Directories of failed disks, with the error of every operation there."""
        self.operations = 0
        self.synced = _Inode()
        """The file that was synced last."""
        self.opened_indexes: dict[str, None] = {}
        self._files: dict[str, _Inode] = {}
        self._durable_files: dict[str, _Inode] = {}
        self._dirs: dict[str, None] = {"/": None}
        self._indexes: dict[str, _IndexStore] = {}
        self._renamed: dict[str, str] = {}
        """Present names by earlier ones, under which files that were opened before are known to plans."""

    def ask(self, operation: str, path: str) -> int | None:
        """Count an operation and consult the plan."""
        self.operations += 1
        for directory, code in self.broken.items():
            if path.startswith(f"{directory}/") or path == directory:
                raise OSError(code, os.strerror(code), path)
        return self.plan(operation, path) if self.plan is not None else None

    def crash(self, keep: Keep = lambda: False) -> None:
        """Drop unsynced bytes and the plan. Files and indexes opened before must not be used again."""
        self.plan = None
        self.opened_indexes.clear()
        names = dict(self._durable_files)
        for path in sorted(set(self._files) ^ set(names)):
            if keep():  # this creation or removal had reached the disk
                if path in self._files:
                    names[path] = self._files[path]
                else:
                    del names[path]
        for path, inode in self._files.items():
            if path in names and names[path] is not inode and keep():
                names[path] = inode  # so had this rename
        for inode in {id(inode): inode for inode in names.values()}.values():
            inode.crash(keep)
        self._files = dict(names)
        self._durable_files = names
        for store in self._indexes.values():
            store.crash(keep)

    def kill(self, keep: Keep = lambda: False) -> None:
        """Apply the death of the process without a power loss: files stay, an index loses its unflushed rows."""
        self.plan = None
        self.opened_indexes.clear()
        for store in self._indexes.values():
            store.crash(keep)

    def holds_durably(self, marker: bytes) -> bool:
        """Return whether a file whose name and bytes would survive a power loss contains ``marker``."""
        files = list(self._durable_files.values())
        if self.synced in files and self.synced.durable.find(marker) >= 0:
            return True  # where most markers are
        return any(inode.durable.find(marker) >= 0 for inode in reversed(files))

    def open(self, path: str, *, create: bool = False, direct: bool = False) -> FaultFile:
        self.ask("open", path)
        inode = self._files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self._need_dir(path.rpartition("/")[0])
            inode = self._files[path] = _Inode()
        return FaultFile(self, path, inode)

    def listdir(self, path: str) -> list[str]:
        self._need_dir(path)
        prefix = path.rstrip("/") + "/"
        names = {
            name[len(prefix) :].partition("/")[0]: None
            for name in [*self._files, *self._dirs, *self._indexes]
            if name.startswith(prefix) and name != prefix
        }
        return sorted(names)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._dirs or path in self._indexes

    def makedirs(self, path: str) -> None:
        while path and path not in self._dirs:
            self._dirs[path] = (
                None  # durable at once: nothing here depends on when a directory appears
            )
            path = path.rpartition("/")[0]

    def rename(self, old: str, new: str) -> None:
        self.ask("rename", new)
        self._files[new] = self._files.pop(old)
        self._renamed[old] = new

    def remove(self, path: str) -> None:
        self.ask("remove", path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        del self._files[path]

    def sync_dir(self, path: str) -> None:
        self.ask("sync_dir", path)
        prefix = path.rstrip("/") + "/"

        def here(name: str) -> bool:
            return name.startswith(prefix) and "/" not in name[len(prefix) :]

        self._durable_files = {
            name: inode for name, inode in self._durable_files.items() if not here(name)
        }
        self._durable_files.update(
            {name: inode for name, inode in self._files.items() if here(name)}
        )

    def free_bytes(self, path: str) -> int:
        mount = self._mount(path)
        files = self._files.items()
        used = sum(len(inode.data) for name, inode in files if self._mount(name) == mount)
        return max(0, self.total_bytes(path) - used)

    def total_bytes(self, path: str) -> int:
        return self.mounts.get(self._mount(path), self.capacity_bytes)

    def _mount(self, path: str) -> str:
        if not self.mounts:
            return ""
        return next((mount for mount in self.mounts if path.startswith(mount + "/")), "")

    def open_index(self, path: str) -> FaultIndex:
        self.ask("open", path)
        assert path not in self.opened_indexes, f"index {path} is open already"
        self.opened_indexes[path] = None
        return FaultIndex(self, path, self._indexes.setdefault(path, _IndexStore()))

    def find(self, marker: bytes) -> list[tuple[str, int]]:
        """Return the path and the first offset of each file that contains ``marker``."""
        places = [(path, inode.data.find(marker)) for path, inode in self._files.items()]
        return [(path, offset) for path, offset in places if offset >= 0]

    def damage(self, path: str, offset: int, flip: int = 1) -> None:
        """Flip bits of one byte durably, as bit rot does."""
        inode = self._files[path]
        if offset < len(inode.data):
            inode.data[offset] ^= flip
        if offset < len(inode.durable):
            inode.durable[offset] ^= flip

    def durable_files(self, ending: str) -> dict[str, int]:
        """Return the durable bytes of each file whose name ends so."""
        return {
            path: len(inode.durable)
            for path, inode in self._files.items()
            if path.endswith(ending) and inode.durable
        }

    def drop_dirty(self, path: str) -> None:
        """Keep written bytes readable after a failed sync, though no later sync makes them durable."""
        inode = self._files.get(path) or self._files[self._renamed[path]]
        inode.dirty.clear()

    def rot(self, rng: random.Random) -> None:
        """Flip one bit somewhere in some file, in a byte that is not zero if one is found soon."""
        names = [name for name, inode in self._files.items() if inode.durable]
        if not names:
            return
        path = rng.choice(names)
        data = self._files[path].durable
        for _ in range(20):
            offset = rng.randrange(len(data))
            if data[offset]:
                break
        self.damage(path, offset, 1 << rng.randrange(8))

    def drop_index(self, path: str) -> None:
        """Replace the index by an empty one."""
        self._indexes[path] = _IndexStore()

    def copy_index(self, path: str) -> dict[bytes, bytes]:
        """Return the durable rows of an index."""
        return dict(self._indexes[path].durable)

    def put_index(self, path: str, rows: dict[bytes, bytes]) -> None:
        """Put an index back to what it was earlier."""
        store = self._indexes[path] = _IndexStore()
        store.write((list(rows.items()), []))
        store.flush()

    def _need_dir(self, path: str) -> None:
        if path not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)


class InlineLane:
    """A lane that works at once, or ``delay_s()`` of loop time later; in order. ``Crashed`` is kept for the driver."""

    def __init__(self, delay_s: Callable[[], float] | None = None) -> None:
        self._delay_s = delay_s
        self._queue: list[Callable[[], None]] = []
        self.crashed: Crashed | None = None

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.call(work, partial(settle, future))
        return future

    def call(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        def act() -> None:
            if self.crashed is not None:
                return
            result, error = None, None
            try:
                result = work()
            except Crashed as crash:
                self.crashed = crash
                return
            except Exception as raised:
                error = raised
            done(result, error)

        self._queue.append(act)
        if len(self._queue) == 1:
            self._next(asyncio.get_running_loop())

    def write(self, file: File, parts: Parts, offset: int, done: Written) -> None:
        self.call(partial(write_and_sync, file, parts, offset), done)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._delay_s is None:
            loop.call_soon(self._act, loop)
        else:
            loop.call_later(self._delay_s(), self._act, loop)

    def _act(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._queue:
            return  # closed meanwhile
        act = self._queue[0]
        act()
        self._queue.pop(0)
        if self._queue:
            self._next(loop)

    def close(self) -> None:
        while self._queue:
            self._queue.pop(0)()
