"""Filters of a batch query, applied where they save work: to ranges, to entries, and to rows before Spark gets them.

Spark applies every filter again, so what is not understood here is only not faster. Pure.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from spark_jobs.pulsar_source.partitions import LedgerRange

NUMBER_MAX = 1 << 64
_COMPARED: dict[type[Filter], Callable[..., Any]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_FILTERED = {"publish_ms", "event_ms", "key", "sequence_id", "batch_index"}
"""Columns whose rows are filtered, besides those of time; the others are the same for a range or few rows."""
_TIMES = {"publish_time", "event_time", "__publishTime", "__eventTime"}
_PUBLISHED = {"publish_time", "publish_ms", "__publishTime"}
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class RowFilter(NamedTuple):
    """A comparison of a column with a value; a collection of values for ``In``."""

    column: str
    kind: type[Filter]
    value: Any


def understood(filters: Iterable[Filter]) -> list[RowFilter]:
    """Return the filters that can be applied here. Times without a zone are left to Spark."""
    known = []
    condition: Any
    for condition in filters:
        if type(condition) not in (*_COMPARED, In) or len(condition.attribute) != 1:
            continue
        [column] = condition.attribute
        value = condition.value
        if column in _TIMES and not (isinstance(value, datetime) and value.tzinfo is not None):
            continue
        known.append(RowFilter(column, type(condition), value))
    return known


def published_between(filters: Iterable[RowFilter]) -> tuple[int, int] | None:
    """Return the first and last time of publication that the filters leave, in ms since the epoch; None for all."""
    low, high = 0, NUMBER_MAX
    for column, kind, value in filters:
        if column not in _PUBLISHED or kind is In:
            continue
        ms = (value - _EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value
        if kind in (EqualTo, GreaterThan, GreaterThanOrEqual):
            low = max(low, ms)
        if kind in (EqualTo, LessThan, LessThanOrEqual):
            high = min(high, ms)
    return None if (low, high) == (0, NUMBER_MAX) else (low, high)


def narrowed(ranges: Iterable[LedgerRange], filters: Iterable[RowFilter]) -> list[LedgerRange]:
    """Return what the filters of topic, partition and ids leave of ``ranges``."""
    kept = list(ranges)
    for column, kind, value in filters:
        values = set(value) if kind is In else {value}
        if column in ("topic", "__topic") and kind in (EqualTo, In):
            kept = [part for part in kept if part.topic in values]
        elif column == "partition" and kind in (EqualTo, In):
            kept = [part for part in kept if part.partition in values]
        elif column in ("ledger_id", "entry_id") and kind is not In:
            low = value + (kind is GreaterThan)
            high = value - (kind is LessThan)
            if kind in (GreaterThan, GreaterThanOrEqual):
                high = NUMBER_MAX
            if kind in (LessThan, LessThanOrEqual):
                low = 0
            if column == "ledger_id":
                kept = [part for part in kept if low <= part.ledger_id <= high]
            else:
                kept = [cut for part in kept if (cut := _cut(part, low, high)).entries > 0]
    return kept


def _cut(part: LedgerRange, low: int, high: int) -> LedgerRange:
    first, last = max(part.first, low), min(part.last, high)
    size = part.size * max(last + 1 - first, 0) // max(part.entries, 1)
    return replace(part, first=first, last=last, size=size)


def filtered(rows: pa.RecordBatch, filters: Iterable[RowFilter]) -> pa.RecordBatch:
    """Return the rows that the filters leave. A comparison with null leaves none, as in SQL."""
    for column, kind, value in filters:
        if column not in rows.schema.names or column not in _FILTERED | _TIMES:
            continue
        values = rows[column]
        if kind is In:
            mask = pc.is_in(values, pa.array(list(value), values.type))
        else:
            mask = _COMPARED[kind](values, pa.scalar(value, values.type))
        rows = rows.filter(mask)
    return rows
