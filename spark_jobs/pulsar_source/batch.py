"""Read a range of a ledger: entries from the bookies, opened into columns, and those joined into rows for Spark."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.slices import Slice
from engine.ledger.errors import ReadError
from engine.wire.batches import BatchFormatError
from spark_jobs.pulsar_source.columns import ENTRIES, EntryColumns, Kind, Opened
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import connected

log = logging.getLogger(__name__)
READ_BYTES = 4 << 20
WAITS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0)
"""Between the attempts of a read that no replica answered."""
_TIMES = {"publish_time": "publish_ms", "event_time": "event_ms"}
_TIMESTAMP = pa.timestamp("us", tz="UTC")


def read_range(options: Options, one: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Rows of at most about columns.ROWS_MAX messages, with the columns of ``options``.

    Raises LedgerError when an entry of the range cannot be read, BatchFormatError when one is no Pulsar entry.
    """
    wanted = {_TIMES.get(name, name) for name in options.columns}
    for opened in open_range(options, one, wanted):
        if opened.problem:
            raise BatchFormatError(f"ledger {one.ledger_id}, {opened.problem}")
        yield rows(opened, one, options.columns)


def open_range(options: Options, one: LedgerRange, wanted: Collection[str]) -> Iterator[Opened]:
    """All entries of the range, with the ``wanted`` columns of messages. Connects when first asked, closes at the end.

    Raises LedgerError when an entry cannot be read; one that cannot be opened is among the entries as such.
    """
    with asyncio.Runner() as runner:
        found = _read(options, one, wanted)
        try:
            while (opened := runner.run(_next(found))) is not None:
                yield opened
        finally:
            runner.run(found.aclose())


async def _next(found: AsyncGenerator[Opened, None]) -> Opened | None:
    return await anext(found, None)


async def _read(
    options: Options, one: LedgerRange, wanted: Collection[str]
) -> AsyncGenerator[Opened, None]:
    async with connected(options.metadata_url) as (_, ledgers):
        reader = await ledgers.open(
            one.ledger_id, options.password, recover=False, unconfirmed=True
        )
        columns = EntryColumns(wanted)
        at = one.first
        while at <= one.last:
            # one read at a time: while rows are handed over nobody runs the loop, and a read under way would time out
            for run in await patiently(partial(reader.read, at, one.last, READ_BYTES)):
                for opened in columns.add(run):
                    yield opened
                at = run.first + run.count
        if not columns.empty:
            yield columns.take()


async def patiently(read: Callable[[], Awaitable[list[Slice]]]) -> list[Slice]:
    """The answer of ``read``, asked again while no replica gives it: a bookie that was restarted is back in seconds.

    Raises what ``read`` raises, a ReadError only after the last of WAITS_S.
    """
    for wait_s in WAITS_S:
        try:
            return await read()
        except ReadError as error:
            log.info("read again in %s s: %s", wait_s, error)
        await asyncio.sleep(wait_s)
    return await read()


def rows(opened: Opened, one: LedgerRange, names: Collection[str]) -> pa.RecordBatch:
    """One row per message; what is known of its entry is repeated."""
    of_message = pa.array(opened.entry_of_message())
    count = len(of_message)
    made = {
        "ledger_id": lambda: pa.repeat(pa.scalar(one.ledger_id, pa.int64()), count),
        "partition": lambda: pa.repeat(pa.scalar(one.partition, pa.int32()), count),
        "encrypted": lambda: _is(opened, Kind.ENCRYPTED).take(of_message),
        "sequence_id": lambda: opened.messages["sequence_id"].cast(pa.int64(), safe=False),
    }

    def column(name: str) -> Any:
        if name in made:
            return made[name]()
        kept = _TIMES.get(name, name)
        of_entry = kept in ENTRIES.names
        values = opened.entries[kept].take(of_message) if of_entry else opened.messages[kept]
        return pc.multiply(values, 1000).cast(_TIMESTAMP) if name in _TIMES else values

    return pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names))


def _is(opened: Opened, kind: Kind) -> Any:
    return pc.equal(opened.entries["kind"], pa.scalar(int(kind), pa.int8()))
