"""Verified blocks of data objects in memory, and those that are read ahead, within one budget of a process.

A reader that reads on where it ended is read ahead of, each time further. Several blocks are one request. A block that
is being read is not requested again. When the budget is used up, the blocks used longest ago go first, and nothing is
read ahead while reads that are under way may use the rest.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from engine.base.tasks import TaskScope
from engine.offload.errors import ObjectStoreError

REQUEST_BYTES = 4 << 20
"""Bytes of one request, unless a single block has more."""
ENTRY_COST = 72
"""Bytes that the offsets of an entry take in memory."""


class ReadBlock(NamedTuple):
    """A verified block: its bytes, and where each of its entries begins and ends in them."""

    data: bytes
    spans: list[int]

    @property
    def cost(self) -> int:
        return len(self.data) + ENTRY_COST * (len(self.spans) >> 1)


class BlockSource(NamedTuple):
    """The blocks of one data object. ``key`` names it among all; ``ends``: offset behind each block; ``read`` returns
    the blocks from one number (inclusive) to another (exclusive)."""

    key: str
    ends: Sequence[int]
    read: Callable[[int, int], Awaitable[list[ReadBlock]]]

    def size(self, first: int, stop: int) -> int:
        """Return the bytes of the blocks ``first`` to ``stop``."""
        return self.ends[stop - 1] - (self.ends[first - 1] if first else 0)


Key = tuple[str, int]


class BlockCache:
    """The blocks of all data objects that a process reads. ``ahead_bytes``: how far a reader is read ahead of."""

    def __init__(self, bytes_max: int, ahead_bytes: int) -> None:
        self.bytes_max = bytes_max
        self.ahead_bytes = ahead_bytes
        self.bytes = 0
        self.under_way_bytes = 0
        self.hits = 0
        self.misses = 0
        self._kept: OrderedDict[Key, ReadBlock] = OrderedDict()
        self._under_way: dict[Key, asyncio.Task[list[ReadBlock]]] = {}
        self._tasks = TaskScope("tiered storage reads", lambda name, error: None)

    async def blocks(self, source: BlockSource, first: int, stop: int) -> list[ReadBlock]:
        """Return blocks ``first`` (inclusive) to ``stop`` (exclusive). Cancel-safe. Raises as ``source.read``."""
        blocks: list[ReadBlock] = []
        while (number := first + len(blocks)) < stop:
            key = source.key, number
            block = self._kept.get(key)
            if block is not None:
                self.hits += 1
                self._kept.move_to_end(key)
                blocks.append(block)
                continue
            self.misses += 1
            task = self._under_way.get(key)
            if task is None:
                blocks += await _result(self._request(source, number, stop))
            else:
                # When that request fails, the next round makes it again.
                await asyncio.wait([task])
        return blocks

    def read_ahead(self, source: BlockSource, number: int, bytes_max: int) -> None:
        """Request the blocks from ``number`` on, as far as ``bytes_max`` and the budget allow.

        Nothing is requested before half of them are missing, so that requests are few and large.
        """
        bytes_max = min(bytes_max, self.ahead_bytes)
        stop, count = number, len(source.ends)
        while stop < count and source.size(number, stop + 1) <= bytes_max:
            stop += 1
        while number < stop and self._has((source.key, number)):
            number += 1
        if number == stop or (stop < count and 2 * source.size(number, stop) < bytes_max):
            return
        for key in range(number, stop):
            if self.under_way_bytes + source.size(key, key + 1) > self.bytes_max // 2:
                return
            if not self._has((source.key, key)):
                self._request(source, key, stop)

    def _has(self, key: Key) -> bool:
        return key in self._kept or key in self._under_way

    def _request(
        self, source: BlockSource, number: int, stop: int
    ) -> "asyncio.Task[list[ReadBlock]]":
        """Begin to read blocks from ``number`` on, at least one, up to ``stop`` or the next that is known."""
        end = number + 1
        while (
            end < stop
            and not self._has((source.key, end))
            and source.size(number, end + 1) <= REQUEST_BYTES
        ):
            end += 1
        task = self._tasks.spawn(f"{source.key} {number}", self._read(source, number, end))
        self.under_way_bytes += source.size(number, end)
        task.add_done_callback(partial(self._ended, source, number, end))
        for key in range(number, end):
            self._under_way[source.key, key] = task
        return task

    async def _read(self, source: BlockSource, number: int, stop: int) -> list[ReadBlock]:
        blocks = await source.read(number, stop)
        for i, block in enumerate(blocks):
            self._keep((source.key, number + i), block)
        return blocks

    def _ended(
        self, source: BlockSource, number: int, stop: int, task: "asyncio.Task[list[ReadBlock]]"
    ) -> None:
        self.under_way_bytes -= source.size(number, stop)
        for key in range(number, stop):
            del self._under_way[source.key, key]

    def _keep(self, key: Key, block: ReadBlock) -> None:
        self._kept[key] = block
        self.bytes += block.cost
        while self.bytes > self.bytes_max and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.cost

    async def close(self) -> None:
        """End the reads that are under way and forget all blocks."""
        await self._tasks.close()
        self._kept.clear()
        self.bytes = 0


async def _result(task: "asyncio.Task[list[ReadBlock]]") -> list[ReadBlock]:
    """Wait for a shared request, which goes on when the caller is cancelled."""
    await asyncio.wait([task])
    if task.cancelled():
        raise ObjectStoreError("the reads of tiered storage have ended")
    return task.result()
