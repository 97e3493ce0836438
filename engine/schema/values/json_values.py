"""Values of JSON messages: the document itself, or the fields that a consumer's Avro definition has. Pure."""

import json
from collections.abc import Callable
from typing import Any

from engine.schema.avro_rules import type_text
from engine.schema.avro_types import MISSING, AvroField, AvroType
from engine.schema.values.avro_defaults import default_value
from engine.schema.values.shown import (
    Allowance,
    JsonValue,
    UndecodableError,
    cost,
    place,
    shown_double,
)

_WHOLE = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}


def json_reader(reader: AvroType | None) -> Callable[[bytes], JsonValue]:
    """Return the function that reads whole payloads.

    ``reader``: the definition of the fields to return; other fields are left out, as Java's consumers do.
    """
    fitting = _Fitting()

    def read(payload: bytes) -> JsonValue:
        document = _document(payload)
        return (
            document if reader is None else fitting.value(document, reader, Allowance(len(payload)))
        )

    return read


def _document(payload: bytes) -> JsonValue:
    try:
        document = json.loads(payload, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise UndecodableError("", f"not valid JSON: {_reason(error)}") from None
    return _checked(document, Allowance(len(payload)))


def _reason(error: Exception) -> str:
    return "too deep" if isinstance(error, RecursionError) else str(error)


def _number(text: str) -> JsonValue:
    return shown_double(float(text))


def _checked(value: Any, allowance: Allowance) -> JsonValue:
    """Return the value within bounds; lone surrogates in its text are replaced, because they cannot be written."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        allowance.enter()
        allowance.spend(len(value))
        values = {
            _checked(key, allowance): _checked(item, allowance) for key, item in value.items()
        }
        allowance.depth -= 1
        return values  # type: ignore[return-value]
    if isinstance(value, list):
        allowance.enter()
        allowance.spend(len(value))
        items = [_checked(item, allowance) for item in value]
        allowance.depth -= 1
        return items
    return value  # type: ignore[no-any-return]


class _Fitting:
    """Matches documents to a definition."""

    def __init__(self) -> None:
        self._absent: dict[AvroType, tuple[int, dict[str, JsonValue | UndecodableError]]] = {}

    def value(self, value: JsonValue, avro_type: AvroType, allowance: Allowance) -> JsonValue:
        """Return the value as the type has it. Raises UndecodableError where it does not fit."""
        match avro_type.kind:
            case "union":
                return self._branch(value, avro_type, allowance)
            case "record" if isinstance(value, dict):
                return self._record(value, avro_type, allowance)
            case "array" if isinstance(value, list):
                inner = avro_type.types[0]
                return [
                    self._within(f"[{i}]", item, inner, allowance) for i, item in enumerate(value)
                ]
            case "map" if isinstance(value, dict):
                inner = avro_type.types[0]
                return {
                    key: self._within(place(key), item, inner, allowance)
                    for key, item in value.items()
                }
        if _fits(value, avro_type):
            return value
        raise UndecodableError("", f"{_kind(value)}, expected {type_text(avro_type)}")

    def _branch(self, value: JsonValue, avro_type: AvroType, allowance: Allowance) -> JsonValue:
        """Return the value of the first branch that it fits. With a single branch besides null its error is
        reported."""
        branches = [branch for branch in avro_type.types if branch.kind != "null"]
        if value is None and len(branches) < len(avro_type.types):
            return None
        for branch in branches:
            try:
                return self.value(value, branch, allowance)
            except UndecodableError:
                if len(branches) == 1:
                    raise
        raise UndecodableError("", f"{_kind(value)} is none of {type_text(avro_type)}")

    def _record(
        self, value: dict[str, JsonValue], avro_type: AvroType, allowance: Allowance
    ) -> JsonValue:
        known = self._absent.get(avro_type)
        if known is None:
            known = self._absent[avro_type] = _all_absent(avro_type)
        weight, absent = known
        allowance.spend(weight)
        record: dict[str, JsonValue] = {}
        for field in avro_type.fields:
            if field.name in value:
                record[field.name] = self._within(
                    field.name, value[field.name], field.type, allowance
                )
                continue
            default = absent[field.name]
            if isinstance(default, UndecodableError):
                raise UndecodableError(default.path, default.reason)
            record[field.name] = default
        return record

    def _within(
        self, where: str, value: JsonValue, avro_type: AvroType, allowance: Allowance
    ) -> JsonValue:
        try:
            return self.value(value, avro_type, allowance)
        except UndecodableError as error:
            raise error.within(where) from None


def _all_absent(avro_type: AvroType) -> tuple[int, dict[str, JsonValue | UndecodableError]]:
    """Return a record's cost, and the value or error for each field that a document lacks."""
    weight, absent = 0, dict[str, JsonValue | UndecodableError]()
    for field in avro_type.fields:
        weight += cost(field.name)
        try:
            absent[field.name], more = _if_absent(field)
            weight += more
        except UndecodableError as error:
            absent[field.name] = error
    return weight, absent


def _if_absent(field: AvroField) -> tuple[JsonValue, int]:
    if field.default is not MISSING:
        return default_value(field)
    if field.type.kind == "null" or any(branch.kind == "null" for branch in field.type.types):
        return None, 0
    raise UndecodableError(field.name, "is required, but missing")


def _fits(value: JsonValue, avro_type: AvroType) -> bool:
    match avro_type.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return type(value) is int and value in _WHOLE[avro_type.kind]
        case "float" | "double":
            return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")
        case "enum":
            return value in avro_type.symbols
        case "bytes" | "fixed" if avro_type.extra.get("logicalType") == "decimal":
            return type(value) in (int, float, str)
        case "record" | "array" | "map":
            return False
    return isinstance(value, str)


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
    return "an object"
