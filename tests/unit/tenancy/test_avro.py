"""Avro's binary form: values of a schema are read and written, others are refused with the field's name."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tenancy.avro import AvroError, AvroSchema

COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "size", "type": "long"},
        {"name": "also", "type": ["null", "other.Colour"]},
    ],
}
OUTER = {
    "type": "record",
    "name": "Outer",
    "namespace": "other",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int", "default": 7},
        {"name": "ratio", "type": "double"},
        {"name": "share", "type": {"type": "float"}},
        {"name": "data", "type": "bytes"},
        {"name": "colour", "type": ["null", COLOUR], "default": None},
        {"name": "parts", "type": {"type": "array", "items": INNER}},
        {"name": "by_name", "type": {"type": "map", "values": "Inner"}},
        {"name": "either", "type": ["string", "long"]},
    ],
}
SCHEMA = AvroSchema(OUTER)
VALUE: dict[str, Any] = {
    "flag": True,
    "small": -3,
    "ratio": 2.5,
    "share": 0.5,
    "data": b"\0\xff",
    "colour": "BLUE",
    "parts": [{"size": 1 << 40}, {"size": -1, "also": "RED"}],
    "by_name": {"ä": {"size": 0}},
    "either": 12,
}
INT = AvroSchema("int")


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [  # the examples of Avro's specification
        ("long", 0, "00"),
        ("long", -1, "01"),
        ("long", 1, "02"),
        ("long", -64, "7f"),
        ("long", 64, "8001"),
        ("string", "foo", "06666f6f"),
        ({"type": "array", "items": "long"}, [3, 27], "04063600"),
        (["null", "string"], None, "00"),
        (["null", "string"], "a", "020261"),
    ],
)
def test_the_specifications_examples(schema: Any, value: Any, data: str) -> None:
    assert AvroSchema(schema).encode(value).hex() == data
    assert AvroSchema(schema).decode(bytes.fromhex(data)) == value


def test_every_type_round_trips() -> None:
    assert SCHEMA.decode(SCHEMA.encode(VALUE)) == VALUE


@given(st.dictionaries(st.text(), st.integers(-(1 << 63), (1 << 63) - 1)))
def test_maps_and_numbers_of_any_size_round_trip(value: dict[str, int]) -> None:
    schema = AvroSchema({"type": "map", "values": "long"})
    assert schema.decode(schema.encode(value)) == value


def test_a_missing_field_has_its_default() -> None:
    value = {key: value for key, value in VALUE.items() if key not in ("small", "colour")}
    assert SCHEMA.decode(SCHEMA.encode(value)) == {**value, "small": 7}


def test_blocks_with_a_size_are_read() -> None:
    schema = AvroSchema({"type": "array", "items": "int"})
    assert schema.decode(bytes.fromhex("0304061000")) == [3, 8]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"flag": 1}, "flag: 1 is no boolean"),
        ({"small": 1 << 31}, "small: 2147483648 does not fit into 32 bits"),
        ({"small": True}, "small: True is no int"),
        ({"parts": [{"size": 1}, {}]}, r"parts\[1\].size: None is no long"),
        ({"by_name": {"k": {"size": "x"}}}, r"by_name\[k\].size: 'x' is no long"),
        ({"by_name": {1: {"size": 1}}}, "by_name: 1 is no string"),
        ({"colour": "GREEN"}, r"colour: 'GREEN' is none of null, Colour \(RED, BLUE\)"),
        ({"more": 1}, "Outer has no field more"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_field(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AvroError, match=reason):
        SCHEMA.encode({**VALUE, **change})


def test_cut_or_changed_bytes_are_refused_or_another_value() -> None:
    data = SCHEMA.encode(VALUE)
    for stop in range(len(data)):
        with pytest.raises(AvroError):
            SCHEMA.decode(data[:stop])
    with pytest.raises(AvroError, match="1 bytes after"):
        SCHEMA.decode(data + b"\0")
    for index in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[index] ^= 1 << bit
            with suppress(AvroError):
                SCHEMA.decode(bytes(damaged))


def test_a_count_that_the_bytes_cannot_hold_is_refused_at_once() -> None:
    schema = AvroSchema({"type": "array", "items": "null"})
    with pytest.raises(AvroError, match="items in"):
        schema.decode(bytes.fromhex("feffffffffffffffff01") + b"\0")


@pytest.mark.parametrize(
    "definition", ["nothing", {"type": "record"}, {"type": "array"}, [1], {"type": None}, {}]
)
def test_an_invalid_schema_is_refused(definition: Any) -> None:
    with pytest.raises(AvroError, match="not an Avro schema"):
        AvroSchema(definition)
