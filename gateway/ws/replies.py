"""Parsing of the frames that clients of the consumer and reader endpoints send. Pure.

Pulsar's service reads them with Jackson, which accepts any scalar as a text and ignores text behind the object. It
closes the socket without a close frame (the client sees 1006) when a frame is not a JSON object or a field has the
wrong type, and with 1011 when a message id is missing or not base64.
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
    """An invalid frame, after which the socket is closed with ``code``."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class NoJsonError(ReplyError):
    """An invalid frame, after which the socket is closed without a close frame."""

    def __init__(self, text: str) -> None:
        super().__init__(1006, text)


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit for more messages, in pull mode."""

    messages: int

    def checked(self) -> int:
        """Return the number of messages. Raises ReplyError when it is out of range."""
        if not 0 < self.messages <= PERMITS_MAX:
            raise ReplyError(UNUSABLE, f"permitMessages: expected 1 to {PERMITS_MAX}")
        return self.messages


@dataclass(frozen=True, slots=True)
class EndOfTopicQuestion:
    """A request whether the end of the topic is reached."""


@dataclass(frozen=True, slots=True)
class Unsubscription:
    """A request to delete the subscription."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An acknowledgement or negative acknowledgement. ``message_id`` is None when it is missing."""

    message_id: str | None
    negative: bool

    def text(self) -> str:
        """Return the message id as sent. Raises ReplyError when it is missing."""
        if self.message_id is None:
            raise ReplyError(FAILED, "messageId: a base64 string is required")
        return self.message_id


def simple_answer(text: str) -> str:
    """Return the message id of a plain acknowledgement; empty, which no message id is, for any other text.

    It avoids decoding JSON for nearly all frames.
    """
    head = _HEADS[0] if text.startswith(_HEADS[0]) else _HEADS[1]
    if text.startswith(head) and text.endswith('"}'):
        message_id = text[len(head) : -2]
        if message_id.isascii() and '"' not in message_id and "\\" not in message_id:
            return message_id
    return ""


def parse_reply(text: str) -> Permit | EndOfTopicQuestion | Unsubscription | Acknowledgement:
    """Decode a frame. Raises ReplyError."""
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
        return Permit(_int32(body.get("permitMessages")))
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


def _int32(value: Any) -> int:
    """Return a number of 32 bits, which may be sent as text. Raises NoJsonError."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("no number")
        number = int(value)
    except (ValueError, OverflowError) as error:
        raise NoJsonError(f"permitMessages: a number is required: {error}") from error
    if not -(1 << 31) <= number < 1 << 31:
        raise NoJsonError("permitMessages: a number of 32 bits is required")
    return number


def message_id_of(text: str) -> MessageId:
    """Decode a message id in base64, with or without padding. Raises ReplyError."""
    try:
        data = binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ReplyError(FAILED, f"messageId {text[:80]!r} cannot be decoded") from None
    try:
        return MessageId.parse(data)
    except MessageIdError as error:
        raise NoJsonError(f"messageId {text[:80]!r} cannot be decoded: {error}") from error
