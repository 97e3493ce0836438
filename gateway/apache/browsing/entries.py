"""Entries of topics from answers of Apache's REST interface: metadata as header fields, the payload decompressed. Pure.

What is made of them is an entry without compression, from which messages are unpacked as from a stored one. Its size is
not that of the stored entry, which the answer does not state.
"""

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import Failed
from engine.net.http_client import Fields
from engine.wire import pulsar_pb2 as pb

_SIZE_BYTES = 4
_BROKER_METADATA = b"\x0e\x02"
_NO_CODEC = "NONE"
_PREFIX = "x-pulsar-"
_STAMP = "broker-entry-metadata-timestamp"
_NUMBER = "broker-entry-metadata-index"


class GivenEntry(NamedTuple):
    """An entry that was made of an answer. ``compression``: how it is stored. ``hidden``: no consumer receives it,
    because its transaction is aborted or not yet committed."""

    content: bytes
    compression: str
    hidden: bool


def entry_of(fields: Fields, payload: bytes) -> GivenEntry:
    """Return the entry of an answer with one message or batch. Raises Failed for an answer in an unknown form."""
    headers = _texts(fields)
    try:
        metadata = _metadata(headers)
        stamp = _broker_metadata(headers)
    except (ValueError, KeyError, TypeError, DecodeError, OverflowError) as error:
        raise Failed(f"Apache states a message in an unknown form: {error}") from error
    text = metadata.SerializeToString()
    content = stamp + len(text).to_bytes(_SIZE_BYTES, "big") + text + payload
    hidden = "true" in (headers.get("txn-aborted"), headers.get("txn-uncommitted"))
    return GivenEntry(content, headers.get("compression", _NO_CODEC), hidden)


def _texts(fields: Fields) -> dict[str, str]:
    """Return Apache's fields by name without their prefix. Apache writes each character beyond ISO-8859-1, such as the
    euro sign, as a space: what it was cannot be known."""
    return {
        name.decode("latin-1").removeprefix(_PREFIX): value.decode("latin-1")
        for name, value in fields
        if name.startswith(_PREFIX.encode())
    }


def _moment(text: str) -> int:
    """Return epoch milliseconds of a time with its zone; 0 for one that this console cannot state."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


def _flag(text: str) -> bool:
    return text == "true"


def _octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "publish-time": ("publish_time", _moment),
    "event-time": ("event_time", _moment),
    "deliver-at-time": ("deliver_at_time", _moment),
    "null-value": ("null_value", _flag),
    "producer-name": ("producer_name", str),
    "sequence-id": ("sequence_id", int),
    "replicated-from": ("replicated_from", str),
    "partition-key": ("partition_key", str),
    "partition-key-b64-encoded": ("partition_key_b64_encoded", _flag),
    "null-partition-key": ("null_partition_key", _flag),
    "base64-ordering-key": ("ordering_key", _octets),
    "base64-schema-version": ("schema_version", _octets),
    "marker-type": ("marker_type", int),
    "num-batch-message": ("num_messages_in_batch", int),
    "uuid": ("uuid", str),
    "num-chunks-from-msg": ("num_chunks_from_msg", int),
    "total-chunk-msg-size": ("total_chunk_msg_size", int),
    "chunk-id": ("chunk_id", int),
}
"""Fields of MessageMetadata by the name of their header."""


def _metadata(headers: Mapping[str, str]) -> pb.MessageMetadata:
    """Return the metadata that the headers state. An answer has no name of a producer only when a broker wrote it."""
    metadata = pb.MessageMetadata(producer_name="", sequence_id=0, publish_time=0)
    for header, (name, read) in _FIELDS.items():
        if header in headers:
            setattr(metadata, name, read(headers[header]))
    for name, value in json.loads(headers.get("property") or "{}").items():
        metadata.properties.add(key=name, value=value)
    if _flag(headers.get("is-encrypted", "")):
        keys = headers.get("base64-encryption-keys", "")
        # Encrypted, even where the keys are not stated: the payload must not be taken for a message's value.
        metadata.encryption_keys.append(
            pb.EncryptionKeys.FromString(_octets(keys))
            if keys
            else pb.EncryptionKeys(key="", value=b"")
        )
    return metadata


def _broker_metadata(headers: Mapping[str, str]) -> bytes:
    stated = pb.BrokerEntryMetadata()
    if _STAMP in headers:
        stated.broker_timestamp = _moment(headers[_STAMP])
    if _NUMBER in headers:
        stated.index = int(headers[_NUMBER])
    text = stated.SerializeToString()
    return _BROKER_METADATA + len(text).to_bytes(_SIZE_BYTES, "big") + text if text else b""
