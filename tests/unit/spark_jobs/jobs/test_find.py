"""Filters of a search, and the order in which it scans, stops and continues."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.catalogue import ANALYSES
from spark_jobs.jobs.find import job, scanning
from spark_jobs.jobs.find.job import _planned, result_of
from spark_jobs.jobs.find.matching import Filters, filters_of, matching, path_of, time_of
from spark_jobs.jobs.find.scanning import COLUMNS, HitPosition, MessageSearch, positions_of, scan
from spark_jobs.jobs.kit import messages
from spark_jobs.jobs.kit.messages import arrow_schema
from spark_jobs.pulsar_source.options import OptionError, Options, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.support.analyses.runs import Shown

OPTIONS = parse({"topic": "t", "metadata.url": "zk:nowhere:1"})
DEFAULTS = {
    name: schema.get("default", "")
    for name, schema in ANALYSES["find"].parameters["properties"].items()
}


def row(**values: Any) -> dict[str, Any]:
    """Return a message's row; what is not given is ordinary."""
    ordinary = {
        **{"topic": "t", "partition": -1, "ledger_id": 1, "entry_id": 0, "batch_index": -1},
        **{"batch_size": 1, "encrypted": False, "publish_ms": 1000, "value": b"", "value_bytes": 0},
        **{"entry_bytes": 10, "properties": [], "producer_name": "p"},
    }
    return ordinary | values


def batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    schema = arrow_schema((*COLUMNS, "decoded"))
    return pa.RecordBatch.from_pylist([dict.fromkeys(schema.names) | r for r in rows], schema)


def found(rows: Sequence[dict[str, Any]], **parameters: str) -> list[int]:
    """Return the indexes of the rows that match."""
    numbered = [r | {"sequence": i} for i, r in enumerate(rows)]
    given_batch = batch([{k: v for k, v in r.items() if k != "sequence"} for r in numbered])
    given_batch = given_batch.append_column("sequence", pa.array(range(len(rows))))
    matched = matching(given_batch, filters_of(DEFAULTS | parameters))
    return list(matched["sequence"].to_pylist())


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"key": "a"}, [0]),
        ({"producer": "q"}, [1]),
        ({"text": '"id"'}, [0, 2]),
        ({"property": "trace"}, [0, 1]),
        ({"property": "trace=y=z"}, [1]),
        ({"property": "trace="}, []),
        ({"path": "$.id"}, [0, 2]),
        ({"path": "id", "equals": "7"}, [0]),
        ({"path": "a[1].b", "equals": "ü"}, [2]),
        ({"path": "a[1]", "equals": '{"b": "ü"}'}, [2]),
        ({"since": "1970-01-01T00:00:01.001Z"}, [1]),
        ({"until": "1001"}, [0, 2, 3, 4, 5]),
        ({"id": "1:5"}, [3, 4]),
        ({"id": "1:5:1"}, [4]),
        ({"key": "a", "producer": "q"}, []),
    ],
)
def test_each_filter_selects_its_messages(parameters: dict[str, str], expected: list[int]) -> None:
    rows = [
        row(key="a", value=b'{"id": 7}', properties=[("trace", "x")]),
        row(producer_name="q", publish_ms=1001, properties=[("trace", "y=z")], value=b"{bad json"),
        row(value=b"\x00avro", decoded='{"id": null, "a": [1, {"b": "\u00fc"}], "x": "\\"id\\""}'),
        row(entry_id=5, batch_index=0, value=None),
        row(entry_id=5, batch_index=1, value=b'"id" in chunks', chunk_id=0),
        row(value=b'{"id": 7, "id": "encrypted"}', encrypted=True),
    ]
    rows[2]["value"] = b'\x00avro "id"'
    assert found(rows, **parameters) == expected


def test_times_and_ids_narrow_what_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = [LedgerRange(ledger, 0, 9, -1, "t") for ledger in (1, 2, 3)]
    asked: list[Options] = []

    def plan_topics(options: Options) -> list[LedgerRange]:
        asked.append(options)
        # Ledgers that were closed before are left out.
        return [] if options.published_ms == (0, 9) else planned

    for module in (job, messages):
        monkeypatch.setattr(module, "plan_topics", plan_topics)

    def ranges(**parameters: str) -> list[LedgerRange]:
        return _planned(OPTIONS, filters_of(DEFAULTS | parameters), Shown())

    assert ranges() == planned
    assert ranges(id="2:5:1") == [replace(planned[1], first=5, last=5)]
    assert ranges(id="2:10") == ranges(id="4:0") == ranges(until="10") == []
    assert asked[-1].published_ms == (0, 9)
    ranges(since="5", until="20")
    assert asked[-1].published_ms == (5, 19)


def test_paths_and_times_that_cannot_be_read_name_their_parameter() -> None:
    assert path_of('$.a["b.c"][0]') == ("a", "b.c", 0)
    assert time_of("since", "2026-01-01T00:00:00+01:00") == time_of("since", "2025-12-31T23:00:00")
    for name, text in (("path", "$..["), ("since", "yesterday"), ("equals", "x")):
        with pytest.raises(OptionError, match=f"parameter {name} "):
            filters_of(DEFAULTS | {name: text})
    with pytest.raises(OptionError, match="parameter after "):
        positions_of("1:2 3:4", ["a", "b"])


# The order of a search


TOPICS = ("t-partition-0", "t-partition-1", "t-partition-2")


class History:
    """Messages of several topics, in ledgers of random sizes."""

    def __init__(self, seed: int, count: int) -> None:
        chance = random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.planned: list[LedgerRange] = []
        ledger = 0
        for topic in TOPICS[: chance.randint(1, 3)]:
            rows = self.rows[topic] = []
            at, left = 1000, count
            while left > 0:
                ledger += chance.randint(1, 3)
                entries = min(chance.randint(1, 12), left)
                left -= entries
                self.planned.append(LedgerRange(ledger, 0, entries - 1, 0, topic))
                for entry in range(entries):
                    at += chance.choice([-3, 0, 1, 5])
                    size = chance.choice([0, 0, 3])
                    for index in range(size) if size else (-1,):
                        place_of = {"ledger_id": ledger, "entry_id": entry, "batch_index": index}
                        key = chance.choice(["a", "b"])
                        rows += [row(topic=topic, publish_ms=at, key=key, **place_of)]

    def rows_of_range(
        self, _: Any, given_range: LedgerRange, columns: Any
    ) -> Iterator[pa.RecordBatch]:
        rows = [
            r
            for r in self.rows[given_range.topic]
            if r["ledger_id"] == given_range.ledger_id
            and given_range.first <= r["entry_id"] <= given_range.last
        ]
        for start in range(0, len(rows), 5):
            yield batch(rows[start : start + 5]).select(list(columns))

    def search(self, limit: int, newest: bool, filters: Filters, after: str = "") -> MessageSearch:
        positions = positions_of(after, [planned_range.topic for planned_range in self.planned])
        search = MessageSearch.begin(self.planned, limit, newest, positions)
        while not search.finished and not search.full:
            part = search.next_part()
            search.scanned(
                part,
                [
                    scan(
                        OPTIONS,
                        planned_range,
                        filters,
                        limit,
                        newest,
                        positions.get(planned_range.topic),
                    )
                    for _, planned_range in part
                ],
            )
        return search


def place(hit: dict[str, Any]) -> tuple[Any, ...]:
    return hit["topic"], *hit["position"]


@given(st.integers(0, 500), st.integers(1, 7), st.booleans(), st.sampled_from(["", "a"]))
def test_a_search_continued_to_its_end_returns_every_match_once_in_order(
    seed: int, limit: int, newest: bool, key: str
) -> None:
    history = History(seed, 25)
    filters = Filters(key=key)
    patch = pytest.MonkeyPatch()
    with patch.context() as within:
        within.setattr(scanning, "rows_of_range", history.rows_of_range)
        within.setattr(scanning, "FIRST_ENTRIES", 2)
        hits: list[dict[str, Any]] = []
        after = ""
        for _ in range(200):
            search = history.search(limit, newest, filters, after)
            assert len(search.hits) <= limit
            hits += search.hits
            if search.finished:
                break
            assert len(search.hits) == limit
            after = search.after()
    assert search.finished
    for topic, rows in history.rows.items():
        expected = [
            (topic, r["ledger_id"], r["entry_id"], r["batch_index"])
            for r in rows
            if key in ("", r["key"])
        ]
        mine = [place(hit) for hit in hits if hit["topic"] == topic]
        assert mine == (expected[::-1] if newest else expected)


def test_the_newest_messages_of_all_partitions_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(5, 0)
    history.rows = {
        t: [row(topic=t, ledger_id=i, entry_id=e, publish_ms=10 * e + i) for e in range(9)]
        for i, t in enumerate(TOPICS)
    }
    history.planned = [LedgerRange(i, 0, 8, i, t) for i, t in enumerate(TOPICS)]
    monkeypatch.setattr(scanning, "rows_of_range", history.rows_of_range)
    search = history.search(4, True, Filters())
    assert [hit["publish_time"] for hit in search.hits] == [82, 81, 80, 72]
    again = history.search(3, True, Filters(), search.after())
    assert [hit["publish_time"] for hit in again.hits] == [71, 70, 62]


def test_the_result_counts_what_was_scanned_and_what_could_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        row(entry_id=0, value=b"x" * 5_000_000, value_bytes=5_000_000),
        row(entry_id=1, encrypted=True, batch_size=4, value_bytes=None),
        row(entry_id=2, chunk_id=0),
        row(entry_id=3, chunk_id=1),
        row(entry_id=4, batch_index=0, value=None),
        row(entry_id=4, batch_index=1, value=b"\xff\xfe"),
        {"ledger_id": 1, "entry_id": 5, "unread": "unreadable", "unread_entries": 1},
        {"ledger_id": 1, "entry_id": 6, "unread": "trimmed", "unread_entries": 3},
    ]

    def rows_of_range(_: Any, __: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        yield batch(rows).select(list(columns))

    monkeypatch.setattr(scanning, "rows_of_range", rows_of_range)
    planned = [LedgerRange(1, 0, 8, -1, "t")]
    search = MessageSearch.begin(planned, 100, False, {})
    part = search.next_part()
    search.scanned(
        part, [scan(OPTIONS, planned_range, Filters(), 100, False) for _, planned_range in part]
    )
    counts = search.counts
    assert (counts.messages, counts.entries, counts.stored_bytes) == (8, 6, 50)
    assert (counts.closed, counts.unreadable, counts.trimmed) == (3, 1, 3)
    assert [hit["value"] for hit in search.hits] == [
        *("x" * 1000, "(encrypted)", "(in chunks)", "(in chunks)", None),
        "\ufffd\ufffd",
    ]
    result = result_of(search, DEFAULTS | {"topic": "t"}, 9)
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert (facts["hits"], facts["complete"], facts["after"]) == (6, "yes", None)
    assert result["conclusions"][-1] == ("Not searched, since unreadable or deleted: 4 entries.")


def test_positions_are_read_as_they_are_written() -> None:
    for text in ("1:2", "1:2:0", "1:2:9"):
        assert str(HitPosition.parse(text)) == text
    assert positions_of("a=1:2 b=3:4:5", ["a", "b"]) == {
        "a": HitPosition(1, 2),
        "b": HitPosition(3, 4, 5),
    }
