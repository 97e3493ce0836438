"""Message ids in bodies, and messages as answers (peek, examine, by id)."""

import base64
import binascii
from typing import Any

from django.http import HttpRequest, HttpResponse

from engine.admin.api import EARLIEST_MESSAGE, LATEST_MESSAGE, LONG_MAX, MessagePosition
from engine.base.errors import InvalidField
from gateway.http.bodies import json_body, kind_of, whole_number
from gateway.http.exchange import WithRepeatedHeaders

WORDS = {"earliest": EARLIEST_MESSAGE, "latest": LATEST_MESSAGE}


def message_position(body: Any) -> MessagePosition | None:
    """A ResetCursorData, a MessageId, or the word ``"earliest"`` or ``"latest"``; None without a body.

    Raises InvalidField naming the member.
    """
    if body is None:
        return None
    if isinstance(body, str):
        if body not in WORDS:
            raise InvalidField("body", 'expected a message id, "earliest" or "latest"')
        return WORDS[body]
    if not isinstance(body, dict):
        raise InvalidField("body", f"expected a message id, got {kind_of(body)}")
    for member in ("ledgerId", "entryId"):
        if member not in body:
            raise InvalidField(member, "is missing")
    excluded = body.get("excluded", body.get("isExcluded", False))
    if not isinstance(excluded, bool):
        raise InvalidField("excluded", f"expected a boolean, got {kind_of(excluded)}")
    return MessagePosition(
        _within(body, "ledgerId", LONG_MAX),
        _within(body, "entryId", LONG_MAX),
        _within(body, "batchIndex", (1 << 31) - 1) if body.get("batchIndex") is not None else -1,
        excluded,
    )


def required_position(request: HttpRequest) -> MessagePosition:
    """Of the body. Raises InvalidField."""
    position = message_position(json_body(request))
    if position is None:
        raise InvalidField("body", 'expected a message id, "earliest" or "latest"')
    return position


def _within(body: dict[str, Any], member: str, high: int) -> int:
    value = whole_number(body[member], member)
    if not -1 <= value <= high:
        raise InvalidField(member, f"must be from -1 to {high}")
    return value


def message_answer(found: dict[str, Any]) -> HttpResponse:
    """The payload as body, its metadata as ``X-Pulsar-*`` headers."""
    try:
        body = base64.b64decode(found["body"], validate=True)
    except binascii.Error as error:
        raise RuntimeError("the broker sent a message that is not base64") from error
    answer = WithRepeatedHeaders(body, content_type="application/json")
    for name, value in found["headers"].items():
        texts = [_header_text(each) for each in (value if isinstance(value, list) else [value])]
        answer.headers[name] = texts[0]
        answer.repeated_headers += [(name, text) for text in texts[1:]]
    return answer


def _header_text(value: Any) -> str:
    """Header values are bytes on the wire; properties may hold any text."""
    return str(value).encode().decode("latin-1").replace("\r", " ").replace("\n", " ")
