"""Rows of the list as JSON: written again only when more than their time changed."""

import json
from typing import Any

import pytest

from admin_ui.topics.row_texts import RowTexts
from engine.admin.api.rows import ROW_COLUMNS
from gateway.http import bodies
from gateway.services.feeds.row_list import RowChanges
from gateway.services.index.topic_index import TopicIndex

NAME = "persistent://public/default/\u00e9t\u00e9"


def report(index: TopicIndex, at: int, backlog: int) -> None:
    numbers = [backlog if column == "backlog" else 0 for column in ROW_COLUMNS]
    index.apply("b", RowChanges(at, [[NAME, *numbers]], []))


def parsed(row: tuple[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads("".join(row))
    return fields


def test_a_row_has_the_fields_of_the_index_with_trend_and_problem() -> None:
    index, texts = TopicIndex(), RowTexts()
    report(index, 5, 7)
    row = parsed(texts.row(index, NAME, 9, (1, None, 7), ("warning", "slow")))
    problem = {"severity": "warning", "cause": "slow"}
    assert row == {**index.row(NAME, 9), "trend": [1, None, 7], "attention": problem}
    assert parsed(texts.row(index, NAME, 9, None, None)) == {
        **index.row(NAME, 9),
        "attention": None,
    }


def test_only_changed_parts_of_a_row_are_written_again() -> None:
    index, texts = TopicIndex(), RowTexts()
    report(index, 5, 7)
    first = texts.row(index, NAME, 9, None, None)
    report(index, 6, 7)
    later = texts.row(index, NAME, 9, None, None)
    assert later[0] is first[0]
    assert (parsed(first)["at"], parsed(later)["at"]) == (5, 6)
    report(index, 7, 8)
    assert parsed(texts.row(index, NAME, 9, None, None))["backlog"] == 8
    list(index.set_silent("b", True))
    assert parsed(texts.row(index, NAME, 9, None, None))["known"] == "last"


def test_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "KEPT_MAX", 2)
    index, texts = TopicIndex(), RowTexts()
    names = [f"persistent://public/default/{letter}" for letter in "abc"]
    index.catalog(dict.fromkeys(names, 0), [])
    for name in names:
        assert parsed(texts.row(index, name, 9, None, None))["name"] == name
    assert len(texts) == 2
