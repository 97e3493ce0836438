"""Paths into JSON values."""

import pytest

from engine.base.errors import InvalidField
from engine.schema.json_paths import ABSENT, Steps, at_path, parse_path


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
