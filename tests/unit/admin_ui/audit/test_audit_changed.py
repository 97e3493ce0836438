"""The change that an audit entry records: only the differing fields, without secrets, within the size limit."""

import json

import pytest

from admin_ui.audit.changed import (
    CHANGES_CHARS_MAX,
    GIVEN_CHARS_MAX,
    HIDDEN,
    changes_text,
    given_query,
    given_text,
    read_changes,
)
from engine.metadata.account import Account


def of(*changes: tuple[str, object, object]) -> list[dict[str, object]]:
    account = Account()
    for change in changes:
        account.add(*change)
    return json.loads(changes_text(account) or "[]")


def test_only_differing_fields_of_documents_are_recorded() -> None:
    before, after = b'{"a": 1, "b": [2], "c": {"d": 3}}', b'{"a": 1, "b": [4], "e": null}'
    assert of(("/p", before, after)) == [
        {"where": "/p", "before": {"b": [2], "c": {"d": 3}}, "after": {"b": [4]}}
    ]


def test_binary_values_are_recorded_by_size_and_missing_values_as_none() -> None:
    assert of(("/p", None, b"\x00\xff"), ("/q", b"", None), ("/r", b"x", b"x")) == [
        {"where": "/p", "before": None, "after": "2 bytes"},
        {"where": "/q", "before": {}, "after": None},
    ]


def test_secrets_are_hidden_wherever_they_are() -> None:
    given = {"authenticationParameters": "x", "a": [{"s3Secret": "y", "n": 1}], "password": ""}
    kept = {"authenticationParameters": HIDDEN, "a": [{"s3Secret": HIDDEN, "n": 1}], "password": ""}
    assert json.loads(given_text(json.dumps(given).encode())) == kept
    assert of(("/p", None, json.dumps(given).encode()))[0]["after"] == kept


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("force=true&q=token", "force=true&q=token"),
        ("token=abc.def.ghi&force=true", f"token={HIDDEN}&force=true"),
        ("a=1&my%54oken=x&Password=y&secret", f"a=1&my%54oken={HIDDEN}&Password={HIDDEN}&secret"),
        ("token=a=b", f"token={HIDDEN}"),
    ],
)
def test_secrets_of_a_query_are_hidden(query: str, kept: str) -> None:
    assert given_query(query) == kept


def test_long_values_are_cut_and_further_changes_are_counted() -> None:
    assert len(given_text(json.dumps("x" * 9999).encode())) == GIVEN_CHARS_MAX
    assert given_text(b"no json") == given_text(b"") == ""
    long = b'"' + b"x" * (CHANGES_CHARS_MAX - 200) + b'"'
    changes = of(("/a", None, long), ("/b", None, long), ("/c", None, b"1"))
    assert [change.get("where") for change in changes] == ["/a", None]
    assert changes[-1] == {"more": 2}


def test_characters_that_a_database_rejects_are_stored_escaped() -> None:
    assert given_text(b'{"\\ud800": "\\u0000"}') == '{"\\ud800": "\\u0000"}'
    assert of(("/p", b'{"a": 1}', b'{"a": "\\udfff"}')) == [
        {"where": "/p", "before": {"a": 1}, "after": {"a": "\udfff"}}
    ]


def test_numbers_outside_json_are_shown_as_text() -> None:
    assert of(("/p", None, b'{"rate": 1e400, "low": -Infinity}')) == [
        {"where": "/p", "before": None, "after": {"rate": "1e400", "low": "-Infinity"}}
    ]
    kept = '[{"where": "/p", "before": NaN, "after": 1e999}]'
    assert read_changes(kept) == [{"where": "/p", "before": "NaN", "after": "1e999"}]
    assert read_changes("") == []


def test_deep_nesting_is_recorded_by_size_and_hides_no_other_change() -> None:
    deep = b"[" * 900 + b"]" * 900
    assert given_text(deep) == ""
    assert of(("/p", None, deep), ("/q", None, b"1")) == [
        {"where": "/p", "before": None, "after": "1800 bytes"},
        {"where": "/q", "before": None, "after": 1},
    ]
