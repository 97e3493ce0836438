"""Values of AVRO messages, written from Avro's JSON encoding as the JsonDecoder of Avro 1.11 reads it. Pure.

Every field must be present, also one with a default. A value of a union is null or ``{"branch": value}`` with the
branch's full name; bytes are text of characters up to U+00FF; logical types are the numbers and bytes that they are
stored as. Members that the definition does not have are ignored.
"""

import json
from collections.abc import Callable
from struct import Struct, error
from typing import Any

from engine.base.errors import refuse_constant
from engine.schema.avro_rules import type_text
from engine.schema.avro_types import AvroType
from engine.schema.values.shown import DEPTH_MAX, UnencodableError, place
from engine.wire.varints import varint

_WHOLE = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}
_FRACTIONAL = {"float": Struct("<f"), "double": Struct("<d")}
_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_END = b"\0"


def avro_writer(avro_type: AvroType) -> Callable[[str], bytes]:
    """Return the function that writes whole payloads; it raises UnencodableError."""

    def write(text: str) -> bytes:
        try:
            value = json.loads(text, parse_constant=refuse_constant)
        except RecursionError:
            raise UnencodableError("", "not valid JSON: too deep") from None
        except ValueError as error:
            raise UnencodableError("", f"not valid JSON: {error}") from None
        encoded = bytearray()
        _write(encoded, value, avro_type, 0)
        return bytes(encoded)

    return write


def _write(out: bytearray, value: Any, avro_type: AvroType, depth: int) -> None:
    """Append ``value``. After an error the bytes appended so far must not be used."""
    if depth > DEPTH_MAX:
        raise UnencodableError("", f"values within values beyond {DEPTH_MAX}")
    match avro_type.kind:
        case "null" if value is None:
            return
        case "boolean" if isinstance(value, bool):
            out.append(value)
        case "int" | "long" if type(value) is int:
            if value not in _WHOLE[avro_type.kind]:
                raise UnencodableError(
                    "", f"{str(value)[:40]} is beyond the range of {avro_type.kind}"
                )
            out += _long(value)
        case "float" | "double" if type(value) in (int, float) or _is_word(value):
            out += _fraction(value, avro_type.kind)
        case "string" if isinstance(value, str):
            _add_bytes(out, _utf8(value))
        case "bytes" if isinstance(value, str):
            _add_bytes(out, _latin(value))
        case "fixed" if isinstance(value, str):
            data = _latin(value)
            if len(data) != avro_type.size:
                raise UnencodableError("", f"{len(data)} bytes, expected {avro_type.size}")
            out += data
        case "enum" if isinstance(value, str) and value in avro_type.symbols:
            out += _long(avro_type.symbols.index(value))
        case "union":
            _write_union(out, value, avro_type, depth)
        case "array" if isinstance(value, list):
            _write_array(out, value, avro_type, depth)
        case "map" if isinstance(value, dict):
            _write_map(out, value, avro_type, depth)
        case "record" if isinstance(value, dict):
            _write_record(out, value, avro_type, depth)
        case _:
            raise UnencodableError("", f"{_brief(value)} is no {type_text(avro_type)}")


def _write_record(out: bytearray, value: dict[str, Any], avro_type: AvroType, depth: int) -> None:
    for field in avro_type.fields:
        if field.name not in value:
            raise UnencodableError(field.name, "is missing")
        try:
            _write(out, value[field.name], field.type, depth + 1)
        except UnencodableError as error:
            raise error.within(field.name) from None


def _write_array(out: bytearray, value: list[Any], avro_type: AvroType, depth: int) -> None:
    if value:
        out += _long(len(value))
    for index, item in enumerate(value):
        try:
            _write(out, item, avro_type.types[0], depth + 1)
        except UnencodableError as error:
            raise error.within(f"[{index}]") from None
    out += _END


def _write_map(out: bytearray, value: dict[str, Any], avro_type: AvroType, depth: int) -> None:
    if value:
        out += _long(len(value))
    for key, item in value.items():
        _add_bytes(out, _utf8(key))
        try:
            _write(out, item, avro_type.types[0], depth + 1)
        except UnencodableError as error:
            raise error.within(place(key)) from None
    out += _END


def _write_union(out: bytearray, value: Any, avro_type: AvroType, depth: int) -> None:
    name, inner = "null", None
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
    elif value is not None:
        name = ""
    for index, branch in enumerate(avro_type.types):
        if (branch.name or branch.kind) == name:
            out += _long(index)
            try:
                _write(out, inner, branch, depth + 1)
            except UnencodableError as error:
                raise (error if branch.kind == "null" else error.within(name)) from None
            return
    names = [branch.name or branch.kind for branch in avro_type.types]
    forms = ", ".join(name if name == "null" else f'{{"{name}": …}}' for name in names)
    raise UnencodableError("", f"{_brief(value)} is none of {forms}")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value in _WORDS


def _brief(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:80]


def _long(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def _fraction(value: Any, kind: str) -> bytes:
    try:
        return _FRACTIONAL[kind].pack(_WORDS[value] if isinstance(value, str) else value)
    except (OverflowError, error):
        raise UnencodableError("", f"{str(value)[:40]} is beyond the range of {kind}") from None


def _add_bytes(out: bytearray, data: bytes) -> None:
    out += _long(len(data))
    out += data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnencodableError("", "has half of a character (a lone surrogate)") from None


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise UnencodableError("", f"no byte: {text[error.start]!r}") from None
