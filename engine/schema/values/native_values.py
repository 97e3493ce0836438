"""Values of PROTOBUF_NATIVE and PROTOBUF messages, by the names of their fields. Pure.

An absent field with presence is left out; other fields have their default.
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
"""Types in place of those of which a PROTOBUF schema's properties give the name only; as bytes and numbers they can be
read."""

Show = Callable[[Any, Allowance], JsonValue]


def native_reader(descriptor: Descriptor) -> Callable[[bytes], JsonValue]:
    """Return the function that reads payloads of this message."""
    new_message: Callable[[], Any] = GetMessageClass(descriptor)
    show = _Shown().message(descriptor)

    def read(payload: bytes) -> JsonValue:
        message = new_message()
        try:
            message.ParseFromString(payload)
        except (DecodeError, UnicodeDecodeError) as error:
            raise UndecodableError("", f"no {descriptor.full_name}: {error}") from None
        if not message.IsInitialized():
            path = str(message.FindInitializationErrors()[0])
            raise UndecodableError(path, "is required, but missing")
        return show(message, Allowance(len(payload)))

    return read


def described(schema: Schema) -> Descriptor:
    """Return the descriptor of a PROTOBUF schema, as far as its properties describe it. Raises InvalidSchemaError."""
    text = schema.properties.get(PARSING_INFO)
    if text is None:
        raise InvalidSchemaError(
            f"{PARSING_INFO}: the schema lacks this property, without which its payloads"
            " cannot be told apart"
        )
    message = descriptor_pb2.DescriptorProto(name="Message")
    try:
        for entry in json.loads(text):
            label = (
                _FIELD.LABEL_REPEATED
                if entry["label"] == "LABEL_REPEATED"
                else _FIELD.LABEL_OPTIONAL
            )
            kind = entry["type"]
            message.field.add(
                name=entry["name"],
                number=entry["number"],
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
    descriptor: Descriptor = pool.FindMessageTypeByName("Message")
    return descriptor


class _Shown:
    """Presentation functions by message type; messages may contain themselves."""

    def __init__(self) -> None:
        self._messages: dict[str, Show] = {}

    def message(self, descriptor: Descriptor) -> Show:
        if descriptor.full_name == _TIMESTAMP:
            return _timestamp
        show = self._messages.get(descriptor.full_name)
        if show is None:
            fields: list[tuple[str, bool, Show]] = []
            self._messages[descriptor.full_name] = show = _message_show(fields, descriptor)
            fields += [
                (field.name, field.has_presence, self._field(field)) for field in descriptor.fields
            ]
        return show

    def _field(self, field: FieldDescriptor) -> Show:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return _map_show(self._single(field.message_type.fields_by_name["value"]))
        show = self._single(field)
        return _list_show(show) if field.is_repeated else show

    def _single(self, field: FieldDescriptor) -> Show:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            return _enum_show(field.enum_type)
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_FLOAT:
                return lambda value, _: shown_float(value)
            case FieldDescriptor.CPPTYPE_DOUBLE:
                return lambda value, _: shown_double(value)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return lambda value, _: shown_bytes(value)
        if field.type == FieldDescriptor.TYPE_STRING:
            return _text
        return lambda value, _: value


def _message_show(fields: list[tuple[str, bool, Show]], descriptor: Descriptor) -> Show:
    """Return the function for a message. ``fields``: name, whether it has presence, presentation."""
    weight = sum(cost(definition.name) for definition in descriptor.fields)

    def show(message: Any, allowance: Allowance) -> JsonValue:
        allowance.enter()
        allowance.spend(weight)
        record: dict[str, JsonValue] = {}
        name = ""
        try:
            for name, optional, field in fields:
                if not optional or message.HasField(name):
                    record[name] = field(getattr(message, name), allowance)
        except UndecodableError as error:
            raise error.within(name) from None
        allowance.depth -= 1
        return record

    return show


def _list_show(show_item: Show) -> Show:
    def show(values: Any, allowance: Allowance) -> JsonValue:
        allowance.spend(len(values))
        items: list[JsonValue] = []
        try:
            items.extend(map(show_item, values, repeat(allowance)))
        except UndecodableError as error:
            raise error.within(f"[{len(items)}]") from None
        return items

    return show


def _map_show(show_value: Show) -> Show:
    def show(values: Any, allowance: Allowance) -> JsonValue:
        allowance.spend(len(values))
        shown_values: dict[str, JsonValue] = {}
        for key, value in values.items():
            name = str(key).lower() if isinstance(key, bool) else str(key)
            try:
                shown_values[name] = show_value(value, allowance)
            except UndecodableError as error:
                raise error.within(place(name)) from None
        return shown_values

    return show


def _enum_show(descriptor: EnumDescriptor) -> Show:
    """Return the function for an enum. A number without a name is shown as it is."""
    names: dict[int, str] = {}
    for value_descriptor in descriptor.values:
        names.setdefault(value_descriptor.number, value_descriptor.name)

    def show(value: int, allowance: Allowance) -> JsonValue:
        name = names.get(value)
        if name is None:
            return value
        allowance.spend(cost(name))
        return name

    return show


def _text(value: Any, allowance: Allowance) -> JsonValue:
    """Return a text. The runtime passes bytes when they are not UTF-8."""
    if isinstance(value, str):
        return value
    raise UndecodableError("", "no UTF-8")


def _timestamp(message: Any, allowance: Allowance) -> JsonValue:
    return shown_instant(message.seconds * 10**9 + message.nanos, 9)
