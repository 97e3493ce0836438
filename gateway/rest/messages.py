"""Message ids in bodies, and messages as answers (peek, examine, by id)."""

import base64
import binascii
from typing import Any

from django.http import HttpRequest, HttpResponse

from engine.admin.api.arguments import EARLIEST_MESSAGE, LATEST_MESSAGE, LONG_MAX, MessagePosition
from engine.base.errors import InvalidField
from gateway.http.bodies import json_body, kind_of, whole_number
from gateway.http.exchange import WithRepeatedHeaders

NAMED_POSITIONS = {"earliest": EARLIEST_MESSAGE, "latest": LATEST_MESSAGE}


def message_position(body: Any) -> MessagePosition | None:
    """Return the position in a body; None without a body.

    It is a ResetCursorData, a MessageId, or the word ``"earliest"`` or ``"latest"``. Raises InvalidField with the
    member's name.
    """
    if body is None:
        return None
    if isinstance(body, str):
        if body not in NAMED_POSITIONS:
            raise InvalidField("body", 'expected a message id, "earliest" or "latest"')
        return NAMED_POSITIONS[body]
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
    """Return the position in the body. Raises InvalidField, also without a body."""
    position = message_position(json_body(request))
    if position is None:
        raise InvalidField("body", 'expected a message id, "earliest" or "latest"')
    return position


def _within(body: dict[str, Any], member: str, high: int) -> int:
    value = whole_number(body[member], member)
    if not -1 <= value <= high:
        raise InvalidField(member, f"must be from -1 to {high}")
    return value


def message_answer(message: dict[str, Any]) -> HttpResponse:
    """Return an answer with the message's payload as body and its metadata as ``X-Pulsar-*`` headers."""
    try:
        body = base64.b64decode(message["body"], validate=True)
    except binascii.Error as error:
        raise RuntimeError("the broker sent a message that is not base64") from error
    answer = WithRepeatedHeaders(body, content_type="application/json")
    for name, value in message["headers"].items():
        values = value if isinstance(value, list) else [value]
        texts = [_header_text(item) for item in values]
        answer.headers[name] = texts[0]
        answer.repeated_headers += [(name, text) for text in texts[1:]]
    return answer


def _header_text(value: Any) -> str:
    """Return any text, such as a property, as a header value: its UTF-8 bytes without line breaks."""
    return str(value).encode().decode("latin-1").replace("\r", " ").replace("\n", " ")
