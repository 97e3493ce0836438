"""The decoder of callers' bodies: what it returns can be stored, recorded and answered."""

import json
from typing import Any

import pytest

from engine.base.errors import InvalidField
from gateway.http import json_bodies
from gateway.http.json_bodies import NESTING_MAX, decode_body


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": [1, -2.5, "x", null, true]}',
        "\ufeff{}".encode(),
        b'"\\ud83d\\ude00"',
        b"1e308",
        b"[]",
    ],
)
def test_ordinary_bodies_are_decoded(body: bytes) -> None:
    assert decode_body(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"msgRateIn": 1e400}', "msgRateIn"),
        (b'{"a": [{"b": 0}, {"b": -1e999}]}', "a[1].b"),
        (b"1e400", "body"),
        (b'{"a": 1e400', "body"),
        (b'{"a": 1e400, "b": ' + b"[" * 100_000, "body"),
        (b'{"a": NaN}', "body"),
        (b'{"a": Infinity}', "body"),
        (b'{"adminRoles": ["ok", "\\ud800"]}', "adminRoles[1]"),
        (b'{"peers": {"\\udfff": 1}}', "peers"),
        (b'["\\ud800"]', "body[0]"),
        (b'"\xed\xa0\x80"', "body"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "c"),
        (b'{"a": ' + b"9" * 5000 + b"}", "body"),
        (b"{", "body"),
    ],
)
def test_unstorable_or_ambiguous_members_are_refused_by_name(body: bytes, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        decode_body(body)
    assert refused.value.field == field


@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 500, 990, 100_000])
@pytest.mark.parametrize("shape", ["[", '{"a":'])
def test_deep_nesting_is_refused(depth: int, shape: str) -> None:
    close = "]" if shape == "[" else "}"
    with pytest.raises(InvalidField, match="nested deeper than 100 levels"):
        decode_body((shape * depth + "1" + close * depth).encode())
    most: Any = decode_body((shape * NESTING_MAX + "1" + close * NESTING_MAX).encode())
    assert most


class CountedName(str):
    """A name that counts its comparisons with others."""

    comparisons = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_a_repeated_member_among_many_is_found_in_one_pass() -> None:
    """Bound the work: a body within the limit has a hundred thousand members, and comparing all pairs takes minutes."""
    names = [*map(CountedName, range(2_000)), CountedName(1_999)]
    with pytest.raises(InvalidField) as refused:
        json_bodies._object([(name, 1) for name in names])
    assert refused.value.field == "1999"
    assert CountedName.comparisons < 3 * len(names)
