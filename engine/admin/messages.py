"""A stored entry as Pulsar's REST API shows a message: its metadata as headers, its payload as body. Pure.

An entry is the optional broker metadata (``0x0e02``, size, BrokerEntryMetadata), the optional checksum (``0x0e01``,
CRC-32C), the metadata's size, MessageMetadata, the payload. Layout and header names are Apache Pulsar's.
"""

import base64
import json
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import DecodeError

from engine.base.errors import Failed
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import entry_stamp
from engine.wire.texts import readable

_CHECKSUM = b"\x0e\x01"
_BROKER_METADATA = b"\x0e\x02"


def message_answer(position: Position, entry: bytes) -> dict[str, Any]:
    """``{"headers": {name: text}, "body": base64}``; Failed when the entry is no message."""
    metadata, payload = _cut(entry)
    try:
        body = _uncompressed(metadata, payload)
    except ValueError as error:
        raise Failed(f"Message {position} cannot be decompressed: {error}") from error
    headers = _headers(position, metadata, len(payload)) | _brokers_headers(entry)
    return {"headers": headers, "body": base64.b64encode(body).decode()}


def publish_time_ms(entry: bytes) -> int:
    """When an entry came, epoch milliseconds: by its broker's clock, where that is stored, else by its producer's."""
    brokers_ms, _ = entry_stamp(entry)
    return brokers_ms if brokers_ms is not None else int(_cut(entry)[0].publish_time)


def _cut(entry: bytes) -> tuple[pb.MessageMetadata, bytes]:
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
    from engine.wire.compression import decompress  # late: its codecs are heavy and seldom needed

    return decompress(metadata.compression, payload, metadata.uncompressed_size)


def _brokers_headers(entry: bytes) -> dict[str, str]:
    time_ms, index = entry_stamp(entry)
    found = {
        "timestamp": None if time_ms is None else _time(time_ms),
        "index": None if index is None else str(index),
    }
    return {f"X-Pulsar-Broker-Entry-METADATA-{key}": value for key, value in found.items() if value}


def _headers(position: Position, metadata: pb.MessageMetadata, size: int) -> dict[str, str]:
    properties = {readable(pair.key): readable(pair.value) for pair in metadata.properties}
    out = {
        "X-Pulsar-Message-ID": str(position),
        "X-Pulsar-PROPERTY": json.dumps(properties, separators=(",", ":"), ensure_ascii=False),
        "X-Pulsar-publish-time": _time(metadata.publish_time),
    }
    if metadata.event_time:
        out["X-Pulsar-event-time"] = _time(metadata.event_time)
    if metadata.HasField("deliver_at_time"):
        out["X-Pulsar-deliver-at-time"] = _time(metadata.deliver_at_time)
    if metadata.HasField("num_messages_in_batch"):
        out["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        out["X-Pulsar-batch-size"] = str(size)
    if metadata.null_value:
        out["X-Pulsar-null-value"] = "true"
    out["X-Pulsar-Is-Encrypted"] = "true" if metadata.encryption_keys else "false"
    out["X-Pulsar-producer-name"] = readable(metadata.producer_name)
    out["X-Pulsar-sequence-id"] = str(metadata.sequence_id)
    if metadata.HasField("partition_key"):
        out["X-Pulsar-partition-key"] = readable(metadata.partition_key)
    if metadata.HasField("partition_key_b64_encoded"):
        out["X-Pulsar-partition-key-b64-encoded"] = str(metadata.partition_key_b64_encoded).lower()
    if metadata.compression != pb.NONE:
        out["X-Pulsar-compression"] = pb.CompressionType.Name(metadata.compression)
        out["X-Pulsar-uncompressed-size"] = str(metadata.uncompressed_size)
    if metadata.HasField("ordering_key"):
        out["X-Pulsar-Base64-ordering-key"] = base64.b64encode(metadata.ordering_key).decode()
    if metadata.HasField("schema_version"):
        version = base64.b64encode(metadata.schema_version).decode()
        out["X-Pulsar-Base64-schema-version"] = version
    if metadata.HasField("replicated_from"):
        out["X-Pulsar-replicated-from"] = readable(metadata.replicated_from)
    if metadata.HasField("uuid"):
        out["X-Pulsar-uuid"] = readable(metadata.uuid)
        out["X-Pulsar-num-chunks-from-msg"] = str(metadata.num_chunks_from_msg)
        out["X-Pulsar-total-chunk-msg-size"] = str(metadata.total_chunk_msg_size)
        out["X-Pulsar-chunk-id"] = str(metadata.chunk_id)
    out["X-Pulsar-txn-uncommitted"] = "false"
    return out


def _time(ms: int) -> str:
    """ISO 8601 in UTC; whole seconds without a fraction, as Java prints them."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{ms % 1000:03d}Z" if ms % 1000 else f"{moment}Z"
