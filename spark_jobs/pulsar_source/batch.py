"""Read a range of a ledger: entries from the bookies, opened into columns, and those joined into rows for Spark."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.ledger.errors import NoSuchEntryError, NoSuchLedgerError, ReadError
from engine.schema.offloader import Offloader
from engine.schema.stored_versions import StoredVersions
from engine.wire.batches import BatchFormatError
from spark_jobs.pulsar_source.columns import ENTRIES, EntryColumns, Kind, Opened
from spark_jobs.pulsar_source.decoded import Decoded, TopicSchemas
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.patience import patiently
from spark_jobs.pulsar_source.planning import connected, is_listed

log = logging.getLogger(__name__)
READ_BYTES = 4 << 20
_TIMES = {"publish_time": "publish_ms", "event_time": "event_ms"}
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class TrimmedError(Exception):
    """The topic let the rest of a range go after it was planned: everybody had acknowledged it, and retention kept it
    no longer. ``entries``: how many were not read."""

    def __init__(self, one: LedgerRange, at: int) -> None:
        self.entries = one.last - at + 1
        super().__init__(
            f"entries {at} to {one.last} of ledger {one.ledger_id} were trimmed while the topic was read: they were"
            " acknowledged, and retention keeps them no longer; to read what is left set option failOnDataLoss to false"
        )


def read_range(options: Options, one: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Rows of at most about columns.ROWS_MAX messages, with the columns of ``options``.

    Raises LedgerError when an entry of the range cannot be read, BatchFormatError when one is no Pulsar entry,
    TrimmedError when entries were trimmed meanwhile, unless the options say to go on without them.
    """
    try:
        yield from _rows_of_range(options, one)
    except TrimmedError as error:
        if options.fail_on_data_loss:
            raise
        log.warning("%s", error)


def _rows_of_range(options: Options, one: LedgerRange) -> Iterator[pa.RecordBatch]:
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

    Raises LedgerError when an entry cannot be read, and TrimmedError after those before it when it was trimmed; one
    that cannot be opened is among the entries as such.
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
        stored = StoredVersions(store, ledgers, Offloader())
        columns = EntryColumns(wanted)
        at = one.first
        trimmed: TrimmedError | None = None
        try:
            reader = await ledgers.open(
                one.ledger_id, options.password, recover=False, unconfirmed=True
            )
            while at <= one.last:
                # one read at a time: while rows are handed over nobody runs the loop, and a read under way would
                # time out
                for run in await patiently(partial(reader.read, at, one.last, READ_BYTES)):
                    for opened in columns.add(run):
                        if schemas is not None:
                            await schemas.know(opened, stored)
                        yield opened
                    at = run.first + run.count
        except (NoSuchLedgerError, NoSuchEntryError, ReadError) as error:
            if await is_listed(store, ledgers, options, one):
                raise
            trimmed = TrimmedError(one, at)
            trimmed.__cause__ = error
        if not columns.empty:
            opened = columns.take()
            if schemas is not None:
                await schemas.know(opened, stored)
            yield opened
        if trimmed is not None:
            raise trimmed


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
