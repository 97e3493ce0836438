"""Drift of fields with known answers: what changed, since which message, by which producer."""

import json
from collections.abc import Sequence
from typing import Any

from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.field_drift import shapes as counted_shapes
from spark_jobs.jobs.field_drift.job import result_of
from spark_jobs.jobs.field_drift.shapes import COLUMNS, Counting, shape_of
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import BEGIN_MS, HOSTILE, opened_of, single

TOPIC = "persistent://t/n/x"


def result(parts: Sequence[bytes]) -> Any:
    schemas = TopicSchemas(TOPIC)
    counting = Counting(TOPIC, 1)
    for opened in opened_of(parts, COLUMNS):
        counting.add(opened, schemas)
    planned = [LedgerRange(1, 0, len(parts) - 1, topic=TOPIC)]
    return result_of(counting.table(), {"topic": TOPIC}, planned)


def document(value: Any, at_ms: int = 0, producer: str = "p") -> bytes:
    return single(json.dumps(value).encode(), at_ms, producer)


def rows(given: Any, key: str) -> list[Any]:
    return next(table["rows"] for table in given["tables"] if table["key"] == key)


def test_each_change_names_its_first_message_and_producer() -> None:
    steady = [document({"id": i, "price": 1.5, "currency": "EUR"}, i * 1000) for i in range(60)]
    drifted = [
        document({"id": i, "price": "1.5", "discount": 1}, i * 1000, "q") for i in range(60, 100)
    ]
    given = result(steady + drifted)
    first = [BEGIN_MS + 60_000, "1:60", TOPIC, "q", 40]
    assert rows(given, "changes") == [
        ["currency", "is missing", *first],
        ["discount", "appeared", *first],
        ["price", "is a string instead of a number", *first],
    ]
    assert given["conclusions"][1] == (
        "discount appeared, first in message 1:60 of producer q; so in 40 messages, 40 % of all."
    )
    assert rows(given, "fields") == [
        ["currency", 60.0, "string 100 %"],
        ["discount", 40.0, "integer 100 %"],
        ["id", 100.0, "integer 100 %"],
        ["price", 100.0, "number 60 %, string 40 %"],
    ]
    presence = next(s for s in given["series"] if s["title"] == "Messages with discount")["points"]
    assert [share for _, share in presence] == [0.0] * 60 + [100.0] * 40
    assert rows(given, "schema_versions") == [["none", 100, BEGIN_MS, "1:0", "p"]]


def test_optional_nullable_and_whole_numbers_are_no_drift() -> None:
    given = result(
        [
            document(
                {"id": i, "n": i / 2 if i % 3 else i, "o": None if i % 2 else "x"}
                | ({"p": 1} if i % 2 else {})
            )
            for i in range(100)
        ]
    )
    assert rows(given, "changes") == []
    assert given["conclusions"] == ["All documents, 100, have the same 4 fields."]


def test_a_change_inside_of_a_batch_and_of_a_nested_field_is_placed() -> None:
    values = [{"a": {"b": [{"c": 1}]}}] * 6 + [{"a": {"b": [{"c": "1"}], "d": 1}}] * 4
    batch = pack_entry(
        [Message(json.dumps(v).encode()) for v in values], producer_name="p", publish_ms=BEGIN_MS
    )
    assert [[*row[:2], row[3]] for row in rows(result([batch]), "changes")] == [
        ["a.b[].c", "is a string instead of a number", "1:0:6"],
        ["a.d", "appeared", "1:0:6"],
    ]


def test_values_that_are_not_json_are_drift_among_those_that_are() -> None:
    given = result([document({"a": 1})] * 9 + [single(b"not {json", producer="q")])
    assert [row[:2] + row[5:] for row in rows(given, "changes")] == [
        ["(the value)", "is not JSON", "q", 1]
    ]
    none = result([single(b"\xff")])
    assert none["conclusions"] == [
        "None of 1 message is JSON or has a schema by which it can be decoded."
    ]


def test_too_many_shapes_are_counted_by_their_outermost_fields(monkeypatch: Any) -> None:
    monkeypatch.setattr(counted_shapes, "SHAPES_MAX", 3)
    given = result([document({"m": {f"k{i}": 1}}) for i in range(10)])
    facts = {row["key"]: row["value"] for row in given["summary"]}
    assert facts["messages"] == 10
    assert facts.get("other_shapes", 0) + facts["documents"] == 10


def test_a_map_of_many_names_is_one_field_and_hostile_entries_break_nothing() -> None:
    assert shape_of({f"k{i}": i for i in range(500)}) == "\tobject\n*\tinteger"
    facts = {row["key"]: row["value"] for row in result(HOSTILE)["summary"]}
    assert facts["messages"] == 12  # the encrypted batch is one
