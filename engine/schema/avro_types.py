"""Avro definitions as Apache Pulsar reads them: Avro 1.11's rules with names checked and defaults unchecked. Pure.

A library's parser does not suffice: fastavro accepts repeated fields and refuses defaults that Apache stores.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import Any

from engine.schema.kinds import InvalidSchemaError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
DEPTH_MAX = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = ("ascending", "descending", "ignore")
_OF_TYPE = {
    "type",
    "name",
    "namespace",
    "doc",
    "aliases",
    "fields",
    "symbols",
    "items",
    "values",
    "size",
    "default",
}
_OF_FIELD = {"type", "name", "doc", "aliases", "default", "order"}


class _Missing:
    """The absence of a default."""


MISSING = _Missing()


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record. ``default``: the JSON value, or MISSING."""

    name: str
    type: "AvroType"
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    order: str = "ascending"
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class AvroType:
    """A type of a definition; attributes that do not apply are empty. Records may contain themselves.

    ``kind``: a primitive's name, record, enum, fixed, array, map or union. ``name``: full, with the namespace.
    ``types``: a union's branches, or the one type of an array's or map's values. ``extra``: attributes beyond Avro's
    own, ``logicalType`` among them.
    """

    kind: str
    name: str = ""
    fields: tuple[AvroField, ...] = ()
    types: tuple["AvroType", ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


def parse(text: bytes) -> AvroType:
    """Parse a definition. Raises InvalidSchemaError with the place of the error."""
    try:
        document = json.loads(text.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"not valid JSON: {error}") from None
    return _Parser().type(document, "", "", 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def type(self, document: Any, namespace: str, at: str, depth: int) -> AvroType:
        """Parse one type. ``at``: dotted names of the enclosing fields, for messages; ``depth``: levels of nesting."""
        if depth > DEPTH_MAX:
            raise _invalid(at, f"types within types beyond {DEPTH_MAX}")
        match document:
            case str():
                return self._reference(document, namespace, at)
            case list():
                return self._union(document, namespace, at, depth)
            case dict():
                return self._object(document, namespace, at, depth)
        raise _invalid(at, "expected a name, an object or an array as a type")

    def _reference(self, name: str, namespace: str, at: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        known = self._named.get(_full(name, namespace)) or self._named.get(name)
        if known is None:
            raise _invalid(at, f"no such type: {name[:200]}")
        return known

    def _union(self, branches: list[Any], namespace: str, at: str, depth: int) -> AvroType:
        types = tuple(self.type(branch, namespace, at, depth + 1) for branch in branches)
        labels = set()
        for branch in types:
            if branch.kind == "union":
                raise _invalid(at, "a union directly within a union")
            label = branch.name or branch.kind
            if label in labels:
                raise _invalid(at, f"{label} twice in a union")
            labels.add(label)
        return AvroType("union", types=types)

    def _object(self, document: dict[str, Any], namespace: str, at: str, depth: int) -> AvroType:
        kind = document.get("type")
        if not isinstance(kind, str):
            raise _invalid(at, "type: expected a name")
        extra = {key: value for key, value in document.items() if key not in _OF_TYPE}
        if kind in PRIMITIVES:
            return AvroType(kind, extra=extra)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in document:
                raise _invalid(at, f"{key}: required for type {kind}")
            inner = self.type(document[key], namespace, at, depth + 1)
            return AvroType(kind, types=(inner,), extra=extra)
        if kind == "error":
            kind = "record"
        if kind not in NAMED:
            return self._reference(kind, namespace, at)
        return self._named_type(kind, document, namespace, at, depth, extra)

    def _named_type(
        self,
        kind: str,
        document: dict[str, Any],
        namespace: str,
        at: str,
        depth: int,
        extra: dict[str, Any],
    ) -> AvroType:
        short = document.get("name")
        if not isinstance(short, str):
            raise _invalid(at, f"name: required for type {kind}")
        own_namespace = document.get("namespace")
        name = _full(short, own_namespace if isinstance(own_namespace, str) else namespace)
        _check_name(name.rpartition(".")[2], at)
        if name in self._named:
            raise _invalid(at, f"{name} is defined twice")
        space = name.rpartition(".")[0]
        aliases = tuple(_full(alias, space) for alias in _strings(document, "aliases", at))
        named = AvroType(kind, name, aliases=aliases, extra=extra)
        self._named[name] = named
        if kind == "record":
            named.fields = self._fields(document, space, at, depth)
        elif kind == "enum":
            named.symbols = _symbols(document, at)
            named.default = document.get("default", MISSING)
            if named.default is not MISSING and named.default not in named.symbols:
                raise _invalid(at, f"default: {brief(named.default)} is none of the symbols")
        else:
            size = document.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise _invalid(at, "size: expected a whole number from 0")
            named.size = size
        return named

    def _fields(
        self, document: dict[str, Any], namespace: str, at: str, depth: int
    ) -> tuple[AvroField, ...]:
        documents = document.get("fields")
        if not isinstance(documents, list):
            raise _invalid(at, "fields: expected an array")
        fields: dict[str, AvroField] = {}
        for entry in documents:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise _invalid(at, "fields: expected objects with a name")
            name = entry["name"]
            path = f"{at}.{name}" if at else name
            _check_name(name, path)
            if name in fields:
                raise _invalid(path, "a field of this name is there already")
            if "type" not in entry:
                raise _invalid(path, "type: required")
            order = entry.get("order", "ascending")
            if not isinstance(order, str) or order.lower() not in _ORDERS:
                raise _invalid(path, f"order: expected one of {', '.join(_ORDERS)}")
            avro_type = self.type(entry["type"], namespace, path, depth + 1)
            fields[name] = AvroField(
                name,
                avro_type,
                _default(entry.get("default", MISSING), avro_type, path),
                tuple(_strings(entry, "aliases", path)),
                order.lower(),
                {key: value for key, value in entry.items() if key not in _OF_FIELD},
            )
        return tuple(fields.values())


def _default(value: Any, avro_type: AvroType, at: str) -> Any:
    """Return a default: text is converted to a number where the type has fractions; nothing else is checked."""
    if avro_type.kind not in ("float", "double") or not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise _invalid(at, f"default: not a number: {value[:80]!r}") from None


def _invalid(at: str, text: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{at}: {text}" if at else text)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _check_name(name: str, at: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise _invalid(at, f"a name is letters, digits and _, no digit first: {name[:200]!r}")


def _strings(document: Mapping[str, Any], key: str, at: str) -> list[str]:
    strings = document.get(key, [])
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise _invalid(at, f"{key}: expected an array of strings")
    return strings


def _symbols(document: Mapping[str, Any], at: str) -> tuple[str, ...]:
    if "symbols" not in document:
        raise _invalid(at, "symbols: required for type enum")
    symbols = _strings(document, "symbols", at)
    for symbol in symbols:
        _check_name(symbol, at)
    if len(set(symbols)) < len(symbols):
        raise _invalid(at, "symbols: one is there twice")
    return tuple(symbols)


def canonical(definition: AvroType) -> str:
    """Return one text for all definitions with the same meaning.

    It has full names, each type written out once and sorted keys. Documentation and aliases are left out, because they
    do not change what is written.
    """
    return json.dumps(_plain(definition, set()), sort_keys=True, separators=(",", ":"))


def _plain(avro_type: AvroType, written: set[str]) -> Any:
    if avro_type.kind == "union":
        return [_plain(branch, written) for branch in avro_type.types]
    if avro_type.name and avro_type.name in written:
        return avro_type.name
    document: dict[str, Any] = {
        "type": avro_type.kind,
        **{f"x-{k}": v for k, v in avro_type.extra.items()},
    }
    if avro_type.name:
        written.add(avro_type.name)
        document["name"] = avro_type.name
    match avro_type.kind:
        case "record":
            document["fields"] = [_plain_field(field, written) for field in avro_type.fields]
        case "enum":
            document["symbols"] = list(avro_type.symbols)
        case "fixed":
            document["size"] = avro_type.size
        case "array" | "map":
            document["of"] = _plain(avro_type.types[0], written)
    if avro_type.default is not MISSING:
        document["default"] = avro_type.default
    return document


def _plain_field(field: AvroField, written: set[str]) -> dict[str, Any]:
    document = {
        "name": field.name,
        "type": _plain(field.type, written),
        "order": field.order,
        **{f"x-{key}": value for key, value in field.extra.items()},
    }
    if field.default is not MISSING:
        document["default"] = field.default
    return document
