"""Messages that people give to publish: in a form, or as lines of JSON such as an export has. Pure."""

import binascii
import json
from base64 import b64decode
from typing import Any

from engine.base.errors import InvalidField
from gateway.http.bodies import kind_of, string_map, text_of
from gateway.http.json_bodies import decode_body
from gateway.services.encoding import GivenMessage

LONG_MAX = (1 << 63) - 1
VALUES = ("value", "value_base64")
FIELDS = frozenset(
    {
        *VALUES,
        "key",
        "key_is_base64",
        "ordering_key",
        "properties",
        "event_time",
        "deliver_at",
        "deliver_after_ms",
    }
)
OF_EXPORTS = frozenset(
    {"id", "topic", "published", "producer", "schema_version", "kind", "problem"}
)
"""Members of an exported message that are not published again."""
_DECODER = json.JSONDecoder()


def given_message(given: Any, now_ms: int) -> GivenMessage:
    """Return the message of an object. A ``value`` is a text, null for none, or JSON, which stands for its text.

    Raises InvalidField.
    """
    if not isinstance(given, dict):
        raise InvalidField("message", f"expected an object, got {kind_of(given)}")
    if unknown := sorted(given.keys() - FIELDS - OF_EXPORTS):
        raise InvalidField(unknown[0][:100], f"is none of {', '.join(sorted(FIELDS))}")
    if given.get("kind", "message") != "message":
        raise InvalidField("kind", "only a message is published again")
    if len(given.keys() & set(VALUES)) != 1:
        raise InvalidField("value", f"give one of {' and '.join(VALUES)}")
    after_ms = _moment(given, "deliver_after_ms", LONG_MAX - now_ms)
    at_ms = _moment(given, "deliver_at")
    if after_ms and at_ms:
        raise InvalidField("deliver_after_ms", "only one of it and deliver_at")
    key = _text(given, "key")
    key_is_base64 = given.get("key_is_base64", False)
    if not isinstance(key_is_base64, bool):
        raise InvalidField("key_is_base64", f"expected a boolean, got {kind_of(key_is_base64)}")
    if key is not None and key_is_base64:
        _octets(key, "key")
    ordering_key = _text(given, "ordering_key")
    return GivenMessage(
        _payload(given),
        key,
        string_map(given.get("properties"), "properties"),
        _moment(given, "event_time"),
        at_ms or (now_ms + after_ms if after_ms else 0),
        key_is_base64=key_is_base64,
        ordering_key=None if ordering_key is None else _octets(ordering_key, "ordering_key"),
    )


def given_line(line: Any, now_ms: int) -> GivenMessage:
    """Return the message of a line of JSON, with a value in JSON as it is written there. Raises InvalidField."""
    if not isinstance(line, str):
        raise InvalidField("line", f"expected a string, got {kind_of(line)}")
    try:
        value = decode_body(line.encode())
    except InvalidField as error:
        raise InvalidField(
            "line" if error.field == "body" else error.field, _reason(error)
        ) from None
    except UnicodeEncodeError:
        raise InvalidField("line", "has half of a character (a lone surrogate)") from None
    if isinstance(value, dict) and isinstance(value.get("value"), dict | list | int | float):
        value["value"] = _written(line, "value")
    return given_message(value, now_ms)


def _reason(error: InvalidField) -> str:
    return str(error).removeprefix(f"{error.field}: ")


def _written(text: str, member: str) -> str:
    """Return the text of a member of an object, which is valid JSON: ``1.10`` must not become ``1.1``."""
    at = text.index("{") + 1
    while True:
        name, at = _DECODER.raw_decode(text, text.index('"', at))
        start = _skipped(text, text.index(":", at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        if name == member:
            return text[start:at]


def _skipped(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _payload(given: dict[str, Any]) -> str | bytes | None:
    if "value_base64" in given:
        text = _text(given, "value_base64")
        return None if text is None else _octets(text, "value_base64")
    value = given["value"]
    return value if value is None or isinstance(value, str) else text_of(value)


def _text(given: dict[str, Any], field: str) -> str | None:
    value = given.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidField(field, f"expected a string, got {kind_of(value)}")
    return value


def _octets(text: str, field: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidField(field, "expected base64") from None


def _moment(given: dict[str, Any], field: str, high: int = LONG_MAX) -> int:
    value = given.get(field)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= high:
        raise InvalidField(field, f"expected whole milliseconds from 0 to {high}")
    return value
