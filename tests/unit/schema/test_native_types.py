"""PROTOBUF_NATIVE definitions, in the form of Java's client."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from engine.schema.kinds import InvalidSchemaError
from engine.schema.native_types import parse


def files(*names: str) -> descriptor_pb2.FileDescriptorSet:
    """Return the files ``names``; ``outer.proto`` imports protobuf's timestamp."""
    outer = descriptor_pb2.FileDescriptorProto(name="outer.proto", package="p", syntax="proto3")
    outer.dependency.append("google/protobuf/timestamp.proto")
    message = outer.message_type.add(name="Order")
    message.field.add(name="at", number=1, type=11, label=1, type_name=".google.protobuf.Timestamp")
    imported = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    every = {"outer": outer, "imported": imported}
    return descriptor_pb2.FileDescriptorSet(file=[every[name] for name in names])


def definition(of: descriptor_pb2.FileDescriptorSet, **more: Any) -> bytes:
    fields = {
        "fileDescriptorSet": base64.b64encode(of.SerializeToString()).decode(),
        "rootMessageTypeName": "p.Order",
        "rootFileDescriptorName": "outer.proto",
    }
    return json.dumps(fields | more).encode()


@pytest.mark.parametrize("order", [("outer", "imported"), ("imported", "outer")])
def test_the_root_message_is_found_in_any_order_of_files(order: tuple[str, str]) -> None:
    assert parse(definition(files(*order))).full_name == "p.Order"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b"[]", "expected a JSON object"),
        (definition(files("outer", "imported"), rootMessageTypeName=5), "rootMessageTypeName"),
        (definition(files("outer", "imported"), fileDescriptorSet="%%"), "fileDescriptorSet"),
        (definition(files("outer", "imported"), fileDescriptorSet="eHh4"), "fileDescriptorSet"),
        (definition(files("outer", "imported"), rootMessageTypeName="p.Nope"), "rootMessageType"),
        (definition(files("outer")), "rootMessageTypeName"),
        (
            definition(
                files("outer", "imported"),
                rootFileDescriptorName="google/protobuf/timestamp.proto",
            ),
            "rootMessageTypeName: not in",
        ),
    ],
)
def test_an_invalid_definition_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        parse(data)


def test_files_that_import_each_other_are_refused() -> None:
    of = files("outer", "imported")
    of.file[1].dependency.append("outer.proto")
    with pytest.raises(InvalidSchemaError, match="circle"):
        parse(definition(of))
