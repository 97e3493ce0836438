"""Rows, columns and numbers of a result."""

import pyarrow as pa
import pytest

from spark_jobs.jobs.kit.cells import cells
from spark_jobs.jobs.kit.tables import plural, ratio, short, summary, top_table


def test_a_table_of_names_has_those_with_most_messages() -> None:
    named = cells("key", name=pa.array(["a", "b", "b"]), size=pa.array([1, 2, 3]))
    shown = top_table("top", "Top", ("key", "Key"), named, 1, messages=4)
    assert shown["rows"] == [["b", 2, 50.0, 5]]
    assert [column["key"] for column in shown["columns"]] == ["key", "messages", "share", "bytes"]


def test_a_row_of_the_summary_has_four_parts() -> None:
    assert summary([("k", "K", 1, "ms")]) == [{"key": "k", "label": "K", "value": 1, "unit": "ms"}]


def test_a_ratio_of_unknown_parts_is_unknown() -> None:
    assert [ratio(6, 3), ratio(None, 3), ratio(3, None), ratio(3, 0)] == [2, None, None, None]


@pytest.mark.parametrize(("value", "text"), [(1234.6, "1,235"), (9.94, "9.9"), (0.123, "0.12")])
def test_numbers_in_sentences_have_two_digits(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 entries"), (1, "1 entry"), (1234, "1,234 entries")]
)
def test_a_noun_follows_its_number(count: int, text: str) -> None:
    assert plural(count, "entry", "entries") == text
