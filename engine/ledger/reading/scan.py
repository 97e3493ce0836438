"""Sequential reading at full speed: a few ranges of a ledger are under way while the first is worked on."""

import asyncio
from collections import deque
from typing import Protocol, Self

from engine.base.errors import MisuseError
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerError


class Ranges(Protocol):
    """What a scan needs of the ledger's reader."""

    ledger_id: int

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]: ...

    def entries_in(self, size: int) -> int: ...


class Scan:
    """An asynchronous iterator over lists of slices, contiguous, in order; made by ``LedgerReader.scan``.

    At most ``ranges`` times about ``bytes_max`` bytes are held or under way. Where a range came shorter than guessed
    its rest is read before the next is given. Raises what ``LedgerReader.read`` raises, at the range that failed; who
    goes on then asks for it again. Use it as a context manager: its end, also by cancellation, stops all reads.
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
        self._under_way: deque[tuple[int, int, asyncio.Task[list[Slice]] | None]] = deque()

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
        first, stop, task = self._under_way[0]
        if task is None:
            task = self._start(first, stop)[2]
        try:
            slices = await asyncio.shield(task)
        except LedgerError:
            self._under_way[0] = first, stop, None  # asked for again when the caller asks again
            raise
        self._under_way.popleft()
        self._begun = True
        self._at = slices[-1].first + slices[-1].count
        if self._at < stop:
            self._under_way.appendleft(self._start(self._at, stop))
        self._fill()
        return slices

    def _fill(self) -> None:
        """Start as many ranges as may be under way. The first goes alone: it tells how large entries are."""
        most = self._ranges if self._begun else 1
        while len(self._under_way) < most and self._ahead <= self._last:
            stop = min(self._ahead + self._reader.entries_in(self._bytes_max), self._last + 1)
            self._under_way.append(self._start(self._ahead, stop))
            self._ahead = stop

    def _start(self, first: int, stop: int) -> tuple[int, int, asyncio.Task[list[Slice]]]:
        work = self._reader.read(first, stop - 1, self._bytes_max * 2)
        return first, stop, self._tasks.spawn(f"entries from {first}", work)
