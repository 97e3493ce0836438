"""Filters of a query: the ranges, entries and rows that they leave, and what is left to Spark."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from engine.wire.batches import Message, pack_entry
from spark_jobs.pulsar_source.columns import EntryColumns
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.pushdown import (
    filtered,
    narrowed,
    published_between,
    understood,
)
from spark_jobs.pulsar_source.source import PulsarReader
from tests.support.ledger_cluster import run_of

AT = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
RANGES = [LedgerRange(ledger, 0, 9, part, f"t{part}") for ledger, part in ((3, 0), (5, 1), (7, 0))]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (EqualTo(("ledger_id",), 5), [(5, 0, 9)]),
        (GreaterThan(("ledger_id",), 5), [(7, 0, 9)]),
        (GreaterThanOrEqual(("ledger_id",), 5), [(5, 0, 9), (7, 0, 9)]),
        (LessThan(("ledger_id",), 5), [(3, 0, 9)]),
        (LessThanOrEqual(("entry_id",), 1), [(3, 0, 1), (5, 0, 1), (7, 0, 1)]),
        (GreaterThan(("entry_id",), 8), [(3, 9, 9), (5, 9, 9), (7, 9, 9)]),
        (EqualTo(("entry_id",), 20), []),
        (EqualTo(("partition",), 0), [(3, 0, 9), (7, 0, 9)]),
        (In(("topic",), ("t1", "t2")), [(5, 0, 9)]),
        (StringContains(("key",), "x"), [(3, 0, 9), (5, 0, 9), (7, 0, 9)]),
    ],
)
def test_filters_of_ids_become_ranges(given: Filter, left: list[tuple[int, int, int]]) -> None:
    kept = narrowed(RANGES, understood([given]))
    assert [(part.ledger_id, part.first, part.last) for part in kept] == left


def test_filters_of_publish_times_bound_the_entries() -> None:
    both = [GreaterThanOrEqual(("publish_time",), AT), LessThan(("__publishTime",), AT)]
    assert published_between(understood(both)) == (5000, 5000)
    assert published_between(understood([EqualTo(("publish_ms",), 7)])) == (7, 7)
    naive = GreaterThan(("publish_time",), AT.replace(tzinfo=None))
    assert published_between(understood([naive, EqualTo(("event_time",), AT)])) is None


def test_entries_published_at_other_times_are_not_opened() -> None:
    columns = EntryColumns(("value", "key"), (2, 3))
    parts = [
        pack_entry([Message(b"x")], producer_name="p", publish_ms=ms, batched=False, compression=0)
        for ms in (1, 2, 3, 4)
    ]
    assert list(columns.add(run_of(*parts))) == []
    opened = columns.take()
    assert opened.messages.num_rows == 2
    assert opened.entries["rows"].to_pylist() == [0, 1, 1, 0]


def test_rows_are_filtered_before_spark_gets_them() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"key": ["a", "b", None, "a"], "event_ms": pa.array([1, 2, 3, None], pa.int64())}
    )
    kept = filtered(rows, understood([EqualTo(("key",), "a"), LessThan(("event_ms",), 5)]))
    assert kept.to_pylist() == [{"key": "a", "event_ms": 1}]
    kept = filtered(rows, understood([In(("key",), ("b", "c"))]))
    assert kept["event_ms"].to_pylist() == [2]


def test_all_filters_are_left_to_spark_too() -> None:
    reader = PulsarReader({"topic": "x", "metadataUrl": "zk:a:1", "ranges": "[]"})
    filters: list[Filter] = [EqualTo(("publish_ms",), 7), StringContains(("key",), "x")]
    assert reader.pushFilters(filters) == filters
    assert reader._options.published_ms == (7, 7)
