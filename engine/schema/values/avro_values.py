"""Values of AVRO messages: read by the definition that wrote them, resolved to another if one is given. Pure.

A definition is compiled to one function for each of its types, which call each other. Resolution is Avro 1.11's, with
the rules of ``avro_rules``. A type that cannot be resolved is an error only for data that reaches it, as in Java.
"""

from collections.abc import Callable
from itertools import repeat
from struct import Struct

from engine.schema.avro_rules import PROMOTED, Comparison, type_text
from engine.schema.avro_types import MISSING, AvroField, AvroType
from engine.schema.values.avro_defaults import default_value
from engine.schema.values.avro_logical import bytes_show, number_show
from engine.schema.values.shown import (
    Allowance,
    JsonValue,
    UndecodableError,
    cost,
    place,
    shown_double,
    shown_float,
    shown_text,
)

_INT = range(-(1 << 31), 1 << 31)
_UINT64_MAX = (1 << 64) - 1
_FLOAT = Struct("<f")
_DOUBLE = Struct("<d")


class _Source(Allowance):
    """A payload and the position up to which it was read."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self.data = data
        self.pos = 0

    def take(self, size: int) -> bytes:
        end = self.pos + size
        if size < 0 or end > len(self.data):
            raise _early() if size >= 0 else UndecodableError("", f"a length of {size}")
        part = self.data[self.pos : end]
        self.pos = end
        return part


Read = Callable[[_Source], JsonValue]


def avro_reader(writer: AvroType, reader: AvroType | None) -> Callable[[bytes], JsonValue]:
    """Return the function that reads whole payloads."""
    read_value = _Readers(reader).reader_for(writer, reader)

    def read(payload: bytes) -> JsonValue:
        source = _Source(payload)
        value = read_value(source)
        if source.pos < len(payload):
            raise UndecodableError("", f"{len(payload) - source.pos} bytes are left behind it")
        return value

    return read


class _Readers:
    """The read functions by pair of types; records may contain themselves."""

    def __init__(self, reader: AvroType | None) -> None:
        self._rules = Comparison(reader) if reader is not None else None
        self._records: dict[tuple[int, int], Read] = {}

    def reader_for(self, writer: AvroType, reader: AvroType | None) -> Read:
        """Return the function for a writer's type; ``reader`` None shows values as they were written."""
        if writer.kind == "union":
            return _union([self.reader_for(branch, reader) for branch in writer.types])
        if reader is None or self._rules is None:
            return self._same_kind(writer, writer, None)
        if reader.kind == "union":
            branch = self._rules.branch(writer, reader, "")
            if branch is None:
                return _refusal(f"{type_text(writer)} is none of {type_text(reader)}")
            return self.reader_for(writer, branch)
        if writer.kind != reader.kind:
            if reader.kind not in PROMOTED.get(writer.kind, ()):
                return _refusal(f"{type_text(writer)} cannot be read as {type_text(reader)}")
            return _promoted(writer, reader)
        if writer.kind in ("enum", "fixed"):
            problem = self._rules.problem(writer, reader, "")
            if problem is not None:
                return _refusal(problem)
        return self._same_kind(writer, reader, reader)

    def _same_kind(self, writer: AvroType, shown: AvroType, reader: AvroType | None) -> Read:
        match writer.kind:
            case "record":
                return self._record(writer, reader)
            case "array" | "map":
                inner = self.reader_for(writer.types[0], reader and reader.types[0])
                return _array(inner) if writer.kind == "array" else _map(inner)
            case "enum":
                return _enum(writer, reader)
            case "int" | "long":
                return _number(writer, shown)
            case "bytes":
                show = bytes_show(shown)
                return lambda source: show(source.take(_long(source)))
            case "fixed":
                show, size = bytes_show(shown), writer.size
                return lambda source: show(source.take(size))
        return _PLAIN[writer.kind]

    def _record(self, writer: AvroType, reader: AvroType | None) -> Read:
        pair = id(writer), id(reader)
        read = self._records.get(pair)
        if read is None:
            fields: list[tuple[str, Read, bool]] = []
            template: dict[str, JsonValue] = {}
            # Registered before its fields are compiled, which may refer to this record.
            self._records[pair] = read = _record_read(fields, template, writer, reader)
            try:
                self._fill(writer, reader, fields, template)
            except UndecodableError as error:
                return _refusal(error.reason, error.path)
        return read

    def _fill(
        self,
        writer: AvroType,
        reader: AvroType | None,
        fields: list[tuple[str, Read, bool]],
        template: dict[str, JsonValue],
    ) -> None:
        if reader is None or self._rules is None:
            fields += [
                (field.name, self.reader_for(field.type, None), True) for field in writer.fields
            ]
            return
        reader_fields = {field.name: field for field in reader.fields}
        written = self._rules.written(writer, reader)
        for field in reader.fields:
            template[field.name] = None if field.name in written else _absent(field)
        names = {id(field): name for name, field in written.items() if name in reader_fields}
        for field in writer.fields:
            name = names.get(id(field))
            reader_type = reader_fields[name].type if name is not None else None
            fields.append(
                (name or field.name, self.reader_for(field.type, reader_type), name is not None)
            )


def _absent(field: AvroField) -> JsonValue:
    if field.default is MISSING:
        raise UndecodableError(field.name, "is required, but the data does not have it")
    return default_value(field)[0]


def _record_read(
    fields: list[tuple[str, Read, bool]],
    template: dict[str, JsonValue],
    writer: AvroType,
    reader: AvroType | None,
) -> Read:
    """Return the function for a record. ``fields`` in the order of the data: name, read function, whether it is
    kept."""
    weight = sum(cost(definition.name) for definition in writer.fields)
    if reader is not None:
        weight += sum(_weight(definition) for definition in reader.fields)

    def read(source: _Source) -> JsonValue:
        source.enter()
        source.spend(weight)
        record = template.copy()
        name = ""
        try:
            for name, field, is_kept in fields:
                if is_kept:
                    record[name] = field(source)
                else:
                    field(source)
        except UndecodableError as error:
            raise error.within(name) from None
        source.depth -= 1
        return record

    return read


def _weight(field: AvroField) -> int:
    try:
        return cost(field.name) + (0 if field.default is MISSING else default_value(field)[1])
    except UndecodableError:
        return cost(field.name)


def _refusal(reason: str, path: str = "") -> Read:
    def read(source: _Source) -> JsonValue:
        raise UndecodableError(path, reason)

    return read


def _early() -> UndecodableError:
    return UndecodableError("", "the data ends early")


def _union(branches: list[Read]) -> Read:
    def read(source: _Source) -> JsonValue:
        index = _long(source)
        if not 0 <= index < len(branches):
            raise UndecodableError("", f"branch {index} of a union of {len(branches)}")
        return branches[index](source)

    return read


def _count(source: _Source) -> int:
    """Return the number of items in the next block, 0 at the end. A block with its length in bytes has a negative
    count."""
    count = _long(source)
    if count < 0:
        _long(source)
        count = -count
    source.spend(count)
    return count


def _array(inner: Read) -> Read:
    def read(source: _Source) -> JsonValue:
        source.enter()
        items: list[JsonValue] = []
        try:
            while count := _count(source):
                items.extend(map(inner, repeat(source, count)))
        except UndecodableError as error:
            raise error.within(f"[{len(items)}]") from None
        source.depth -= 1
        return items

    return read


def _map(inner: Read) -> Read:
    def read(source: _Source) -> JsonValue:
        source.enter()
        values: dict[str, JsonValue] = {}
        key = ""
        while count := _count(source):
            for _ in range(count):
                key = _text(source)
                try:
                    values[key] = inner(source)
                except UndecodableError as error:
                    raise error.within(place(key)) from None
        source.depth -= 1
        return values

    return read


def _enum(writer: AvroType, reader: AvroType | None) -> Read:
    """Return the function for an enum. A symbol that the reader does not have is replaced by its default."""
    seen: list[str | None] = list(writer.symbols)
    if reader is not None:
        default = None if reader.default is MISSING else reader.default
        seen = [symbol if symbol in reader.symbols else default for symbol in writer.symbols]
    costs = [cost(symbol or "") for symbol in seen]

    def read(source: _Source) -> JsonValue:
        index = _long(source)
        if not 0 <= index < len(seen):
            raise UndecodableError("", f"symbol {index} of an enum of {len(seen)}")
        symbol = seen[index]
        if symbol is None:
            raise UndecodableError("", f"{writer.symbols[index]} is no symbol of the reader's")
        source.spend(costs[index])
        return symbol

    return read


def _number(writer: AvroType, shown: AvroType) -> Read:
    show = number_show(shown)
    if writer.kind == "long":
        return lambda source: show(_long(source))
    return lambda source: show(_int(source))


def _promoted(writer: AvroType, reader: AvroType) -> Read:
    if writer.kind == "string":
        show = bytes_show(reader)
        return lambda source: show(source.take(_long(source)))
    if writer.kind == "bytes":
        return _text
    read = _RAW[writer.kind]
    if reader.kind == "long":
        numbered = number_show(reader)
        return lambda source: numbered(int(read(source)))
    fractional = shown_float if reader.kind == "float" else shown_double
    return lambda source: fractional(float(read(source)))


def _long(source: _Source) -> int:
    data, pos = source.data, source.pos
    try:
        byte = data[pos]
        number, shift = byte & 127, 7
        while byte > 127:
            if shift > 63:
                raise UndecodableError("", "a number of more than ten bytes")
            pos += 1
            byte = data[pos]
            number |= (byte & 127) << shift
            shift += 7
    except IndexError:
        raise _early() from None
    source.pos = pos + 1
    number &= _UINT64_MAX
    return (number >> 1) ^ -(number & 1)


def _int(source: _Source) -> int:
    number = _long(source)
    if number not in _INT:
        raise UndecodableError("", f"{number} is no int of 32 bits")
    return number


def _text(source: _Source) -> str:
    return shown_text(source.take(_long(source)))


def _boolean(source: _Source) -> bool:
    value = source.take(1)[0]
    if value > 1:
        raise UndecodableError("", f"{value} is no boolean")
    return value == 1


def _raw_float(source: _Source) -> float:
    value: float = _FLOAT.unpack(source.take(_FLOAT.size))[0]
    return value


def _raw_double(source: _Source) -> float:
    value: float = _DOUBLE.unpack(source.take(_DOUBLE.size))[0]
    return value


_RAW: dict[str, Callable[[_Source], float]] = {
    "int": _int,
    "long": _long,
    "float": _raw_float,
}
_PLAIN: dict[str, Read] = {
    "null": lambda source: None,
    "boolean": _boolean,
    "float": lambda source: shown_float(_raw_float(source)),
    "double": lambda source: shown_double(_raw_double(source)),
    "string": _text,
}
