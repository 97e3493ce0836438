"""Values of PROTOBUF_NATIVE and PROTOBUF messages, by the names of their fields. Pure.

Fields that say whether they are there are left out when they are not; others have their default.
"""

import json
from collections.abc import Callable
from itertools import repeat
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from engine.schema.kinds import InvalidSchemaError, Schema
from engine.schema.values.shown import (
    Allowance,
    JsonValue,
    UndecodableError,
    cost,
    place,
    shown_bytes,
    shown_double,
    shown_float,
    shown_instant,
)

PARSING_INFO = "__PARSING_INFO__"
_TIMESTAMP = "google.protobuf.Timestamp"
_FIELD = descriptor_pb2.FieldDescriptorProto
_STOOD_IN = {"MESSAGE": _FIELD.TYPE_BYTES, "ENUM": _FIELD.TYPE_INT32}
"""Of parts the properties of a PROTOBUF schema tell the name alone: bytes and numbers are what can be read of them."""

Show = Callable[[Any, Allowance], JsonValue]


def native_reader(of: Descriptor) -> Callable[[bytes], JsonValue]:
    """What reads payloads of this message."""
    made: Callable[[], Any] = GetMessageClass(of)
    show = _Shown().message(of)

    def read(payload: bytes) -> JsonValue:
        message = made()
        try:
            message.ParseFromString(payload)
        except (DecodeError, UnicodeDecodeError) as error:
            raise UndecodableError("", f"no {of.full_name}: {error}") from None
        if not message.IsInitialized():
            path = str(message.FindInitializationErrors()[0])
            raise UndecodableError(path, "is required, but missing")
        return show(message, Allowance(len(payload)))

    return read


def described(schema: Schema) -> Descriptor:
    """The message of a PROTOBUF schema, as far as its properties tell. Raises InvalidSchemaError."""
    text = schema.properties.get(PARSING_INFO)
    if text is None:
        raise InvalidSchemaError(
            f"{PARSING_INFO}: the schema lacks this property, without which its payloads"
            " cannot be told apart"
        )
    message = descriptor_pb2.DescriptorProto(name="Message")
    try:
        for one in json.loads(text):
            label = (
                _FIELD.LABEL_REPEATED if one["label"] == "LABEL_REPEATED" else _FIELD.LABEL_OPTIONAL
            )
            kind = one["type"]
            message.field.add(
                name=one["name"],
                number=one["number"],
                label=label,
                type=_STOOD_IN.get(kind) or _FIELD.Type.Value(f"TYPE_{kind}"),
            )
        pool = descriptor_pool.DescriptorPool()
        pool.Add(
            descriptor_pb2.FileDescriptorProto(
                name="message.proto", syntax="proto2", message_type=[message]
            )
        )
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InvalidSchemaError(f"{PARSING_INFO}: {error}") from None
    found: Descriptor = pool.FindMessageTypeByName("Message")
    return found


class _Shown:
    """The function for each message type; messages may contain themselves."""

    def __init__(self) -> None:
        self._messages: dict[str, Show] = {}

    def message(self, of: Descriptor) -> Show:
        if of.full_name == _TIMESTAMP:
            return _timestamp
        found = self._messages.get(of.full_name)
        if found is None:
            fields: list[tuple[str, bool, Show]] = []
            self._messages[of.full_name] = found = _message_show(fields, of)
            fields += [(one.name, one.has_presence, self._field(one)) for one in of.fields]
        return found

    def _field(self, of: FieldDescriptor) -> Show:
        if of.message_type is not None and of.message_type.GetOptions().map_entry:
            return _map_show(self._one(of.message_type.fields_by_name["value"]))
        one = self._one(of)
        return _list_show(one) if of.is_repeated else one

    def _one(self, of: FieldDescriptor) -> Show:
        if of.message_type is not None:
            return self.message(of.message_type)
        if of.enum_type is not None:
            return _enum_show(of.enum_type)
        match of.cpp_type:
            case FieldDescriptor.CPPTYPE_FLOAT:
                return lambda value, _: shown_float(value)
            case FieldDescriptor.CPPTYPE_DOUBLE:
                return lambda value, _: shown_double(value)
        if of.type == FieldDescriptor.TYPE_BYTES:
            return lambda value, _: shown_bytes(value)
        if of.type == FieldDescriptor.TYPE_STRING:
            return _text
        return lambda value, _: value


def _message_show(fields: list[tuple[str, bool, Show]], of: Descriptor) -> Show:
    """``fields``: name, whether it says that it is there, how it is shown."""
    weight = sum(cost(one.name) for one in of.fields)

    def show(message: Any, allowance: Allowance) -> JsonValue:
        allowance.enter()
        allowance.spend(weight)
        out: dict[str, JsonValue] = {}
        name = ""
        try:
            for name, optional, field in fields:
                if not optional or message.HasField(name):
                    out[name] = field(getattr(message, name), allowance)
        except UndecodableError as error:
            raise error.within(name) from None
        allowance.depth -= 1
        return out

    return show


def _list_show(one: Show) -> Show:
    def show(values: Any, allowance: Allowance) -> JsonValue:
        allowance.spend(len(values))
        items: list[JsonValue] = []
        try:
            items.extend(map(one, values, repeat(allowance)))
        except UndecodableError as error:
            raise error.within(f"[{len(items)}]") from None
        return items

    return show


def _map_show(one: Show) -> Show:
    def show(values: Any, allowance: Allowance) -> JsonValue:
        allowance.spend(len(values))
        found: dict[str, JsonValue] = {}
        for key, value in values.items():
            name = str(key).lower() if isinstance(key, bool) else str(key)
            try:
                found[name] = one(value, allowance)
            except UndecodableError as error:
                raise error.within(place(name)) from None
        return found

    return show


def _enum_show(of: EnumDescriptor) -> Show:
    """A number that has no name stays one."""
    names: dict[int, str] = {}
    for one in of.values:
        names.setdefault(one.number, one.name)

    def show(value: int, allowance: Allowance) -> JsonValue:
        name = names.get(value)
        if name is None:
            return value
        allowance.spend(cost(name))
        return name

    return show


def _text(value: Any, allowance: Allowance) -> JsonValue:
    """The runtime hands over as bytes what is not UTF-8."""
    if isinstance(value, str):
        return value
    raise UndecodableError("", "no UTF-8")


def _timestamp(message: Any, allowance: Allowance) -> JsonValue:
    return shown_instant(message.seconds * 10**9 + message.nanos, 9)
