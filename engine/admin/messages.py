"""Representation of a stored entry in Pulsar's REST API, with its metadata as headers and its payload as body. Pure.

An entry consists of the optional broker metadata (``0x0e02``, size, BrokerEntryMetadata), the optional checksum
(``0x0e01``, CRC-32C), the metadata's size, MessageMetadata, and the payload. Layout and header names are Apache
Pulsar's.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import Failed
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import entry_stamp
from engine.wire.texts import iso_time, readable

_CHECKSUM = b"\x0e\x01"
_BROKER_METADATA = b"\x0e\x02"
AS_STORED = "X-Magnetar-As-Stored"
"""Header with the reason why a body was not decompressed."""
Headers = dict[str, str | list[str]]


class TransactionState(NamedTuple):
    """State of an entry's transaction. ``open``: it may still be aborted, or an earlier one is open."""

    open: bool = False
    aborted: bool = False


NO_TRANSACTION = TransactionState()


def message_answer(
    position: Position, entry: bytes, transaction: TransactionState = NO_TRANSACTION
) -> dict[str, Any]:
    """Return ``{"headers": {name: text}, "body": base64}``; a header with several values has a list of texts.

    A payload that cannot be decompressed is returned as it is stored, with the header AS_STORED. Raises Failed when the
    entry is not a message.
    """
    metadata, body = _split(entry)
    headers = _headers(position, metadata, len(entry)) | _broker_headers(entry)
    headers["X-Pulsar-txn-uncommitted"] = _flag(transaction.open)
    if transaction.aborted:
        headers["X-Pulsar-txn-aborted"] = "true"
    if metadata.num_chunks_from_msg > 1 and metadata.compression != pb.NONE:
        headers[AS_STORED] = "a chunk: the message was compressed before it was cut"
    else:
        try:
            body = _uncompressed(metadata, body)
        except ValueError as error:
            headers[AS_STORED] = readable(str(error))
    return {"headers": headers, "body": _base64(body)}


def publish_time_ms(entry: bytes) -> int:
    """Return the publish time in epoch milliseconds, by the broker's clock if it is stored, else the producer's."""
    broker_ms, _ = entry_stamp(entry)
    return broker_ms if broker_ms is not None else int(_split(entry)[0].publish_time)


def _split(entry: bytes) -> tuple[pb.MessageMetadata, bytes]:
    start = 0
    if entry[:2] == _BROKER_METADATA:
        start = 6 + int.from_bytes(entry[2:6], "big")
    if entry[start : start + 2] == _CHECKSUM:
        start += 6
    size = int.from_bytes(entry[start : start + 4], "big")
    stop = start + 4 + size
    try:
        if stop > len(entry):
            raise DecodeError("metadata is longer than the entry")
        return pb.MessageMetadata.FromString(entry[start + 4 : stop]), entry[stop:]
    except DecodeError as error:
        raise Failed(f"Stored entry is no message: {error}") from error


def _uncompressed(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    if metadata.encryption_keys or metadata.compression == pb.NONE:
        return payload
    # Imported here, because the codecs load slowly and are seldom needed.
    from engine.wire.compression import decompress

    return decompress(metadata.compression, payload, metadata.uncompressed_size)


def _broker_headers(entry: bytes) -> Headers:
    time_ms, index = entry_stamp(entry)
    headers: Headers = {}
    if time_ms is not None:
        headers["X-Pulsar-Broker-Entry-METADATA-timestamp"] = iso_time(time_ms)
    if index is not None:
        headers["X-Pulsar-Broker-Entry-METADATA-index"] = str(index)
    return headers


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _codec(value: int) -> str:
    return pb.CompressionType.Name(pb.CompressionType.ValueType(value))


_FIELDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("event_time", "event-time", iso_time),
    ("deliver_at_time", "deliver-at-time", iso_time),
    ("null_value", "null-value", _flag),
    ("num_chunks_from_msg", "PROPERTY-TOTAL-CHUNKS", str),
    ("producer_name", "producer-name", readable),
    ("sequence_id", "sequence-id", str),
    ("replicated_from", "replicated-from", readable),
    ("partition_key", "partition-key", readable),
    ("compression", "compression", _codec),
    ("uncompressed_size", "uncompressed-size", str),
    ("encryption_algo", "encryption-algo", readable),
    ("encryption_param", "Base64-encryption-param", _base64),
    ("schema_version", "Base64-schema-version", _base64),
    ("partition_key_b64_encoded", "partition-key-b64-encoded", _flag),
    ("ordering_key", "Base64-ordering-key", _base64),
    ("marker_type", "marker-type", str),
    ("txnid_least_bits", "txnid-least-bits", str),
    ("txnid_most_bits", "txnid-most-bits", str),
    ("highest_sequence_id", "highest-sequence-id", str),
    ("uuid", "uuid", readable),
    ("num_chunks_from_msg", "num-chunks-from-msg", str),
    ("total_chunk_msg_size", "total-chunk-msg-size", str),
    ("chunk_id", "chunk-id", str),
    ("null_partition_key", "null-partition-key", _flag),
)
"""Optional fields of MessageMetadata, each with its header and the function that formats its value."""


def _headers(position: Position, metadata: pb.MessageMetadata, entry_bytes: int) -> Headers:
    properties = {readable(pair.key): readable(pair.value) for pair in metadata.properties}
    headers: Headers = {
        "X-Pulsar-Message-ID": str(position),
        "X-Pulsar-PROPERTY": json.dumps(properties, separators=(",", ":"), ensure_ascii=False),
        "X-Pulsar-publish-time": iso_time(metadata.publish_time),
        "X-Pulsar-Is-Encrypted": _flag(bool(metadata.encryption_keys)),
    }
    for name, header, write in _FIELDS:
        if metadata.HasField(name):
            headers[f"X-Pulsar-{header}"] = write(getattr(metadata, name))
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        # Pulsar counts all stored bytes except the metadata: magic numbers, checksum, sizes and stamps are included.
        headers["X-Pulsar-batch-size"] = str(entry_bytes - metadata.ByteSize())
    if metadata.HasField("num_chunks_from_msg"):
        headers["X-Pulsar-PROPERTY-CHUNK-ID"] = str(metadata.chunk_id)
    if metadata.replicate_to:
        headers["X-Pulsar-replicated-to"] = [readable(cluster) for cluster in metadata.replicate_to]
    if metadata.encryption_keys:
        keys = [_base64(key.SerializeToString()) for key in metadata.encryption_keys]
        headers["X-Pulsar-Base64-encryption-keys"] = keys
    return headers
