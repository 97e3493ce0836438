"""Bodies of Pulsar's REST produce (``ProducerMessages``) as values. Pure.

Scalars stand for text and text for numbers, as Pulsar takes them, and what it does not know it passes over; what it
would store as something else than was given is refused by name.
"""

import base64
import binascii
import json
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import InvalidField, Unprocessable
from engine.schema.compatibility import check
from engine.schema.kinds import CLIENT_SIDE, InvalidSchemaError, Schema, SchemaKind, joined
from gateway.http.bodies import kind_of, string_list, string_map, text_of, whole_number
from gateway.http.json_bodies import decode_body

MESSAGES_MAX = 1_000
"""In a request."""
LONG_MAX = (1 << 63) - 1
NAME_BYTES_MAX = 1_024
"""As brokers take them."""
NOWHERE_ELSE = "__local__"
"""Stands for the clusters of a message that is not replicated."""
_BYTES = "BYTES"
_DEFAULT = Schema(SchemaKind.STRING, b"", {"__charset": "UTF-8"})


@dataclass(frozen=True, slots=True)
class GivenMessage:
    """Times are epoch milliseconds, 0 for none. ``sequence_id`` None: not given, or 0, which clients send for that."""

    payload: str
    key: str | None
    properties: dict[str, str]
    event_ms: int
    deliver_at_ms: int
    replicate_to: list[str]
    sequence_id: int | None


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """``schema_version`` None: ``schema`` is what messages are written by."""

    name: str | None
    schema_version: int | None
    schema: Schema
    messages: list[GivenMessage]


def parse_request(body: dict[str, Any] | None, now_ms: int) -> ProduceRequest:
    """Raises InvalidField naming the member, Unprocessable for a schema whose definition is none."""
    if body is None:
        raise InvalidField("body", "expected an object with messages")
    given = body.get("messages")
    if not isinstance(given, list):
        raise InvalidField("messages", f"expected an array, got {kind_of(given)}")
    if len(given) > MESSAGES_MAX:
        raise InvalidField("messages", f"at most {MESSAGES_MAX} in a request, got {len(given)}")
    version = _number(body, "schemaVersion", "schemaVersion", low=-1, default=-1)
    messages = [_message(one, f"messages[{index}]", now_ms) for index, one in enumerate(given)]
    name = _text(body.get("producerName"), "producerName") or None
    if name is not None and (not name.strip() or len(name.encode()) > NAME_BYTES_MAX):
        raise InvalidField("producerName", f"expected 1 to {NAME_BYTES_MAX} bytes, not only blanks")
    _check_sequence(messages)
    if name is None:  # a sequence id says something only together with the producer whose it is
        messages = [replace(one, sequence_id=None) for one in messages]
    schema = _DEFAULT if version >= 0 else _schema_of(body)
    return ProduceRequest(name, version if version >= 0 else None, schema, messages)


def _message(given: Any, where: str, now_ms: int) -> GivenMessage:
    if not isinstance(given, dict):
        raise InvalidField(where, f"expected an object, got {kind_of(given)}")
    payload = _text(given.get("payload"), f"{where}.payload")
    if payload is None:
        raise InvalidField(f"{where}.payload", "is missing")
    local = given.get("disableReplication")
    if local is not None and not isinstance(local, bool):
        raise InvalidField(
            f"{where}.disableReplication", f"expected a boolean, got {kind_of(local)}"
        )
    clusters = string_list(
        {f"{where}.replicationClusters": given.get("replicationClusters")},
        f"{where}.replicationClusters",
    )
    after_ms = _number(given, "deliverAfterMs", f"{where}.deliverAfterMs", high=LONG_MAX - now_ms)
    at_ms = _number(given, "deliverAt", f"{where}.deliverAt")
    return GivenMessage(
        payload,
        _text(given.get("key"), f"{where}.key"),
        string_map(given.get("properties"), f"{where}.properties"),
        _number(given, "eventTime", f"{where}.eventTime"),
        at_ms or (now_ms + after_ms if after_ms else 0),
        [NOWHERE_ELSE] if local else clusters,
        _number(given, "sequenceId", f"{where}.sequenceId") or None,
    )


def _check_sequence(messages: list[GivenMessage]) -> None:
    """All or none have a sequence id, above the one before it: brokers that deduplicate drop all others."""
    before = 0
    given = [one.sequence_id is not None for one in messages]
    for index, one in enumerate(messages):
        where = f"messages[{index}].sequenceId"
        if one.sequence_id is None:
            if any(given):
                raise InvalidField(
                    where, "missing, or 0: all messages of a request have one, or none"
                )
            continue
        if one.sequence_id <= before:
            raise InvalidField(where, f"must be above the one before it ({before})")
        before = one.sequence_id


def _schema_of(body: dict[str, Any]) -> Schema:
    """STRING without any, KEY_VALUE with its key apart when there is one of the key."""
    value = _schema(body, "valueSchema") or ("String", _DEFAULT)
    key = _schema(body, "keySchema")
    schema = value[1] if key is None else _key_value(key, value)
    try:
        check(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    return schema


def _schema(body: dict[str, Any], field: str) -> tuple[str, Schema] | None:
    """Name and schema of a SchemaInfo, which is JSON in a text; None without one."""
    text = body.get(field)
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise InvalidField(field, f"expected a schema as JSON in a string, got {kind_of(text)}")
    try:
        info = decode_body(text.encode())
    except InvalidField as error:
        raise InvalidField(field, str(error).removeprefix("body: ")) from None
    if not isinstance(info, dict):
        raise InvalidField(field, f"expected a JSON object in the string, got {kind_of(info)}")
    data = _text(info.get("schema"), f"{field}.schema") or ""
    try:
        definition = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidField(f"{field}.schema", "expected the definition in base64") from None
    kind = _kind(info.get("type"), f"{field}.type")
    properties = string_map(info.get("properties"), f"{field}.properties")
    name = _text(info.get("name"), f"{field}.name")
    return name if name is not None else kind.value, Schema(kind, definition, properties)


def _kind(name: Any, field: str) -> SchemaKind:
    if isinstance(name, str) and name not in CLIENT_SIDE:
        try:
            return SchemaKind.NONE if name == _BYTES else SchemaKind(name)
        except ValueError:
            pass
    known = ", ".join([_BYTES, *(one.value for one in SchemaKind)])
    raise InvalidField(field, f"expected one of {known}")


def _key_value(key: tuple[str, Schema], value: tuple[str, Schema]) -> Schema:
    properties = {"kv.encoding.type": "SEPARATED"}
    for part, (name, schema) in (("key", key), ("value", value)):
        if schema.kind is SchemaKind.KEY_VALUE:
            raise InvalidField(f"{part}Schema.type", "KEY_VALUE: not within a KEY_VALUE")
        none = schema.kind is SchemaKind.NONE
        properties[f"{part}.schema.name"] = name
        properties[f"{part}.schema.type"] = _BYTES if none else schema.kind.value
        properties[f"{part}.schema.properties"] = json.dumps(dict(schema.properties))
    return Schema(SchemaKind.KEY_VALUE, joined(key[1].data, value[1].data), properties)


def _text(value: Any, field: str) -> str | None:
    """A string, or what JSON prints of a number or a truth value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise InvalidField(field, f"expected a string, got {kind_of(value)}")
    return text_of(value)


def _number(
    body: dict[str, Any],
    name: str,
    field: str,
    *,
    low: int = 0,
    high: int = LONG_MAX,
    default: int = 0,
) -> int:
    value = body.get(name)
    if value is None or value == "":
        return default
    found = whole_number(value, field)
    if not low <= found <= high:
        raise InvalidField(field, f"must be from {low} to {high}")
    return found
