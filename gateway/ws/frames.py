"""Pulsar's WebSocket API as values: query parameters and JSON frames in, typed parameters and JSON frames out. Pure."""

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

# send-error:N
JSON_ERROR = 3
ENCODING_ERROR = 7
UNKNOWN_ERROR = 8


class RefusedError(Exception):
    """The handshake is refused with an HTTP status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class FrameError(Exception):
    """A frame cannot be used. ``code`` is the N of ``send-error:N``, ``context`` is the sender's, to match answers."""

    def __init__(self, code: int, text: str, context: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.context = context


@dataclass(frozen=True, slots=True)
class Query:
    """Query parameters by name; what is out of range is refused with 400 naming the parameter."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, query_string: bytes) -> "Query":
        try:
            pairs = parse_qsl(
                query_string.decode("ascii"), keep_blank_values=True, max_num_fields=100
            )
        except (UnicodeDecodeError, ValueError) as error:
            raise RefusedError(400, f"Invalid query params: {error}") from error
        return cls(dict(pairs))

    def text(self, name: str) -> str | None:
        return self.values.get(name) or None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.values.get(name, default)
        if value not in choices:
            raise RefusedError(400, f"Invalid query params: Invalid {name} {value}")
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
            raise RefusedError(400, f'Invalid query params: For input string: "{text}"') from None
        if not low <= value <= high:
            raise RefusedError(400, f"Invalid query params: {name} must be from {low} to {high}")
        return value


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object. Raises FrameError 3."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(JSON_ERROR, f"not a JSON object: {error}") from error
    if not isinstance(body, dict):
        raise FrameError(JSON_ERROR, "not a JSON object")
    return body


_SIMPLE = {"payload", "context"}
PROPERTY_OVERHEAD_BYTES = 100
"""What a property costs in memory besides its texts."""


def parse_message(text: str, now_ms: int, keys: bytes | None = None) -> OutgoingMessage:
    """A producer's frame; the message's token is its context. Unknown keys are ignored and numbers stand for text, as
    Pulsar takes them. ``keys``: of a client that encrypts (``encryption.key_fields``). Raises FrameError."""
    body = _read(text)
    context = _text(body.get("context"), "context")
    message = OutgoingMessage(b"", context)
    if not body.keys() <= _SIMPLE:
        _take_rest(body, message, now_ms)
    payload = body.get("payload")
    if not isinstance(payload, str):
        raise FrameError(ENCODING_ERROR, "payload: a base64 string is required", context)
    message.beside_bytes += len(text) - len(payload)
    try:
        message.payload = encryption.from_base64(payload)
    except ValueError as error:
        text = f"Invalid Base64 message-payload error={error}"
        raise FrameError(ENCODING_ERROR, text, context) from error
    if keys is not None:
        message.extra_metadata = keys + _encryption(body, len(message.payload), context)
    return message


def _encryption(body: dict[str, Any], payload_bytes: int, context: str | None) -> bytes:
    try:
        return encryption.message_fields(body, _size(body), payload_bytes)
    except encryption.NotEncryptedError as error:
        raise FrameError(ENCODING_ERROR, str(error), context) from error


def _size(body: dict[str, Any]) -> int | None:
    """Of a payload before it was packed."""
    size = body.get("uncompressedMessageSize")
    try:
        found = None if size is None else int(size)
    except (TypeError, ValueError, OverflowError):
        found = -1
    if isinstance(size, bool) or (found is not None and not 0 <= found <= SIZE_MAX):
        raise FrameError(JSON_ERROR, f"uncompressedMessageSize: expected 0 to {SIZE_MAX}")
    return found


_decoder = json.JSONDecoder()


def _read(text: str) -> dict[str, Any]:
    """As ``parse_object``, but what stands behind the object is ignored, and null is an object without anything."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            body, _ = _decoder.raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            raise FrameError(JSON_ERROR, f"not a JSON object: {error}") from error
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise FrameError(JSON_ERROR, "not a JSON object")
    return body


def _take_rest(body: dict[str, Any], message: OutgoingMessage, now_ms: int) -> None:
    """What few messages have."""
    key = _text(body.get("key"), "key")
    message.key = None if key is None else _as_java(key)
    message.properties = _texts(body.get("properties"))
    message.beside_bytes = PROPERTY_OVERHEAD_BYTES * len(message.properties or ())
    clusters = body.get("replicationClusters")
    if clusters is not None and not isinstance(clusters, list):
        raise FrameError(JSON_ERROR, "replicationClusters: expected an array of strings")
    names = [_text(name, "replicationClusters") for name in clusters or ()]
    message.replicate_to = [_as_java(name) for name in names if name is not None]
    deliver_at_ms = _milliseconds(body.get("deliverAt"), "deliverAt")
    deliver_after_ms = _milliseconds(body.get("deliverAfterMs"), "deliverAfterMs")
    message.deliver_at_ms = now_ms + deliver_after_ms if deliver_after_ms else deliver_at_ms
    message.event_ms = _event_ms(body.get("eventTime"), message.token)
    _size(body)


def _text(value: Any, name: str) -> str | None:
    """A string, or what JSON would print of a number or a truth value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise FrameError(JSON_ERROR, f"{name}: expected a string")
    return json.dumps(value)


def _as_java(text: str) -> str:
    """Half of a surrogate pair, which JSON can say and UTF-8 cannot, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _texts(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise FrameError(JSON_ERROR, "properties: expected an object of strings")
    found = {}
    for key, item in value.items():
        text = _text(item, "properties")
        if text is None:
            raise FrameError(JSON_ERROR, f"properties: {key[:80]!r} has no value")
        found[_as_java(key)] = _as_java(text)
    return found


def _milliseconds(value: Any, name: str) -> int:
    """0 without one, or for one that is past anyway."""
    try:
        ms = 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        ms = -(1 << 63)
    if isinstance(value, bool) or not -(1 << 62) < ms < 1 << 62:
        raise FrameError(JSON_ERROR, f"{name}: expected a number of milliseconds")
    return max(ms, 0)


def _event_ms(value: Any, context: str | None) -> int:
    """0 without one."""
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
        raise FrameError(ENCODING_ERROR, text, context) from error


def sent(message_id: bytes, context: str | None) -> str:
    """The answer to a message that was stored."""
    where = binascii.b2a_base64(message_id, newline=False).decode()
    told = "" if context is None else f'"context":{encode_basestring_ascii(context)},'
    return f'{{"result":"ok","messageId":"{where}",{told}"errorCode":0,"schemaVersion":0}}'


def not_sent(code: int, text: str, context: str | None) -> str:
    """The answer to a message that was not."""
    body = {"result": f"send-error:{code}", "errorMsg": text, "context": context}
    return _compact({**body, "errorCode": 0, "schemaVersion": 0})


def _compact(body: Mapping[str, Any]) -> str:
    """JSON without blanks, nulls left out."""
    return json.dumps({k: v for k, v in body.items() if v is not None}, separators=(",", ":"))
