"""What a topic's schema is: its kind by the three names that Pulsar has for it, its definition and properties."""

import json
from collections.abc import Mapping
from enum import Enum
from struct import Struct, error
from typing import NamedTuple

from engine.base.errors import MagnetarError

_SIZE = Struct(">i")
_VERSION = Struct(">q")
_OLD_VERSION_BYTES = 64


TEXT_HEAD, TEXT_TAIL = 500, 300
"""Characters of a longer text that are shown: names in definitions may be as long as those."""


def shown(text: str) -> str:
    """What clients are told of a definition: within bounds, and with half characters spelt out."""
    if len(text) > TEXT_HEAD + TEXT_TAIL:
        text = f"{text[:TEXT_HEAD]} … {text[-TEXT_TAIL:]}"
    return text.encode(errors="backslashreplace").decode()


class InvalidSchemaError(MagnetarError):
    """A definition that does not fit its kind; the text says where it breaks."""

    def __init__(self, text: str) -> None:
        super().__init__(shown(text))


class SchemaKind(Enum):
    """By its name in REST, in the order of its number in the client protocol; the registry's entries count from 1."""

    NONE = "NONE"
    STRING = "STRING"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"
    AVRO = "AVRO"
    BOOLEAN = "BOOLEAN"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    KEY_VALUE = "KEY_VALUE"
    INSTANT = "INSTANT"
    LOCAL_DATE = "LOCAL_DATE"
    LOCAL_TIME = "LOCAL_TIME"
    LOCAL_DATE_TIME = "LOCAL_DATE_TIME"
    PROTOBUF_NATIVE = "PROTOBUF_NATIVE"


BY_WIRE: dict[int, SchemaKind] = dict(enumerate(SchemaKind))
WIRE = {kind: number for number, kind in BY_WIRE.items()}
BY_STORED = {number + 1: kind for number, kind in BY_WIRE.items()}
STORED = {kind: number for number, kind in BY_STORED.items()}
IN_AVRO = frozenset({SchemaKind.AVRO, SchemaKind.JSON, SchemaKind.PROTOBUF})
"""Kinds whose definition is an Avro schema."""
CLIENT_SIDE = frozenset({"AUTO", "AUTO_CONSUME", "AUTO_PUBLISH"})
"""Names of kinds that a client resolves by itself: nothing of them is ever stored."""


class Schema(NamedTuple):
    """``data``: the definition's bytes as the client gave them. ``properties`` never decide whether two are one."""

    kind: SchemaKind
    data: bytes
    properties: Mapping[str, str]


class KeyValue(NamedTuple):
    """The two schemas of a KEY_VALUE."""

    key: Schema
    value: Schema


def version_bytes(number: int) -> bytes:
    """A version as messages and clients carry it."""
    return _VERSION.pack(number)


def version_of(data: bytes) -> int | None:
    """The number of a version in a message or from a client; None for what is none. The first releases wrote 64 bytes,
    of which the first eight are it."""
    if len(data) not in (_VERSION.size, _OLD_VERSION_BYTES):
        return None
    return int(_VERSION.unpack_from(data)[0])


def key_value(schema: Schema) -> KeyValue:
    """The parts of a KEY_VALUE schema: each with its length before it in ``data``, its kind and properties under
    ``key.schema.…`` and ``value.schema.…`` among the properties. Raises InvalidSchemaError."""
    parts = []
    at = 0
    for part in ("key", "value"):
        try:
            (size,) = _SIZE.unpack_from(schema.data, at)
        except error:
            raise InvalidSchemaError(f"{part}: the definition ends early") from None
        at += _SIZE.size
        if size > len(schema.data) - at:
            raise InvalidSchemaError(f"{part}: the definition ends early")
        data = schema.data[at : at + size] if size > 0 else b""
        at += max(size, 0)
        parts.append(Schema(_part_kind(schema, part), data, _part_properties(schema, part)))
    return KeyValue(*parts)


def _part_kind(schema: Schema, part: str) -> SchemaKind:
    name = schema.properties.get(f"{part}.schema.type", "BYTES")
    if name == "BYTES":
        return SchemaKind.NONE
    try:
        return SchemaKind(name)
    except ValueError:
        raise InvalidSchemaError(f"{part}.schema.type: no such kind: {name[:80]}") from None


def _part_properties(schema: Schema, part: str) -> dict[str, str]:
    text = schema.properties.get(f"{part}.schema.properties") or "{}"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise InvalidSchemaError(f"{part}.schema.properties: expected a JSON object of strings")
    return found


def joined(key: bytes, value: bytes) -> bytes:
    """``data`` of a KEY_VALUE schema from its parts' definitions."""
    return _SIZE.pack(len(key)) + key + _SIZE.pack(len(value)) + value
