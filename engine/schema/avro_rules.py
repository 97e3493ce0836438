"""Compatibility of Avro definitions: whether data written by one can be read by another. Pure.

Avro 1.11's rules of resolution, as its Java library applies them. Each refusal names the field.
"""

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
"""Comparisons of types, about a second (S4). Definitions of some kilobytes can require far more."""
SHOWN_BRANCHES_MAX = 10
"""Branches of a union that a text names."""
Seen = dict[tuple[int, int], str | None]
"""Pairs of records compared, with the problem or None so far. A record nested in itself has the result of its other
occurrences."""


class TooManyStepsError(Exception):
    """The comparison needs more than ``STEPS_MAX`` steps."""


def unreadable(writer: AvroType, reader: AvroType) -> str | None:
    """Return the first place where ``reader`` cannot read data of ``writer``, in words; None when it reads all."""
    try:
        return Comparison(reader).problem(writer, reader, "")
    except TooManyStepsError:
        return f"no answer after {STEPS_MAX} comparisons of types: the definitions are too involved"


class Comparison:
    """Resolution of types against ``reader``, whose aliases name types and fields of a writer.

    All methods raise TooManyStepsError.
    """

    def __init__(self, reader: AvroType) -> None:
        self._seen: Seen = {}
        self._steps_left = STEPS_MAX
        self._type_names: dict[str, str] = {}
        self._field_names: dict[str, dict[str, str]] = {}
        self._collect(reader, set())

    def _collect(self, avro_type: AvroType, visited: set[int]) -> None:
        if id(avro_type) in visited:
            return
        visited.add(id(avro_type))
        for alias in avro_type.aliases:
            self._type_names[alias] = avro_type.name
        if avro_type.kind == "record":
            self._field_names[avro_type.name] = {
                alias: field.name for field in avro_type.fields for alias in field.aliases
            }
        for inner in (*avro_type.types, *(field.type for field in avro_type.fields)):
            self._collect(inner, visited)

    def _count_steps(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManyStepsError

    def _name(self, writer: AvroType) -> str:
        """Return the reader's name of a writer's type, by its aliases."""
        return self._type_names.get(writer.name, writer.name)

    def problem(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        """Return what prevents ``reader`` from reading ``writer``, or None. ``at``: dotted names of the enclosing
        fields."""
        self._count_steps(1)
        if writer.kind == "union":
            return self._written_union(writer, reader, at)
        if reader.kind == "union" and writer.kind != reader.kind:
            branch = self.branch(writer, reader, at)
            if branch is None:
                return _at_field(at, f"{type_text(writer)} is none of {type_text(reader)}")
            return self.problem(writer, branch, at)
        if writer.kind != reader.kind:
            if reader.kind in PROMOTED.get(writer.kind, ()):
                return None
            return _at_field(at, f"{type_text(writer)} cannot be read as {type_text(reader)}")
        match writer.kind:
            case "record":
                return self._records(writer, reader, at)
            case "array" | "map":
                return self.problem(writer.types[0], reader.types[0], at)
            case "enum" | "fixed":
                if self._name(writer) != reader.name:
                    return _at_field(at, f"{writer.kind} {writer.name} is now called {reader.name}")
                if writer.size != reader.size:
                    return _at_field(
                        at, f"fixed {reader.name}: {writer.size} bytes, then {reader.size}"
                    )
        return None

    def _written_union(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        for branch in writer.types:
            problem = self.problem(branch, reader, at)
            if problem is not None:
                return problem
        return None

    def branch(self, writer: AvroType, reader: AvroType, at: str) -> AvroType | None:
        """Return the branch of the union ``reader`` that reads ``writer``; None when there is none.

        It is the branch of the same type, for records one that resolves, else one that the type is promoted to.
        """
        self._count_steps(len(reader.types))
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
        self._seen[pair] = problem = self._fields(writer, reader, at)
        return problem

    def written(self, writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
        """Return the writer's fields by their names in ``reader``."""
        self._count_steps(len(writer.fields))
        renamed = (
            self._field_names.get(reader.name, {}) if self._name(writer) == reader.name else {}
        )
        written = {renamed[field.name]: field for field in writer.fields if field.name in renamed}
        return written | {field.name: field for field in writer.fields if field.name not in renamed}

    def _fields(self, writer: AvroType, reader: AvroType, at: str) -> str | None:
        written = self.written(writer, reader)
        for field in reader.fields:
            path = f"{at}.{field.name}" if at else field.name
            written_field = written.get(field.name)
            problem = (
                self._absent(field, path)
                if written_field is None
                else self.problem(written_field.type, field.type, path)
            )
            if problem is not None:
                return problem
        return None

    def _absent(self, field: AvroField, at: str) -> str | None:
        """Return what is wrong with a field that the writer does not have, or None."""
        if field.default is MISSING:
            return _at_field(at, "is required, but there is data without it: it needs a default")
        if not self._fits(field.default, field.type):
            return _at_field(
                at, f"the default {brief(field.default)} is no {type_text(field.type)}"
            )
        return None

    def _fits(self, value: Any, avro_type: AvroType, depth: int = 0) -> bool:
        """Return whether a default's JSON value is of its type; a union's default is of its first branch.

        ``depth`` bounds the recursion: a record whose default contains that record has no default.
        """
        self._count_steps(1)
        inside = depth + 1
        match avro_type.kind:
            case _ if depth > DEPTH_MAX:
                return False
            case "union":
                return bool(avro_type.types) and self._fits(value, avro_type.types[0], inside)
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return (
                    is_number
                    and (isinstance(value, int) or math.isfinite(value))
                    and int(value) in (_INT if avro_type.kind == "int" else _LONG)
                )
            case "float" | "double":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "string" | "bytes" | "fixed":
                return isinstance(value, str)
            case "enum":
                self._count_steps(len(avro_type.symbols))
                return isinstance(value, str) and value in avro_type.symbols
            case "array":
                return isinstance(value, list) and all(
                    self._fits(field, avro_type.types[0], inside) for field in value
                )
            case "map":
                return isinstance(value, dict) and all(
                    self._fits(field, avro_type.types[0], inside) for field in value.values()
                )
        return isinstance(value, dict) and all(
            self._fits(value.get(field.name, field.default), field.type, inside)
            for field in avro_type.fields
        )


def type_text(avro_type: AvroType) -> str:
    """Return a type in words."""
    if avro_type.kind == "union":
        more = ", …" if len(avro_type.types) > SHOWN_BRANCHES_MAX else ""
        return f"[{', '.join(map(type_text, avro_type.types[:SHOWN_BRANCHES_MAX]))}{more}]"
    return f"{avro_type.kind} {avro_type.name}" if avro_type.name else avro_type.kind


def _at_field(at: str, text: str) -> str:
    return f"field {at}: {text}" if at else text
