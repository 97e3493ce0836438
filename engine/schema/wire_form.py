"""Schemas in the client protocol. Pure."""

from collections.abc import Iterable
from typing import Any

from engine.schema.kinds import BY_WIRE, WIRE, InvalidSchemaError, Schema
from engine.wire import pulsar_pb2 as pb


def from_wire(body: pb.Schema) -> Schema:
    """Return the schema that a client or broker sent. Raises InvalidSchemaError for a kind that is never stored."""
    pairs: Iterable[Any] = body.properties
    kind = BY_WIRE.get(body.type)
    if kind is None:
        raise InvalidSchemaError(f"schema type {body.type} is not known")
    return Schema(kind, body.schema_data, {pair.key: pair.value for pair in pairs})


def to_wire(name: str, schema: Schema) -> pb.Schema:
    """Return the schema for a client or broker."""
    properties = [pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()]
    return pb.Schema(
        name=name,
        schema_data=schema.data,
        type=pb.Schema.Type.Name(WIRE[schema.kind]),
        properties=properties,
    )
