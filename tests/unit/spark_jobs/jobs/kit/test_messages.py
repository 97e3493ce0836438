"""Rows of a selection's ranges: messages, and entries that could not be read."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.base.slices import Slice
from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.kit import messages
from spark_jobs.jobs.kit.messages import arrow_schema, rows_of_range
from spark_jobs.pulsar_source.batch import TrimmedError
from spark_jobs.pulsar_source.columns import EntryColumns, Opened
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

RANGE = LedgerRange(7, 0, 9, 2)
COLUMNS = ("unread", "entry_id", "value", "unread_entries", "partition", "ledger_id", "event_time")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four entries of a range of ten, the second one unreadable; the others were trimmed."""
    good = pack_entry(
        [Message(b"a"), Message(None, event_ms=5)],
        producer_name="p",
        publish_ms=1,
        batched=True,
        compression=0,
    )
    parts = [good, b"no entry of Pulsar", good, good]

    def opened(_: Any, given: LedgerRange, wanted: set[str], __: Any) -> Iterator[Opened]:
        columns = EntryColumns(wanted)
        spans: list[int] = []
        for part in parts:
            start = spans[-1] if spans else 0
            spans += [start, start + len(part)]
        buf = b"".join(parts)
        assert not list(columns.add(Slice(buf, spans, len(buf), ledger_id=7, first=0)))
        yield columns.take()
        raise TrimmedError(given, len(parts))

    monkeypatch.setattr(messages, "open_range", opened)


@pytest.mark.usefixtures("stored")
def test_entries_that_cannot_be_read_are_rows_with_their_reason() -> None:
    options = Options("persistent://public/default/t", "zk:nowhere:1")
    batches = list(rows_of_range(options, RANGE, COLUMNS))
    table = pa.Table.from_batches(batches)
    assert table.schema == arrow_schema(COLUMNS)
    rows = table.to_pylist()
    assert [row["value"] for row in rows] == [b"a", None] * 3 + [None, None]
    assert [(r["unread"], r["entry_id"], r["unread_entries"]) for r in rows[-2:]] == [
        ("unreadable", 1, 1),
        ("trimmed", 4, 6),
    ]
    assert {row["unread"] for row in rows[:-2]} == {None}
    assert {(row["ledger_id"], row["partition"]) for row in rows} == {(7, 2)}


@pytest.mark.usefixtures("stored")
def test_entries_that_cannot_be_read_are_logged_where_no_column_asks_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = Options("persistent://public/default/t", "zk:nowhere:1")
    [batch] = rows_of_range(options, RANGE, ("value",))
    assert batch.num_rows == 6
    assert "ledger 7: entries not read: [(1, 'unreadable', 1), (4, 'trimmed', 6)]" in caplog.text
