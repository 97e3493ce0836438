"""AVRO messages: their values, their values under another definition, and bounds on their size."""

import json
import struct

import pytest

from engine.schema.decoding import JsonValue, UndecodableError, decoder
from engine.schema.kinds import Schema, SchemaKind
from engine.wire.varints import varint


def avro(definition: object) -> Schema:
    return Schema(SchemaKind.AVRO, json.dumps(definition).encode(), {})


def record(*fields: dict[str, object], name: str = "R") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, of: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": of, **more}


def long(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def text(value: str) -> bytes:
    data = value.encode()
    return long(len(data)) + data


def read(definition: object, payload: bytes, reader: object = None) -> JsonValue:
    value = decoder(avro(definition), None if reader is None else avro(reader)).value(payload)
    json.dumps(value, allow_nan=False)
    return value


def refused(definition: object, payload: bytes, reader: object = None) -> str:
    with pytest.raises(UndecodableError) as raised:
        read(definition, payload, reader)
    return str(raised.value)


AB = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
ONLY_A = {"type": "enum", "name": "E", "symbols": ["A"]}
A_ELSE = {**ONLY_A, "default": "A"}
ONE = {"type": "fixed", "name": "F", "size": 1}
TWO = {"type": "fixed", "name": "F", "size": 2}
UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
DURATION = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
SPAN = struct.pack("<III", 1, 2, 3)


@pytest.mark.parametrize(
    ("of", "payload", "shown"),
    [
        ("null", b"", None),
        ("boolean", b"\x01", True),
        ("int", long(-5), -5),
        ("long", long(-(2**63)), -(2**63)),
        ("float", struct.pack("<f", 0.1), 0.1),
        ("double", struct.pack("<d", float("inf")), "Infinity"),
        ("string", text("ä"), "ä"),
        ("bytes", long(1) + b"\xff", {"base64": "/w=="}),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", {"base64": "YWI="}),
        (AB, long(1), "B"),
        ({"type": "array", "items": "int"}, long(2) + long(1) + long(2) + long(0), [1, 2]),
        ({"type": "array", "items": "int"}, long(-1) + long(1) + long(7) + long(0), [7]),
        ({"type": "map", "values": "int"}, long(1) + text("k") + long(3) + long(0), {"k": 3}),
        (["null", "int"], long(1) + long(3), 3),
        ({"type": "int", "logicalType": "date"}, long(19_000), "2022-01-08"),
        ({"type": "int", "logicalType": "time-millis"}, long(61_001), "00:01:01.001"),
        ({"type": "int", "logicalType": "time-millis"}, long(-1), -1),
        ({"type": "long", "logicalType": "time-micros"}, long(1), "00:00:00.000001"),
        ({"type": "long", "logicalType": "timestamp-millis"}, long(1), "1970-01-01T00:00:00.001Z"),
        ({"type": "long", "logicalType": "timestamp-millis"}, long(2**60), 2**60),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, long(1), "1970-01-01T00:00:00.000001"),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2}, long(2) + b"\xff\x85", "-1.23"),
        ({"type": "bytes", "logicalType": "decimal", "scale": 3}, long(1) + b"\x05", "0.005"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, long(1) + b"\x05", "5"),
        ({"type": "bytes", "logicalType": "decimal", "scale": -1}, long(1) + b"\x05", {"base64": "BQ=="}),
        (UUID, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (DURATION, SPAN, {"months": 1, "days": 2, "milliseconds": 3}),
        ({"type": "string", "logicalType": ["odd"]}, text("x"), "x"),
    ],
)  # fmt: skip
def test_each_type_is_shown_as_what_it_means(of: object, payload: bytes, shown: JsonValue) -> None:
    assert read(record(field("f", of)), payload) == {"f": shown}


ORDER = record(
    field("id", "long"),
    field("items", {"type": "array", "items": record(field("price", "double"), name="Item")}),
    field("by", {"type": "map", "values": ["null", "Item"]}),
    name="Order",
)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "id: the data ends early"),
        (b"\xff" * 11, "id: a number of more than ten bytes"),
        (long(1) + long(2) + b"\0" * 9, "items[1].price: the data ends early"),
        (long(1) + long(0) + long(1) + text("a") + long(2), 'by["a"]: branch 2 of a union of 2'),
        (long(1) + long(0) + long(1) + long(-4), "by: a length of -4"),
        (long(1) + long(0) + long(0) + b"xy", "2 bytes are left behind it"),
        (long(1) + long(2**50), "items[0]: more values than a message of its size may hold"),
    ],
)
def test_an_undecodable_field_is_named(payload: bytes, reason: str) -> None:
    assert refused(ORDER, payload) == reason


@pytest.mark.parametrize(
    ("of", "payload", "reason"),
    [
        ("boolean", b"\x02", "f: 2 is no boolean"),
        ("int", long(2**31), "f: 2147483648 is no int of 32 bits"),
        ("string", long(1) + b"\xff", "f: no UTF-8 at byte 0"),
        (ONLY_A, long(1), "f: symbol 1 of an enum of 1"),
    ],
)
def test_values_that_no_writer_writes_are_refused(of: object, payload: bytes, reason: str) -> None:
    assert refused(record(field("f", of)), payload) == reason


@pytest.mark.parametrize(
    ("written", "payload", "wanted", "shown"),
    [
        ("int", long(3), "long", 3),
        ("int", long(3), "double", 3.0),
        ("long", long(2**62), "float", 4.611686e18),
        ("float", struct.pack("<f", 0.5), "double", 0.5),
        ("string", text("a"), "bytes", {"base64": "YQ=="}),
        ("bytes", text("a"), "string", "a"),
        ("int", long(3), ["null", "long"], 3),
        (["int", "string"], long(1) + text("a"), "string", "a"),
        (AB, long(1), A_ELSE, "A"),
        ("long", long(1), {"type": "long", "logicalType": "timestamp-millis"}, "1970-01-01T00:00:00.001Z"),
    ],
)  # fmt: skip
def test_another_definition_sees_a_value_as_its_own_type(
    written: object, payload: bytes, wanted: object, shown: JsonValue
) -> None:
    value = read(record(field("f", written)), payload, record(field("f", wanted)))
    assert value == {"f": shown}


@pytest.mark.parametrize(
    ("written", "payload", "wanted", "reason"),
    [
        ("string", text("a"), "int", "f: string cannot be read as int"),
        (["int", "string"], long(1) + text("a"), "int", "f: string cannot be read as int"),
        ("string", text("a"), ["null", "int"], "f: string is none of [null, int]"),
        (AB, long(1), ONLY_A, "f: B is no symbol of the reader's"),
        (ONE, b"a", TWO, "f: fixed F: 1 bytes, then 2"),
    ],
)  # fmt: skip
def test_values_that_another_definition_cannot_read_are_refused(
    written: object, payload: bytes, wanted: object, reason: str
) -> None:
    assert refused(record(field("f", written)), payload, record(field("f", wanted))) == reason


def test_a_branch_that_cannot_be_read_harms_only_what_is_in_it() -> None:
    written = record(field("f", ["int", "string"]))
    assert read(written, long(0) + long(5), record(field("f", "int"))) == {"f": 5}


def test_fields_are_found_by_name_and_alias_and_stood_in_for_by_their_default() -> None:
    written = record(field("a", "int"), field("b", "string"), field("gone", ORDER))
    order = long(1) + long(0) + long(0)
    seen = record(
        field("c", "bytes", default="\u00ff"),
        field("second", "string", aliases=["b"]),
        field("a", "long"),
        field("inner", record(field("x", "int", default=4), name="I"), default={}),
    )
    value = read(written, long(7) + text("t") + order, seen)
    assert value == {"c": {"base64": "/w=="}, "second": "t", "a": 7, "inner": {"x": 4}}
    assert isinstance(value, dict)
    assert list(value) == ["c", "second", "a", "inner"]


def test_a_field_without_default_that_was_not_written_is_missed() -> None:
    written, seen = record(field("a", "int")), record(field("a", "int"), field("b", "int"))
    assert refused(written, long(1), seen) == "b: is required, but the data does not have it"
    odd = record(field("a", "int"), field("b", "int", default="x"))
    assert refused(written, long(1), odd) == "b: its default: 'x' is no int"


LIST = record(field("next", ["null", "R"]))


def test_records_may_hold_themselves_but_not_without_end() -> None:
    assert read(LIST, long(1) * 3 + long(0)) == {"next": {"next": {"next": {"next": None}}}}
    assert refused(LIST, long(1) * 1_000_000).endswith("values within values beyond 100")
    assert read(LIST, long(1) + long(0), LIST) == {"next": {"next": None}}


def test_the_number_of_values_without_bytes_is_bounded() -> None:
    empty = record(field("f", {"type": "array", "items": record(name="Empty")}))
    assert read(empty, long(1000) + long(0)) == {"f": [{}] * 1000}
    assert "more values than" in refused(empty, long(2**40) + long(0))
    blocks = record(field("f", {"type": "array", "items": "null"}))
    assert "more values than" in refused(blocks, long(90_000) * 2 + long(0))


def test_small_definitions_of_huge_values_are_bounded() -> None:
    types: object = "null"
    for level in range(12):
        first = field("f0", types)
        name = types["name"] if isinstance(types, dict) else "null"
        types = record(first, *(field(f"f{i}", name) for i in range(1, 10)), name=f"R{level}")
    assert "more values than" in refused(types, b"")


def test_long_names_and_defaults_count_too() -> None:
    """Refuse a payload of a few bytes that would become gigabytes of text."""
    items = record(field("f" * 100_000, "null"), name="I")
    wide = record(field("f", {"type": "array", "items": items}))
    assert "more values than" in refused(wide, long(10_000) + long(0))
    written = record(field("f", {"type": "array", "items": record(name="I")}))
    long_default = record(field("d", "string", default="x" * 100_000), name="I")
    seen = record(field("f", {"type": "array", "items": long_default}))
    assert "more values than" in refused(written, long(10_000) + long(0), seen)
