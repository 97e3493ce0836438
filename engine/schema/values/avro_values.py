"""Values of AVRO messages: read by the definition that wrote them, seen by another if one is given. Pure.

A definition is made into one function for each of its types, which call each other. Resolution is Avro 1.11's, with the
rules of ``avro_rules``; what cannot be resolved is an error only for data that reaches it, as in Java.
"""

from collections.abc import Callable
from itertools import repeat
from struct import Struct

from engine.schema.avro_rules import PROMOTED, Comparison, said
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
    """A payload, and how far it has been read."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self.data = data
        self.pos = 0

    def take(self, size: int) -> bytes:
        end = self.pos + size
        if size < 0 or end > len(self.data):
            raise _early() if size >= 0 else UndecodableError("", f"a length of {size}")
        found = self.data[self.pos : end]
        self.pos = end
        return found


Read = Callable[[_Source], JsonValue]


def avro_reader(writer: AvroType, reader: AvroType | None) -> Callable[[bytes], JsonValue]:
    """What reads whole payloads."""
    whole = _Readers(reader).of(writer, reader)

    def read(payload: bytes) -> JsonValue:
        source = _Source(payload)
        found = whole(source)
        if source.pos < len(payload):
            raise UndecodableError("", f"{len(payload) - source.pos} bytes are left behind it")
        return found

    return read


class _Readers:
    """The function for each pair of types that meet; records may contain themselves."""

    def __init__(self, reader: AvroType | None) -> None:
        self._rules = Comparison(reader) if reader is not None else None
        self._records: dict[tuple[int, int], Read] = {}

    def of(self, writer: AvroType, reader: AvroType | None) -> Read:
        """``reader`` None: as it was written."""
        if writer.kind == "union":
            return _union([self.of(branch, reader) for branch in writer.types])
        if reader is None or self._rules is None:
            return self._same_kind(writer, writer, None)
        if reader.kind == "union":
            branch = self._rules.branch(writer, reader, "")
            if branch is None:
                return _refusal(f"{said(writer)} is none of {said(reader)}")
            return self.of(writer, branch)
        if writer.kind != reader.kind:
            if reader.kind not in PROMOTED.get(writer.kind, ()):
                return _refusal(f"{said(writer)} cannot be read as {said(reader)}")
            return _promoted(writer, reader)
        if writer.kind in ("enum", "fixed"):
            why = self._rules.problem(writer, reader, "")
            if why is not None:
                return _refusal(why)
        return self._same_kind(writer, reader, reader)

    def _same_kind(self, writer: AvroType, shown: AvroType, reader: AvroType | None) -> Read:
        match writer.kind:
            case "record":
                return self._record(writer, reader)
            case "array" | "map":
                inner = self.of(writer.types[0], reader and reader.types[0])
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
        found = self._records.get(pair)
        if found is None:
            fields: list[tuple[str, Read, bool]] = []
            template: dict[str, JsonValue] = {}
            self._records[pair] = found = _record_read(fields, template, writer, reader)
            try:
                self._fill(writer, reader, fields, template)
            except UndecodableError as error:
                return _refusal(error.reason, error.path)
        return found

    def _fill(
        self,
        writer: AvroType,
        reader: AvroType | None,
        fields: list[tuple[str, Read, bool]],
        template: dict[str, JsonValue],
    ) -> None:
        if reader is None or self._rules is None:
            fields += [(one.name, self.of(one.type, None), True) for one in writer.fields]
            return
        wanted = {one.name: one for one in reader.fields}
        written = self._rules.written(writer, reader)
        for one in reader.fields:
            template[one.name] = None if one.name in written else _absent(one)
        names = {id(one): name for name, one in written.items() if name in wanted}
        for one in writer.fields:
            name = names.get(id(one))
            seen_as = wanted[name].type if name is not None else None
            fields.append((name or one.name, self.of(one.type, seen_as), name is not None))


def _absent(one: AvroField) -> JsonValue:
    if one.default is MISSING:
        raise UndecodableError(one.name, "is required, but the data does not have it")
    return default_value(one)[0]


def _record_read(
    fields: list[tuple[str, Read, bool]],
    template: dict[str, JsonValue],
    writer: AvroType,
    reader: AvroType | None,
) -> Read:
    """``fields`` are in the order of the data: name, how it is read, whether it is kept."""
    weight = sum(cost(one.name) for one in writer.fields)
    if reader is not None:
        weight += sum(_weight(one) for one in reader.fields)

    def read(source: _Source) -> JsonValue:
        source.enter()
        source.spend(weight)
        out = template.copy()
        name = ""
        try:
            for name, field, kept in fields:
                if kept:
                    out[name] = field(source)
                else:
                    field(source)
        except UndecodableError as error:
            raise error.within(name) from None
        source.depth -= 1
        return out

    return read


def _weight(one: AvroField) -> int:
    try:
        return cost(one.name) + (0 if one.default is MISSING else default_value(one)[1])
    except UndecodableError:
        return cost(one.name)


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
    """Items in the next block, 0 at the end; a block that says its length has a negative count."""
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
        found: dict[str, JsonValue] = {}
        key = ""
        while count := _count(source):
            for _ in range(count):
                key = _text(source)
                try:
                    found[key] = inner(source)
                except UndecodableError as error:
                    raise error.within(place(key)) from None
        source.depth -= 1
        return found

    return read


def _enum(writer: AvroType, reader: AvroType | None) -> Read:
    """A symbol that the reader does not have is its default."""
    seen: list[str | None] = list(writer.symbols)
    if reader is not None:
        default = None if reader.default is MISSING else reader.default
        seen = [one if one in reader.symbols else default for one in writer.symbols]
    costs = [cost(one or "") for one in seen]

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
        found, shift = byte & 127, 7
        while byte > 127:
            if shift > 63:
                raise UndecodableError("", "a number of more than ten bytes")
            pos += 1
            byte = data[pos]
            found |= (byte & 127) << shift
            shift += 7
    except IndexError:
        raise _early() from None
    source.pos = pos + 1
    found &= _UINT64_MAX
    return (found >> 1) ^ -(found & 1)


def _int(source: _Source) -> int:
    found = _long(source)
    if found not in _INT:
        raise UndecodableError("", f"{found} is no int of 32 bits")
    return found


def _text(source: _Source) -> str:
    return shown_text(source.take(_long(source)))


def _boolean(source: _Source) -> bool:
    found = source.take(1)[0]
    if found > 1:
        raise UndecodableError("", f"{found} is no boolean")
    return found == 1


def _raw_float(source: _Source) -> float:
    found: float = _FLOAT.unpack(source.take(_FLOAT.size))[0]
    return found


def _raw_double(source: _Source) -> float:
    found: float = _DOUBLE.unpack(source.take(_DOUBLE.size))[0]
    return found


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
