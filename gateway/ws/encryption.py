"""End-to-end encryption by clients of the producer endpoint: their parameters as fields of MessageMetadata. Pure.

A client that encrypts sends its wrapped data keys once in ``encryptionKeys`` (base64 of ``{name: {"keyValue": base64,
"metadata": {…}}}``). With each message it sends ``encryptionParam`` and, when it compressed the payload before
encrypting it, ``compressionType`` and ``uncompressedMessageSize``. The gateway does not encrypt, compress or batch such
messages, and no key is known to it in the clear.
"""

import binascii
import json
from typing import Any

from engine.wire import pulsar_pb2 as pb

COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


class NotEncryptedError(Exception):
    """The encryption parameters of a message are invalid."""


def key_fields(text: str) -> bytes | None:
    """Return the serialized fields of ``encryptionKeys``; None when it is not such JSON and so can only be key names.

    Raises ValueError when it is such JSON and a key is incomplete.
    """
    try:
        keys = json.loads(from_base64(text.strip()))
        if not isinstance(keys, dict) or not keys:
            return None
        parsed = {name: _key(key) for name, key in keys.items()}
    except (TypeError, ValueError, RecursionError):
        return None
    first = next(iter(parsed.values()))
    if first is None or first.value is None:
        return None
    fields = pb.MessageMetadata()
    for name, key in parsed.items():
        if not name.strip():
            raise ValueError("Empty param encryptionKeys.key")
        if key is None:
            raise ValueError("Empty param encryptionKeys.value")
        if key.value is None:
            raise ValueError("Empty param encryptionKeys.value.keyValue")
        field = fields.encryption_keys.add(key=name.strip(), value=key.value)
        for metadata_name, metadata_value in key.metadata.items():
            field.metadata.add(key=metadata_name, value=metadata_value)
    return fields.SerializePartialToString()


class _Key:
    __slots__ = ("metadata", "value")

    def __init__(self, value: bytes | None, metadata: dict[str, str]) -> None:
        self.value = value
        self.metadata = metadata


def _key(body: Any) -> _Key | None:
    """Return a key; None for null. Raises ValueError or TypeError for any other JSON value."""
    if body is None:
        return None
    if not isinstance(body, dict):
        raise TypeError("a key is an object")
    value, metadata = body.get("keyValue"), body.get("metadata") or {}
    if value is not None and not isinstance(value, str):
        raise TypeError("keyValue is base64")
    if not isinstance(metadata, dict):
        raise TypeError("metadata is an object")
    pairs = {_text(name): _text(text) for name, text in metadata.items()}
    return _Key(None if value is None else from_base64(value), pairs)


def _text(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        raise TypeError("a text is expected")
    text = value if isinstance(value, str) else json.dumps(value)
    text.encode()  # Raises UnicodeEncodeError, which is a ValueError, for half of a surrogate pair.
    return text


def message_fields(body: dict[str, Any], size: int | None, payload_bytes: int) -> bytes:
    """Return the serialized fields of a message with a payload of ``payload_bytes``, and of ``size`` uncompressed.

    An unknown compression means none, as in Pulsar. Raises NotEncryptedError.
    """
    fields = pb.MessageMetadata()
    param = body.get("encryptionParam")
    if isinstance(param, str) and param.strip():
        try:
            fields.encryption_param = from_base64(param)
        except ValueError as error:
            raise NotEncryptedError(f"Invalid Base64 encryptionParam error={error}") from error
    name = body.get("compressionType")
    compression: Any = pb.CompressionType.Value(name) if name in COMPRESSIONS else None
    if compression is not None and size is not None:
        fields.compression, fields.uncompressed_size = compression, size
    elif not compression and size is None:
        fields.uncompressed_size = payload_bytes
    else:
        raise NotEncryptedError(
            "the params compressionType and uncompressedMessageSize should both empty or both non-empty"
        )
    return fields.SerializePartialToString()


def from_base64(text: str) -> bytes:
    """Decode base64, whose padding may be left out as in Java. Raises ValueError."""
    missing = -len(text) % 4
    if missing and "=" not in text:
        text += "=" * missing
    return binascii.a2b_base64(text, strict_mode=True)
