"""Series and tables of a result as CSV and JSON, beside the Parquet files that a job writes. Pure."""

import json
from typing import Any

from admin_ui.csv_text import csv_line

FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
"""Content types, by the ends of names."""
WHOLE = "result.json"
"""Name of the whole result as a file."""


def derived_names(result: dict[str, Any] | None) -> list[str]:
    """Return the names of the files that ``text_of`` makes of a result."""
    if result is None:
        return []
    keys = [*_tables(result)]
    return [WHOLE, *(f"{key}.{kind}" for key in keys for kind in FORMATS)]


def text_of(
    result: dict[str, Any], name: str, offset: int = 0, limit: int | None = None
) -> str | None:
    """Return the text of a derived file, of series and tables ``limit`` rows from ``offset`` on; None for another
    name."""
    if name == WHOLE:
        return json.dumps(result, ensure_ascii=False, indent=1)
    key, _, kind = name.rpartition(".")
    table = _tables(result).get(key)
    if table is None or kind not in FORMATS:
        return None
    columns, rows = table
    rows = rows[offset : None if limit is None else offset + limit]
    if kind == "json":
        return json.dumps(
            [dict(zip(columns, row, strict=True)) for row in rows], ensure_ascii=False, indent=1
        )
    return "".join(map(csv_line, [columns, *rows]))


def _tables(result: dict[str, Any]) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Return columns and rows of series and tables, by key."""
    series = {item["key"]: (["x", "y"], item["points"]) for item in result.get("series", ())}
    tables = {
        item["key"]: ([column["key"] for column in item["columns"]], item["rows"])
        for item in result.get("tables", ())
    }
    return series | tables
