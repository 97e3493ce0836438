"""Parsing of the query parameters and producer frames of Pulsar's WebSocket API, and the answers' frames. Pure."""

import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from json.encoder import encode_basestring_ascii
from typing import Any
from urllib.parse import parse_qsl

from engine.client.producing.outgoing import OutgoingMessage
from gateway.ws import encryption

QUEUE_MAX = 1000
SIZE_MAX = (1 << 31) - 1
SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
ROUTINGS = ("SinglePartition", "RoundRobinPartition", "CustomPartition")

# The N of ``send-error:N``.
JSON_ERROR = 3
ENCODING_ERROR = 7
UNKNOWN_ERROR = 8


class HandshakeRefusedError(Exception):
    """A refusal of the handshake with an HTTP status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ProducerFrameError(Exception):
    """An invalid frame of a producer.

    ``code`` is the N of ``send-error:N``; ``context`` is the client's, which matches the answer to its message.
    """

    def __init__(self, code: int, text: str, context: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.context = context


@dataclass(frozen=True, slots=True)
class Query:
    """Query parameters by name. A value out of range is refused with 400 and the parameter's name."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, query_string: bytes) -> "Query":
        try:
            pairs = parse_qsl(
                query_string.decode("ascii"), keep_blank_values=True, max_num_fields=100
            )
        except (UnicodeDecodeError, ValueError) as error:
            raise HandshakeRefusedError(400, f"Invalid query params: {error}") from error
        return cls(dict(pairs))

    def text(self, name: str) -> str | None:
        return self.values.get(name) or None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.values.get(name, default)
        if value not in choices:
            raise HandshakeRefusedError(400, f"Invalid query params: Invalid {name} {value}")
        return value

    def flag(self, name: str) -> bool:
        return self.values.get(name, "").lower() == "true"

    def number(self, name: str, default: int, low: int, high: int) -> int:
        text = self.values.get(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise HandshakeRefusedError(
                400, f'Invalid query params: For input string: "{text}"'
            ) from None
        if not low <= value <= high:
            raise HandshakeRefusedError(
                400, f"Invalid query params: {name} must be from {low} to {high}"
            )
        return value


def parse_object(text: str) -> dict[str, Any]:
    """Decode a JSON object. Raises ProducerFrameError with code 3."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProducerFrameError(JSON_ERROR, f"not a JSON object: {error}") from error
    if not isinstance(body, dict):
        raise ProducerFrameError(JSON_ERROR, "not a JSON object")
    return body


_SIMPLE = {"payload", "context"}
PROPERTY_OVERHEAD_BYTES = 100
"""Memory that a property takes besides its texts."""


def parse_message(text: str, now_ms: int, keys: bytes | None = None) -> OutgoingMessage:
    """Return the message of a producer's frame; its token is the frame's context.

    As in Pulsar, unknown fields are ignored and numbers are accepted as text. ``keys``: the serialized key fields of a
    client that encrypts (``encryption.key_fields``). Raises ProducerFrameError.
    """
    body = _read(text)
    context = _text(body.get("context"), "context")
    message = OutgoingMessage(b"", context)
    if not body.keys() <= _SIMPLE:
        _set_optional_fields(body, message, now_ms)
    payload = body.get("payload")
    if not isinstance(payload, str):
        raise ProducerFrameError(ENCODING_ERROR, "payload: a base64 string is required", context)
    message.beside_bytes += len(text) - len(payload)
    try:
        message.payload = encryption.from_base64(payload)
    except ValueError as error:
        text = f"Invalid Base64 message-payload error={error}"
        raise ProducerFrameError(ENCODING_ERROR, text, context) from error
    if keys is not None:
        message.extra_metadata = keys + _encryption(body, len(message.payload), context)
    return message


def _encryption(body: dict[str, Any], payload_bytes: int, context: str | None) -> bytes:
    try:
        return encryption.message_fields(body, _size(body), payload_bytes)
    except encryption.NotEncryptedError as error:
        raise ProducerFrameError(ENCODING_ERROR, str(error), context) from error


def _size(body: dict[str, Any]) -> int | None:
    """Return the size of the payload before it was compressed; None when it is not given."""
    value = body.get("uncompressedMessageSize")
    try:
        size = None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        size = -1
    if isinstance(value, bool) or (size is not None and not 0 <= size <= SIZE_MAX):
        raise ProducerFrameError(JSON_ERROR, f"uncompressedMessageSize: expected 0 to {SIZE_MAX}")
    return size


_decoder = json.JSONDecoder()


def _read(text: str) -> dict[str, Any]:
    """Decode as ``parse_object`` does, but ignore text behind the object and accept null as an empty object."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            body, _ = _decoder.raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            raise ProducerFrameError(JSON_ERROR, f"not a JSON object: {error}") from error
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise ProducerFrameError(JSON_ERROR, "not a JSON object")
    return body


def _set_optional_fields(body: dict[str, Any], message: OutgoingMessage, now_ms: int) -> None:
    """Set the fields that few messages have. Raises ProducerFrameError."""
    key = _text(body.get("key"), "key")
    message.key = None if key is None else _as_java(key)
    message.properties = _texts(body.get("properties"))
    message.beside_bytes = PROPERTY_OVERHEAD_BYTES * len(message.properties or ())
    clusters = body.get("replicationClusters")
    if clusters is not None and not isinstance(clusters, list):
        raise ProducerFrameError(JSON_ERROR, "replicationClusters: expected an array of strings")
    names = [_text(name, "replicationClusters") for name in clusters or ()]
    message.replicate_to = [_as_java(name) for name in names if name is not None]
    deliver_at_ms = _milliseconds(body.get("deliverAt"), "deliverAt")
    deliver_after_ms = _milliseconds(body.get("deliverAfterMs"), "deliverAfterMs")
    message.deliver_at_ms = now_ms + deliver_after_ms if deliver_after_ms else deliver_at_ms
    message.event_ms = _event_ms(body.get("eventTime"), message.token)
    _size(body)  # Checked also for messages that are not encrypted.


def _text(value: Any, name: str) -> str | None:
    """Return a string, or the JSON text of a number or boolean; None for null. Raises ProducerFrameError."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise ProducerFrameError(JSON_ERROR, f"{name}: expected a string")
    return json.dumps(value)


def _as_java(text: str) -> str:
    """Replace half of a surrogate pair, which JSON can hold and UTF-8 cannot, by a question mark as Java does."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _texts(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ProducerFrameError(JSON_ERROR, "properties: expected an object of strings")
    properties = {}
    for key, item in value.items():
        text = _text(item, "properties")
        if text is None:
            raise ProducerFrameError(JSON_ERROR, f"properties: {key[:80]!r} has no value")
        properties[_as_java(key)] = _as_java(text)
    return properties


def _milliseconds(value: Any, name: str) -> int:
    """Return a time in milliseconds; 0 for null and for negative values, which are past anyway.

    Raises ProducerFrameError.
    """
    try:
        ms = 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        ms = -(1 << 63)
    if isinstance(value, bool) or not -(1 << 62) < ms < 1 << 62:
        raise ProducerFrameError(JSON_ERROR, f"{name}: expected a number of milliseconds")
    return max(ms, 0)


def _event_ms(value: Any, context: str | None) -> int:
    """Return the event time in milliseconds; 0 for null. Raises ProducerFrameError."""
    if value is None:
        return 0
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError("no offset")
        ms = int(at.timestamp() * 1000)
        if ms < 0:
            raise ValueError("before 1970")
        return ms
    except (TypeError, ValueError, OverflowError) as error:
        text = f"eventTime: {value!r} is not an ISO-8601 time from 1970 on with an offset"
        raise ProducerFrameError(ENCODING_ERROR, text, context) from error


def sent(message_id: bytes, context: str | None) -> str:
    """Return the answer to a message that was stored."""
    id_text = binascii.b2a_base64(message_id, newline=False).decode()
    field = "" if context is None else f'"context":{encode_basestring_ascii(context)},'
    return f'{{"result":"ok","messageId":"{id_text}",{field}"errorCode":0,"schemaVersion":0}}'


def not_sent(code: int, text: str, context: str | None) -> str:
    """Return the answer to a message that was not stored."""
    body = {"result": f"send-error:{code}", "errorMsg": text, "context": context}
    return _compact({**body, "errorCode": 0, "schemaVersion": 0})


def _compact(body: Mapping[str, Any]) -> str:
    """Return JSON without blanks and without fields that are null."""
    return json.dumps({k: v for k, v in body.items() if v is not None}, separators=(",", ":"))
