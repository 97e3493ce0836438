"""Read a range of a ledger: entries from the bookies, opened into columns, and those joined into rows for Spark."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.schema.apart import Apart
from engine.schema.stored_versions import StoredVersions
from engine.wire.batches import BatchFormatError
from spark_jobs.pulsar_source.columns import ENTRIES, EntryColumns, Kind, Opened
from spark_jobs.pulsar_source.decoded import Decoded, TopicSchemas
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.patience import patiently
from spark_jobs.pulsar_source.planning import connected

READ_BYTES = 4 << 20
_TIMES = {"publish_time": "publish_ms", "event_time": "event_ms"}
_TIMESTAMP = pa.timestamp("us", tz="UTC")


def read_range(options: Options, one: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Rows of at most about columns.ROWS_MAX messages, with the columns of ``options``.

    Raises LedgerError when an entry of the range cannot be read, BatchFormatError when one is no Pulsar entry.
    """
    wanted = {_TIMES.get(name, name) for name in options.columns}
    schemas = None
    if {"decoded", "decode_error"} & wanted:
        schemas = TopicSchemas(options.topic)
        wanted |= schemas.wanted
    for opened in open_range(options, one, wanted, schemas):
        if opened.problem:
            raise BatchFormatError(f"ledger {one.ledger_id}, {opened.problem}")
        if schemas is None:
            yield rows(opened, one, options.columns)
        else:
            for start, decoded in schemas.decoded(opened):
                yield rows(opened, one, options.columns, start, decoded)


def open_range(
    options: Options,
    one: LedgerRange,
    wanted: Collection[str],
    schemas: TopicSchemas | None = None,
) -> Iterator[Opened]:
    """All entries of the range, with the ``wanted`` columns of messages. Connects when first asked, closes at the end.
    ``schemas`` are made to know the versions of what is handed over.

    Raises LedgerError when an entry cannot be read; one that cannot be opened is among the entries as such.
    """
    with asyncio.Runner() as runner:
        found = _read(options, one, wanted, schemas)
        try:
            while (opened := runner.run(_next(found))) is not None:
                yield opened
        finally:
            runner.run(found.aclose())


async def _next(found: AsyncGenerator[Opened, None]) -> Opened | None:
    return await anext(found, None)


async def _read(
    options: Options, one: LedgerRange, wanted: Collection[str], schemas: TopicSchemas | None
) -> AsyncGenerator[Opened, None]:
    async with connected(options.metadata_url) as (store, ledgers):
        reader = await ledgers.open(
            one.ledger_id, options.password, recover=False, unconfirmed=True
        )
        stored = StoredVersions(store, ledgers, Apart())
        columns = EntryColumns(wanted)
        at = one.first
        while at <= one.last:
            # one read at a time: while rows are handed over nobody runs the loop, and a read under way would time out
            for run in await patiently(partial(reader.read, at, one.last, READ_BYTES)):
                for opened in columns.add(run):
                    if schemas is not None:
                        await schemas.know(opened, stored)
                    yield opened
                at = run.first + run.count
        if not columns.empty:
            opened = columns.take()
            if schemas is not None:
                await schemas.know(opened, stored)
            yield opened


def rows(
    opened: Opened,
    one: LedgerRange,
    names: Collection[str],
    start: int = 0,
    decoded: Decoded | None = None,
) -> pa.RecordBatch:
    """One row per message, from ``start`` on as many as are ``decoded``, or all; what is known of its entry is
    repeated."""
    positions, messages = opened.entry_of_message(), opened.messages
    if decoded is not None:
        stop = start + len(decoded.values)
        positions, messages = positions[start:stop], messages.slice(start, stop - start)
    of_message = pa.array(positions)
    count = len(of_message)
    made = {
        "ledger_id": lambda: pa.repeat(pa.scalar(one.ledger_id, pa.int64()), count),
        "partition": lambda: pa.repeat(pa.scalar(one.partition, pa.int32()), count),
        "encrypted": lambda: _is(opened, Kind.ENCRYPTED).take(of_message),
        "sequence_id": lambda: messages["sequence_id"].cast(pa.int64(), safe=False),
        "decoded": lambda: pa.array(decoded.values if decoded else (), pa.string()),
        "decode_error": lambda: pa.array(decoded.errors if decoded else (), pa.string()),
    }

    def column(name: str) -> Any:
        if name in made:
            return made[name]()
        kept = _TIMES.get(name, name)
        of_entry = kept in ENTRIES.names
        values = opened.entries[kept].take(of_message) if of_entry else messages[kept]
        return pc.multiply(values, 1000).cast(_TIMESTAMP) if name in _TIMES else values

    return pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names))


def _is(opened: Opened, kind: Kind) -> Any:
    return pc.equal(opened.entries["kind"], pa.scalar(int(kind), pa.int8()))
