"""The messages of a selection as a DataFrame, whose query reports progress.

Each task reads one planned range straight from the bookies. What cannot be read does not end the query: the column
``unread`` gives its reason, so that an analysis counts it.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.jobs.kit.progress import PLANNING, Progress, counted
from spark_jobs.pulsar_source.batch import TrimmedError, open_range, rows
from spark_jobs.pulsar_source.columns import EntryKind
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.options import OptionError, Options, column_type
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics

log = logging.getLogger(__name__)
UNREAD = {"unread": "string", "unread_entries": "bigint"}
"""Columns that are present only when they are named: rows of entries that could not be read.

``unread``: null for a message; else UNREADABLE or TRIMMED. ``unread_entries``: number of such entries from ``entry_id``
on. The other columns of such a row, but for its ledger and partition, are null.
"""
UNREADABLE = "unreadable"
TRIMMED = "trimmed"
_MS_OF = {"event_time": "event_ms"}
_ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string, string>": pa.map_(pa.string(), pa.string()),
}


def sql_type(name: str) -> str:
    """Return the SQL type of a column of ``messages``."""
    return UNREAD[name] if name in UNREAD else column_type(name)


def sql_schema(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} {sql_type(name)}" for name in columns)


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, _ARROW[sql_type(name)]) for name in columns])


@contextmanager
def messages(
    spark: Any, options: Options, columns: Sequence[str], progress: Progress
) -> Iterator[Any]:
    """Yield a DataFrame with a row per message of the selection; the one query within the context reports progress.

    ``columns``: names of the source's columns, and of UNREAD. Raises OptionError when the selection has no messages.
    """
    planned = planned_of(options, progress)
    with counted(spark, progress, len(planned)):
        yield frame(spark, options, planned, columns)


def planned_of(options: Options, progress: Progress) -> list[LedgerRange]:
    """Return the ranges of the selection. Raises OptionError when there are none."""
    progress(PLANNING, 0, 0)
    planned = plan_topics(options)
    if not planned:
        raise OptionError("the selected topics hold no messages")
    return planned


def frame(
    spark: Any, options: Options, planned: Sequence[LedgerRange], columns: Sequence[str]
) -> Any:
    """Return a DataFrame with a row per message of ``planned``, one task for each of them."""

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from rows_of_range(options, planned[number], columns)

    return spark.range(0, len(planned), 1, len(planned)).mapInArrow(of_tasks, sql_schema(columns))


def rows_of_range(
    options: Options, ledger_range: LedgerRange, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range in topic order, with ``columns``. Raises LedgerError when an entry that the topic
    still has cannot be read."""
    of_source = [name for name in columns if name not in UNREAD]
    wanted = {_MS_OF.get(name, name) for name in of_source}
    schemas = None
    if {"decoded", "decode_error"} & wanted:
        schemas = TopicSchemas(ledger_range.topic)
        wanted |= schemas.wanted
    unread: list[tuple[int, str, int]] = []
    try:
        for opened in open_range(options, ledger_range, wanted, schemas):
            if schemas is None:
                yield _widened(rows(opened, ledger_range, of_source), columns)
            else:
                for start, decoded in schemas.decoded(opened):
                    part = rows(opened, ledger_range, of_source, start, decoded)
                    yield _widened(part, columns)
            if opened.problem:
                unreadable = pc.equal(opened.entries["kind"], int(EntryKind.UNREADABLE))
                ids = opened.entries["entry_id"].filter(unreadable).to_pylist()
                unread += [(entry_id, UNREADABLE, 1) for entry_id in ids]
    except TrimmedError as error:
        unread.append((ledger_range.last - error.entries + 1, TRIMMED, error.entries))
    if unread and "unread" in columns:
        yield _unread(ledger_range, columns, unread)
    elif unread:
        log.warning("ledger %d: entries not read: %s", ledger_range.ledger_id, unread[:10])


def _widened(part: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the rows with all ``columns``; those of UNREAD are null."""
    if part.num_columns == len(columns):
        return part
    arrays = [
        pa.nulls(part.num_rows, _ARROW[UNREAD[name]]) if name in UNREAD else part[name]
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _unread(
    ledger_range: LedgerRange, columns: Sequence[str], unread: Sequence[tuple[int, str, int]]
) -> pa.RecordBatch:
    """Return a row for each of ``unread``: first entry, reason, number of entries."""
    known = {
        "ledger_id": [ledger_range.ledger_id] * len(unread),
        "partition": [ledger_range.partition] * len(unread),
        "entry_id": [first for first, _, _ in unread],
        "unread": [reason for _, reason, _ in unread],
        "unread_entries": [entries for _, _, entries in unread],
    }
    schema = arrow_schema(columns)
    arrays = [pa.array(known.get(field.name, [None] * len(unread)), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
