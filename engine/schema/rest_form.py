"""Schemas in REST: kind by name, definition as text; for KEY_VALUE a JSON object of both parts. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidField, Unprocessable
from engine.schema.compatibility import check
from engine.schema.kinds import (
    CLIENT_SIDE,
    InvalidSchemaError,
    Schema,
    SchemaKind,
    joined,
    key_value,
)


def given(kind: str, definition: str, properties: Mapping[str, str]) -> Schema:
    """Return the schema of a REST body. Raises InvalidField, Unprocessable."""
    if kind in CLIENT_SIDE:
        raise Unprocessable(f"Schema {kind} is a client-side schema type")
    name = SchemaKind.NONE.value if kind == "BYTES" else kind
    try:
        schema_kind = SchemaKind(name)
    except ValueError:
        known = ", ".join(value.value for value in SchemaKind)
        raise InvalidField("type", f"expected one of {known}") from None
    try:
        data = definition.encode()
    except UnicodeEncodeError:
        raise InvalidField("schema", "has half of a character (a lone surrogate)") from None
    schema = Schema(
        schema_kind, _parts(data) if schema_kind is SchemaKind.KEY_VALUE else data, properties
    )
    try:
        check(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    return schema


def _parts(data: bytes) -> bytes:
    """Return a REST definition of KEY_VALUE as clients send it."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unprocessable(f"schema: not valid JSON: {error}") from None
    if not isinstance(document, dict) or not {"key", "value"} <= document.keys():
        raise Unprocessable("schema: expected a JSON object with key and value")
    return joined(*(_part(document[name]) for name in ("key", "value")))


def _part(document: Any) -> bytes:
    return b"" if document == "" else json.dumps(document, separators=(",", ":")).encode()


def definition_text(schema: Schema) -> str:
    """Return the definition as ``given`` accepts it."""
    if schema.kind is not SchemaKind.KEY_VALUE:
        return schema.data.decode(errors="replace")
    try:
        parts = key_value(schema)
    except InvalidSchemaError:
        return schema.data.decode(errors="replace")
    return json.dumps(
        {"key": _document(parts.key), "value": _document(parts.value)}, separators=(",", ":")
    )


def _document(part: Schema) -> Any:
    try:
        return json.loads(part.data) if part.data else ""
    except ValueError:
        return part.data.decode(errors="replace")
