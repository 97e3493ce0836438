"""Paths into JSON values."""

import pytest

from engine.base.errors import InvalidField
from engine.schema.json_paths import ABSENT, Steps, at_path, is_written, parse_path, read_json


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$", ()),
        ("a", ("a",)),
        ("$.a.b", ("a", "b")),
        ("$.a[0].b[12]", ("a", 0, "b", 12)),
        ("$['unit price'][\"x.y\"]", ("unit price", "x.y")),
    ],
)
def test_paths_are_parsed(text: str, steps: Steps) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize(
    "text", ["$.", "$..a", "$.a[", "$.a[-1]", "$.a[*]", "a" * 1001, "$" + ".a" * 51]
)
def test_other_paths_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidField, match="path"):
        parse_path(text)


def test_a_value_is_followed_to_the_end_of_the_path() -> None:
    document = {"a": [{"b c": None}], "0": 1}
    assert at_path(document, ()) == document
    assert at_path(document, ("a", 0, "b c")) is None
    assert at_path(document, (0,)) == 1
    for steps in (("b",), ("a", 1), ("a", "0"), ("a", 0, "b c", "d")):
        assert at_path(document, steps) is ABSENT


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ("1.10", "1.10"),
        ("1.10", "1.1"),
        ("1e3", "1000"),
        ("9223372036854775807", "9223372036854775807"),
        ("0.12345678901234567890", "0.12345678901234567890"),
        ("9" * 5_000, "9" * 5_000),
        ("1e999999999999999999999", "1e999999999999999999999"),
        ('"1.10"', "1.10"),
        ("true", "true"),
        ("null", "null"),
        ('{"a": [1.0, "\u20ac"], "b": {}}', '{"b":{},"a":[1,"\u20ac"]}'),
        ("[]", "[ ]"),
        ("NaN", "NaN"),
    ],
)
def test_a_value_is_compared_as_a_person_writes_it(document: str, wanted: str) -> None:
    assert is_written(read_json(document), wanted)


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ("9223372036854775807", "9223372036854775806"),
        ("9007199254740993.0", "9007199254740992"),
        ("0.12345678901234567890", "0.12345678901234568"),
        ('"1.10"', "1.1"),
        ('"a"', '"a"'),
        ("true", "1"),
        ("1", "true"),
        ("1", "1_000"),
        ("1", "\u0661"),
        ("1e999999999999999999999", "1e999999999999999999998"),
        ('{"a": "1"}', '{"a": 1}'),
        ("[1]", "[1, 2]"),
        ("[1]", "[1"),
        ("{}", "[" * 100_000),
    ],
)
def test_another_value_is_not(document: str, wanted: str) -> None:
    assert not is_written(read_json(document), wanted)
