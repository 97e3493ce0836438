"""May data written by one Avro schema be read by another? Avro 1.11's rules of resolution, as its Java library applies
them; each refusal names the field. Pure."""

import math
from reprlib import repr as brief
from typing import Any

from engine.schema.avro_types import DEPTH_MAX, MISSING, AvroField, AvroType

PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "bytes": ("string",),
    "string": ("bytes",),
}
_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)
STEPS_MAX = 500_000
"""A second or so (S4). Definitions of some kilobytes can ask for more than anybody waits for."""
SAID_MAX = 10
"""Branches of a union that a text names."""
Seen = dict[tuple[int, int], str | None]
"""Pairs of records met, with what is wrong: None so far. A record within itself is as good as it is elsewhere."""


class TooMuchError(Exception):
    """``STEPS_MAX`` are done."""


def unreadable(writer: AvroType, reader: AvroType) -> str | None:
    """None when ``reader`` reads all that ``writer`` may write; else the first place where it does not, in words."""
    try:
        return Comparison(reader).problem(writer, reader, "")
    except TooMuchError:
        return f"no answer after {STEPS_MAX} comparisons of types: the definitions are too involved"


class Comparison:
    """``reader``'s aliases, which say under which names the writer may know its types and fields. All raise
    TooMuchError."""

    def __init__(self, reader: AvroType) -> None:
        self._seen: Seen = {}
        self._left = STEPS_MAX
        self._type_names: dict[str, str] = {}
        self._field_names: dict[str, dict[str, str]] = {}
        self._collect(reader, set())

    def _collect(self, one: AvroType, met: set[int]) -> None:
        if id(one) in met:
            return
        met.add(id(one))
        for alias in one.aliases:
            self._type_names[alias] = one.name
        if one.kind == "record":
            self._field_names[one.name] = {
                alias: each.name for each in one.fields for alias in each.aliases
            }
        for inner in (*one.types, *(each.type for each in one.fields)):
            self._collect(inner, met)

    def _take(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuchError

    def _name(self, writer: AvroType) -> str:
        """The writer's type name, or what the reader calls it."""
        return self._type_names.get(writer.name, writer.name)

    def problem(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        """``at``: dotted names of the fields on the way."""
        self._take(1)
        if writer.kind == "union":
            return self._written_union(writer, reader, at)
        if reader.kind == "union" and writer.kind != reader.kind:
            branch = self.branch(writer, reader, at)
            if branch is None:
                return _told(at, f"{said(writer)} is none of {said(reader)}")
            return self.problem(writer, branch, at)
        if writer.kind != reader.kind:
            if reader.kind in PROMOTED.get(writer.kind, ()):
                return None
            return _told(at, f"{said(writer)} cannot be read as {said(reader)}")
        match writer.kind:
            case "record":
                return self._records(writer, reader, at)
            case "array" | "map":
                return self.problem(writer.types[0], reader.types[0], at)
            case "enum" | "fixed":
                if self._name(writer) != reader.name:
                    return _told(at, f"{writer.kind} {writer.name} is now called {reader.name}")
                if writer.size != reader.size:
                    return _told(
                        at, f"fixed {reader.name}: {writer.size} bytes, then {reader.size}"
                    )
        return None

    def _written_union(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        for branch in writer.types:
            found = self.problem(branch, reader, at)
            if found is not None:
                return found
        return None

    def branch(self, writer: AvroType, reader: AvroType, at: str) -> AvroType | None:
        """The branch of the union ``reader`` that takes ``writer``: the same type, for records a fitting one, else what
        it is promoted to."""
        self._take(len(reader.types))
        fitting: AvroType | None = None
        for branch in reader.types:
            if branch.kind != writer.kind:
                continue
            if not branch.name:
                return branch
            if self._name(writer) == branch.name:
                return branch
            if branch.kind == "record" and self._records(writer, branch, at) is None:
                same = self._name(writer).rpartition(".")[2] == branch.short_name
                fitting = branch if fitting is None or same else fitting
        if fitting is not None:
            return fitting
        promoted = PROMOTED.get(writer.kind, ())
        return next((branch for branch in reader.types if branch.kind in promoted), None)

    def _records(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        pair = id(writer), id(reader)
        if pair in self._seen:
            return self._seen[pair]
        self._seen[pair] = None
        self._seen[pair] = found = self._fields(writer, reader, at)
        return found

    def written(self, writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
        """The writer's fields by their names in ``reader``."""
        self._take(len(writer.fields))
        renamed = (
            self._field_names.get(reader.name, {}) if self._name(writer) == reader.name else {}
        )
        written = {renamed[one.name]: one for one in writer.fields if one.name in renamed}
        return written | {one.name: one for one in writer.fields if one.name not in renamed}

    def _fields(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        written = self.written(writer, reader)
        for one in reader.fields:
            inside = f"{at}.{one.name}" if at else one.name
            other = written.get(one.name)
            found = (
                self._absent(one, inside)
                if other is None
                else self.problem(other.type, one.type, inside)
            )
            if found is not None:
                return found
        return None

    def _absent(self, one: AvroField, at: str) -> str | None:
        """What is wrong with a field that the writer does not know."""
        if one.default is MISSING:
            return _told(at, "is required, but there is data without it: it needs a default")
        if not self._fits(one.default, one.type):
            return _told(at, f"the default {brief(one.default)} is no {said(one.type)}")
        return None

    def _fits(self, value: Any, of: AvroType, depth: int = 0) -> bool:
        """Whether a default's JSON value is one of its type; a union's is one of its first branch. ``depth``: a record
        whose default holds that record again has none."""
        self._take(1)
        inside = depth + 1
        match of.kind:
            case _ if depth > DEPTH_MAX:
                return False
            case "union":
                return bool(of.types) and self._fits(value, of.types[0], inside)
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                whole = isinstance(value, int | float) and not isinstance(value, bool)
                return (
                    whole
                    and (isinstance(value, int) or math.isfinite(value))
                    and int(value) in (_INT if of.kind == "int" else _LONG)
                )
            case "float" | "double":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "string" | "bytes" | "fixed":
                return isinstance(value, str)
            case "enum":
                self._take(len(of.symbols))
                return isinstance(value, str) and value in of.symbols
            case "array":
                return isinstance(value, list) and all(
                    self._fits(one, of.types[0], inside) for one in value
                )
            case "map":
                return isinstance(value, dict) and all(
                    self._fits(one, of.types[0], inside) for one in value.values()
                )
        return isinstance(value, dict) and all(
            self._fits(value.get(one.name, one.default), one.type, inside) for one in of.fields
        )


def said(one: AvroType) -> str:
    """A type in words."""
    if one.kind == "union":
        more = ", …" if len(one.types) > SAID_MAX else ""
        return f"[{', '.join(map(said, one.types[:SAID_MAX]))}{more}]"
    return f"{one.kind} {one.name}" if one.name else one.kind


def _told(at: str, text: str) -> str:
    return f"field {at}: {text}" if at else text
