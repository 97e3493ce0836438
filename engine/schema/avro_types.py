"""Avro definitions as Apache Pulsar reads them: Avro 1.11's rules with names checked and defaults not. Pure.

A library's parser does not serve: fastavro takes repeated fields and refuses defaults that Apache stores.
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
    """A field without default, or an enum without one."""


MISSING = _Missing()


@dataclass(eq=False, slots=True)
class AvroField:
    """One field of a record. ``default``: the JSON value, or MISSING."""

    name: str
    type: "AvroType"
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    order: str = "ascending"
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class AvroType:
    """``kind``: a primitive's name, record, enum, fixed, array, map or union; what does not apply is empty.

    ``name``: full, with the namespace. ``types``: a union's branches, or the one type of an array's or map's values.
    ``extra``: attributes beyond Avro's own, ``logicalType`` among them. Records may contain themselves.
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
    """The definition. Raises InvalidSchemaError with the place where it breaks."""
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
        """``at``: the place for messages, dotted names of fields; ``depth``: how far inside."""
        if depth > DEPTH_MAX:
            raise _refused(at, f"types within types beyond {DEPTH_MAX}")
        match document:
            case str():
                return self._reference(document, namespace, at)
            case list():
                return self._union(document, namespace, at, depth)
            case dict():
                return self._object(document, namespace, at, depth)
        raise _refused(at, "expected a name, an object or an array as a type")

    def _reference(self, name: str, namespace: str, at: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full(name, namespace)) or self._named.get(name)
        if found is None:
            raise _refused(at, f"no such type: {name[:200]}")
        return found

    def _union(self, branches: list[Any], namespace: str, at: str, depth: int) -> AvroType:
        types = tuple(self.type(one, namespace, at, depth + 1) for one in branches)
        met = set()
        for one in types:
            if one.kind == "union":
                raise _refused(at, "a union directly within a union")
            label = one.name or one.kind
            if label in met:
                raise _refused(at, f"{label} twice in a union")
            met.add(label)
        return AvroType("union", types=types)

    def _object(self, document: dict[str, Any], namespace: str, at: str, depth: int) -> AvroType:
        kind = document.get("type")
        if not isinstance(kind, str):
            raise _refused(at, "type: expected a name")
        extra = {key: value for key, value in document.items() if key not in _OF_TYPE}
        if kind in PRIMITIVES:
            return AvroType(kind, extra=extra)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in document:
                raise _refused(at, f"{key}: required for type {kind}")
            within = self.type(document[key], namespace, at, depth + 1)
            return AvroType(kind, types=(within,), extra=extra)
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
        given = document.get("name")
        if not isinstance(given, str):
            raise _refused(at, f"name: required for type {kind}")
        own = document.get("namespace")
        name = _full(given, own if isinstance(own, str) else namespace)
        _check_name(name.rpartition(".")[2], at)
        if name in self._named:
            raise _refused(at, f"{name} is defined twice")
        space = name.rpartition(".")[0]
        aliases = tuple(_full(one, space) for one in _strings(document, "aliases", at))
        made = AvroType(kind, name, aliases=aliases, extra=extra)
        self._named[name] = made
        if kind == "record":
            made.fields = self._fields(document, space, at, depth)
        elif kind == "enum":
            made.symbols = _symbols(document, at)
            made.default = document.get("default", MISSING)
            if made.default is not MISSING and made.default not in made.symbols:
                raise _refused(at, f"default: {brief(made.default)} is none of the symbols")
        else:
            size = document.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise _refused(at, "size: expected a whole number from 0")
            made.size = size
        return made

    def _fields(
        self, document: dict[str, Any], namespace: str, at: str, depth: int
    ) -> tuple[AvroField, ...]:
        given = document.get("fields")
        if not isinstance(given, list):
            raise _refused(at, "fields: expected an array")
        made: dict[str, AvroField] = {}
        for one in given:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise _refused(at, "fields: expected objects with a name")
            name = one["name"]
            inside = f"{at}.{name}" if at else name
            _check_name(name, inside)
            if name in made:
                raise _refused(inside, "a field of this name is there already")
            if "type" not in one:
                raise _refused(inside, "type: required")
            order = one.get("order", "ascending")
            if not isinstance(order, str) or order.lower() not in _ORDERS:
                raise _refused(inside, f"order: expected one of {', '.join(_ORDERS)}")
            of = self.type(one["type"], namespace, inside, depth + 1)
            made[name] = AvroField(
                name,
                of,
                _default(one.get("default", MISSING), of, inside),
                tuple(_strings(one, "aliases", inside)),
                order.lower(),
                {key: value for key, value in one.items() if key not in _OF_FIELD},
            )
        return tuple(made.values())


def _default(value: Any, of: AvroType, at: str) -> Any:
    """Text stands for a number where the type has fractions; nothing else of a default is checked."""
    if of.kind not in ("float", "double") or not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise _refused(at, f"default: not a number: {value[:80]!r}") from None


def _refused(at: str, text: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{at}: {text}" if at else text)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _check_name(name: str, at: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise _refused(at, f"a name is letters, digits and _, no digit first: {name[:200]!r}")


def _strings(document: Mapping[str, Any], key: str, at: str) -> list[str]:
    given = document.get(key, [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise _refused(at, f"{key}: expected an array of strings")
    return given


def _symbols(document: Mapping[str, Any], at: str) -> tuple[str, ...]:
    if "symbols" not in document:
        raise _refused(at, "symbols: required for type enum")
    symbols = _strings(document, "symbols", at)
    for one in symbols:
        _check_name(one, at)
    if len(set(symbols)) < len(symbols):
        raise _refused(at, "symbols: one is there twice")
    return tuple(symbols)


def canonical(whole: AvroType) -> str:
    """One text for definitions that mean the same: full names, each type written out once, keys sorted, without
    documentation and aliases, which change nothing of what is written."""
    return json.dumps(_plain(whole, set()), sort_keys=True, separators=(",", ":"))


def _plain(one: AvroType, met: set[str]) -> Any:
    if one.kind == "union":
        return [_plain(branch, met) for branch in one.types]
    if one.name and one.name in met:
        return one.name
    out: dict[str, Any] = {"type": one.kind, **{f"x-{k}": v for k, v in one.extra.items()}}
    if one.name:
        met.add(one.name)
        out["name"] = one.name
    match one.kind:
        case "record":
            out["fields"] = [_plain_field(each, met) for each in one.fields]
        case "enum":
            out["symbols"] = list(one.symbols)
        case "fixed":
            out["size"] = one.size
        case "array" | "map":
            out["of"] = _plain(one.types[0], met)
    if one.default is not MISSING:
        out["default"] = one.default
    return out


def _plain_field(one: AvroField, met: set[str]) -> dict[str, Any]:
    out = {
        "name": one.name,
        "type": _plain(one.type, met),
        "order": one.order,
        **{f"x-{key}": value for key, value in one.extra.items()},
    }
    if one.default is not MISSING:
        out["default"] = one.default
    return out
