"""Objects as files of one folder, which a whole cluster may share by NFS. An object that exists is durable."""

import asyncio
import ctypes
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from engine.offload.errors import MissingObjectError, ObjectStoreError, StoreTrouble
from engine.offload.object_store import BucketObject, StoredObject
from engine.offload.stores.ending import unbroken

T = TypeVar("T")
PARTIAL = ".partial"
"""Ending of the name of a file that is being written."""
SYNCED_BYTES = 1 << 20
"""Bytes in the disk's queue at most while a file is written."""
_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
"""Linux' call that writes a range of a file to the disk, without the metadata. The standard library has none for it."""
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_WRITE_AND_WAIT = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER."""
_TROUBLES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), StoreTrouble.FORBIDDEN),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), StoreTrouble.FULL),
    **dict.fromkeys((errno.ESTALE, errno.ENODEV, errno.EHOSTDOWN), StoreTrouble.AWAY),
    errno.ETIMEDOUT: StoreTrouble.SLOW,
}


class FolderStore:
    """One folder. Each step of a file runs in a thread, because it may take long on a network."""

    keeps_attributes = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._puts = 0

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        """See ``ObjectStore``: written beside, fsynced, renamed; then the folder is fsynced."""
        self._puts += 1
        file = _NewFile(self._folder, self._path(f"{key}.{os.getpid()}-{self._puts}{PARTIAL}"))
        try:
            await self._written(file, key, file.create)
            async for piece in pieces:
                await self._written(file, key, partial(file.write, piece))
            await self._written(file, key, partial(file.end, self._path(key)))
        finally:
            file.abandon()

    async def _written(self, file: "_NewFile", key: str, step: Callable[[], None]) -> None:
        """Run a step of ``file`` in a thread, which a cancellation of the caller does not break off."""
        file.step = asyncio.get_running_loop().run_in_executor(None, step)
        with _errors(key):
            await unbroken(file.step)

    async def get(self, key: str) -> StoredObject:
        """See ``ObjectStore``."""
        return StoredObject(await self._step(key, self._path(key).read_bytes), {})

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        """See ``ObjectStore``."""

        def read() -> list[bytes]:
            with self._path(key).open("rb") as file:
                # No read-ahead of the kernel, often of megabytes at once, which bookies on the same disk would wait
                # for: readers of objects have their own.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                file.seek(bounds[0])
                return [file.read(stop - start) for start, stop in pairwise(bounds)]

        return await self._step(key, read)

    async def attributes(self, key: str) -> Mapping[str, str]:
        """See ``ObjectStore``."""
        await self._step(key, self._path(key).stat)
        return {}

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore``."""
        for key in keys:
            await self._step(key, partial(self._remove, key))

    def _remove(self, key: str) -> None:
        """Remove an object, and what writers of it that were killed left beside it."""
        # First what is written beside it: a writer whose caller was cancelled cannot rename that any more.
        for beside in self._folder.glob(f"{key}.*{PARTIAL}"):
            beside.unlink(missing_ok=True)
        self._path(key).unlink(missing_ok=True)

    async def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        """See ``ObjectStore``."""

        def found() -> list[BucketObject]:
            if not self._folder.exists():
                return []
            objects = []
            for path in self._folder.iterdir():
                if path.name.startswith(prefix) and not path.name.endswith(PARTIAL):
                    with suppress(FileNotFoundError):
                        stat = path.stat()
                        modified_ms = stat.st_mtime_ns // 1_000_000
                        objects.append(BucketObject(path.name, stat.st_size, modified_ms))
            return sorted(objects)

        for listed in await self._step(prefix, found):
            yield listed

    def _path(self, key: str) -> Path:
        if not key or "/" in key or key.startswith("."):
            raise ObjectStoreError(f"object {key!r}: no name of a file")
        return self._folder / key

    async def _step(self, key: str, step: Callable[[], T]) -> T:
        with _errors(key):
            return await asyncio.to_thread(step)


@contextmanager
def _errors(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MissingObjectError(f"object {key} does not exist") from error
    except OSError as error:
        trouble = _TROUBLES.get(error.errno or 0, StoreTrouble.FAILED)
        raise ObjectStoreError(f"object {key}: {error.strerror or error}", trouble) from error


class _NewFile:
    """A file at ``path`` in ``folder`` that threads write, one step after the other. ``step``: the last one.

    ``abandon`` closes it behind that step: the number of a closed file may be that of another one, which a thread would
    then write to.
    """

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._path = path
        self._descriptor = -1
        self.step: asyncio.Future[None] | None = None

    def create(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write(self, data: bytes) -> None:
        """Append ``data`` and wait until the disk has it.

        Otherwise the sync at the end would write the whole file at once, and the journals of bookies on the same disk
        would wait for that.
        """
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view[:SYNCED_BYTES])
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            if _sync_file_range(self._descriptor, end - written, written, _WRITE_AND_WAIT):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            view = view[written:]

    def end(self, path: Path) -> None:
        """Make the file durable under ``path``."""
        os.fsync(self._descriptor)
        self._path.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def abandon(self, _step: object = None) -> None:
        """Close the file once the last step has ended, and remove it unless it has its name by then."""
        if self.step is not None and not self.step.done():
            self.step.add_done_callback(self.abandon)
            return
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
