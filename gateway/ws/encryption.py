"""End-to-end encryption by clients of the producer endpoint: what they say of it, as fields of MessageMetadata. Pure.

A client that encrypts gives its data keys, wrapped, once in ``encryptionKeys`` (base64 of ``{name: {"keyValue":
base64, "metadata": {…}}}``), and with each message ``encryptionParam`` and, when it packed the payload before,
``compressionType`` and ``uncompressedMessageSize``. Nothing is encrypted, packed or batched here, and no key is seen in
the clear.
"""

import binascii
import json
from typing import Any

from engine.wire import pulsar_pb2 as pb

COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


class NotEncryptedError(Exception):
    """What a message says of its encryption cannot be used."""


def key_fields(text: str) -> bytes | None:
    """Of ``encryptionKeys``; None when it is no such JSON, so that it can only be names of keys. Raises ValueError when
    it is, and a key of it lacks something."""
    try:
        keys = json.loads(from_base64(text.strip()))
        if not isinstance(keys, dict) or not keys:
            return None
        about = {name: _key(key) for name, key in keys.items()}
    except (TypeError, ValueError, RecursionError):
        return None
    first = next(iter(about.values()))
    if first is None or first.value is None:
        return None
    fields = pb.MessageMetadata()
    for name, key in about.items():
        if not name.strip():
            raise ValueError("Empty param encryptionKeys.key")
        if key is None:
            raise ValueError("Empty param encryptionKeys.value")
        if key.value is None:
            raise ValueError("Empty param encryptionKeys.value.keyValue")
        added = fields.encryption_keys.add(key=name.strip(), value=key.value)
        for about_key, about_value in key.metadata.items():
            added.metadata.add(key=about_key, value=about_value)
    return fields.SerializePartialToString()


class _Key:
    __slots__ = ("metadata", "value")

    def __init__(self, value: bytes | None, metadata: dict[str, str]) -> None:
        self.value = value
        self.metadata = metadata


def _key(body: Any) -> _Key | None:
    """Raises ValueError, TypeError for what is none."""
    if body is None:
        return None
    if not isinstance(body, dict):
        raise TypeError("a key is an object")
    value, metadata = body.get("keyValue"), body.get("metadata") or {}
    if value is not None and not isinstance(value, str):
        raise TypeError("keyValue is base64")
    if not isinstance(metadata, dict):
        raise TypeError("metadata is an object")
    pairs = {_text(name): _text(given) for name, given in metadata.items()}
    return _Key(None if value is None else from_base64(value), pairs)


def _text(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        raise TypeError("a text is expected")
    found = value if isinstance(value, str) else json.dumps(value)
    found.encode()  # raises UnicodeEncodeError, which is a ValueError
    return found


def message_fields(body: dict[str, Any], size: int | None, payload_bytes: int) -> bytes:
    """Of one message of ``payload_bytes`` as sent, of ``size`` before it was packed. An unknown compression is none, as
    Pulsar has it. Raises NotEncryptedError."""
    fields = pb.MessageMetadata()
    param = body.get("encryptionParam")
    if isinstance(param, str) and param.strip():
        try:
            fields.encryption_param = from_base64(param)
        except ValueError as error:
            raise NotEncryptedError(f"Invalid Base64 encryptionParam error={error}") from error
    name = body.get("compressionType")
    packed: Any = pb.CompressionType.Value(name) if name in COMPRESSIONS else None
    if packed is not None and size is not None:
        fields.compression, fields.uncompressed_size = packed, size
    elif not packed and size is None:
        fields.uncompressed_size = payload_bytes
    else:
        raise NotEncryptedError(
            "the params compressionType and uncompressedMessageSize should both empty or both non-empty"
        )
    return fields.SerializePartialToString()


def from_base64(text: str) -> bytes:
    """Base64, whose padding may be left out, as Java takes it. Raises ValueError."""
    missing = -len(text) % 4
    if missing and "=" not in text:
        text += "=" * missing
    return binascii.a2b_base64(text, strict_mode=True)
