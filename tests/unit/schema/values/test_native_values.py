"""PROTOBUF_NATIVE and PROTOBUF messages."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from engine.schema.decoding import UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind

F = descriptor_pb2.FieldDescriptorProto
NESTED, MAP, ENUM = F.TYPE_MESSAGE, ".p.Order.PricesEntry", ".p.Kind"


def files() -> descriptor_pb2.FileDescriptorSet:
    """Return files with a message that has a field of each kind with its own form."""
    of = descriptor_pb2.FileDescriptorProto(name="o.proto", package="p", syntax="proto3")
    of.dependency.append("google/protobuf/timestamp.proto")
    kind = of.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="SOME", number=3)
    item = of.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=F.TYPE_STRING, label=1)
    item.field.add(name="inside", number=2, type=NESTED, label=1, type_name=".p.Item")
    order = of.message_type.add(name="Order")
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_DOUBLE, label=1)
    order.field.add(name="id", number=1, type=F.TYPE_INT64, label=1)
    order.field.add(name="items", number=2, type=NESTED, label=3, type_name=".p.Item")
    order.field.add(name="prices", number=3, type=NESTED, label=3, type_name=MAP)
    order.field.add(name="kind", number=4, type=F.TYPE_ENUM, label=1, type_name=ENUM)
    order.field.add(name="raw", number=5, type=F.TYPE_BYTES, label=1)
    order.field.add(name="share", number=6, type=F.TYPE_FLOAT, label=1)
    at = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=7, type=NESTED, label=1, type_name=at)
    order.oneof_decl.add(name="_maybe")
    maybe = order.field.add(name="maybe", number=8, type=F.TYPE_INT32, label=1)
    maybe.proto3_optional, maybe.oneof_index = True, 0
    imported = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    return descriptor_pb2.FileDescriptorSet(file=[imported, of])


def native(of: descriptor_pb2.FileDescriptorSet) -> Schema:
    definition = {
        "fileDescriptorSet": base64.b64encode(of.SerializeToString()).decode(),
        "rootMessageTypeName": "p.Order",
        "rootFileDescriptorName": "o.proto",
    }
    return Schema(SchemaKind.PROTOBUF_NATIVE, json.dumps(definition).encode(), {})


def order(**fields: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files().file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Order"))(**fields)


def test_a_message_is_shown_by_the_names_of_its_fields() -> None:
    sent = order(id=2**62, kind=3, raw=b"\xff", share=0.1, maybe=0, prices={"a": float("nan")})
    sent.items.add(name="one").inside.name = "two"
    sent.at.seconds = 1
    assert decoder(native(files())).value(sent.SerializeToString()) == {
        "id": 2**62,
        "items": [{"name": "one", "inside": {"name": "two"}}],
        "prices": {"a": "NaN"},
        "kind": "SOME",
        "raw": {"base64": "/w=="},
        "share": 0.1,
        "at": "1970-01-01T00:00:01.000000000Z",
        "maybe": 0,
    }


def test_an_empty_payload_is_a_message_of_defaults() -> None:
    assert decoder(native(files())).value(b"") == {
        "id": 0,
        "items": [],
        "prices": {},
        "kind": "NONE",
        "raw": {"base64": ""},
        "share": 0.0,
    }


def test_a_number_without_a_name_stays_one() -> None:
    value = decoder(native(files())).value(order(kind=9).SerializeToString())
    assert isinstance(value, dict)
    assert value["kind"] == 9


def test_a_reader_sees_what_its_own_message_has() -> None:
    candidate = files()
    del candidate.file[1].message_type[1].field[1:]
    del candidate.file[1].message_type[1].oneof_decl[:]
    read = decoder(native(files()), native(candidate))
    assert read.value(order(id=5, kind=3).SerializeToString()) == {"id": 5}


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        (b"\x08", "", "no p.Order"),
        (b"\x12\x03\x0a\x01\xff", "", "no p.Order"),
        (b"\x12\xff\xff\xff\xff\x0f", "", "no p.Order"),
    ],
)
def test_bytes_of_another_message_are_refused(payload: bytes, path: str, reason: str) -> None:
    with pytest.raises(UndecodableError) as raised:
        decoder(native(files())).value(payload)
    assert raised.value.path == path
    assert raised.value.reason.startswith(reason)


def test_messages_within_messages_are_bounded() -> None:
    payload = b""
    for _ in range(2000):
        payload = b"\x12" + _varint(len(payload)) + payload
    with pytest.raises(UndecodableError):
        decoder(native(files())).value(payload)


def test_very_many_small_messages_are_refused() -> None:
    with pytest.raises(UndecodableError, match=r"more values than"):
        decoder(native(files())).value(b"\x12\x00" * 1_000_001)


def test_a_required_field_that_is_missing_is_named() -> None:
    of = files()
    of.file[1].syntax = "proto2"
    del of.file[1].message_type[1].field[7:]
    del of.file[1].message_type[1].oneof_decl[:]
    of.file[1].message_type[0].field[0].label = F.LABEL_REQUIRED
    with pytest.raises(UndecodableError) as raised:
        decoder(native(of)).value(b"\x12\x00")
    assert (raised.value.path, raised.value.reason) == ("items[0].name", "is required, but missing")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def schema_of(*fields: tuple[int, str, str, str]) -> Schema:
    """Return a PROTOBUF schema of Java's client, with the numbers of the outer fields in its properties."""
    info = [
        {"number": number, "name": name, "type": kind, "label": label, "definition": None}
        for number, name, kind, label in fields
    ]
    return Schema(SchemaKind.PROTOBUF, b"{}", {"__PARSING_INFO__": json.dumps(info)})


def test_of_protobuf_the_outer_fields_are_read() -> None:
    schema = schema_of(
        (1, "id", "INT64", "LABEL_OPTIONAL"),
        (2, "items", "MESSAGE", "LABEL_REPEATED"),
        (4, "kind", "ENUM", "LABEL_OPTIONAL"),
        (6, "share", "FLOAT", "LABEL_REQUIRED"),
    )
    sent = order(id=7, kind=3)
    sent.items.add(name="a")
    assert decoder(schema).value(sent.SerializeToString()) == {
        "id": 7,
        "items": [{"base64": "CgFh"}],
        "kind": 3,
    }


@pytest.mark.parametrize(
    "schema",
    [
        Schema(SchemaKind.PROTOBUF, b"{}", {}),
        Schema(SchemaKind.PROTOBUF, b"{}", {"__PARSING_INFO__": "["}),
        Schema(SchemaKind.PROTOBUF, b"{}", {"__PARSING_INFO__": "[1]"}),
        Schema(SchemaKind.PROTOBUF, b"{}", {"__PARSING_INFO__": "[{}]"}),
        schema_of((0, "id", "INT64", "LABEL_OPTIONAL")),
        schema_of((1 << 40, "id", "INT64", "LABEL_OPTIONAL")),
        schema_of((1, "id", "GROUP", "LABEL_OPTIONAL")),
        schema_of((1, "id", "ODD", "LABEL_OPTIONAL")),
        schema_of((1, "id", "INT64", ""), (1, "other", "INT64", "")),
        schema_of((1, "\ud800", "INT64", "")),
    ],
)
def test_a_protobuf_schema_without_field_numbers_is_refused(schema: Schema) -> None:
    with pytest.raises(InvalidSchemaError, match="__PARSING_INFO__"):
        decoder(schema)
