"""Queries: the tables and columns they name, the engine they get, and the doors that stay closed."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.jobs.kit.messages import arrow_schema
from spark_jobs.jobs.sql.duck import run_query
from spark_jobs.jobs.sql.job import SHOWN_ROWS, cell, result_of, shown, with_text
from spark_jobs.jobs.sql.queries import (
    SMALL_ENTRIES,
    TABLE_COLUMNS,
    QueryPlan,
    check,
    columns_of,
    confined,
    for_spark,
    plan_of,
    tables_of,
)
from spark_jobs.pulsar_source.options import OptionError
from spark_jobs.pulsar_source.partitions import LedgerRange

TABLE = pa.table({"id": [1, 2, 3], "text": ['{"a": 1}', "no", None], "value": [b"\xff", b"", None]})


def ranges(topic: str, entries: int = 10) -> LedgerRange:
    return LedgerRange(1, 0, entries - 1, -1, f"persistent://public/default/{topic}", size=100)


def duck(query: str, rows: int = 10) -> list[dict[str, Any]]:
    answer, plan = run_query(query, {"topic": TABLE}, rows, 60)
    assert plan
    return list(answer.to_pylist())


def test_a_query_in_duckdb_returns_its_rows() -> None:
    assert duck("SELECT count(*) AS n FROM topic;") == [{"n": 3}]
    assert duck("SELECT id FROM topic ORDER BY id DESC", 2) == [{"id": 3}, {"id": 2}]
    assert duck("SELECT text->>'$.a' AS a FROM topic WHERE id = 1 -- a comment") == [{"a": "1"}]
    joined = duck("WITH x AS (SELECT id FROM topic) SELECT a.id FROM x a JOIN x b USING (id)")
    assert sorted(row["id"] for row in joined) == [1, 2, 3]


@pytest.mark.parametrize(
    "query",
    [
        *("SELECT * FROM read_text('{path}')", "SELECT * FROM '{path}'"),
        *("SELECT * FROM read_csv('{path}')", "SELECT * FROM glob('{path}')"),
        *("SELECT * FROM sniff_csv('{path}')", "SELECT * FROM parquet_scan('{path}')"),
        *("COPY topic TO '{path}.csv'", "ATTACH '{path}.db'", "INSTALL httpfs", "LOAD httpfs"),
        *("SET enable_external_access = true", "CREATE TABLE x AS SELECT 1", "DROP VIEW topic"),
        *(
            "SELECT 1; SELECT 2",
            "WITH x AS (SELECT 1) INSERT INTO topic SELECT 1",
            "SELECT getenv('HOME')",
        ),
        *("SELECT * FROM TABLE", "SELECT 1) TO '{path}.csv' (", "EXPLAIN SELECT 1"),
    ],
)
def test_duckdb_reaches_no_file_and_changes_nothing(query: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a\n1\n")
    with pytest.raises(OptionError):
        duck(query.format(path=secret))
    assert [*tmp_path.iterdir()] == [secret]


def test_duckdb_ends_after_its_time() -> None:
    with pytest.raises(OptionError, match=r"longer than 0\.2 s"):
        run_query(
            "SELECT sum(a.i * b.i) FROM range(9999999) a(i), range(9999999) b(i)", {}, 10, 0.2
        )


@pytest.mark.parametrize("query", ["DROP TABLE x", "", "  INSERT INTO topic", "-- x\nSET a = 1"])
def test_statements_other_than_queries_are_refused(query: str) -> None:
    with pytest.raises(OptionError, match="parameter query must be one SELECT"):
        check(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT `REFLECT`('java.lang.Runtime', 'x')",
        "SELECT system.builtin.java_method /* x */ ('a', 'b')",
        "SELECT try_reflect('a', 'b') FROM topic",
    ],
)
def test_functions_that_call_java_are_refused(query: str) -> None:
    with pytest.raises(OptionError, match="is not allowed"):
        check(query)
    check("SELECT 'reflect' FROM topic")


def test_columns_are_those_that_a_query_names() -> None:
    counted = columns_of("SELECT key, Count(*) FROM topic WHERE value_bytes > 3")
    assert counted == ("key", "value_bytes", "topic")
    assert columns_of("SELECT count( * ) FROM t") == ("publish_ms",)
    assert columns_of("SELECT * FROM topic") == TABLE_COLUMNS
    assert columns_of("FROM topic") == TABLE_COLUMNS
    assert columns_of("SELECT \"text\", 'key * value' FROM t -- *") == ("text",)


def test_small_tables_are_for_duckdb_and_large_ones_for_spark() -> None:
    small = plan_of("SELECT 1", "auto", {"topic": [ranges("t")]})
    assert small.engine == "duckdb"
    assert "10 entries with 100 bytes" in small.why
    large = plan_of("SELECT 1", "auto", {"topic": [ranges("t", SMALL_ENTRIES + 1)]})
    assert large.engine == "spark"
    assert "more than" in large.why
    assert plan_of("SELECT 1", "spark", {"topic": [ranges("t")]}).engine == "spark"


def test_the_tables_of_a_namespace_are_the_topics_that_a_query_names() -> None:
    planned = [ranges("a-b"), ranges("a"), ranges("x-partition-0"), ranges("x-partition-1")]
    assert list(tables_of(planned, 'SELECT * FROM "a-b"', single=False)) == ["a-b", "a"]
    assert tables_of(planned, "SELECT * FROM x", single=False) == {"x": planned[2:]}
    assert tables_of(planned, "SELECT * FROM topic", single=True) == {"topic": planned}
    with pytest.raises(OptionError, match="parameter query names no topic"):
        tables_of(planned, "SELECT * FROM topic", single=False)


def test_a_query_is_a_part_of_another_in_which_its_braces_are_text() -> None:
    assert confined("SELECT 1 -- x;", 5) == "SELECT * FROM (\nSELECT 1 -- x\n) LIMIT 5"
    text = for_spark("SELECT '{0}' FROM t", ["t`{}"], 5)
    assert text.format(source_0="frame") == (
        "WITH `t``{}` AS (SELECT * FROM frame) SELECT * FROM (\nSELECT '{0}' FROM t\n) LIMIT 5"
    )


def test_the_text_is_the_value_where_it_is_utf8_and_can_be_read() -> None:
    names = ("value", "encrypted", "chunk_id")
    rows = [
        {"value": "ü".encode(), "encrypted": False, "chunk_id": None},
        {"value": b"\xff", "encrypted": False, "chunk_id": None},
        {"value": None, "encrypted": False, "chunk_id": None},
        {"value": b"x", "encrypted": True, "chunk_id": None},
        {"value": b"y", "encrypted": False, "chunk_id": 0},
    ]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(names))
    assert with_text(batch, ("text",))["text"].to_pylist() == ["ü", None, None, None, None]
    assert with_text(batch.slice(0, 1), ("text", "value"))["text"].to_pylist() == ["ü"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\xff\x01", "0xff01"),
        (b"a" * 5_000_000, "a" * 1000),
        (float("nan"), None),
        (2**63 - 1, 2**63 - 1),
        (True, 1),
        (Decimal(2**70), 2**70),
        (Decimal("1.5"), 1.5),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        ([("k", "v")], '[["k", "v"]]'),
        ({"a": b"x"}, '{"a": "b\'x\'"}'),
    ],
)
def test_any_value_is_a_cell(value: Any, expected: Any) -> None:
    assert cell(value) == expected


def test_the_result_says_the_engine_and_whether_there_is_more() -> None:
    plan = QueryPlan("duckdb", "it is small", ("key",))
    answer = pa.table([[1, 2], [b"x", None]], names=["n", "n"])
    result = result_of(answer, plan, "SCAN", {"topic": "t"}, {"topic": [ranges("t")]}, more=True)
    assert result["conclusions"] == [
        "The query has more than 2 rows; these are the first.",
        "It was run by DuckDB: it is small.",
    ]
    table = shown(answer)
    assert [column["key"] for column in table["columns"]] == ["n", "n_2"]
    assert table["rows"] == [[1, "x"], [2, None]]
    assert shown(answer.slice(0, 0))["rows"] == []
    listed = result["tables"][0]
    assert (listed["rows"], listed["total"], listed["at_least"]) == (table["rows"], 3, True)
    whole = result_of(answer, plan, "", {"topic": "t"}, {"topic": [ranges("t")]}, more=False)
    assert (whole["tables"][0]["total"], whole["tables"][0]["at_least"]) == (2, False)


@pytest.mark.parametrize(
    ("column", "listed"),
    [
        ([1] * (SHOWN_ROWS + 5), SHOWN_ROWS),
        (["x" * 996] * 9_000, 4_000),  # 1,000 bytes each as JSON
        (["x" * 5_000] * 10, 10),
    ],
)
def test_the_table_has_as_many_rows_as_fit_and_says_how_many_there_are(
    column: list[Any], listed: int
) -> None:
    plan, answer = QueryPlan("duckdb", "it is small", ("c",)), pa.table({"c": column})
    result = result_of(answer, plan, "", {"topic": "t"}, {"topic": [ranges("t")]}, more=False)
    assert len(result["tables"][0]["rows"]) == listed
    assert (result["tables"][0]["total"], result["tables"][0]["at_least"]) == (len(column), False)
    finding = f"The table has the first {listed:,} of them, the file rows.parquet all."
    assert (finding in result["conclusions"]) == (listed < len(column))
