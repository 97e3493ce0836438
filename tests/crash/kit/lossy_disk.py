"""A disk of the operating system that can lose what was not synced, at a named operation or on a signal.

A killed process leaves the page cache alone; a machine without power does not. So the old bytes of every write are kept
until a sync that began after it has ended, names until their directory was synced, the index as of its last flush; and
``cut_power`` puts all that back before it ends the process with SIGKILL. Everything else is what the real disk does.

Operations are named ``<what>.<operation>``: ``journal.sync``, ``entrylog.write``, ``lastmark.rename``, ``index.flush``
(``tests/crash/points.py`` has the table).
"""

import errno
import json
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from engine.base.disk.files import File
from engine.base.disk.index_disk import Index, RocksIndex, SystemIndexDisk

BLOCK = 4096
LINKS, INDEX_KEPT, POWER_CUT, LAST_WORDS = "links", "index", "power-cut", "last-words.json"


@dataclass(frozen=True)
class Plan:
    """The planned fault of one life of a bookie. ``operation`` empty: none, until SIGUSR1.

    ``inside``: counts only below this function of the bookie. ``armed``: counts from the start on, otherwise from
    SIGUSR2 on. ``nth``: from 1. ``loss``: of what was not synced all is lost, or each block and name by chance of
    ``seed``.
    ``eio``: the operation fails instead, once.
    """

    operation: str = ""
    inside: str = ""
    armed: bool = True
    when: Literal["before", "after"] = "before"
    nth: int = 1
    act: Literal["kill", "eio"] = "kill"
    loss: Literal["all", "some"] = "all"
    seed: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self))


def file_kind(path: str) -> str:
    """Return the kind of a bookie's file, ``other`` for files that no point is named for yet."""
    name = os.path.basename(path)
    if name.startswith("journal-"):
        return "journal"
    if name.startswith("manifest"):
        return "manifest"
    if name.endswith(".log"):
        return "entrylog"
    known = {
        "lastMark": "lastmark",
        "lastMark.new": "lastmark",
        "VERSION": "cookie",
        "VERSION.new": "cookie",
        "scrub": "scrub",
        "scrub.new": "scrub",
    }
    return known.get(name, name if name in ("formatting", "index") else "other")


def is_inside(function: str) -> bool:
    """Return whether this thread is executing the function of that qualified name."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname == function:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Change(NamedTuple):
    """A name made, given to another file, or removed, in a directory not yet synced. ``kept``: link to what it was."""

    operation: Literal["create", "rename", "remove"]
    path: str
    old: str = ""
    kept: str = ""


class Unsynced:
    """One file's blocks as they were when it was last synced, and its size then. ``fd`` is ours, through the cache."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.blocks: dict[int, bytes] = {}
        self.size: int | None = None
        self.syncing: tuple[dict[int, bytes], int | None] = ({}, None)
        self.failed = False
        """A sync of it failed: nothing should be written or synced there any more."""

    def keep(self, start: int, stop: int) -> None:
        """Keep the old blocks of bytes ``start .. stop - 1``. To be called before they, or the size, change."""
        size = os.fstat(self.fd).st_size
        if self.size is None:
            self.size = size
        first, below = start // BLOCK, -(-min(stop, size) // BLOCK)
        if all(block in self.blocks for block in range(first, below)):
            return
        old = os.pread(self.fd, (below - first) * BLOCK, first * BLOCK)
        for block in range(first, below):
            at = (block - first) * BLOCK
            self.blocks.setdefault(block, old[at : at + BLOCK])

    def begin_sync(self) -> None:
        self.syncing = (self.blocks, self.size)
        self.blocks, self.size = {}, None

    def end_sync(self) -> None:
        self.syncing = ({}, None)

    def undo(self, lost: Callable[[], bool]) -> None:
        """Put back the old bytes of each block for which ``lost`` returns true, likewise the size."""
        for blocks, size in ((self.blocks, self.size), self.syncing):
            if size is None:
                continue
            now = os.fstat(self.fd).st_size
            grown = range(-(-size // BLOCK), -(-now // BLOCK))
            for block in grown:
                if now > size and lost():
                    end = min((block + 1) * BLOCK, now)
                    os.pwrite(self.fd, bytes(end - block * BLOCK), block * BLOCK)
            for block in sorted(blocks):
                if lost():
                    os.pwrite(self.fd, blocks[block], block * BLOCK)
            if now < size or lost():
                os.ftruncate(self.fd, size)
        self.begin_sync()
        self.end_sync()


class Gate:
    """Lets operations pass until the power is cut: those under way end, but none returns any more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    def enter(self) -> None:
        with self._changed:
            self._wait_open()
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()
            self._wait_open()

    def _wait_open(self) -> None:
        while self._closed:
            self._changed.wait()  # for ever: the process is about to end

    def close(self) -> None:
        """Close the gate; return when no operation is under way. A second caller waits for ever, until the process
        ends."""
        with self._changed:
            self._wait_open()
            self._closed = True
            while self._inside:
                self._changed.wait()


class LossyDisk(SystemIndexDisk):
    """``directory`` is ours, on the bookie's file system: links to files that may have to come back."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.seen: dict[str, int] = {}
        """Count of each operation, for the census."""
        self.retried: list[str] = []
        """Writes and syncs of something whose sync has failed."""
        self._directory = directory
        self.armed = plan.armed
        self._left = plan.nth
        self._gate = Gate()
        self._lock = threading.Lock()
        self._files: dict[tuple[int, int], Unsynced] = {}
        self._changes: dict[str, list[Change]] = {}
        self._links = 0
        shutil.rmtree(directory / LINKS, ignore_errors=True)
        (directory / LINKS).mkdir(parents=True)

    # Faults

    def around(self, operation: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` under its name; the planned fault, if its time has come."""
        due = self._due(operation)
        if due and self.plan.act == "eio":
            self._say(operation)
            raise OSError(errno.EIO, f"planned at {operation}")
        if due and self.plan.when == "before":
            self.cut_power(operation)
        self._gate.enter()
        try:
            result = work()
        finally:
            self._gate.leave()
        if due:
            self.cut_power(operation)
        return result

    def _due(self, operation: str) -> bool:
        with self._lock:
            self.seen[operation] = self.seen.get(operation, 0) + 1
            plan = self.plan
            if not self.armed:
                return False
            if plan.operation != operation or (plan.inside and not is_inside(plan.inside)):
                return False
            self._left -= 1
            return self._left == 0

    def _say(self, operation: str) -> None:
        words = {"operation": operation, "seen": self.seen}
        (self._directory / LAST_WORDS).write_text(json.dumps(words))

    def cut_power(self, operation: str) -> None:
        """Lose what was not synced and end. Does not return."""
        self._gate.close()
        draw = random.Random(self.plan.seed)
        some = self.plan.loss == "some"

        def lost() -> bool:
            return not some or draw.random() < 0.5

        for unsynced in self._files.values():
            unsynced.undo(lost)
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            keep = draw.randrange(len(changes) + 1) if some else 0  # a directory changes in order
            for change in reversed(changes[keep:]):
                self._undo(change)
        if lost():
            (self._directory / POWER_CUT).touch()  # the index is put back when it is opened again
        self._say(operation)
        os.kill(os.getpid(), signal.SIGKILL)

    def _undo(self, change: Change) -> None:
        match change.operation:
            case "create":
                os.remove(change.path)
            case "rename":
                os.replace(change.path, change.old)
                if change.kept:
                    os.link(change.kept, change.path)
            case "remove":
                os.link(change.kept, change.path)

    # Names

    def _changed(self, change: Change) -> None:
        with self._lock:
            self._changes.setdefault(os.path.dirname(change.path), []).append(change)

    def _keep(self, path: str) -> str:
        with self._lock:
            self._links += 1
            link = str(self._directory / LINKS / str(self._links))
        os.link(path, link)
        return link

    def open(self, path: str, *, create: bool = False, direct: bool = False) -> File:  # type: ignore[override]
        new = create and not os.path.exists(path)

        def work() -> File:
            file = super(LossyDisk, self).open(path, create=create, direct=direct)
            if new:
                self._changed(Change("create", path))
            return LossyFile(self, file, self._unsynced(path), file_kind(path), new)

        file: File = self.around(f"{file_kind(path)}.create", work) if new else work()
        return file

    def _unsynced(self, path: str) -> Unsynced:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        stat = os.fstat(fd)
        with self._lock:
            known = self._files.setdefault((stat.st_dev, stat.st_ino), Unsynced(fd))
        if known.fd != fd:
            os.close(fd)
        return known

    def rename(self, old: str, new: str) -> None:
        def work() -> None:
            kept = self._keep(new) if os.path.exists(new) else ""
            super(LossyDisk, self).rename(old, new)
            self._changed(Change("rename", new, old, kept))

        self.around(f"{file_kind(new)}.rename", work)

    def remove(self, path: str) -> None:
        def work() -> None:
            kept = self._keep(path)
            super(LossyDisk, self).remove(path)
            self._changed(Change("remove", path, kept=kept))

        self.around(f"{file_kind(path)}.remove", work)

    def sync_dir(self, path: str) -> None:
        changes = self._changes.get(path, [])
        count = len(changes)
        kind = file_kind(changes[-1].path) if changes else "nothing"

        def work() -> None:
            super(LossyDisk, self).sync_dir(path)
            with self._lock:
                for change in changes[:count]:
                    if change.kept:
                        os.remove(change.kept)
                del changes[:count]

        self.around(f"{kind}.sync_dir", work)

    def open_index(self, path: str) -> Index:  # type: ignore[override]
        kept = self._directory / INDEX_KEPT
        marker = self._directory / POWER_CUT
        if marker.exists():
            shutil.rmtree(path, ignore_errors=True)
            if kept.exists():
                shutil.copytree(kept, path)
            marker.unlink()
        index: Index = self.around(
            "index.open", lambda: LossyIndex(self, super(LossyDisk, self).open_index(path), kept)
        )
        return index


class LossyFile:
    """An open file of a LossyDisk."""

    def __init__(
        self, disk: LossyDisk, file: File, unsynced: Unsynced, kind: str, new: bool
    ) -> None:
        self._disk = disk
        self._file = file
        self._unsynced = unsynced
        self._kind = kind
        self._filling = new and kind == "journal"
        self._last = ""

    def pread(self, size: int, offset: int) -> bytes:
        return self._file.pread(size, offset)

    def peek(self, size: int, offset: int) -> bytes | memoryview:
        return self._file.peek(size, offset)

    def pwritev(self, parts: Sequence[bytes | memoryview | bytearray], offset: int) -> int:
        if self._filling:
            name = "fill"
        elif offset == 0 and self._kind in ("journal", "entrylog"):
            name = "header"
        else:
            name = "write"
        self._last = name
        self._note(name)
        size = sum(map(len, parts))

        def work() -> int:
            self._unsynced.keep(offset, offset + size)
            return self._file.pwritev(parts, offset)

        done: int = self._disk.around(f"{self._kind}.{name}", work)
        return done

    def will_need(self, size: int, offset: int) -> None:
        self._file.will_need(size, offset)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        def work() -> None:
            self._unsynced.keep(min(size, self._file.size()), self._file.size())
            self._file.truncate(size)

        self._disk.around(f"{self._kind}.truncate", work)

    def fdatasync(self) -> None:
        syncs = {"fill": "sync_fill", "header": "sync_header", "write": "sync"}
        name = syncs.get(self._last, "sync_again" if self._kind == "journal" else "sync")
        if self._kind == "entrylog":
            name = "sync"  # of whatever was gathered, the header with it

        self._note(name)

        def work() -> None:
            self._unsynced.begin_sync()
            self._file.fdatasync()
            self._unsynced.end_sync()

        try:
            self._disk.around(f"{self._kind}.{name}", work)
        except OSError:  # as Linux does: what could not be written is dropped from memory, too
            self._unsynced.undo(lambda: True)
            self._unsynced.failed = True
            raise

    def _note(self, name: str) -> None:
        if self._unsynced.failed:
            self._disk.retried.append(f"{self._kind}.{name}")

    def close(self) -> None:
        self._file.close()


class LossyIndex:
    """RocksDB, of which a copy (of links) is kept as of each flush."""

    def __init__(self, disk: LossyDisk, index: RocksIndex, kept: Path) -> None:
        self._disk = disk
        self._index = index
        self._kept = kept
        self._failed = False
        self._keep_copy()

    def _keep_copy(self) -> None:
        import rocksdict

        new = self._kept.with_name("index.new")
        shutil.rmtree(new, ignore_errors=True)
        rocksdict.Checkpoint(self._index._db).create_checkpoint(str(new))
        shutil.rmtree(self._kept, ignore_errors=True)
        os.rename(new, self._kept)

    def get(self, key: bytes) -> bytes | None:
        return self._index.get(key)

    def floor(self, key: bytes) -> tuple[bytes, bytes] | None:
        return self._index.floor(key)

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        return self._index.scan(start, stop)

    def scan_from(self, key: bytes, stop: bytes, rows_max: int) -> list[tuple[bytes, bytes]]:
        return self._index.scan_from(key, stop, rows_max)

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        self._disk.around("index.write", lambda: self._index.write(puts, deletes))

    def flush(self) -> None:
        def work() -> None:
            self._index.flush()
            self._keep_copy()

        if self._failed:
            self._disk.retried.append("index.flush")
        try:
            self._disk.around("index.flush", work)
        except OSError:
            self._failed = True
            raise

    def compact(self) -> None:
        self._disk.around("index.compact", self._index.compact)

    def close(self) -> None:
        self._index.close()
