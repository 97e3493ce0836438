"""Parsing of the bodies of Pulsar's REST produce (``ProducerMessages``). Pure.

As in Pulsar, scalars are accepted as text, text as numbers, and unknown fields are ignored. A value that Pulsar would
store as another one is refused with the field's name.
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
from gateway.services.encoding import GivenMessage

MESSAGES_MAX = 1_000
"""Messages in a request."""
LONG_MAX = (1 << 63) - 1
NAME_BYTES_MAX = 1_024
"""Length of a producer's name that brokers accept."""
NOWHERE_ELSE = "__local__"
"""The cluster list of a message that is not replicated."""
_BYTES = "BYTES"
_DEFAULT = Schema(SchemaKind.STRING, b"", {"__charset": "UTF-8"})


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """The messages of a request, their producer's name and schema.

    A message's ``sequence_id`` is None when it is missing, or 0, which clients send instead.

    When ``schema_version`` is None, messages are encoded by ``schema``.
    """

    name: str | None
    schema_version: int | None
    schema: Schema
    messages: list[GivenMessage]


def parse_request(body: dict[str, Any] | None, now_ms: int) -> ProduceRequest:
    """Return the request in a body.

    Raises InvalidField with the member's name, Unprocessable for a schema whose definition is invalid.
    """
    if body is None:
        raise InvalidField("body", "expected an object with messages")
    given = body.get("messages")
    if not isinstance(given, list):
        raise InvalidField("messages", f"expected an array, got {kind_of(given)}")
    if len(given) > MESSAGES_MAX:
        raise InvalidField("messages", f"at most {MESSAGES_MAX} in a request, got {len(given)}")
    version = _number(body, "schemaVersion", "schemaVersion", low=-1, default=-1)
    messages = [_message(item, f"messages[{index}]", now_ms) for index, item in enumerate(given)]
    name = _text(body.get("producerName"), "producerName") or None
    if name is not None and (not name.strip() or len(name.encode()) > NAME_BYTES_MAX):
        raise InvalidField("producerName", f"expected 1 to {NAME_BYTES_MAX} bytes, not only blanks")
    _check_sequence(messages)
    # Brokers compare sequence ids by the producer's name, so without one they have no meaning.
    if name is None:
        messages = [replace(message, sequence_id=None) for message in messages]
    schema = _DEFAULT if version >= 0 else _schema_of(body)
    return ProduceRequest(name, version if version >= 0 else None, schema, messages)


def _message(given: Any, path: str, now_ms: int) -> GivenMessage:
    if not isinstance(given, dict):
        raise InvalidField(path, f"expected an object, got {kind_of(given)}")
    payload = _text(given.get("payload"), f"{path}.payload")
    if payload is None:
        raise InvalidField(f"{path}.payload", "is missing")
    local = given.get("disableReplication")
    if local is not None and not isinstance(local, bool):
        raise InvalidField(
            f"{path}.disableReplication", f"expected a boolean, got {kind_of(local)}"
        )
    clusters = string_list(
        {f"{path}.replicationClusters": given.get("replicationClusters")},
        f"{path}.replicationClusters",
    )
    after_ms = _number(given, "deliverAfterMs", f"{path}.deliverAfterMs", high=LONG_MAX - now_ms)
    at_ms = _number(given, "deliverAt", f"{path}.deliverAt")
    return GivenMessage(
        payload,
        _text(given.get("key"), f"{path}.key"),
        string_map(given.get("properties"), f"{path}.properties"),
        _number(given, "eventTime", f"{path}.eventTime"),
        at_ms or (now_ms + after_ms if after_ms else 0),
        [NOWHERE_ELSE] if local else clusters,
        _number(given, "sequenceId", f"{path}.sequenceId") or None,
    )


def _check_sequence(messages: list[GivenMessage]) -> None:
    """Check that all messages or none have a sequence id, and that they increase.

    Brokers that deduplicate would drop any other message. Raises InvalidField.
    """
    before = 0
    has_any = any(message.sequence_id is not None for message in messages)
    for index, message in enumerate(messages):
        path = f"messages[{index}].sequenceId"
        if message.sequence_id is None:
            if has_any:
                raise InvalidField(
                    path, "missing, or 0: all messages of a request have one, or none"
                )
            continue
        if message.sequence_id <= before:
            raise InvalidField(path, f"must be above the one before it ({before})")
        before = message.sequence_id


def _schema_of(body: dict[str, Any]) -> Schema:
    """Return the schema of a body: STRING when there is none, a separated KEY_VALUE when the key has one."""
    value = _schema(body, "valueSchema") or ("String", _DEFAULT)
    key = _schema(body, "keySchema")
    schema = value[1] if key is None else _key_value(key, value)
    try:
        check(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    return schema


def _schema(body: dict[str, Any], field: str) -> tuple[str, Schema] | None:
    """Return the name and schema of a SchemaInfo, which is JSON in a string; None without one."""
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
    known = ", ".join([_BYTES, *(kind.value for kind in SchemaKind)])
    raise InvalidField(field, f"expected one of {known}")


def _key_value(key: tuple[str, Schema], value: tuple[str, Schema]) -> Schema:
    properties = {"kv.encoding.type": "SEPARATED"}
    for part, (name, schema) in (("key", key), ("value", value)):
        if schema.kind is SchemaKind.KEY_VALUE:
            raise InvalidField(f"{part}Schema.type", "KEY_VALUE: not within a KEY_VALUE")
        is_bytes = schema.kind is SchemaKind.NONE
        properties[f"{part}.schema.name"] = name
        properties[f"{part}.schema.type"] = _BYTES if is_bytes else schema.kind.value
        properties[f"{part}.schema.properties"] = json.dumps(dict(schema.properties))
    return Schema(SchemaKind.KEY_VALUE, joined(key[1].data, value[1].data), properties)


def _text(value: Any, field: str) -> str | None:
    """Return a string, or the JSON text of a number or boolean; None for null. Raises InvalidField."""
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
    number = whole_number(value, field)
    if not low <= number <= high:
        raise InvalidField(field, f"must be from {low} to {high}")
    return number
