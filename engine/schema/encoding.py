"""Texts encoded into messages by a schema, as Pulsar's REST produce accepts them: the inverse of ``decoding``. Pure.

Valid JSON is stored as it was given; the definition is not applied, as in Apache Pulsar.
"""

import json
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from engine.base.errors import refuse_constant
from engine.schema import avro_types
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, key_value
from engine.schema.values.avro_writing import avro_writer
from engine.schema.values.primitive_values import PRIMITIVE
from engine.schema.values.primitive_writing import primitive_writer
from engine.schema.values.shown import UnencodableError

__all__ = ["Encode", "Encoded", "UnencodableError", "encoder"]

_SIZE = Struct(">i")
Write = Callable[[str], bytes]


class Encoded(NamedTuple):
    """An encoded message. ``key``: the key's bytes of a KEY_VALUE whose key is separate; None for all others."""

    payload: bytes
    key: bytes | None


Encode = Callable[[str, str | None], Encoded]
"""Encodes the texts of a message's payload and key.

The key counts only for a KEY_VALUE, whose value is the payload. Raises UnencodableError, whose path begins with
``payload`` or ``key``.
"""


def encoder(schema: Schema) -> Encode:
    """Return the function that encodes messages with this schema.

    Raises InvalidSchemaError for a definition that does not parse, and for a kind whose messages cannot be written as
    text.
    """
    if schema.kind is not SchemaKind.KEY_VALUE:
        write = _within("payload", _writer(schema))
        return lambda payload, key: Encoded(write(payload), None)
    parts = key_value(schema)
    write_key = _within("key", _writer(parts.key))
    write_value = _within("payload", _writer(parts.value))
    separated = schema.properties.get("kv.encoding.type") == "SEPARATED"

    def encode(payload: str, key: str | None) -> Encoded:
        key_bytes = None if key is None else write_key(key)
        value = write_value(payload)
        if separated:
            return Encoded(value, key_bytes)
        return Encoded(_sized(key_bytes) + _sized(value), None)

    return encode


def _writer(schema: Schema) -> Write:
    if schema.kind in PRIMITIVE:
        return primitive_writer(schema)
    match schema.kind:
        case SchemaKind.AVRO:
            return avro_writer(avro_types.parse(schema.data))
        case SchemaKind.JSON:
            return _json
    raise InvalidSchemaError(f"{schema.kind.value}: its messages cannot be written as text")


def _json(text: str) -> bytes:
    try:
        json.loads(text, parse_constant=refuse_constant)
        return text.encode()
    except RecursionError:
        raise UnencodableError("", "not valid JSON: too deep") from None
    except ValueError as error:
        raise UnencodableError("", f"not valid JSON: {error}") from None


def _within(place: str, write: Write) -> Write:
    def part(text: str) -> bytes:
        try:
            return write(text)
        except UnencodableError as error:
            raise error.within(place) from None

    return part


def _sized(data: bytes | None) -> bytes:
    return _SIZE.pack(-1) if data is None else _SIZE.pack(len(data)) + data
