"""Series and tables of results as CSV and JSON."""

import csv
import io
import json
from typing import Any

from admin_ui.analyses.tables import derived_names, text_of

RESULT: dict[str, Any] = {
    "summary": [],
    "series": [{"key": "rate", "points": [[1, 2.5], [2, None]]}],
    "tables": [
        {
            "key": "keys",
            "columns": [{"key": "key"}, {"key": "messages"}],
            "rows": [["=1+1", 3], ['ä "b", c', None]],
        }
    ],
}


def test_each_table_and_series_is_a_file_of_each_kind() -> None:
    names = ["result.json", "rate.csv", "rate.json", "keys.csv", "keys.json"]
    assert derived_names(RESULT) == names
    assert derived_names(None) == []
    assert all(text_of(RESULT, name) for name in names)
    assert [text_of(RESULT, name) for name in ("keys.parquet", "other.csv", "keys", "")] == [
        None
    ] * 4


def test_the_files_have_the_values_of_the_result() -> None:
    assert json.loads(text_of(RESULT, "result.json") or "") == RESULT
    assert json.loads(text_of(RESULT, "rate.json") or "") == [
        {"x": 1, "y": 2.5},
        {"x": 2, "y": None},
    ]
    rows = list(csv.reader(io.StringIO(text_of(RESULT, "keys.csv") or "")))
    assert rows == [["key", "messages"], ["'=1+1", "3"], ['ä "b", c', ""]]


def test_rows_are_read_in_pages() -> None:
    pages = [text_of(RESULT, "keys.json", offset, 1) or "" for offset in range(3)]
    assert [len(json.loads(page)) for page in pages] == [1, 1, 0]
    assert json.loads(pages[1]) == [{"key": 'ä "b", c', "messages": None}]
    rows = list(csv.reader(io.StringIO(text_of(RESULT, "keys.csv", 1, 5) or "")))
    assert rows == [["key", "messages"], ['ä "b", c', ""]]
