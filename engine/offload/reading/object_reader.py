"""Reads of a ledger's entries from its data object.

A data object with checksums is read by whole blocks, each of which is verified (U2), through a cache that also reads
ahead where there is one. An object without, which another implementation wrote, may have blocks of many megabytes: it
is read in ranges, and the offsets at which ranges ended are kept so that the next read need not search from the block's
beginning. Bytes that are not as expected are requested once more: an answer may be damaged where the object is not.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self, TypeVar

from engine.base.crc32c import crc32c
from engine.base.errors import MisuseError
from engine.base.slices import Slice
from engine.ledger.errors import NoSuchEntryError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.offload.data_object import (
    HEADER_BYTES,
    DataBlock,
    check_header,
    take_entries,
)
from engine.offload.errors import DamagedObjectError
from engine.offload.index_object import ObjectIndex, decode_index
from engine.offload.object_names import ObjectName, check_attributes
from engine.offload.object_store import ObjectStore
from engine.offload.reading.block_cache import BlockCache, BlockSource, ReadBlock

log = logging.getLogger(__name__)

RANGE_BYTES = 1 << 20
"""Bytes that are read at least in one range of a block without a checksum."""
PLACES_MAX = 1024
"""Offsets of entries that are kept of one data object, besides those of its blocks."""
ENTRIES_AT_ONCE = 1024
"""Entries whose places are found in one turn of the event loop."""
ATTEMPTS = 2
"""Requests for bytes that are not as expected."""
AHEAD_MIN = 1 << 20
"""Bytes read ahead of a reader that begins to read on; doubled with each read."""
STREAMS_MAX = 16
"""Readers of one object that read on, of which the places are kept."""
T = TypeVar("T")


async def _repeated(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``read``, which is called ATTEMPTS times at most while it finds damage."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await read()
        except DamagedObjectError as error:
            log.warning("bytes of tiered storage are requested once more error=%s", error)
    return await read()


async def read_index(store: ObjectStore, name: ObjectName) -> ObjectIndex:
    """Read the index of a data object. Raises MissingObjectError, DamagedObjectError, ObjectStoreError."""
    return await _repeated(partial(_read_index, store, name))


async def _read_index(store: ObjectStore, name: ObjectName) -> ObjectIndex:
    stored = await store.get(name.index_key)
    if store.keeps_attributes:
        check_attributes(name.index_key, stored.attributes)
    return decode_index(stored.data)


class ObjectReader:
    """Reader of entries 0 to ``last_confirmed`` of one ledger in tiered storage, as ``LedgerReader`` is of bookies."""

    def __init__(
        self,
        store: ObjectStore,
        name: ObjectName,
        index: ObjectIndex,
        cache: BlockCache | None = None,
    ) -> None:
        self.ledger_id = name.ledger_id
        self._store = store
        self._key = name.data_key
        self.index = index
        self._firsts = [block.first for block in index.blocks]
        self._ends = [*(block.offset for block in index.blocks[1:]), index.data_bytes]
        self._places: dict[int, int] = {}
        """Offsets at which ranges began or ended, by the id of the entry there; least recently found first."""
        self._cache = cache
        self._source = BlockSource(self._key, self._ends, self._read_verified)
        self._streams = {0: AHEAD_MIN}
        """Bytes to read ahead of those who read on, by the entry at which they continue; least recently used first."""

    @classmethod
    async def open(
        cls, store: ObjectStore, name: ObjectName, cache: BlockCache | None = None
    ) -> Self:
        """Open a data object by its index; ``cache`` keeps blocks and reads ahead. Raises as ``read_index``."""
        return cls(store, name, await read_index(store, name), cache)

    @property
    def metadata(self) -> LedgerMetadata:
        return self.index.metadata

    @property
    def last_confirmed(self) -> int:
        return self.index.metadata.last_entry

    def confirm(self, entry_id: int) -> None:
        """Do nothing: the ledger is closed, and its last entry is known."""

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries from ``first`` on: at least one, at most to ``last``.

        Fewer are read when ``bytes_max`` is about reached. Raises NoSuchEntryError when ``first`` is beyond
        ``last_confirmed``, MissingObjectError, DamagedObjectError, ObjectStoreError. Cancel-safe.
        """
        if first < 0 or last < first:
            raise MisuseError(f"read of entries {first} to {last}")
        if first > self.last_confirmed:
            raise NoSuchEntryError(
                f"entry {first} of ledger {self.ledger_id} is beyond {self.last_confirmed}"
            )
        last = min(last, self.last_confirmed)
        at = bisect_right(self._firsts, first) - 1
        if self.index.checksums:
            return await self._read_blocks(at, first, last, bytes_max)
        return await _repeated(partial(self._read_part, at, first, last, bytes_max))

    async def verify(self, bytes_max: int) -> None:
        """Read all blocks and compare their checksums, about ``bytes_max`` at once. Raises as ``read``."""
        if not self.index.checksums:
            raise MisuseError(f"object {self._key} has no checksums")
        at = 0
        while at < len(self._firsts):
            stop = self._stop(at, self.last_confirmed, bytes_max)
            await self._verified(at, stop)
            at = stop

    def _stop(self, at: int, last: int, bytes_max: int) -> int:
        """Return the index behind the blocks from ``at`` on, at least one, with entries up to ``last`` and about
        ``bytes_max``."""
        stop = at + 1
        start = self.index.blocks[at].offset
        while (
            stop < len(self._firsts)
            and self._firsts[stop] <= last
            and self._ends[stop] - start <= bytes_max
        ):
            stop += 1
        return stop

    async def _verified(self, at: int, stop: int) -> list[bytes]:
        """Return blocks ``at`` (inclusive) to ``stop`` (exclusive), compared with their checksums."""
        return await _repeated(partial(self._compared, at, stop))

    async def _compared(self, at: int, stop: int) -> list[bytes]:
        blocks = self.index.blocks[at:stop]
        bounds = [*(block.offset for block in blocks), self._ends[stop - 1]]
        # Ranges have buffers of their own, so that a block in memory does not keep its neighbours there.
        parts = await self._store.get_ranges(self._key, bounds)
        for i, part in enumerate(parts, at):
            if crc32c(part) != self.index.checksums[i]:
                raise self._damage(f"block {self.index.blocks[i].part} has another checksum")
            # A turn of the event loop has the work of one block, because clients wait for its end.
            await asyncio.sleep(0)
        return parts

    async def _read_verified(self, at: int, stop: int) -> list[ReadBlock]:
        """Return blocks ``at`` (inclusive) to ``stop`` (exclusive), each with the places of its entries."""
        read = []
        for i, part in enumerate(await self._verified(at, stop), at):
            block, below = self.index.blocks[i], self._below(i)
            spans: list[int] = []
            entry_id, end = block.first, HEADER_BYTES
            while entry_id < below:
                count = min(below - entry_id, ENTRIES_AT_ONCE)
                try:
                    taken = take_entries(part, end, entry_id, count)
                except DamagedObjectError as error:
                    raise self._damage(str(error)) from error
                if len(taken.spans) != 2 * count:
                    raise self._damage(f"block {block.part} ends before entry {below - 1}")
                spans += taken.spans
                entry_id, end = entry_id + count, taken.end
                await asyncio.sleep(0)
            read.append(ReadBlock(part, spans))
        return read

    async def _read_blocks(self, at: int, first: int, last: int, bytes_max: int) -> list[Slice]:
        stop = self._stop(at, last, bytes_max)
        end = min(last + 1, self._below(stop - 1))
        if self._cache is None:
            read = await self._read_verified(at, stop)
        else:
            self._read_ahead(self._cache, first, end, stop)
            read = await self._cache.blocks(self._source, at, stop)
        runs = []
        for i, block in enumerate(read, at):
            start, below = self._firsts[i], self._below(i)
            low, high = max(first, start), min(end, below)
            spans = block.spans
            if high - low < below - start:
                spans = spans[2 * (low - start) : 2 * (high - start)]
            runs.append(self._slice(block.data, spans, low))
        return runs

    def _read_ahead(self, cache: BlockCache, first: int, end: int, stop: int) -> None:
        """Read ahead from block ``stop`` on if another read ended where this one begins; it ends before ``end``."""
        ahead = self._streams.pop(first, 0)
        self._streams[end] = min(2 * ahead, cache.ahead_bytes) if ahead else AHEAD_MIN
        if len(self._streams) > STREAMS_MAX:
            del self._streams[next(iter(self._streams))]
        if ahead:
            cache.read_ahead(self._source, stop, ahead)

    async def _read_part(self, at: int, first: int, last: int, bytes_max: int) -> list[Slice]:
        block, below = self.index.blocks[at], self._below(at)
        entry_id, offset = self._nearest(block, first)
        wanted = max(bytes_max, RANGE_BYTES)
        while True:
            end = min(offset + wanted, self._ends[at])
            [data] = await self._store.get_ranges(self._key, (offset, end))
            start = 0
            try:
                if offset == block.offset:
                    check_header(data, block)
                    start = HEADER_BYTES
                taken = take_entries(data, start, entry_id, min(below, last + 1) - entry_id)
            except DamagedObjectError as error:
                raise self._damage(str(error)) from error
            count = len(taken.spans) >> 1
            if not count:
                # The entry is larger than the range, or it is not there.
                wanted *= 2
                if end == self._ends[at]:
                    raise self._damage(f"block {block.part} ends before entry {entry_id}")
                continue
            self._note(entry_id + count, offset + taken.end)
            if entry_id + count > first:
                return [self._slice(data, taken.spans[2 * (first - entry_id) :], first)]
            entry_id += count
            offset += taken.end

    def _nearest(self, block: DataBlock, entry_id: int) -> tuple[int, int]:
        """Return the nearest known entry of ``block`` at or before ``entry_id``, and where its bytes begin; for the
        block's first entry where its header begins."""
        near = block.first, block.offset
        for known, offset in self._places.items():
            if near[0] < known <= entry_id:
                near = known, offset
        return near

    def _note(self, entry_id: int, offset: int) -> None:
        self._places[entry_id] = offset
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def _below(self, at: int) -> int:
        """Return the id behind the last entry of block ``at``."""
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self.last_confirmed + 1

    def _damage(self, text: str) -> DamagedObjectError:
        return DamagedObjectError(f"object {self._key}: {text}")

    def _slice(self, data: bytes, spans: list[int], first: int) -> Slice:
        size = sum(spans[1::2]) - sum(spans[::2])
        return Slice(data, spans, size, ledger_id=self.ledger_id, first=first)
