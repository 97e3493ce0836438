"""Frames of the consumer and reader endpoints: JSON concatenated from encoded parts. Pure."""

import json
from binascii import b2a_base64
from json.encoder import encode_basestring
from typing import Any

from engine.client.consuming.incoming import Encryption, Incoming
from engine.wire.texts import ISO_MS_MAX, iso_time

_END_OF_TOPIC = {True: '{"endOfTopic":true}', False: '{"endOfTopic":false}'}


class DeliveryFrames:
    """The frames of one socket. Messages published in the same millisecond share the text of their time."""

    def __init__(self) -> None:
        self._ms = self._second = -1
        self._time = self._date = ""

    def frame(self, message_id: str, message: Incoming) -> str:
        """Return the frame of a message. Fields that are null are left out, as in Pulsar."""
        own = message.own
        ms = message.metadata.publish_time
        if ms != self._ms:
            ms = min(ms, ISO_MS_MAX)
            self._ms, self._time = ms, self._iso(ms)
        properties = "{}"
        if own.properties:
            properties = json.dumps(message.properties, ensure_ascii=False, separators=(",", ":"))
        optional = ""
        if own.event_time:
            optional = f',"eventTime":"{iso_time(own.event_time)}"'
        if message.encrypted:
            optional += f',"encryptionContext":{_context(message.encryption)}'
        key = message.key
        if key:
            optional += f',"key":{encode_basestring(key)}'
        return (
            f'{{"messageId":"{message_id}","payload":"{_base64(message.content or b"")}",'
            f'"properties":{properties},"publishTime":"{self._time}",'
            f'"redeliveryCount":{message.redelivery_count}{optional}}}'
        )

    def _iso(self, ms: int) -> str:
        second, fraction_ms = divmod(ms, 1000)
        if second != self._second:
            self._second, self._date = second, iso_time(second * 1000)[:-1]
        return f"{self._date}{_fraction(fraction_ms)}Z"

    @staticmethod
    def message_id(message: Incoming) -> str:
        """Return the message id in base64, serialized as by Pulsar's Java client."""
        return _base64(message.id_bytes)


def _context(encryption: Encryption | None) -> str:
    assert encryption is not None
    body: dict[str, Any] = {
        "keys": {
            name: {"keyValue": _base64(value), "metadata": metadata}
            for name, (value, metadata) in encryption.keys.items()
        },
        "param": _base64(encryption.param),
    }
    if encryption.algorithm is not None:
        body["algorithm"] = encryption.algorithm
    body["compressionType"] = encryption.compression
    body["uncompressedMessageSize"] = encryption.uncompressed_size
    body["batchSize"] = encryption.batch_size
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def end_of_topic(reached: bool) -> str:
    """Return the answer to ``isEndOfTopic``."""
    return _END_OF_TOPIC[reached]


def _fraction(ms: int) -> str:
    return f".{ms:03d}".rstrip("0") if ms else ""
