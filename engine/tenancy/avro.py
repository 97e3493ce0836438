"""Avro's binary encoding, for records that Apache Pulsar stores in topics. Pure.

A value is decoded by the schema it was written with. Avro's types are represented as follows: null by None, boolean by
bool, int and long by int, float and double by float, bytes by bytes, string and enum by str, record and map by dict,
array by list. A record's null fields are left out of its dict, and missing fields are written with their default, else
as null. Logical types and recursive types are not supported.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from engine.base.errors import PeerError
from engine.wire.varints import read_varint, varint

Value = Any
Kind = Any
"""A type of a schema: its name when primitive, a list for a union, else its definition with all names resolved."""

_FLOATS = {"float": Struct("<f"), "double": Struct("<d")}
_INT_BITS = {"int": 32, "long": 64}
_PYTHON: dict[str, Callable[[Value], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "long": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "double": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "bytes": lambda value: isinstance(value, bytes),
    "string": lambda value: isinstance(value, str),
    "record": lambda value: isinstance(value, dict),
    "map": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "enum": lambda value: isinstance(value, str),
}


class AvroError(PeerError, ValueError):
    """Bytes or a value that do not fit the schema, or an invalid schema; the message names the field."""


class AvroSchema:
    """A schema, from its JSON form. Raises AvroError."""

    def __init__(self, definition: Any) -> None:
        try:
            self._kind = _resolve(definition, "", {})
        except (KeyError, TypeError, AttributeError) as error:
            raise AvroError(f"not an Avro schema: {error!r}") from error

    def decode(self, data: bytes) -> Value:
        """Decode ``data``, which is one value without bytes after it. Raises AvroError."""
        reader = _Reader(data)
        value = reader.read(self._kind)
        if reader.pos != len(data):
            raise AvroError(f"{len(data) - reader.pos} bytes after the value")
        return value

    def encode(self, value: Value) -> bytes:
        """Encode a value. Raises AvroError."""
        out = bytearray()
        _write(self._kind, value, out, "")
        return bytes(out)


def _resolve(definition: Any, namespace: str, names: dict[str, Kind]) -> Kind:
    """Return ``definition`` with type names replaced by their types; ``names`` holds the types defined so far."""
    if isinstance(definition, list):
        return [_resolve(branch, namespace, names) for branch in definition]
    if isinstance(definition, str):
        if definition in _PYTHON:
            return definition
        return names[definition if "." in definition else f"{namespace}.{definition}"]
    match definition["type"]:
        case "array":
            return {"type": "array", "of": _resolve(definition["items"], namespace, names)}
        case "map":
            return {"type": "map", "of": _resolve(definition["values"], namespace, names)}
        case "enum" | "record" as kind:
            namespace = definition.get("namespace", namespace)
            named: dict[str, Any] = {"type": kind, "name": definition["name"]}
            if kind == "enum":
                named["symbols"] = list(definition["symbols"])
            else:
                named["fields"] = {
                    field["name"]: (
                        _resolve(field["type"], namespace, names),
                        field.get("default"),
                    )
                    for field in definition["fields"]
                }
            names[f"{namespace}.{definition['name']}"] = named
            return named
        case wrapped:
            return _resolve(wrapped, namespace, names)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.pos = 0

    def read(self, kind: Kind) -> Value:
        if isinstance(kind, list):
            return self.read(self._choice(kind))
        if isinstance(kind, dict):
            return self._read_complex(kind)
        match kind:
            case "null":
                return None
            case "boolean":
                return self._read_bytes(1) != b"\0"
            case "int" | "long":
                return self._read_long()
            case "float" | "double":
                return _FLOATS[kind].unpack(self._read_bytes(_FLOATS[kind].size))[0]
        data = self._read_bytes(self._read_long())
        try:
            return data.decode() if kind == "string" else data
        except UnicodeDecodeError as error:
            raise AvroError(f"a string at {self.pos} is not UTF-8") from error

    def _read_complex(self, kind: dict[str, Any]) -> Value:
        match kind["type"]:
            case "record":
                fields = {name: self.read(inner) for name, (inner, _) in kind["fields"].items()}
                return {name: value for name, value in fields.items() if value is not None}
            case "enum":
                return self._choice(kind["symbols"])
            case "array":
                return [self.read(kind["of"]) for _ in self._item_turns()]
            case _:
                return {self.read("string"): self.read(kind["of"]) for _ in self._item_turns()}

    def _item_turns(self) -> Any:
        """Yield once per item of an array or map, which is encoded as counted blocks up to a count of 0."""
        while count := self._read_long():
            if count < 0:
                count = -count
                self._read_long()  # the block's size in bytes, for readers that skip it
            if count > len(self._data) - self.pos:
                raise AvroError(f"{count} items in {len(self._data) - self.pos} bytes")
            yield from range(count)

    def _choice(self, choices: list[Any]) -> Any:
        index = self._read_long()
        if not 0 <= index < len(choices):
            raise AvroError(f"choice {index} of {len(choices)} at {self.pos}")
        return choices[index]

    def _read_long(self) -> int:
        raw, pos = read_varint(self._data, self.pos, len(self._data))
        if pos < 0:
            raise AvroError(f"a number is cut off at {self.pos}")
        self.pos = pos
        return (raw >> 1) ^ -(raw & 1)

    def _read_bytes(self, size: int) -> bytes:
        stop = self.pos + size
        if size < 0 or stop > len(self._data):
            raise AvroError(f"{size} bytes wanted at {self.pos}, of {len(self._data)}")
        data, self.pos = self._data[self.pos : stop], stop
        return data


def _write(kind: Kind, value: Value, out: bytearray, path: str) -> None:
    """Append the encoded ``value`` to ``out``; ``path`` names the value in errors."""
    if isinstance(kind, list):
        index = next((i for i, branch in enumerate(kind) if _fits(branch, value)), -1)
        if index < 0:
            raise AvroError(f"{path}: {value!r} is none of {', '.join(map(_name, kind))}")
        out += _zigzag(index)
        _write(kind[index], value, out, path)
    elif not _fits(kind, value):
        raise AvroError(f"{path}: {value!r} is no {_name(kind)}")
    elif isinstance(kind, dict):
        _write_complex(kind, value, out, path)
    elif kind == "boolean":
        out.append(value)
    elif kind in _INT_BITS:
        top = 1 << _INT_BITS[kind] - 1
        if not -top <= value < top:
            raise AvroError(f"{path}: {value} does not fit into {_INT_BITS[kind]} bits")
        out += _zigzag(value)
    elif kind in _FLOATS:
        out += _FLOATS[kind].pack(value)
    elif kind != "null":
        _write_sized(value.encode() if kind == "string" else value, out)


def _write_complex(kind: dict[str, Any], value: Value, out: bytearray, path: str) -> None:
    match kind["type"]:
        case "record":
            fields = kind["fields"]
            unknown = sorted(value.keys() - fields.keys())
            if unknown:
                raise AvroError(f"{path}: {kind['name']} has no field {', '.join(unknown)}")
            for name, (inner, default) in fields.items():
                _write(inner, value.get(name, default), out, f"{path}.{name}".lstrip("."))
        case "enum":
            out += _zigzag(kind["symbols"].index(value))
        case "array":
            if value:
                out += _zigzag(len(value))
            for index, item in enumerate(value):
                _write(kind["of"], item, out, f"{path}[{index}]")
            out.append(0)
        case _:
            if value:
                out += _zigzag(len(value))
            for key, item in value.items():
                _write("string", key, out, path)
                _write(kind["of"], item, out, f"{path}[{key}]")
            out.append(0)


def _write_sized(data: bytes, out: bytearray) -> None:
    out += _zigzag(len(data)) + data


def _zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def _fits(kind: Kind, value: Value) -> bool:
    if isinstance(kind, dict):
        return _PYTHON[kind["type"]](value) and (kind["type"] != "enum" or value in kind["symbols"])
    return _PYTHON[kind](value)


def _name(kind: Kind) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    if kind["type"] == "enum":
        return f"{kind['name']} ({', '.join(kind['symbols'])})"
    return str(kind.get("name", kind["type"]))
