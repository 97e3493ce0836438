"""What stands for a field that the data does not have: its default, shown as values are. Pure."""

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


def default_value(one: AvroField) -> tuple[JsonValue, int]:
    """The default of a field that has one, and what it costs (``values.Allowance``). Raises UndecodableError when it
    is none of its type."""
    allowance = Allowance(0)
    before = allowance.left
    try:
        return _shown(one.default, one.type, allowance), before - allowance.left
    except UndecodableError as error:
        raise UndecodableError(one.name, f"its default: {error}") from None


def _shown(value: Any, of: AvroType, allowance: Allowance) -> JsonValue:
    """A union's default is one of its first type."""
    allowance.spend(cost(value) if isinstance(value, str) else 1)
    match of.kind:
        case "union" if of.types:
            return _shown(value, of.types[0], allowance)
        case "null" if value is None:
            return None
        case "boolean" if isinstance(value, bool):
            return value
        case "int" | "long" if type(value) in (int, float) and value in _WHOLE[of.kind]:
            return number_show(of)(int(value))
        case "float" | "double" if type(value) in (int, float):
            return (shown_float if of.kind == "float" else shown_double)(_float(value))
        case "string" if isinstance(value, str):
            return value.encode(errors="replace").decode()
        case "enum" if isinstance(value, str) and value in of.symbols:
            return value
        case "bytes" | "fixed" if isinstance(value, str):
            return bytes_show(of)(value.encode("latin-1", errors="replace"))
        case "array" | "map" | "record":
            allowance.enter()
            found = _shown_inside(value, of, allowance)
            allowance.depth -= 1
            return found
    raise UndecodableError("", f"{str(value)[:80]!r} is no {of.name or of.kind}")


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UndecodableError("", "the number is too large") from None


def _shown_inside(value: Any, of: AvroType, allowance: Allowance) -> JsonValue:
    if of.kind == "array" and isinstance(value, list):
        return [_shown(one, of.types[0], allowance) for one in value]
    if of.kind == "map" and isinstance(value, dict):
        return {key: _shown(one, of.types[0], allowance) for key, one in value.items()}
    if of.kind == "record" and isinstance(value, dict):
        allowance.spend(sum(cost(one.name) for one in of.fields))
        return {
            one.name: _shown(value.get(one.name, one.default), one.type, allowance)
            for one in of.fields
        }
    raise UndecodableError("", f"no {of.name or of.kind}")
