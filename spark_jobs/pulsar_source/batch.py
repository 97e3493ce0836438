"""Read a range of a ledger into Arrow batches: entries from the bookies, messages out of entries."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import pyarrow as pa

from engine.ledger.client import LedgerClient
from engine.wire.batches import EntryMessages, unpack_entry
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import connected

READ_BYTES = 4 << 20
ROWS_MAX = 20_000
BYTES_MAX = 16 << 20
ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("batch_index", pa.int32()),
        ("batch_size", pa.int32()),
        ("partition", pa.int32()),
        ("producer_name", pa.string()),
        ("sequence_id", pa.int64()),
        ("publish_ms", pa.int64()),
        ("value_bytes", pa.int64()),
        ("entry_bytes", pa.int64()),
        ("payload_bytes", pa.int64()),
        ("packed_bytes", pa.int64()),
        ("compression", pa.string()),
    ]
)


def read_range(options: Options, one: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Batches of at most ROWS_MAX rows and about BYTES_MAX bytes. Connects when first asked, closes at the end.

    Raises LedgerError when an entry of the range cannot be read, BatchFormatError when one is no Pulsar entry.
    """
    with asyncio.Runner() as runner:
        batches = _read(options, one)
        try:
            while (batch := runner.run(_next(batches))) is not None:
                yield batch
        finally:
            runner.run(batches.aclose())


async def _next(batches: AsyncGenerator[pa.RecordBatch, None]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def _read(options: Options, one: LedgerRange) -> AsyncGenerator[pa.RecordBatch, None]:
    async with connected(options.metadata_url) as (_, ledgers):
        rows = _Rows(one)
        async for entry_id, entry in _entries(ledgers, options, one):
            rows.add(entry_id, entry)
            if rows.full:
                yield rows.take()
        if rows.count:
            yield rows.take()


async def _entries(
    ledgers: LedgerClient, options: Options, one: LedgerRange
) -> AsyncIterator[tuple[int, bytes]]:
    reader = await ledgers.open(one.ledger_id, options.password, recover=False, unconfirmed=True)
    at = one.first
    while at <= one.last:
        for run in await reader.read(at, one.last, READ_BYTES):
            for i in range(run.count):
                yield run.first + i, run.entry(i)
            at = run.first + run.count


class _Rows:
    """Columns of the batch that is being filled."""

    def __init__(self, one: LedgerRange) -> None:
        self._range = one
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._bytes = 0
        self._columns: dict[str, list[Any]] = {name: [] for name in ARROW_SCHEMA.names}

    @property
    def full(self) -> bool:
        return self.count >= ROWS_MAX or self._bytes >= BYTES_MAX

    def add(self, entry_id: int, entry: bytes) -> None:
        """One row per message of the entry."""
        unpacked: EntryMessages = unpack_entry(entry)
        columns = self._columns
        batched = unpacked.batched
        for index, message in enumerate(unpacked.messages):
            row = (
                message.key,
                message.value,
                list(message.properties.items()),
                unpacked.publish_ms * 1000,
                message.event_ms * 1000 if message.event_ms else None,
                self._range.ledger_id,
                entry_id,
                index if batched else -1,
                len(unpacked.messages),
                self._range.partition,
                unpacked.producer_name,
                message.sequence_id,
                unpacked.publish_ms,
                len(message.value or b""),
                len(entry),
                unpacked.payload_bytes,
                unpacked.packed_bytes,
                unpacked.compression,
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        self.count += len(unpacked.messages)
        self._bytes += len(entry)

    def take(self) -> pa.RecordBatch:
        """The filled batch; filling starts over."""
        arrays = [pa.array(self._columns[f.name], f.type) for f in ARROW_SCHEMA]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
