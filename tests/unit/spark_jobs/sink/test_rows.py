"""Rows as messages: parts by column, values as JSON, and errors that name row and column."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.pulsar_sink.rows import RowColumns, RowError, messages_of
from spark_jobs.pulsar_source.options import OptionError

PARTS = {
    "value": "binary",
    "key": "string",
    "properties": "map<string,string>",
    "event_time": "timestamp",
    "deliver_at": "bigint",
    "topic": "string",
}


def columns(topic_given: bool = True, **types: str) -> RowColumns:
    return RowColumns.of(types, topic_given=topic_given)


def test_every_part_of_a_message_comes_from_its_column() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([b"one", b""]),
            pa.array(["k", None]),
            pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
            pa.array([at, None], pa.timestamp("us", "UTC")),
            pa.array([5, None], pa.int64()),
            pa.array(["orders", "persistent://t/n/x"]),
        ],
        names=list(PARTS),
    )
    rows = messages_of(columns(topic_given=False, **PARTS), batch, 7)
    first, second = rows.messages
    assert (first.payload, first.key, first.properties) == (b"one", "k", {"a": "b"})
    assert (first.event_ms, first.deliver_at_ms) == (int(at.timestamp() * 1000), 5)
    assert (second.payload, second.key, second.properties) == (b"", None, None)
    assert (second.event_ms, second.deliver_at_ms) == (0, 0)
    assert [message.token for message in rows.messages] == [7, 8]
    assert rows.topics == ["persistent://public/default/orders", "persistent://t/n/x"]


def test_a_text_is_its_bytes_and_a_null_removes_its_key() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["ä", None], "__key": [b"k", b"k"]})
    text, removal = messages_of(columns(value="string", __key="binary"), batch, 0).messages
    assert (text.payload, text.key) == ("ä".encode(), "k")
    assert removal.payload == b""
    assert removal.extra_metadata == b"\xc8\x01\x01"


def test_without_a_value_the_other_columns_are_its_json() -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["k", "k"]),
            pa.array([1, None]),
            pa.array([1.5, float("nan")]),
            pa.array([Decimal("1.20"), None]),
            pa.array([date(2026, 1, 2), None]),
            pa.array([b"\xff", None]),
            pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        ],
        names=["key", "id", "price", "exact", "day", "raw", "counts"],
    )
    types = dict.fromkeys(batch.schema.names, "any") | {"key": "string"}
    first, second = messages_of(columns(**types), batch, 0).messages
    assert first.key == "k"
    assert json.loads(first.payload) == {
        "id": 1,
        "price": 1.5,
        "exact": "1.20",
        "day": "2026-01-02",
        "raw": {"base64": "/w=="},
        "counts": {"a": 1},
    }
    assert json.loads(second.payload)["price"] == "NaN"
    assert json.loads(second.payload)["id"] is None


@pytest.mark.parametrize(
    ("kind", "types", "values", "text"),
    [
        ("key", "binary", pa.array([b"k", b"\xff"]), "row 11 of the task, column key"),
        ("event_time", "bigint", pa.array([0, -1]), "row 11 of the task, column event_time.*-1 ms"),
        ("deliver_at", "bigint", pa.array([0, 1 << 62]), "row 11 of the task, column deliver_at"),
        (
            "properties",
            "map<string,string>",
            pa.array([[], [("a", None)]], pa.map_(pa.string(), pa.string())),
            "row 11 of the task, column properties: property a has no value",
        ),
    ],
)
def test_a_bad_row_is_named(kind: str, types: str, values: Any, text: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"", b""]), values], names=["value", kind])
    with pytest.raises(RowError, match=text):
        messages_of(columns(value="binary", **{kind: types}), batch, 10)


@pytest.mark.parametrize("topic", [None, "persistent://only/two"])
def test_a_row_without_a_topic_is_named(topic: str | None) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"", b""]), pa.array(["a", topic])], names=["value", "topic"]
    )
    with pytest.raises(RowError, match="row 1 of the task, column topic"):
        messages_of(columns(topic_given=False, value="binary", topic="string"), batch, 0)


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ({"value": "bigint"}, "column value must be binary or string, not bigint: cast it"),
        ({"value": "binary", "amount": "int"}, "column amount is no part of a message"),
        ({"key": "string"}, "column value is missing"),
        ({"value": "binary", "key": "string", "__key": "binary"}, "columns key and __key"),
    ],
)
def test_columns_that_are_no_messages_are_refused_before_the_write(
    types: dict[str, str], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        columns(**types)


def test_a_topic_must_be_named_and_the_option_is_stronger() -> None:
    with pytest.raises(OptionError, match="option topic is missing"):
        columns(topic_given=False, value="binary")
    assert "topic" not in columns(topic_given=True, value="binary", topic="string").parts


def test_rows_of_the_source_can_be_written_as_they_are() -> None:
    from spark_jobs.pulsar_source.options import COLUMNS

    kinds = {name: kind.replace(", ", ",") for name, kind in COLUMNS.items()}
    assert set(columns(**kinds).parts) == {"key", "value", "properties", "event_time"}
