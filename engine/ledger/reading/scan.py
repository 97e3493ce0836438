"""Sequential reads ahead: a few ranges of a ledger are read while the caller works on the first."""

import asyncio
from collections import deque
from typing import Protocol, Self

from engine.base.errors import MisuseError
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerError


class Ranges(Protocol):
    """The part of a ledger's reader that a scan uses."""

    ledger_id: int

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]: ...

    def entries_in(self, size: int) -> int: ...


class Scan:
    """An asynchronous iterator over lists of slices, contiguous and in order; created by ``LedgerReader.scan``.

    About ``ranges`` times ``bytes_max`` bytes are held or being read at most. Where a read returned fewer entries than
    estimated, the rest of its range is read before the next range is returned. Raises what ``LedgerReader.read``
    raises, at the range that failed; a caller that continues reads that range again. Use it as a context manager: its
    end, also by cancellation, stops all reads.
    """

    def __init__(self, reader: Ranges, first: int, last: int, bytes_max: int, ranges: int) -> None:
        if ranges < 1 or bytes_max < 1:
            raise MisuseError(
                f"a scan needs ranges and bytes_max of at least 1, not {ranges}, {bytes_max}"
            )
        self._reader = reader
        self._at = self._ahead = first
        self._last = last
        self._bytes_max = bytes_max
        self._ranges = ranges
        self._begun = False
        self._tasks = TaskScope(f"scan of ledger {reader.ledger_id}", lambda _name, _error: None)
        self._reading: deque[tuple[int, int, asyncio.Task[list[Slice]] | None]] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Slice]:
        if self._at > self._last:
            raise StopAsyncIteration
        self._fill()
        first, stop, task = self._reading[0]
        if task is None:
            task = self._start(first, stop)[2]
        try:
            slices = await asyncio.shield(task)
        except LedgerError:
            self._reading[0] = first, stop, None  # read again when the caller continues
            raise
        self._reading.popleft()
        self._begun = True
        self._at = slices[-1].first + slices[-1].count
        if self._at < stop:
            self._reading.appendleft(self._start(self._at, stop))
        self._fill()
        return slices

    def _fill(self) -> None:
        """Start reading as many ranges as allowed. The first one is read alone, to learn how large entries are."""
        most = self._ranges if self._begun else 1
        while len(self._reading) < most and self._ahead <= self._last:
            stop = min(self._ahead + self._reader.entries_in(self._bytes_max), self._last + 1)
            self._reading.append(self._start(self._ahead, stop))
            self._ahead = stop

    def _start(self, first: int, stop: int) -> tuple[int, int, asyncio.Task[list[Slice]]]:
        read = self._reader.read(first, stop - 1, self._bytes_max * 2)
        return first, stop, self._tasks.spawn(f"entries from {first}", read)
