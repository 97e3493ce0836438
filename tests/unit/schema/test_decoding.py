"""Messages decoded by their schema: every kind, and refusals that name the field."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.schema.decoding import JsonValue, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, joined


def of(kind: SchemaKind, data: object = b"", **properties: str) -> Schema:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Schema(kind, text, properties)


def value(schema: Schema, payload: bytes, key: bytes | None = None) -> JsonValue:
    decoded = decoder(schema).value(payload, key)
    json.dumps(decoded, allow_nan=False).encode()
    return decoded


def refused(schema: Schema, payload: bytes, reader: Schema | None = None) -> str:
    with pytest.raises(UndecodableError) as raised:
        decoder(schema, reader).value(payload)
    return str(raised.value)


def key_value(key: Schema, inner: Schema, encoding: str = "INLINE") -> Schema:
    properties: Mapping[str, str] = {
        "key.schema.type": key.kind.value,
        "value.schema.type": inner.kind.value,
        "key.schema.properties": json.dumps(dict(key.properties)),
        "value.schema.properties": json.dumps(dict(inner.properties)),
        "kv.encoding.type": encoding,
    }
    return Schema(SchemaKind.KEY_VALUE, joined(key.data, inner.data), properties)


@pytest.mark.parametrize(
    ("kind", "payload", "shown"),
    [
        (SchemaKind.NONE, b"\x00\xff", {"base64": "AP8="}),
        (SchemaKind.STRING, "Grüße".encode(), "Grüße"),
        (SchemaKind.BOOLEAN, b"\x01", True),
        (SchemaKind.INT8, b"\xff", -1),
        (SchemaKind.INT16, b"\x01\x00", 256),
        (SchemaKind.INT32, b"\xff\xff\xff\xfe", -2),
        (SchemaKind.INT64, b"\x7f" + b"\xff" * 7, 2**63 - 1),
        (SchemaKind.FLOAT, struct.pack(">f", 0.1), 0.1),
        (SchemaKind.FLOAT, struct.pack(">f", 16777217.0), 16777216.0),
        (SchemaKind.FLOAT, struct.pack(">f", 3.4028234663852886e38), 3.40282347e38),
        (SchemaKind.DOUBLE, struct.pack(">d", 0.1), 0.1),
        (SchemaKind.DOUBLE, struct.pack(">d", float("nan")), "NaN"),
        (SchemaKind.DOUBLE, struct.pack(">d", float("-inf")), "-Infinity"),
        (SchemaKind.TIMESTAMP, struct.pack(">q", 1_700_000_000_123), "2023-11-14T22:13:20.123Z"),
        (SchemaKind.TIMESTAMP, struct.pack(">q", -1), "1969-12-31T23:59:59.999Z"),
        (SchemaKind.DATE, struct.pack(">q", 0), "1970-01-01T00:00:00.000Z"),
        (SchemaKind.TIME, struct.pack(">q", 3_600_000), "1970-01-01T01:00:00.000Z"),
        (SchemaKind.INSTANT, struct.pack(">qi", 1, 5), "1970-01-01T00:00:01.000000005Z"),
        (SchemaKind.LOCAL_DATE, struct.pack(">q", 19_000), "2022-01-08"),
        (SchemaKind.LOCAL_DATE, struct.pack(">q", 2**40), 2**40),
        (SchemaKind.LOCAL_TIME, struct.pack(">q", 1), "00:00:00.000000001"),
        (SchemaKind.LOCAL_DATE_TIME, struct.pack(">qq", 1, 60 * 10**9), "1970-01-02T00:01:00.000000000"),
    ],
)  # fmt: skip
def test_a_primitive_is_what_javas_client_wrote(
    kind: SchemaKind, payload: bytes, shown: JsonValue
) -> None:
    assert value(of(kind), payload) == shown


RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "golden/schemas/java_values.jsonl")
    .read_text()
    .splitlines()
]
"""Payloads that Apache's Java client 4.0.8 encoded, with their values."""


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["what"])
def test_values_encoded_by_javas_client_are_decoded(row: dict[str, Any]) -> None:
    schema = Schema(SchemaKind(row["kind"]), row["definition"].encode("latin-1"), row["properties"])
    assert value(schema, bytes.fromhex(row["payload"]), b"k") == row["value"]


@pytest.mark.parametrize("kind", [kind for kind in SchemaKind if kind.value.startswith("INT")])
def test_a_number_of_another_width_is_refused(kind: SchemaKind) -> None:
    assert "3 bytes, expected" in refused(of(kind), b"\0\0\0")


def test_a_string_is_read_in_the_character_set_that_its_schema_names() -> None:
    assert value(of(SchemaKind.STRING, __charset="ISO-8859-1"), b"\xe4") == "ä"
    assert "UTF-8 at byte 0" in refused(of(SchemaKind.STRING), b"\xe4")
    assert "__charset 'zlib'" in refused(of(SchemaKind.STRING, __charset="zlib"), b"")


def test_json_is_the_document_with_inexpressible_values_replaced() -> None:
    schema = of(SchemaKind.JSON, {"type": "record", "name": "R", "fields": []})
    assert value(schema, b'{"a": [1, 2.5, null], "big": 12345678901234567890}') == {
        "a": [1, 2.5, None],
        "big": 12345678901234567890,
    }
    assert value(schema, b'[NaN, 1e999, -Infinity, "\\ud800"]') == [
        "NaN",
        "Infinity",
        "-Infinity",
        "?",
    ]


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"\xff", b"[" * 100_000, b"[" * 101 + b"]" * 101, b"1" * 5000],
)
def test_invalid_json_is_refused(payload: bytes) -> None:
    assert refused(of(SchemaKind.JSON, "string"), payload)


READER = of(
    SchemaKind.JSON,
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "count", "type": "int", "default": 1},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [{"name": "price", "type": "double"}],
                    },
                },
                "default": [],
            },
            {"name": "by", "type": {"type": "map", "values": ["int", "string"]}, "default": {}},
        ],
    },
)


def test_a_json_document_is_what_a_reader_finds_in_it() -> None:
    read = decoder(READER, READER)
    assert read.value(b'{"id": 5, "more": 1}') == {
        "id": 5,
        "note": None,
        "count": 1,
        "items": [],
        "by": {},
    }


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"{}", "id: is required, but missing"),
        (b'{"id": "5"}', "id: text, expected long"),
        (b'{"id": 1.5}', "id: a number, expected long"),
        (b'{"id": 1, "note": 4}', "note: a number, expected string"),
        (b'{"id": 1, "items": [{"price": 1}, {"price": "x"}]}', "items[1].price: text"),
        (b'{"id": 1, "by": {"a b": []}}', 'by["a b"]: an array is none of [int, string]'),
        (b"[]", "an array, expected record Order"),
    ],
)
def test_a_json_document_that_does_not_fit_a_reader_names_the_field(
    payload: bytes, reason: str
) -> None:
    assert refused(READER, payload, READER).startswith(reason)


def test_alternatives_in_json_are_not_tried_for_ever() -> None:
    """Refuse a document within bounded work, though each of its levels fits two alternatives."""
    other = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["null", "A", "B"]}]}
    first = {"name": "n", "type": ["null", "A", other]}
    reader = of(SchemaKind.JSON, {"type": "record", "name": "A", "fields": [first]})
    assert refused(reader, b'{"n": ' * 90 + b"5" + b"}" * 90, reader)


def test_a_key_value_holds_both_parts_or_uses_the_messages_key() -> None:
    inline = key_value(of(SchemaKind.STRING), of(SchemaKind.INT32))
    assert value(inline, struct.pack(">i", 1) + b"k" + struct.pack(">ii", 4, 7)) == {
        "key": "k",
        "value": 7,
    }
    assert value(inline, struct.pack(">ii", -1, -1)) == {"key": None, "value": None}
    apart = key_value(of(SchemaKind.STRING), of(SchemaKind.INT32), "SEPARATED")
    assert value(apart, struct.pack(">i", 7), b"k") == {"key": "k", "value": 7}
    assert value(apart, struct.pack(">i", 7)) == {"key": None, "value": 7}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\0", "key: the data ends early"),
        (struct.pack(">i", 9), "key: a length of 9 of 0 bytes"),
        (struct.pack(">i", -2), "key: a length of -2"),
        (struct.pack(">ii", 0, 1) + b"x", "value: INT32: 1 bytes, expected 4"),
        (struct.pack(">iii", 0, 4, 7) + b"x", "1 bytes are left behind it"),
    ],
)
def test_a_key_value_that_breaks_names_its_part(payload: bytes, reason: str) -> None:
    schema = key_value(of(SchemaKind.STRING), of(SchemaKind.INT32))
    assert refused(schema, payload).startswith(reason)


def test_kinds_that_cannot_meet_are_refused_at_once() -> None:
    with pytest.raises(InvalidSchemaError, match="INT32 cannot be read as STRING"):
        decoder(of(SchemaKind.INT32), of(SchemaKind.STRING))
    within = key_value(key_value(of(SchemaKind.STRING), of(SchemaKind.STRING)), of(SchemaKind.NONE))
    with pytest.raises(InvalidSchemaError, match="not within a KEY_VALUE"):
        decoder(within)
    pair = key_value(of(SchemaKind.STRING), of(SchemaKind.STRING))
    with pytest.raises(InvalidSchemaError, match="KEY_VALUE cannot be read as STRING"):
        decoder(pair, of(SchemaKind.STRING))
