"""Defaults of fields that the data does not have, shown as values are. Pure."""

from typing import Any

from engine.schema.avro_types import AvroField, AvroType
from engine.schema.values.avro_logical import bytes_show, number_show
from engine.schema.values.shown import (
    Allowance,
    JsonValue,
    UndecodableError,
    cost,
    shown_double,
    shown_float,
)

_WHOLE = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}


def default_value(field: AvroField) -> tuple[JsonValue, int]:
    """Return the default of a field that has one, and its cost (``values.Allowance``).

    Raises UndecodableError when it is not of the field's type.
    """
    allowance = Allowance(0)
    before = allowance.left
    try:
        return _shown(field.default, field.type, allowance), before - allowance.left
    except UndecodableError as error:
        raise UndecodableError(field.name, f"its default: {error}") from None


def _shown(value: Any, avro_type: AvroType, allowance: Allowance) -> JsonValue:
    """Return a default as it is shown; a union's default is of its first type."""
    allowance.spend(cost(value) if isinstance(value, str) else 1)
    match avro_type.kind:
        case "union" if avro_type.types:
            return _shown(value, avro_type.types[0], allowance)
        case "null" if value is None:
            return None
        case "boolean" if isinstance(value, bool):
            return value
        case "int" | "long" if type(value) in (int, float) and value in _WHOLE[avro_type.kind]:
            return number_show(avro_type)(int(value))
        case "float" | "double" if type(value) in (int, float):
            return (shown_float if avro_type.kind == "float" else shown_double)(_float(value))
        case "string" if isinstance(value, str):
            return value.encode(errors="replace").decode()
        case "enum" if isinstance(value, str) and value in avro_type.symbols:
            return value
        case "bytes" | "fixed" if isinstance(value, str):
            return bytes_show(avro_type)(value.encode("latin-1", errors="replace"))
        case "array" | "map" | "record":
            allowance.enter()
            shown_value = _shown_inside(value, avro_type, allowance)
            allowance.depth -= 1
            return shown_value
    raise UndecodableError("", f"{str(value)[:80]!r} is no {avro_type.name or avro_type.kind}")


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UndecodableError("", "the number is too large") from None


def _shown_inside(value: Any, avro_type: AvroType, allowance: Allowance) -> JsonValue:
    if avro_type.kind == "array" and isinstance(value, list):
        return [_shown(item, avro_type.types[0], allowance) for item in value]
    if avro_type.kind == "map" and isinstance(value, dict):
        return {key: _shown(item, avro_type.types[0], allowance) for key, item in value.items()}
    if avro_type.kind == "record" and isinstance(value, dict):
        allowance.spend(sum(cost(field.name) for field in avro_type.fields))
        return {
            field.name: _shown(value.get(field.name, field.default), field.type, allowance)
            for field in avro_type.fields
        }
    raise UndecodableError("", f"no {avro_type.name or avro_type.kind}")
