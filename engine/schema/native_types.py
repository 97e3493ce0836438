"""PROTOBUF_NATIVE definitions: JSON around the descriptors of the message's file and all its imports. Pure."""

import base64
import binascii
import json
from graphlib import CycleError, TopologicalSorter

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from engine.schema.kinds import InvalidSchemaError

FIELDS = ("fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName")


def parse(data: bytes) -> Descriptor:
    """Return the descriptor of a topic's payloads. Raises InvalidSchemaError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidSchemaError("expected a JSON object")
    for name in FIELDS:
        if not isinstance(document.get(name), str):
            raise InvalidSchemaError(f"{name}: expected a string")
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(
            base64.b64decode(document["fileDescriptorSet"], validate=True)
        )
    except (binascii.Error, ValueError, DecodeError):
        raise InvalidSchemaError("fileDescriptorSet: no set of descriptors in base64") from None
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in _imports_first(files):
            pool.Add(file)
        root = pool.FindFileByName(document["rootFileDescriptorName"])
        message: Descriptor = pool.FindMessageTypeByName(document["rootMessageTypeName"])
    except (KeyError, TypeError) as error:
        raise InvalidSchemaError(f"rootMessageTypeName, rootFileDescriptorName: {error}") from None
    if message.file.name != root.name:
        raise InvalidSchemaError(f"rootMessageTypeName: not in {root.name}")
    return message


def _imports_first(
    files: descriptor_pb2.FileDescriptorSet,
) -> list[descriptor_pb2.FileDescriptorProto]:
    by_name = {file.name: file for file in files.file}
    imports = {name: set(file.dependency) & by_name.keys() for name, file in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(imports).static_order()]
    except CycleError:
        raise InvalidSchemaError("fileDescriptorSet: files import each other in a circle") from None
