"""The schema of a topic: its kind by the three names that Pulsar has for it, its definition and properties."""

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
"""Characters shown of a longer text; names in definitions may be as long as definitions."""


def shown(text: str) -> str:
    """Return a text about a definition for clients: bounded in length, with lone surrogates escaped."""
    if len(text) > TEXT_HEAD + TEXT_TAIL:
        text = f"{text[:TEXT_HEAD]} … {text[-TEXT_TAIL:]}"
    return text.encode(errors="backslashreplace").decode()


class InvalidSchemaError(MagnetarError):
    """A definition that does not fit its kind; the text states where."""

    def __init__(self, text: str) -> None:
        super().__init__(shown(text))


class SchemaKind(Enum):
    """Kinds by their names in REST, in the order of their numbers in the client protocol. The registry's entries count
    from 1."""

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
"""Names of kinds that a client resolves by itself; they are never stored."""


class Schema(NamedTuple):
    """A schema. ``data``: the definition's bytes as the client sent them. ``properties`` do not count when schemas are
    compared."""

    kind: SchemaKind
    data: bytes
    properties: Mapping[str, str]


class KeyValue(NamedTuple):
    """The two schemas of a KEY_VALUE."""

    key: Schema
    value: Schema


def version_bytes(number: int) -> bytes:
    """Return a version as messages and clients carry it."""
    return _VERSION.pack(number)


def version_of(data: bytes) -> int | None:
    """Return the number of a version from a message or client; None for other bytes.

    The first releases wrote 64 bytes, of which the first eight are the version.
    """
    if len(data) not in (_VERSION.size, _OLD_VERSION_BYTES):
        return None
    return int(_VERSION.unpack_from(data)[0])


def key_value(schema: Schema) -> KeyValue:
    """Return the parts of a KEY_VALUE schema. Raises InvalidSchemaError.

    ``data`` holds each part with its length in front. Kind and properties of a part are in the schema's properties
    under ``key.schema.…`` and ``value.schema.…``.
    """
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
        properties = json.loads(text)
    except (ValueError, RecursionError):
        properties = None
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise InvalidSchemaError(f"{part}.schema.properties: expected a JSON object of strings")
    return properties


def joined(key: bytes, value: bytes) -> bytes:
    """Return ``data`` of a KEY_VALUE schema from its parts' definitions."""
    return _SIZE.pack(len(key)) + key + _SIZE.pack(len(value)) + value
