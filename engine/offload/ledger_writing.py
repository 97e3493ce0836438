"""Writing of a closed ledger as a data object and its index, both of which are verified before the copy counts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from engine.base.crc32c import crc32c
from engine.base.measures.byte_rate import ByteRate
from engine.base.measures.durations import Durations
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.reading.scan import Scan
from engine.offload.data_object import DataBlock, DataObjectWriter, WrittenBlock
from engine.offload.errors import DamagedObjectError, OffloadError
from engine.offload.index_object import ObjectIndex, encode_index
from engine.offload.object_names import ObjectName
from engine.offload.object_store import ObjectStore
from engine.offload.reading.object_reader import ObjectReader

BLOCK_BYTES = 1 << 20
"""Bytes of a block, which is read and verified as one."""
READ_BYTES = 512 << 10
"""Bytes of each of READS reads that are under way. What arrives of one is checked in one turn of the event loop."""
READS = 3
VERIFIED_BYTES = 4 << 20
"""Bytes that are read back at once."""
BUSY_S = 0.001
"""Time after which the loop runs a task again that is ready, from which it is busy."""
UNBOUNDED = ByteRate(0)


class ScannedLedger(Protocol):
    """A ledger whose entries are read in order."""

    ledger_id: int

    @property
    def metadata(self) -> LedgerMetadata: ...

    def scan(self, first: int, last: int, bytes_max: int, ranges: int = ...) -> Scan: ...


async def write_ledger(
    store: ObjectStore,
    name: ObjectName,
    ledger: ScannedLedger,
    attributes: Mapping[str, str],
    block_bytes: int = BLOCK_BYTES,
    *,
    rate: ByteRate = UNBOUNDED,
    written: Callable[[int], None] = lambda size: None,
    reads: Durations | None = None,
) -> ObjectIndex:
    """Write the data object and the index of ``ledger`` and read both back; return the index.

    ``rate`` bounds the bytes that are written; ``written`` is called with those of each block; ``reads`` collects the
    durations of reads of the ledger. Holds about READS + 1 reads and one block at a time. After an error or a
    cancellation either object may exist: the caller deletes them. Raises OffloadError for a ledger that is not closed
    or has no entries, DamagedObjectError when what is read back differs, ObjectStoreError, LedgerError.
    """
    metadata = ledger.metadata
    if metadata.state is not LedgerState.CLOSED or metadata.last_entry < 0:
        raise OffloadError(f"ledger {name.ledger_id} is empty or not closed")
    loop = asyncio.get_running_loop()
    writer = DataObjectWriter(block_bytes)
    blocks: list[DataBlock] = []
    checksums: list[int] = []

    def noted(complete: list[WrittenBlock]) -> list[bytes]:
        blocks.extend(written.block for written in complete)
        checksums.extend(crc32c(written.data) for written in complete)
        return [written.data for written in complete]

    async def paced(complete: list[WrittenBlock]) -> AsyncIterator[bytes]:
        for data in noted(complete):
            await rate.take(len(data))
            yield data
            written(len(data))
            # What clients wait for comes first: a busy loop is left to it for as long again.
            began = loop.time()
            await asyncio.sleep(0)
            if (waited := loop.time() - began) > BUSY_S:
                await asyncio.sleep(waited)

    async def pieces() -> AsyncIterator[bytes]:
        began = loop.time()
        async with ledger.scan(0, metadata.last_entry, READ_BYTES, READS) as scan:
            async for runs in scan:
                if reads is not None:
                    reads.add(loop.time() - began)
                for run in runs:
                    async for data in paced(writer.add(run)):
                        yield data
                began = loop.time()
        async for data in paced(writer.end()):
            yield data

    await store.put(name.data_key, pieces(), attributes)
    if (writer.next_entry, writer.payload) != (metadata.last_entry + 1, metadata.length):
        raise OffloadError(
            f"ledger {name.ledger_id}: read {writer.next_entry} entries of {writer.payload} bytes, "
            f"not {metadata.last_entry + 1} of {metadata.length}"
        )
    index = ObjectIndex(metadata, writer.written, tuple(blocks), tuple(checksums))
    await store.put(name.index_key, _once(encode_index(index)), attributes)
    reader = await ObjectReader.open(store, name)
    if reader.index.blocks != index.blocks or reader.index.checksums != index.checksums:
        raise DamagedObjectError(f"object {name.index_key}: another index was read than written")
    await reader.verify(VERIFIED_BYTES)
    return index


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
