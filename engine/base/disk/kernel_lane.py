"""A lane whose durable writes the kernel makes by itself, without a thread that waits for them.

A write that a thread syncs costs two hand-offs between threads that share the interpreter's lock: a third of the CPU of
a lone write. Linux' asynchronous I/O (``io_submit``) reports the end of a write and its sync by a descriptor that the
event loop watches. The standard library has no call for it. What is reported as written is synced (Z8).
"""

import asyncio
import ctypes
import errno
import mmap
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import NamedTuple, TypeVar

from engine.base.disk.files import (
    DIRECT_BLOCK,
    DirectFile,
    File,
    Parts,
    ThreadLane,
    Written,
    write_and_sync,
)

T = TypeVar("T")
WRITE_BYTES_MAX = 64 << 10
"""Size of a write up to which it is copied and submitted on the event loop."""

_IO_SETUP, _IO_DESTROY, _IO_GETEVENTS, _IO_SUBMIT = range(4)
_SYSTEM_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""Numbers of io_setup, io_destroy, io_getevents and io_submit by machine."""
_CONTROL_BLOCK = Struct("=QIIHhIQQqQII")
_EVENT = Struct("=QQqq")
_PWRITE = 1
_EVENTFD = 1
_DSYNC, _NOWAIT = 2, 8
_CANNOT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of a file system that does not write in this way."""
_NOT_BEGUN = (errno.EAGAIN, *_CANNOT)
"""Errors after which nothing was written."""


class KernelWriter:
    """Context of the kernel for one write at a time. ``completions`` is readable when the write has ended."""

    def __init__(self) -> None:
        """Open a context. Raises OSError where the kernel, the container or the machine offers no such writes."""
        if platform.machine() not in _SYSTEM_CALLS:
            raise OSError(errno.ENOSYS, f"not known for {platform.machine()}")
        self._numbers = [ctypes.c_long(n) for n in _SYSTEM_CALLS[platform.machine()]]
        self._system = ctypes.CDLL(None, use_errno=True).syscall
        self._system.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._one, self._none = ctypes.c_long(1), ctypes.c_long(0)
        self._call(_IO_SETUP, self._one, ctypes.byref(self._context))
        self.completions = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._buffer = mmap.mmap(-1, WRITE_BYTES_MAX)  # aligned to pages
        self._view = memoryview(self._buffer)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._block = ctypes.create_string_buffer(_CONTROL_BLOCK.size)
        self._blocks = (ctypes.c_void_p * 1)(ctypes.addressof(self._block))
        self._event = ctypes.create_string_buffer(_EVENT.size)

    def _call(self, call: int, *arguments: object) -> int:
        result: int = self._system(self._numbers[call], *arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def begin(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        """Begin to write and sync whole blocks, WRITE_BYTES_MAX at most, without blocking.

        Raises OSError, when nothing was begun: EAGAIN if it would have blocked, one of ``_CANNOT``.
        """
        size = 0
        for part in parts:
            self._view[size : size + len(part)] = part
            size += len(part)
        flags = _DSYNC | _NOWAIT
        block = (0, 0, flags, _PWRITE, 0, fd, self._address, size, offset, 0, _EVENTFD)
        _CONTROL_BLOCK.pack_into(self._block, 0, *block, self.completions)
        self._call(_IO_SUBMIT, self._context, self._one, self._blocks)

    def finish(self) -> int:
        """Wait for the end of the write; return the bytes written. Raises OSError, EAGAIN as ``begin`` does."""
        self._call(_IO_GETEVENTS, self._context, self._one, self._one, self._event, None)
        with suppress(BlockingIOError):  # in ``close``, before the descriptor is readable
            os.eventfd_read(self.completions)
        result: int = _EVENT.unpack(self._event)[2]
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def close(self) -> None:
        """Give the context back; no write may be under way."""
        self._call(_IO_DESTROY, self._context)
        os.close(self.completions)


class _Write(NamedTuple):
    file: File
    parts: Parts
    offset: int
    size: int
    done: Written


class KernelLane(ThreadLane):
    """A lane with a thread for calls, whose small writes to a DirectFile the kernel makes. Others the thread makes.

    The loop never waits for the disk: what the kernel cannot begin at once is a call of the thread.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calls = 0
        """Calls whose results have not arrived yet."""
        self._write: _Write | None = None
        """The write that the kernel makes."""
        self._later: list[Callable[[], None]] = []
        """Calls that were made during that write."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kernel: KernelWriter | None = None
        self._tried = False
        """True once ``_kernel`` was made, or could not be."""

    def call(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        if self._write is not None:
            self._later.append(partial(self.call, work, done))
            return
        self._calls += 1
        super().call(work, partial(self._called, done))

    def _called(
        self,
        done: Callable[[T | None, BaseException | None], None],
        result: T | None,
        error: BaseException | None,
    ) -> None:
        self._calls -= 1
        done(result, error)

    def write(self, file: File, parts: Parts, offset: int, done: Written) -> None:
        if self._calls or self._write is not None or not self._begin(file, parts, offset, done):
            self.call(partial(write_and_sync, file, parts, offset), done)

    def _begin(self, file: File, parts: Parts, offset: int, done: Written) -> bool:
        """Have the kernel begin a write. Return False when it cannot."""
        size = sum(map(len, parts))
        if type(file) is not DirectFile or size > WRITE_BYTES_MAX:
            return False
        if size % DIRECT_BLOCK or offset % DIRECT_BLOCK or not self._has_kernel():
            return False
        assert self._kernel is not None
        try:
            self._kernel.begin(file.fd, parts, offset)
        except OSError as error:
            if error.errno in _CANNOT:
                self._leave_kernel()
            return False  # whatever it is, the thread meets it again
        self._write = _Write(file, parts, offset, size, done)
        return True

    def _has_kernel(self) -> bool:
        if not self._tried:
            self._tried = True
            try:
                self._kernel = KernelWriter()
            except OSError:
                return False
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._kernel.completions, self._completed)
        return self._kernel is not None

    def _completed(self) -> None:
        """Pass on the result of the kernel's write, then make the calls that waited for it."""
        write = self._write
        assert write is not None
        assert self._kernel is not None
        written, failure = 0, None
        try:
            written = self._kernel.finish()
        except OSError as error:
            failure = error
            if error.errno in _CANNOT:
                self._leave_kernel()
        self._write = None
        # It would have blocked, or found too little room: the thread writes all again, or meets the reason.
        again = written < write.size if failure is None else failure.errno in _NOT_BEGUN
        if again:
            self.call(partial(write_and_sync, write.file, write.parts, write.offset), write.done)
        later, self._later = self._later, []
        for call in later:
            call()
        if not again:
            write.done(None if failure is not None else written, failure)

    def _leave_kernel(self) -> None:
        assert self._kernel is not None
        assert self._loop is not None
        self._loop.remove_reader(self._kernel.completions)
        self._kernel.close()
        self._kernel = None

    def close(self) -> None:
        if self._write is not None:
            self._completed()
        if self._kernel is not None:
            self._leave_kernel()
        super().close()
