"""Requests of which a cancelled caller waits for the end, because what they still do must not come behind its next
request: an object that is written after its deletion would be named by no record (U3)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
ENDING_S = 1.0
"""Longest wait of a cancelled caller. A topic that moves to another broker waits for it."""


class UploadEndedError(Exception):
    """The caller of an upload was cancelled, so that its pieces end with this error."""


async def unbroken(work: "asyncio.Future[T]", end: Callable[[], None] = lambda: None) -> T:
    """Return the result of ``work`` or raise its error.

    A cancellation calls ``end``, which makes the work end soon, and waits ENDING_S for it at most; the work continues
    until then, and without its caller after that.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_ignore)
        end()
        await asyncio.wait((work,), timeout=ENDING_S)
        raise


def _ignore(work: "asyncio.Future[T]") -> None:
    """Take the error of work whose caller was cancelled, for which no caller waits."""
    if not work.cancelled():
        work.exception()


class EndablePieces:
    """The pieces of an upload, ``head`` and those of ``pieces``, that end with an error once ``end`` was called.

    A library that iterates them from tasks of its own would otherwise wait for the next one for ever.
    """

    def __init__(self, head: Sequence[bytes], pieces: AsyncIterator[bytes]) -> None:
        self._head = list(head[::-1])
        self._pieces = pieces
        self._ended = False
        self._step: asyncio.Task[object] | None = None

    def __aiter__(self) -> "EndablePieces":
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise UploadEndedError
        if self._head:
            return self._head.pop()
        self._step = asyncio.current_task()
        try:
            return await anext(self._pieces)
        except asyncio.CancelledError:
            if self._ended:
                raise UploadEndedError from None
            raise
        finally:
            self._step = None

    def end(self) -> None:
        """End the pieces, also the one that is waited for."""
        self._ended = True
        if self._step is not None:
            self._step.cancel()
