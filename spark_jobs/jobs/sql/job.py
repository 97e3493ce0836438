"""A query over topics as tables: by DuckDB over batches that the worker reads, or by Spark."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.jobs.kit.messages import arrow_schema, planned_of, rows_of_range, sql_schema
from spark_jobs.jobs.kit.progress import READING, Progress, counted
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.tables import plural, summary, table
from spark_jobs.jobs.sql import SQL
from spark_jobs.jobs.sql.queries import SOURCE, QueryPlan, check, for_spark, plan_of, tables_of
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

SHOWN_ROWS = 10_000
"""Rows of the result's table, which the console shows in pages; rows.parquet has all that were asked for."""
SHOWN_BYTES = 4_000_000
"""Bytes of the table as JSON: a result is a value of the database, and is sent as a whole."""
SHOWN_CHARS = 1000
MEMORY_BYTES_MAX = 512 << 20
"""Bytes of a table in the worker; larger ones are left to Spark."""
RUNNING = "running the query"
_TYPES = (
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "number"),
    (lambda kind: pa.types.is_decimal(kind) and kind.scale == 0, "integer"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_timestamp, "time"),
)


class TooLargeError(Exception):
    """A table that seemed small does not fit into the worker's memory."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the rows of a query; ``rows.parquet`` has those that the table does not show. Raises OptionError."""
    query, rows = parameters["query"], int(parameters["rows"])
    check(query)
    options = options_of(SQL, parameters, context)
    planned = planned_of(options, progress)
    tables = tables_of(planned, query, single=not options.selection.namespace)
    plan = plan_of(query, parameters["engine"], tables)
    explained = ""
    if plan.engine == "duckdb":
        try:
            loaded = _loaded(options, tables, plan.columns, progress)
        except TooLargeError:
            why = f"the tables take more than {MEMORY_BYTES_MAX:,} bytes of the worker's memory"
            plan = QueryPlan("spark", why, plan.columns)
        else:
            # Imported late: Spark's Python loads this module and needs no DuckDB.
            from spark_jobs.jobs.sql.duck import run_query

            progress(RUNNING, 0, 0)
            # One row more than asked for shows that there are more.
            answer, explained = run_query(query, loaded, rows + 1, int(parameters["timeout_s"]))
    if plan.engine == "spark":
        answer = _by_spark(spark, options, tables, plan.columns, query, rows + 1, progress)
    more = answer.num_rows > rows
    answer = answer.slice(0, rows)
    result = result_of(answer, plan, explained, parameters, tables, more=more)
    pq.write_table(answer, output_dir / "rows.parquet")
    return written(result, output_dir)


# Tables


def with_text(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the batch with ``columns``, of which ``text`` is made from the value. Encrypted values and chunks have
    none."""
    if "text" not in columns:
        return batch.select(list(columns))
    hidden = pc.or_(batch["encrypted"], pc.is_valid(batch["chunk_id"]))
    values = pc.if_else(hidden, pa.scalar(None, pa.binary()), batch["value"])
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_text(value) for value in values.to_pylist()], pa.string())
    arrays = [texts if name == "text" else batch[name] for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _read(
    options: Options, ledger_range: LedgerRange, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    needed = dict.fromkeys(name for name in columns if name != "text")
    if "text" in columns:
        needed |= dict.fromkeys(("value", "encrypted", "chunk_id"))
    for batch in rows_of_range(options, ledger_range, tuple(needed)):
        yield with_text(batch, columns)


def _loaded(
    options: Options,
    tables: Mapping[str, Sequence[LedgerRange]],
    columns: Sequence[str],
    progress: Progress,
) -> dict[str, pa.Table]:
    """Return the tables in memory. Raises TooLargeError."""
    total, done, size = sum(map(len, tables.values())), 0, 0
    loaded: dict[str, pa.Table] = {}
    for name, ranges in tables.items():
        batches: list[pa.RecordBatch] = []
        for ledger_range in ranges:
            progress(READING, done, total)
            for batch in _read(options, ledger_range, columns):
                size += batch.nbytes
                if size > MEMORY_BYTES_MAX:
                    raise TooLargeError
                batches.append(batch)
            done += 1
        loaded[name] = pa.Table.from_batches(batches, _arrow_schema(columns))
    return loaded


def _arrow_schema(columns: Sequence[str]) -> pa.Schema:
    fields = {field.name: field for field in arrow_schema(c for c in columns if c != "text")}
    return pa.schema([fields.get(name, pa.field(name, pa.string())) for name in columns])


def _by_spark(
    spark: Any,
    options: Options,
    tables: Mapping[str, Sequence[LedgerRange]],
    columns: Sequence[str],
    query: str,
    rows: int,
    progress: Progress,
) -> pa.Table:
    # The session reads no files by paths in place of tables' names.
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    frames = {
        SOURCE.format(number): _frame(spark, options, ranges, columns)
        for number, ranges in enumerate(tables.values())
    }
    total = sum(map(len, tables.values()))
    with counted(spark, progress, total):
        return spark.sql(for_spark(query, tables, rows), **frames).toArrow()


def _frame(
    spark: Any, options: Options, ranges: Sequence[LedgerRange], columns: Sequence[str]
) -> Any:
    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _read(options, ranges[number], columns)

    types = [sql_schema([name]) if name != "text" else "text string" for name in columns]
    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(of_tasks, ", ".join(types))


# Result


def result_of(
    answer: pa.Table,
    plan: QueryPlan,
    explained: str,
    parameters: Mapping[str, Any],
    tables: Mapping[str, Sequence[LedgerRange]],
    *,
    more: bool,
) -> dict[str, Any]:
    """Return the result. ``more``: the query has more rows than were asked for."""
    engine = {"duckdb": "DuckDB", "spark": "Spark"}[plan.engine]
    entries = sum(ledger_range.entries for ranges in tables.values() for ledger_range in ranges)
    count = plural(answer.num_rows, "row")
    first = shown(answer)
    listed = len(first["rows"])
    figures = [
        ("rows", "Rows", answer.num_rows, ""),
        ("more", "There are more", "yes" if more else "no", ""),
        ("engine", "Engine", engine, ""),
        ("selected_entries", "Entries of the tables", entries, ""),
    ]
    plans = [[engine, plan.why, ", ".join(plan.columns), explained or None]]
    return {
        "schema_version": 1,
        "analysis": SQL.name,
        "input": {**input_of(SQL, parameters), "entries": entries},
        "conclusions": [
            f"The query has more than {count}; these are the first."
            if more
            else f"The query has {count}.",
            *(
                [f"The table has the first {listed:,} of them, the file rows.parquet all."]
                if listed < answer.num_rows
                else []
            ),
            f"It was run by {engine}: {plan.why}.",
        ],
        "summary": summary(figures),
        "series": [],
        "tables": [
            {**first, "total": answer.num_rows + more, "at_least": more},
            table(
                "plan",
                "Plan",
                [
                    ("engine", "Engine", "string"),
                    ("why", "Why", "string"),
                    ("columns", "Columns read", "string"),
                    ("plan", "Its plan", "string"),
                ],
                plans,
            ),
        ],
    }


def shown(answer: pa.Table) -> dict[str, Any]:
    """Return the first rows as a table of the result, as many as fit; equal names of columns are numbered."""
    columns: list[tuple[str, str, str]] = []
    for field in answer.schema:
        kind = next((kind for holds, kind in _TYPES if holds(field.type)), "string")
        same = sum(label == field.name for _, label, _ in columns)
        columns.append((f"{field.name}_{same + 1}" if same else field.name, field.name, kind))
    part = answer.slice(0, SHOWN_ROWS)
    cells = [[cell(value) for value in column.to_pylist()] for column in part.columns]
    return table("shown_rows", "Rows", columns, _fitting(zip(*cells, strict=True)))


def _fitting(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield rows up to SHOWN_BYTES."""
    size = 0
    for row in rows:
        size += len(json.dumps(row))
        if size > SHOWN_BYTES:
            return
        yield row


def cell(value: Any) -> Any:
    """Return a value as JSON has it: times in ms, bytes as text, what is nested as JSON, all of bounded length."""
    if value is None or isinstance(value, bool | int):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        text = _text(value[: 4 * SHOWN_CHARS])
        return (f"0x{value[:SHOWN_CHARS].hex()}" if text is None else text)[:SHOWN_CHARS]
    if isinstance(value, str):
        return value[:SHOWN_CHARS]
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str, ensure_ascii=False)[:SHOWN_CHARS]
    return str(value)
