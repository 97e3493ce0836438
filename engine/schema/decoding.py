"""Decoding of messages by the schema that wrote them, into values that ``json.dumps`` accepts. Pure.

Time and memory of a payload are bounded whatever its content, see ``values.shown``.
"""

from collections.abc import Callable
from struct import Struct

from engine.schema import avro_types, native_types
from engine.schema.avro_rules import TooManyStepsError
from engine.schema.compatibility import is_json_schema
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, key_value
from engine.schema.values.avro_values import avro_reader
from engine.schema.values.json_values import json_reader
from engine.schema.values.native_values import described, native_reader
from engine.schema.values.primitive_values import PRIMITIVE, primitive_reader
from engine.schema.values.shown import JsonValue, UndecodableError

__all__ = ["Decoder", "JsonValue", "UndecodableError", "decoder"]

_SIZE = Struct(">i")
_ABSENT = -1
Read = Callable[[bytes], JsonValue]


class Decoder:
    """A decoder of the messages of one version; stateless between messages."""

    def __init__(self, read: Callable[[bytes, bytes | None], JsonValue]) -> None:
        self._read = read

    def value(self, payload: bytes, key: bytes | None = None) -> JsonValue:
        """Decode a payload. ``key``: the message's, as bytes, for a KEY_VALUE with a separate key.

        Raises UndecodableError and nothing else. The value must not be modified, because parts of it are shared with
        others.
        """
        return self._read(payload, key)


def decoder(schema: Schema, reader: Schema | None = None) -> Decoder:
    """Return a decoder of messages that ``schema`` wrote.

    With ``reader`` values are those that a consumer with that schema receives: AVRO is resolved, JSON has its fields
    and must fit them, all others are read by it alone. Raises InvalidSchemaError for definitions that do not parse,
    kinds that differ, and a PROTOBUF without enough properties.
    """
    try:
        read = _of_message(schema, reader)
    except (RecursionError, TooManyStepsError):
        raise InvalidSchemaError("the definitions are too involved to decode by") from None
    return Decoder(read)


def _of_message(
    schema: Schema, reader: Schema | None
) -> Callable[[bytes, bytes | None], JsonValue]:
    if schema.kind is SchemaKind.KEY_VALUE:
        return _key_value(schema, reader)
    read = _reader(schema, reader)
    return lambda payload, key: read(payload)


def _reader(schema: Schema, reader: Schema | None) -> Read:
    if reader is not None and reader.kind is not schema.kind:
        raise InvalidSchemaError(f"{schema.kind.value} cannot be read as {reader.kind.value}")
    effective = reader or schema
    match schema.kind:
        case SchemaKind.AVRO:
            return avro_reader(
                avro_types.parse(schema.data), avro_types.parse(reader.data) if reader else None
            )
        case SchemaKind.JSON:
            resolves = reader is not None and not is_json_schema(effective.data)
            return json_reader(avro_types.parse(effective.data) if resolves else None)
        case SchemaKind.PROTOBUF_NATIVE:
            return native_reader(native_types.parse(effective.data))
        case SchemaKind.PROTOBUF:
            return native_reader(described(effective))
    if schema.kind not in PRIMITIVE:
        raise InvalidSchemaError(f"{schema.kind.value}: not within a KEY_VALUE")
    return primitive_reader(effective)


def _key_value(schema: Schema, reader: Schema | None) -> Callable[[bytes, bytes | None], JsonValue]:
    if reader is not None and reader.kind is not SchemaKind.KEY_VALUE:
        raise InvalidSchemaError(f"KEY_VALUE cannot be read as {reader.kind.value}")
    parts = key_value(schema)
    reader_parts = key_value(reader) if reader is not None else None
    read_key = _within("key", _reader(parts.key, reader_parts and reader_parts.key))
    read_value = _within("value", _reader(parts.value, reader_parts and reader_parts.value))
    separated = schema.properties.get("kv.encoding.type") == "SEPARATED"

    def read(payload: bytes, key: bytes | None) -> JsonValue:
        value: bytes | None = payload
        if not separated:
            key, value = _parts(payload)
        return {"key": read_key(key), "value": read_value(value)}

    return read


def _within(place: str, read: Read) -> Callable[[bytes | None], JsonValue]:
    def part(data: bytes | None) -> JsonValue:
        if data is None:
            return None
        try:
            return read(data)
        except UndecodableError as error:
            raise error.within(place) from None

    return part


def _parts(payload: bytes) -> tuple[bytes | None, bytes | None]:
    """Return key and value, each stored with its length in front."""
    parts: list[bytes | None] = []
    at = 0
    for part in ("key", "value"):
        if len(payload) - at < _SIZE.size:
            raise UndecodableError(part, "the data ends early")
        (size,) = _SIZE.unpack_from(payload, at)
        at += _SIZE.size
        if not _ABSENT <= size <= len(payload) - at:
            raise UndecodableError(part, f"a length of {size} of {len(payload) - at} bytes")
        parts.append(payload[at : at + size] if size >= 0 else None)
        at += max(size, 0)
    if at < len(payload):
        raise UndecodableError("", f"{len(payload) - at} bytes are left behind it")
    return parts[0], parts[1]
