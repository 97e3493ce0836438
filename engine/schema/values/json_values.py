"""Values of JSON messages: the document as it is, or what a consumer with an Avro definition finds of it. Pure."""

import json
from collections.abc import Callable
from typing import Any

from engine.schema.avro_rules import said
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
    """``reader``: whose fields are looked for; others are left out, as Java's consumers do."""
    fitting = _Fitting()

    def read(payload: bytes) -> JsonValue:
        document = _document(payload)
        return (
            document if reader is None else fitting.value(document, reader, Allowance(len(payload)))
        )

    return read


def _document(payload: bytes) -> JsonValue:
    try:
        found = json.loads(payload, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise UndecodableError("", f"not valid JSON: {_said(error)}") from None
    return _checked(found, Allowance(len(payload)))


def _said(error: Exception) -> str:
    return "too deep" if isinstance(error, RecursionError) else str(error)


def _number(text: str) -> JsonValue:
    return shown_double(float(text))


def _checked(value: Any, allowance: Allowance) -> JsonValue:
    """Within bounds, and its text such that it can be written: half a character pair is none."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        allowance.enter()
        allowance.spend(len(value))
        found = {_checked(key, allowance): _checked(one, allowance) for key, one in value.items()}
        allowance.depth -= 1
        return found  # type: ignore[return-value]
    if isinstance(value, list):
        allowance.enter()
        allowance.spend(len(value))
        items = [_checked(one, allowance) for one in value]
        allowance.depth -= 1
        return items
    return value  # type: ignore[no-any-return]


class _Fitting:
    """What a definition finds in documents."""

    def __init__(self) -> None:
        self._absent: dict[AvroType, tuple[int, dict[str, JsonValue | UndecodableError]]] = {}

    def value(self, value: JsonValue, of: AvroType, allowance: Allowance) -> JsonValue:
        """As the type has it. Raises UndecodableError where it does not fit."""
        match of.kind:
            case "union":
                return self._branch(value, of, allowance)
            case "record" if isinstance(value, dict):
                return self._record(value, of, allowance)
            case "array" if isinstance(value, list):
                inner = of.types[0]
                return [
                    self._within(f"[{i}]", one, inner, allowance) for i, one in enumerate(value)
                ]
            case "map" if isinstance(value, dict):
                inner = of.types[0]
                return {
                    key: self._within(place(key), one, inner, allowance)
                    for key, one in value.items()
                }
        if _fits(value, of):
            return value
        raise UndecodableError("", f"{_kind(value)}, expected {said(of)}")

    def _branch(self, value: JsonValue, of: AvroType, allowance: Allowance) -> JsonValue:
        """What is wrong with the only type that is not null is told."""
        branches = [one for one in of.types if one.kind != "null"]
        if value is None and len(branches) < len(of.types):
            return None
        for one in branches:
            try:
                return self.value(value, one, allowance)
            except UndecodableError:
                if len(branches) == 1:
                    raise
        raise UndecodableError("", f"{_kind(value)} is none of {said(of)}")

    def _record(self, value: dict[str, JsonValue], of: AvroType, allowance: Allowance) -> JsonValue:
        known = self._absent.get(of)
        if known is None:
            known = self._absent[of] = _all_absent(of)
        weight, absent = known
        allowance.spend(weight)
        out: dict[str, JsonValue] = {}
        for one in of.fields:
            if one.name in value:
                out[one.name] = self._within(one.name, value[one.name], one.type, allowance)
                continue
            default = absent[one.name]
            if isinstance(default, UndecodableError):
                raise UndecodableError(default.path, default.reason)
            out[one.name] = default
        return out

    def _within(
        self, where: str, value: JsonValue, of: AvroType, allowance: Allowance
    ) -> JsonValue:
        try:
            return self.value(value, of, allowance)
        except UndecodableError as error:
            raise error.within(where) from None


def _all_absent(of: AvroType) -> tuple[int, dict[str, JsonValue | UndecodableError]]:
    """What a record costs, and what stands for each field that a document lacks."""
    weight, absent = 0, dict[str, JsonValue | UndecodableError]()
    for one in of.fields:
        weight += cost(one.name)
        try:
            absent[one.name], more = _if_absent(one)
            weight += more
        except UndecodableError as error:
            absent[one.name] = error
    return weight, absent


def _if_absent(one: AvroField) -> tuple[JsonValue, int]:
    if one.default is not MISSING:
        return default_value(one)
    if one.type.kind == "null" or any(branch.kind == "null" for branch in one.type.types):
        return None, 0
    raise UndecodableError(one.name, "is required, but missing")


def _fits(value: JsonValue, of: AvroType) -> bool:
    match of.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return type(value) is int and value in _WHOLE[of.kind]
        case "float" | "double":
            return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")
        case "enum":
            return value in of.symbols
        case "bytes" | "fixed" if of.extra.get("logicalType") == "decimal":
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
