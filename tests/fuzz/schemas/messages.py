"""Messages decoded by their schema, and definitions to decode by."""

import json
import struct
from functools import partial
from typing import Any

from engine.schema.decoding import UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, joined
from engine.wire.varints import varint
from tests.fuzz.target import Target
from tests.unit.schema.values.test_native_values import files, native, order

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "scale": 2}},
    {"name": "share", "type": "float"},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
    {"name": "none", "type": {"type": "array", "items": "null"}},
    {"name": "by", "type": {"type": "map", "values": ["null", "string", "double"]}},
    {"name": "next", "type": ["null", "R"]},
    {"name": "more", "type": {"type": "array", "items": "R"}},
]
READER: list[dict[str, Any]] = [
    {"name": "id", "type": ["null", "double"]},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"], "default": "A"}},
    {"name": "by", "type": {"type": "map", "values": ["null", "bytes", "double"]}},
    {"name": "more", "type": {"type": "array", "items": "R"}, "default": []},
    {"name": "added", "type": "string", "default": "x"},
]


def record(fields: list[dict[str, Any]], kind: SchemaKind = SchemaKind.AVRO) -> Schema:
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return Schema(kind, text.encode(), {})


def longs(*numbers: int) -> bytes:
    return b"".join(varint((number << 1) ^ (number >> 63)) for number in numbers)


def one(inner: bytes = b"\0", more: bytes = b"\0") -> bytes:
    price, by = longs(2) + b"\x01\x02", longs(2, 1) + b"a" + longs(1, 2) + b"hi" + longs(1)
    number = b"b" + longs(2) + struct.pack("<d", 0.5) + longs(0)
    share = struct.pack("<f", 0.1)
    return (
        longs(5, 1_700_000_000_000, 19_000)
        + price
        + share
        + longs(1, 3, 0)
        + by
        + number
        + (inner + more)
    )


AVRO = [one(), one(longs(1) + one()), one(more=longs(1) + one() + longs(0))]
TEXT = [
    b'{"id": 1, "kind": "A", "by": {"a": null, "b": "x"}, "more": [{"id": null}]}',
    b'{"id": 1.5e3, "kind": "A", "by": {}, "t": "\\u00e4\\ud83d\\ude00"}',
]
INLINE = Schema(
    SchemaKind.KEY_VALUE,
    joined(b"", record(FIELDS).data),
    {"key.schema.type": "STRING", "value.schema.type": "AVRO"},
)


def decode(schema: Schema, reader: Schema | None, data: bytes) -> None:
    value = decoder(schema, reader).value(data, data[:9])
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def target(name: str, seeds: list[bytes], schema: Schema, reader: Schema | None = None) -> Target:
    words = [b"\x02" * 300, longs(1 << 40), longs(-1), b"[" * 300, b"1e999", b"\\ud800"]
    run = partial(decode, schema, reader)
    return Target(name, run, seeds, (UndecodableError,), words=words)


def define(kind: SchemaKind, payload: bytes, data: bytes) -> None:
    schema = Schema(kind, data, {})
    decode(schema, None, payload)
    decode(record(FIELDS, kind), schema, payload)


def definition(kind: SchemaKind, payload: bytes, seeds: list[bytes]) -> Target:
    return Target(
        f"definitions to decode {kind.value} by",
        partial(define, kind, payload),
        seeds,
        (UndecodableError, InvalidSchemaError),
    )


DEFINITIONS = [record(FIELDS).data, record(READER).data]
NATIVE = [order(id=5, kind=3, raw=b"x", prices={"a": 1.5}, maybe=1).SerializeToString(), b""]
MESSAGES: tuple[Target, ...] = (
    target("AVRO messages", AVRO, record(FIELDS)),
    target("AVRO messages for a reader", AVRO, record(FIELDS), record(READER)),
    target("JSON messages", TEXT, record(FIELDS, SchemaKind.JSON)),
    target(
        "JSON messages for a reader",
        TEXT,
        record(READER, SchemaKind.JSON),
        record(READER, SchemaKind.JSON),
    ),
    target("PROTOBUF_NATIVE messages", NATIVE, native(files())),
    target("KEY_VALUE messages", [struct.pack(">isi", 1, b"k", len(AVRO[0])) + AVRO[0]], INLINE),
    definition(SchemaKind.AVRO, AVRO[1], DEFINITIONS),
    definition(SchemaKind.JSON, TEXT[1], DEFINITIONS[1:]),
)
