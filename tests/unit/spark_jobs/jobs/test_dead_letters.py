"""Groups of dead letters with known answers, however they are divided among tasks."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.dead_letters import letters
from spark_jobs.jobs.dead_letters.job import result_of
from spark_jobs.jobs.dead_letters.letters import (
    COLUMNS,
    MANY,
    combined,
    encoded,
    groups_of,
    normal,
    origin_of,
    position_rows,
    ranked,
    reason_of,
    shape_of,
)
from spark_jobs.jobs.kit.messages import arrow_schema

TOPIC = "persistent://public/default/orders-ship-DLQ"
ORDERS = "persistent://public/default/orders"


def row(entry: int, index: int = -1, **values: Any) -> dict[str, Any]:
    ordinary = {
        **{
            "topic": TOPIC,
            "partition": -1,
            "ledger_id": 1,
            "entry_id": entry,
            "batch_index": index,
        },
        **{"batch_size": 1, "encrypted": False, "publish_ms": 1000 + entry, "value": b"{}"},
        **{"value_bytes": 2, "chunk_id": None, "properties": [("REAL_TOPIC", ORDERS)]},
    }
    return ordinary | values


def batches(rows: Sequence[dict[str, Any]]) -> list[pa.RecordBatch]:
    schema = arrow_schema(COLUMNS)
    return [
        pa.RecordBatch.from_pylist(
            [dict.fromkeys(schema.names) | r for r in rows[i : i + 3]], schema
        )
        for i in range(0, len(rows), 3)
    ]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), min_size=1, max_size=30),
    st.integers(1, 9),
)
def test_groups_and_positions_do_not_depend_on_the_division(
    entries: list[tuple[str, int]], step: int
) -> None:
    rows = [
        row(
            entry,
            index if size > 1 else -1,
            properties=[("REAL_TOPIC", ORDERS), ("error", reason if index < 2 else "c")],
        )
        for entry, (reason, size) in enumerate(entries)
        for index in range(size)
    ]
    texts = []
    for start in range(0, len(entries), step):
        part = [r for r in rows if start <= r["entry_id"] < start + step]
        texts.append(encoded(*groups_of(batches(part))))
    groups, unread = combined(texts)
    assert unread == {}
    expected = Counter(dict(r["properties"])["error"] for r in rows)
    assert {key.reason: group.count for key, group in groups.items()} == expected
    order = ranked(groups)
    places = {
        (order[number - 1][0].reason, entry, index)
        for number, _, _, first, last, indexes in position_rows(order)
        for entry in range(first, last + 1)
        for index in (map(int, indexes.split(",")) if indexes else [None])
    }
    mixed = {entry for entry, (_, size) in enumerate(entries) if size > 2}
    assert places == {
        (
            dict(r["properties"])["error"],
            r["entry_id"],
            r["batch_index"] if r["entry_id"] in mixed else None,
        )
        for r in rows
    }


def test_positions_that_follow_each_other_are_one_range() -> None:
    groups, _ = groups_of(batches([row(entry) for entry in range(10)]))
    [positions] = position_rows(ranked(groups))
    assert positions == [1, TOPIC, 1, 0, 9, None]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"exception": "TimeoutError: no answer\n  at x"}, "TimeoutError: no answer"),
        ({"kafka_dlt-exception-message": "no", "kafka_dlt-exception-fqcn": "E"}, "no"),
        ({"x-exception-stacktrace": "at"}, ""),
        ({"error": "a", "error_message": "b"}, "b"),
        ({"errorCount": "3", "REAL_TOPIC": "x"}, ""),
        ({"failure": "  "}, ""),
    ],
)
def test_the_reason_is_what_a_framework_gives(properties: dict[str, str], reason: str) -> None:
    assert reason_of(properties) == reason


def test_reasons_that_differ_in_numbers_ids_and_quotes_are_one() -> None:
    texts = (
        "order 17 of '4711' is late: 9f1c2d3e-0000-4000-8000-abcdefabcdef",
        "order 999 of 'x' is late: 11112222-3333-4444-5555-666677778888",
    )
    assert {normal(text) for text in texts} == {"order # of '#' is late: #"}


def test_the_subscription_is_known_by_property_or_by_the_topics_name() -> None:
    assert origin_of(TOPIC, {"REAL_TOPIC": ORDERS}) == (ORDERS, "ship")
    named = {"REAL_TOPIC": ORDERS, "REAL_SUBSCRIPTION": "bill"}
    assert origin_of(TOPIC, named) == (ORDERS, "bill")
    assert origin_of("persistent://a/b/other", {}) == ("", "")
    assert origin_of(f"{TOPIC}-partition-3", {"REAL_TOPIC": ORDERS}) == (ORDERS, "ship")


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (None, "null"),
        (b"", "empty"),
        (b"\xff", "binary"),
        (b"hello", "text"),
        (
            b'{"b": 1, "a": null, "c": [true], "d": {}}',
            "JSON {a: null, b: number, c: array, d: object}",
        ),
        (b'{"a": tru', "broken JSON"),
        (b"[" * 100_000, "broken JSON"),
        (b"[1]", "JSON array"),
        (b"x" * 5_000_000, "larger than 1 MiB"),
        (b'{"\\ud800": 1}', "JSON {?: number}"),
    ],
)
def test_the_shape_of_any_value_is_described(value: bytes | None, shape: str) -> None:
    assert shape_of(row(0, value=value)) == shape


def test_too_many_reasons_are_one_group_and_every_letter_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(letters, "GROUPS_MAX", 3)
    words = ("zero", "one", "two", "three", "four", "five")
    rows = [row(i, properties=[("error", word)]) for i, word in enumerate(words)]
    groups, _ = groups_of(batches(rows))
    assert {key.reason: group.count for key, group in groups.items()} == {
        **{"zero": 1, "one": 1, "two": 1},
        MANY: 3,
    }


def test_the_result_counts_encrypted_and_chunked_letters_and_names_what_is_missing() -> None:
    rows = [
        row(0, encrypted=True, batch_size=4, value_bytes=None),
        row(1, chunk_id=0, value_bytes=900),
        row(2, chunk_id=1, value_bytes=0),
        {"ledger_id": 1, "entry_id": 3, "unread": "unreadable", "unread_entries": 2},
    ]
    groups, unread = groups_of(batches(rows))
    result = result_of(groups, unread, {"topic": TOPIC, "top": 1})
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert (facts["letters"], facts["groups"], facts["unreadable"]) == (5, 2, 2)
    tables = {item["key"]: item["rows"] for item in result["tables"]}
    assert [r[5] for r in tables["groups"]] == ["encrypted"]
    assert tables["groups"][0][7] == pytest.approx(80)
    assert result["conclusions"][0] == (
        f"Group 1: 4 of 5 messages (80 %) come from {ORDERS}, subscription ship; they have no reason in their"
        " properties."
    )
    assert result_of({}, {}, {"topic": TOPIC, "top": 1})["conclusions"] == [
        "There are no messages."
    ]
