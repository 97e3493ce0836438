"""Tables of a query, the engine that runs it, and how a query is confined. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from engine.base.names import TopicName
from spark_jobs.pulsar_source.options import COLUMNS, SCHEMA_COLUMNS, OptionError
from spark_jobs.pulsar_source.partitions import LedgerRange

SMALL_ENTRIES = 100_000
SMALL_BYTES = 64 << 20
"""Entries and stored bytes up to which DuckDB runs a query in the worker's memory."""
TABLE_COLUMNS = (*COLUMNS, *SCHEMA_COLUMNS, "text")
"""Columns of a table. ``text``: the value where it is UTF-8."""
SOURCE = "source_{}"
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_COUNT_STAR = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_START = re.compile(r"\s*(SELECT|WITH|FROM|VALUES)\b", re.IGNORECASE)
_REFLECTION = re.compile(r"\b(try_reflect|reflect|java_method)\b", re.IGNORECASE)


class QueryPlan(NamedTuple):
    """The engine of a query, the reason for it, and the columns to build."""

    engine: str
    why: str
    columns: tuple[str, ...]


def tables_of(
    planned: Sequence[LedgerRange], query: str, *, single: bool
) -> dict[str, list[LedgerRange]]:
    """Return the ranges of each table that the query names. Raises OptionError when it names none.

    ``single``: the selection is one topic, whose table is ``topic``.
    """
    if single:
        return {"topic": list(planned)}
    tables: dict[str, list[LedgerRange]] = {}
    for ledger_range in planned:
        name = TopicName.parse(ledger_range.topic).partitioned.local
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query):
            tables.setdefault(name, []).append(ledger_range)
    if not tables:
        raise OptionError(
            "parameter query names no topic of the namespace that holds messages; a table has the topic's local name"
        )
    return tables


def plan_of(query: str, wanted: str, tables: Mapping[str, Sequence[LedgerRange]]) -> QueryPlan:
    """Return how a query is run; ``wanted`` is an engine, or auto."""
    ranges = [ledger_range for several in tables.values() for ledger_range in several]
    entries = sum(ledger_range.entries for ledger_range in ranges)
    size = sum(ledger_range.size for ledger_range in ranges)
    amount = f"{entries:,} entries with {size:,} bytes are to be read"
    limits = f"{SMALL_ENTRIES:,} entries and {SMALL_BYTES:,} bytes"
    columns = columns_of(query)
    if wanted != "auto":
        return QueryPlan(wanted, f"it was chosen by the parameter engine; {amount}", columns)
    if entries <= SMALL_ENTRIES and size <= SMALL_BYTES:
        return QueryPlan(
            "duckdb", f"{amount}, at most {limits} fit into the worker's memory", columns
        )
    return QueryPlan(
        "spark", f"{amount}, more than the {limits} that are read in the worker", columns
    )


def columns_of(query: str) -> tuple[str, ...]:
    """Return the columns that a query may need: those that it names, all of them where it has a star."""
    without_counts = _COUNT_STAR.sub("", _LITERAL.sub(_kept_identifier, query))
    if "*" in without_counts or re.search(r"^\s*FROM\b", query, re.IGNORECASE):
        return TABLE_COLUMNS
    words = {word.lower() for word in re.findall(r"\w+", without_counts)}
    return tuple(name for name in TABLE_COLUMNS if name in words) or ("publish_ms",)


def _kept_identifier(match: re.Match[str]) -> str:
    text = match[0]
    return f" {text[1:-1]} " if text[0] in '"`' else " "


def check(query: str) -> None:
    """Raise OptionError unless the query begins like one, and calls no Java."""
    bare = _LITERAL.sub(_kept_identifier, query)
    if _START.match(bare) is None:
        raise OptionError("parameter query must be one SELECT")
    if (word := _REFLECTION.search(bare)) is not None:
        raise OptionError(f"parameter query: the function {word[0]} is not allowed")


def confined(query: str, rows: int) -> str:
    """Return the query as a part of another, in which only a query can stand, limited to ``rows``."""
    return f"SELECT * FROM (\n{query.rstrip().rstrip(';')}\n) LIMIT {rows}"


def for_spark(query: str, tables: Collection[str], rows: int) -> str:
    """Return the text for ``spark.sql``, whose placeholders ``{source_0}`` and so on are the tables' frames."""
    names = ", ".join(
        f"{_quoted(name)} AS (SELECT * FROM {{{SOURCE.format(number)}}})"
        for number, name in enumerate(tables)
    )
    escaped = confined(query, rows).replace("{", "{{").replace("}", "}}")
    return f"WITH {names} {escaped}"


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``").replace("{", "{{").replace("}", "}}")
    return f"`{escaped}`"
