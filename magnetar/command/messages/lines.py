"""Lines of the standard input, read while the event loop goes on. A read never blocks Ctrl-C."""

import asyncio
import os
from collections.abc import AsyncIterator

from magnetar.command.exits import CommandFailed

READ_BYTES = 64 << 10
LINE_BYTES_MAX = 64 << 20
"""Bytes of one line; messages are far below."""


async def lines(fd: int) -> AsyncIterator[list[bytes]]:
    """Yield runs of lines without their ends, as they arrive. The last line needs no end.

    Raises CommandFailed for a line above LINE_BYTES_MAX, and when the input cannot be read. Cancel-safe.
    """
    rest: list[bytes] = []
    size = 0
    while data := await _read(fd):
        *complete, last = data.split(b"\n")
        if complete:
            complete[0] = b"".join([*rest, complete[0]])
            rest, size = [], 0
            yield complete
        rest.append(last)
        size += len(last)
        if size > LINE_BYTES_MAX:
            raise CommandFailed(
                f"a line of the input is longer than {LINE_BYTES_MAX >> 20} MiB",
                hint="Send a file as one message with --file",
            )
    if size:
        yield [b"".join(rest)]


async def _read(fd: int) -> bytes:
    """Return the next bytes; none at the end. Files are read at once, everything else when there is something."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    try:
        loop.add_reader(fd, _wake, ready)
    except PermissionError:  # epoll refuses files, whose reads do not wait
        await asyncio.sleep(0)
    else:
        try:
            await ready
        finally:
            loop.remove_reader(fd)
    try:
        return os.read(fd, READ_BYTES)
    except OSError as error:
        raise CommandFailed(f"cannot read the standard input: {error.strerror}") from error


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
