"""What clients of the consumer and reader endpoints say, as values. Pure.

Pulsar's service reads these with Jackson, which takes any scalar for a text, and closes: without a close frame (the
client sees 1006) when a frame is no JSON object or its fields are of the wrong kind, with 1011 when a message id is
missing or no base64. What is behind the object is not looked at.
"""

import binascii
import json
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from engine.client.message_ids import MessageId, MessageIdError

PERMITS_MAX = 1_000_000
UNUSABLE = 1007
FAILED = 1011
_HEADS = ('{"messageId":"', '{"messageId": "')
_NO_ID = "no message"
_decode = JSONDecoder().raw_decode


class ReplyError(Exception):
    """A frame ends the socket with ``code``."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class NoJsonError(ReplyError):
    """The socket ends without a close frame."""

    def __init__(self, text: str) -> None:
        super().__init__(1006, text)


@dataclass(frozen=True, slots=True)
class Permit:
    """So many more messages may come, in pull mode."""

    messages: int

    def checked(self) -> int:
        """Raises ReplyError."""
        if not 0 < self.messages <= PERMITS_MAX:
            raise ReplyError(UNUSABLE, f"permitMessages: expected 1 to {PERMITS_MAX}")
        return self.messages


@dataclass(frozen=True, slots=True)
class EndOfTopicQuestion:
    """Whether there will be more messages."""


@dataclass(frozen=True, slots=True)
class Unsubscription:
    """The subscription ends."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Of a message, or the opposite. ``message_id`` None: missing."""

    message_id: str | None
    negative: bool

    def text(self) -> str:
        """Raises ReplyError."""
        if self.message_id is None:
            raise ReplyError(FAILED, "messageId: a base64 string is required")
        return self.message_id


def simple_answer(text: str) -> str:
    """The message id of a plain acknowledgement; any other text gives one that no message has."""
    head = _HEADS[0] if text.startswith(_HEADS[0]) else _HEADS[1]
    if text.startswith(head) and text.endswith('"}'):
        found = text[len(head) : -2]
        if found.isascii() and '"' not in found and "\\" not in found:
            return found
    return ""


def parse_reply(text: str) -> Permit | EndOfTopicQuestion | Unsubscription | Acknowledgement:
    """A frame. Raises ReplyError."""
    try:
        body, _ = _decode(text.lstrip())
    except (ValueError, RecursionError) as error:
        raise NoJsonError(f"not a JSON object: {error}") from error
    if body is None:
        raise ReplyError(FAILED, "null: a JSON object is required")
    if not isinstance(body, dict):
        raise NoJsonError("not a JSON object")
    kind = _text(body, "type")
    message_id = _text(body, "messageId")
    if kind == "permit":
        return Permit(_whole(body.get("permitMessages")))
    if kind == "isEndOfTopic":
        return EndOfTopicQuestion()
    if kind == "unsubscribe":
        return Unsubscription()
    return Acknowledgement(message_id, kind == "negativeAcknowledge")


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise NoJsonError(f"{name}: a string is required")
    return json.dumps(value)


def _whole(value: Any) -> int:
    """A number of 32 bits; text that is one, too."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("no number")
        found = int(value)
    except (ValueError, OverflowError) as error:
        raise NoJsonError(f"permitMessages: a number is required: {error}") from error
    if not -(1 << 31) <= found < 1 << 31:
        raise NoJsonError("permitMessages: a number of 32 bits is required")
    return found


def message_id_of(text: str) -> MessageId:
    """Of a message id in base64, with or without its padding. Raises ReplyError."""
    try:
        data = binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ReplyError(FAILED, f"messageId {text[:80]!r} cannot be decoded") from None
    try:
        return MessageId.parse(data)
    except MessageIdError as error:
        raise NoJsonError(f"messageId {text[:80]!r} cannot be decoded: {error}") from error
