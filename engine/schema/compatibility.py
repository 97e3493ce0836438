"""Validity of a definition, equality of two, and compatibility under a strategy. Pure.

The decisions are Apache Pulsar's: AVRO and JSON by Avro's rules, PROTOBUF_NATIVE by its root message's name, KEY_VALUE
by both parts, others by their kind alone. So is PROTOBUF, although its definition is in Avro: Avro's rules would forbid
what protobuf can read.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from google.protobuf.descriptor import Descriptor

from engine.schema import avro_types, native_types
from engine.schema.avro_rules import unreadable
from engine.schema.kinds import (
    IN_AVRO,
    InvalidSchemaError,
    Schema,
    SchemaKind,
    key_value,
    shown,
)
from engine.tenancy.strategy import Strategy

_JACKSON_TYPES = frozenset(
    ("string", "number", "integer", "boolean", "object", "array", "null", "any")
)


_OF_STRINGS = (b"", b"null")
"""Definitions that clients send for STRING; ``null`` is sent by the C++ and the Python client."""
KEPT_BYTES_MAX = 16 << 10
"""Size up to which parsed definitions are cached: parsed they take fifteen times their bytes."""
KEPT_MAX = 256
_DEEP = "values within values beyond what can be read"


def _avro(data: bytes) -> avro_types.AvroType:
    return _kept_avro(data) if len(data) <= KEPT_BYTES_MAX else avro_types.parse(data)


def _native(data: bytes) -> Descriptor:
    return _kept_native(data) if len(data) <= KEPT_BYTES_MAX else native_types.parse(data)


_kept_avro = lru_cache(maxsize=KEPT_MAX)(avro_types.parse)
_kept_native = lru_cache(maxsize=KEPT_MAX)(native_types.parse)


def check(schema: Schema) -> None:
    """Check a definition. Raises InvalidSchemaError with Apache's words, then the place of the error."""
    kind = schema.kind
    if kind is SchemaKind.KEY_VALUE:
        for part in key_value(schema):
            check(part)
    elif kind is SchemaKind.PROTOBUF_NATIVE:
        _parsed("deserialize ProtobufNative Schema failed", _native, schema.data)
    elif kind is SchemaKind.STRING and schema.data not in _OF_STRINGS:
        text = schema.data[:200].decode(errors="replace")
        raise InvalidSchemaError(f"Invalid schema definition data for string schema : '{text}'")
    elif kind in IN_AVRO:
        if kind is not SchemaKind.JSON or _jackson(schema.data) is None:
            avro_type = _parsed(
                f"Invalid schema definition data for {kind.value} schema", _avro, schema.data
            )
            if kind is SchemaKind.AVRO and avro_type.kind == "union":
                raise InvalidSchemaError("Avro schema typed [UNION] is not supported")
    elif kind not in (SchemaKind.NONE, SchemaKind.STRING) and schema.data:
        raise InvalidSchemaError(
            "Invalid schema definition data for primitive schemas :length of schema data should be zero,"
            f" but {len(schema.data)} bytes is found"
        )


def _parsed(text: str, parse: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return parse(data)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"{text}: {error}") from None
    except RecursionError:
        raise InvalidSchemaError(f"{text}: {_DEEP}") from None


def meaning(schema: Schema) -> bytes:
    """Return a digest that is equal for two schemas of one kind that are the same version.

    It is of the meaning of an Avro definition, of KEY_VALUE's parts, and of the bytes of any other.
    """
    if schema.kind is SchemaKind.STRING:
        return b""
    if schema.kind is SchemaKind.KEY_VALUE:
        try:
            parts = [(part.kind.value, meaning(part).hex()) for part in key_value(schema)]
        except InvalidSchemaError:
            parts = []
        if parts:
            return sha256(repr(parts).encode()).digest()
    if schema.kind in IN_AVRO:
        try:
            return sha256(avro_types.canonical(_avro(schema.data)).encode()).digest()
        except (InvalidSchemaError, RecursionError):
            pass
    return sha256(schema.data).digest()


def same(schema: Schema, other: Schema) -> bool:
    """Return whether both are the same version: by meaning for Avro definitions, by both parts for KEY_VALUE, else by
    bytes."""
    if schema.kind is not other.kind:
        return False
    if schema.data == other.data:
        return _part_kinds(schema) == _part_kinds(other)
    return meaning(schema) == meaning(other)


def _part_kinds(schema: Schema) -> list[SchemaKind]:
    """Return the kinds of KEY_VALUE's parts, which are not in ``data``. Apache accepts (STRING, INT32) for (STRING,
    STRING)."""
    if schema.kind is not SchemaKind.KEY_VALUE:
        return []
    try:
        return [part.kind for part in key_value(schema)]
    except InvalidSchemaError:
        return []


def refused(new: Schema, versions: Sequence[Schema], strategy: Strategy) -> str | None:
    """Return why ``new`` may not follow ``versions`` (oldest first, none deleted); None when it may."""
    if not versions or strategy is Strategy.ALWAYS_COMPATIBLE:
        return None
    compared = versions if strategy.transitive else versions[-1:]
    for old in reversed(compared):
        if old.kind is not new.kind:
            return f"Incompatible schema: exists schema type {old.kind.value}, new schema type {new.kind.value}"
    for old in reversed(compared):
        try:
            problem = _refused(new, old, strategy)
        except RecursionError:
            problem = _DEEP
        if problem is not None:
            return shown(
                f"Error during schema compatibility check with strategy {strategy.value}: {problem}"
            )
    return None


def _refused(new: Schema, old: Schema, strategy: Strategy) -> str | None:
    """Compare two schemas of one kind."""
    if same(new, old):
        return None
    if not (strategy.new_reads_old or strategy.old_reads_new):
        return "no other schema may follow"
    match new.kind:
        case SchemaKind.KEY_VALUE:
            return _refused_part(new, old, strategy)
        case SchemaKind.PROTOBUF_NATIVE:
            return _renamed(new, old)
        case SchemaKind.JSON if _jackson(new.data) is not None or _jackson(old.data) is not None:
            return _refused_jackson(new, old)
        case SchemaKind.AVRO | SchemaKind.JSON:
            return _refused_avro(new, old, strategy)
    return None


def _refused_avro(new: Schema, old: Schema, strategy: Strategy) -> str | None:
    try:
        before, after = _avro(old.data), _avro(new.data)
    except InvalidSchemaError as error:
        return str(error)
    if strategy.new_reads_old and (problem := unreadable(before, after)) is not None:
        return f"the new schema cannot read earlier data: {problem}"
    if strategy.old_reads_new and (problem := unreadable(after, before)) is not None:
        return f"an earlier schema cannot read new data: {problem}"
    return None


def _refused_part(new: Schema, old: Schema, strategy: Strategy) -> str | None:
    try:
        pairs = zip(("key", "value"), key_value(new), key_value(old), strict=True)
    except InvalidSchemaError as error:
        return str(error)
    for name, after, before in pairs:
        if after.kind is not before.kind:
            return f"{name}: was {before.kind.value}, is {after.kind.value}"
        problem = _refused(after, before, strategy)
        if problem is not None:
            return f"{name}: {problem}"
    return None


def _renamed(new: Schema, old: Schema) -> str | None:
    try:
        before, after = (
            _native(old.data).full_name,
            _native(new.data).full_name,
        )
    except InvalidSchemaError as error:
        return str(error)
    return (
        None
        if before == after
        else f"Protobuf root message isn't allow change! {before}, then {after}"
    )


def _refused_jackson(new: Schema, old: Schema) -> str | None:
    """Compare two JSON schemas. Clients before 2.1 sent those as definitions; they may be replaced by Avro ones and
    vice versa."""
    before, after = _jackson(old.data), _jackson(new.data)
    if before is None or after is None or before.get("id") == after.get("id"):
        return None
    return f"id: was {before.get('id')}, is {after.get('id')}"


def is_json_schema(data: bytes) -> bool:
    """Return whether a JSON definition is a JSON schema of an early client, which has no Avro types."""
    return _jackson(data) is not None


def _jackson(data: bytes) -> dict[str, Any] | None:
    """Return the definition as a JSON schema; None when it is not one."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    type_name = isinstance(document, dict) and document.get("type")
    return (
        document
        if isinstance(type_name, str)
        and type_name.lower() in _JACKSON_TYPES
        and "properties" in document
        else None
    )
