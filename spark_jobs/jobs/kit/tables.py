"""Tables, summary and numbers of a result. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.jobs.kit.cells import top


def table(
    key: str, title: str, columns: Iterable[tuple[str, str, str]], rows: Iterable[Sequence[Any]]
) -> dict[str, Any]:
    """Return a table; a column is its key, label and type."""
    names = ("key", "label", "type")
    return {
        "key": key,
        "title": title,
        "columns": [dict(zip(names, column, strict=True)) for column in columns],
        "rows": [list(row) for row in rows],
    }


def top_table(
    key: str, title: str, column: tuple[str, str], named: pa.Table, limit: int, messages: int
) -> dict[str, Any]:
    """Return a table of the ``limit`` named cells with most messages, and their share of all ``messages``.

    ``column``: key and label of the names.
    """
    columns = [
        (*column, "string"),
        ("messages", "Messages", "integer"),
        ("share", "Share of all messages", "percent"),
        ("bytes", "Value bytes", "bytes"),
    ]
    rows = [
        (row["name"], row["count"], 100 * row["count"] / messages, row["bytes"])
        for row in top(named, limit).to_pylist()
    ]
    return table(key, title, columns, rows)


def summary(rows: Iterable[tuple[str, str, Any, str]]) -> list[dict[str, Any]]:
    """Return the summary of rows of key, label, value and unit."""
    return [dict(zip(("key", "label", "value", "unit"), row, strict=True)) for row in rows]


def ratio(above: float | None, below: float | None) -> float | None:
    """Return the quotient; None when a part of it is unknown or ``below`` is 0."""
    return above / below if above is not None and below else None


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def short(value: float) -> str:
    """Return two significant digits, or all before the decimal point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def bytes_text(size: float) -> str:
    """Return a number of bytes in its largest decimal unit, with two significant digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{short(size)} {unit}"
        size /= 1000
    return f"{short(size)} TB"
