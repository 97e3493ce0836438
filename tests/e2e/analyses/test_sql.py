"""Queries by DuckDB and by Spark, through the real engine."""

from collections.abc import Callable
from pathlib import Path

import pulsar
import pyarrow.parquet as pq
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import hostile, hot_keys

COUNTED = (
    "SELECT key, count(*) AS n, sum(value_bytes) AS b FROM topic GROUP BY key ORDER BY n DESC, key"
)


@pytest.mark.timeout(300)
def test_both_engines_return_the_same_rows(
    run: Callable[..., Answer], client: pulsar.Client
) -> None:
    keys = hot_keys(client, "persistent://public/default/sql-keys")
    small = run("sql", topic=keys.topic, query=COUNTED)
    large = run("sql", topic=keys.topic, query=COUNTED, engine="spark")
    assert (small.figure("engine"), large.figure("engine")) == ("DuckDB", "Spark")
    assert small.rows("shown_rows") == large.rows("shown_rows")
    assert {row["key"]: row["n"] for row in small.rows("shown_rows")} == keys.messages
    default = run("sql", topic=keys.topic)
    assert (default.figure("rows"), default.figure("more")) == (100, "no")
    assert pq.read_table(default.files / "rows.parquet").num_rows == 100
    first = run("sql", topic=keys.topic, query="SELECT key FROM topic", rows=7)
    assert (first.figure("rows"), first.figure("more")) == (7, "yes")
    [shown] = [item for item in first.result["tables"] if item["key"] == "shown_rows"]
    assert (len(shown["rows"]), shown["total"], shown["at_least"]) == (7, 8, True)
    named = {"namespace": "public/default", "query": 'SELECT count(*) AS n FROM "sql-keys"'}
    assert run("sql", **named).rows("shown_rows") == [{"n": 1000}]
    by_spark = run(
        "sql",
        namespace="public/default",
        query="SELECT count(*) AS n FROM `sql-keys`",
        engine="spark",
    )
    assert by_spark.rows("shown_rows") == [{"n": 1000}]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "query",
    [
        *(
            "SELECT * FROM text.`{path}`",
            "SELECT * FROM csv.`{path}`",
            "SELECT * FROM parquet.`{path}`",
        ),
        *(
            "SELECT 1) t; DROP TABLE x --",
            "WITH x AS (SELECT 1) INSERT INTO y SELECT 1",
            "SELECT * FROM other",
        ),
    ],
)
def test_spark_reads_nothing_but_the_named_tables(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path, query: str
) -> None:
    keys = hot_keys(client, "persistent://public/default/sql-closed", 10, 2)
    secret = tmp_path / "secret"
    secret.write_text("secret words")
    with pytest.raises(Exception, match=r"(?i)not.found|syntax|unsupported|cannot") as refused:
        run("sql", topic=keys.topic, query=query.format(path=secret), engine="spark")
    assert "secret words" not in str(refused.value)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_hostile_messages_are_rows(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path, engine: str
) -> None:
    answer = hostile(client, f"persistent://public/default/sql-hostile-{engine}", tmp_path)
    everything = run("sql", topic=answer.topic, engine=engine)
    plain = answer.count - answer.kinds["encrypted"] - answer.kinds["chunked"]
    assert everything.figure("rows") >= plain
    counted = run(
        "sql", topic=answer.topic, engine=engine, query="SELECT count(text) AS n FROM topic"
    )
    assert counted.rows("shown_rows") == [
        {"n": plain - answer.kinds["binary"] - answer.kinds["null"]}
    ]
