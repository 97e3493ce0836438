"""Kinds by their three names, and key-value definitions taken apart."""

import pytest

from engine.schema.kinds import (
    BY_STORED,
    BY_WIRE,
    InvalidSchemaError,
    Schema,
    SchemaKind,
    joined,
    key_value,
    version_bytes,
)
from engine.wire import pulsar_pb2 as pb


def test_wire_numbers_are_the_protocols() -> None:
    theirs = {number: name.rstrip("_").upper() for name, number in pb.Schema.Type.items()}
    ours = {number: kind.value.replace("_", "") for number, kind in BY_WIRE.items()}
    ours[SchemaKind.BOOLEAN.name and 5] = "BOOL"
    assert ours == {number: theirs[number] for number in ours}
    # AUTO_CONSUME, which a client resolves, and EXTERNAL
    assert set(theirs) - set(ours) == {21, 22}


def test_stored_numbers_are_one_higher() -> None:
    assert BY_STORED[5] is SchemaKind.AVRO
    assert {kind: number - 1 for number, kind in BY_STORED.items()} == {
        kind: number for number, kind in BY_WIRE.items()
    }


def test_a_version_is_eight_bytes() -> None:
    assert version_bytes(1) == bytes(7) + b"\x01"


PROPERTIES = {
    "key.schema.type": "STRING",
    "value.schema.type": "AVRO",
    "value.schema.properties": '{"a": "b"}',
    "kv.encoding.type": "INLINE",
}


def test_a_key_value_definition_is_taken_apart() -> None:
    parts = key_value(Schema(SchemaKind.KEY_VALUE, joined(b"", b"{}"), PROPERTIES))
    assert parts.key == Schema(SchemaKind.STRING, b"", {})
    assert parts.value == Schema(SchemaKind.AVRO, b"{}", {"a": "b"})


def test_parts_without_a_kind_are_bytes() -> None:
    parts = key_value(Schema(SchemaKind.KEY_VALUE, joined(b"", b""), {"key.schema.type": "BYTES"}))
    assert (parts.key.kind, parts.value.kind) == (SchemaKind.NONE, SchemaKind.NONE)


@pytest.mark.parametrize(
    ("data", "properties", "reason"),
    [
        (b"", {}, "key: the definition ends early"),
        (joined(b"abc", b"")[:5], {}, "key: the definition ends early"),
        (joined(b"abc", b"de")[:-1], {}, "value: the definition ends early"),
        (joined(b"", b""), {"value.schema.type": "NOPE"}, "value.schema.type: no such kind: NOPE"),
        (joined(b"", b""), {"key.schema.properties": "[]"}, "key.schema.properties"),
        (joined(b"", b""), {"key.schema.properties": "{"}, "key.schema.properties"),
    ],
)
def test_an_invalid_key_value_is_refused(
    data: bytes, properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        key_value(Schema(SchemaKind.KEY_VALUE, data, properties))
