"""Conversion of stored entries to the messages that clients sent, and the reverse for tests and internal topics. Pure.

An entry is ``[0x0e02 u32 size BrokerEntryMetadata] [0x0e01 u32 crc32c] u32 size MessageMetadata payload``. When the
metadata has num_messages_in_batch (even 1), the uncompressed payload is ``n × (u32 size SingleMessageMetadata
payload)``. Brokers never need this to publish or deliver: it is for peeking, analyses and tests.
"""

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as AnyMessage

from engine.base.crc32c import crc32c
from engine.base.errors import PeerError
from engine.wire import pulsar_pb2 as pb
from engine.wire.compression import (
    UNCOMPRESSED_BYTES_MAX,
    CompressionError,
    codec_name,
    compress,
    decompress,
)
from engine.wire.kernels import (
    BATCH_MESSAGES_MAX,
    BROKER_METADATA_MAGIC,
    CHECKSUM_MAGIC,
    metadata_span,
)
from engine.wire.texts import readable

_MAGIC = Struct(">HI")
_SIZE = Struct(">I")

MEMBER_BYTES_MIN = 6
"""Least bytes of a message in a batch: the size of its metadata, and the one required field in it."""


class BatchFormatError(PeerError, ValueError):
    """An entry that is not a Pulsar entry, or whose payload does not match its metadata."""


@dataclass(slots=True)
class Message:
    """One message. Times are epoch milliseconds, 0 for none.

    ``value`` is None for a tombstone. ``key`` is text as sent: base64 of the bytes when ``key_is_base64``.
    """

    value: bytes | None
    key: str | None = None
    key_is_base64: bool = False
    ordering_key: bytes | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_ms: int = 0
    sequence_id: int = 0
    batch_index: int = -1
    compacted_out: bool = False

    @property
    def raw_key(self) -> bytes | None:
        """The key as its producer had it; None without one. A key that is no base64 although it says so is its text."""
        if self.key is None or not self.key_is_base64:
            return None if self.key is None else self.key.encode()
        try:
            return binascii.a2b_base64(self.key)
        except ValueError:
            return self.key.encode()


@dataclass(slots=True)
class EntryMessages:
    """The content of an entry. ``payload_bytes``: uncompressed; ``packed_bytes``: as stored, both without metadata.

    ``messages`` is empty for a marker (``metadata.marker_type``). An encrypted payload cannot be decoded: it is one
    message with the stored bytes, also when it is a batch.
    """

    metadata: pb.MessageMetadata
    broker_metadata: pb.BrokerEntryMetadata | None
    messages: list[Message]
    payload_bytes: int
    packed_bytes: int
    compression: str

    @property
    def publish_ms(self) -> int:
        return self.metadata.publish_time

    @property
    def producer_name(self) -> str:
        return readable(self.metadata.producer_name)

    @property
    def batched(self) -> bool:
        return self.metadata.HasField("num_messages_in_batch")


def read_metadata(entry: bytes) -> pb.MessageMetadata | None:
    """Return the metadata of an entry without decoding its payload; None when it cannot be read."""
    span = metadata_span(entry, 0, len(entry))
    if span is None:
        return None
    try:
        return pb.MessageMetadata.FromString(entry[span[0] : span[1]])
    except DecodeError:
        return None


def last_batch_index(entry: bytes) -> int:
    """Return the index of the last message of the batch ``entry``; -1 when it is not a batch, or has an impossible
    count."""
    metadata = read_metadata(entry)
    if metadata is None or not metadata.HasField("num_messages_in_batch"):
        return -1
    count = metadata.num_messages_in_batch
    return count - 1 if 0 < count <= BATCH_MESSAGES_MAX else -1


def unpack_entry(entry: bytes, payload_bytes_max: int = UNCOMPRESSED_BYTES_MAX) -> EntryMessages:
    """Decode an entry, after verifying its checksum if it has one. Raises BatchFormatError.

    ``payload_bytes_max`` bounds the uncompressed payload.
    """
    broker_metadata, metadata, packed = split_entry(entry)
    if metadata.encryption_keys:
        payload, messages = packed, [single_message(metadata, packed)]
    else:
        try:
            payload = decompress(
                metadata.compression, packed, metadata.uncompressed_size, payload_bytes_max
            )
        except CompressionError as error:
            raise BatchFormatError(str(error)) from error
        if metadata.HasField("marker_type") and metadata.marker_type:
            messages = []
        elif metadata.HasField("num_messages_in_batch"):
            messages = _batch(metadata, payload)
        else:
            messages = [single_message(metadata, payload)]
    name = codec_name(metadata.compression)
    return EntryMessages(metadata, broker_metadata, messages, len(payload), len(packed), name)


def split_entry(
    entry: bytes,
) -> tuple[pb.BrokerEntryMetadata | None, pb.MessageMetadata, bytes]:
    """Return (the broker's metadata, metadata, payload as stored), after verifying the checksum if there is one.

    Raises BatchFormatError.
    """
    pos, broker_metadata, stop = 0, None, len(entry)
    magic, number = _MAGIC.unpack_from(entry) if stop >= _MAGIC.size else (0, 0)
    if magic == BROKER_METADATA_MAGIC:
        pos = _MAGIC.size + number
        broker_metadata = pb.BrokerEntryMetadata()
        _parse(broker_metadata, entry[_MAGIC.size : pos])
        magic, number = _MAGIC.unpack_from(entry, pos) if stop - pos >= _MAGIC.size else (0, 0)
    if magic == CHECKSUM_MAGIC:
        pos += _MAGIC.size
        if crc32c(memoryview(entry)[pos:]) != number:
            raise BatchFormatError("the entry's checksum does not match")
    metadata = pb.MessageMetadata()
    pos = _sized(metadata, entry, pos)
    return broker_metadata, metadata, entry[pos:]


def _parse(message: AnyMessage, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise BatchFormatError(f"{message.DESCRIPTOR.name} does not parse") from error
    if not message.IsInitialized():
        raise BatchFormatError(f"{message.DESCRIPTOR.name} lacks a required field")


def _sized(message: AnyMessage, data: bytes, pos: int) -> int:
    """Parse the record behind a u32 size and return the position behind it."""
    start = pos + _SIZE.size
    if start > len(data) or start + _SIZE.unpack_from(data, pos)[0] > len(data):
        raise BatchFormatError(f"{message.DESCRIPTOR.name} is cut off")
    stop: int = start + _SIZE.unpack_from(data, pos)[0]
    _parse(message, data[start:stop])
    return stop


def single_message(metadata: pb.MessageMetadata, payload: bytes) -> Message:
    """Return the message of an entry that is no batch, with ``payload`` as its value."""
    return Message(
        None if metadata.null_value else payload,
        _key(metadata),
        metadata.partition_key_b64_encoded,
        metadata.ordering_key if metadata.HasField("ordering_key") else None,
        {readable(pair.key): readable(pair.value) for pair in metadata.properties},
        metadata.event_time,
        metadata.sequence_id,
    )


def _key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> str | None:
    if metadata.null_partition_key or not metadata.HasField("partition_key"):
        return None
    return readable(metadata.partition_key)


def _batch(metadata: pb.MessageMetadata, payload: bytes) -> list[Message]:
    return [
        Message(
            content,
            _key(single),
            single.partition_key_b64_encoded,
            single.ordering_key if single.HasField("ordering_key") else None,
            {readable(pair.key): readable(pair.value) for pair in single.properties},
            single.event_time,
            single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id + index,
            index,
            single.compacted_out,
        )
        for index, (single, content) in enumerate(members(metadata.num_messages_in_batch, payload))
    ]


def members(count: int, payload: bytes) -> list[tuple[pb.SingleMessageMetadata, bytes | None]]:
    """Return the metadata and the value of each message of an uncompressed batch; the value is None for a tombstone.
    Raises BatchFormatError."""
    if not 0 < count <= len(payload) // MEMBER_BYTES_MIN:
        raise BatchFormatError(f"batch of {count} messages in {len(payload)} bytes")
    messages: list[tuple[pb.SingleMessageMetadata, bytes | None]] = []
    pos = 0
    for index in range(count):
        single = pb.SingleMessageMetadata()
        pos = _sized(single, payload, pos)
        stop = pos + single.payload_size
        if single.payload_size < 0 or stop > len(payload):
            raise BatchFormatError(f"message {index} of the batch is cut off")
        messages.append((single, None if single.null_value else payload[pos:stop]))
        pos = stop
    return messages


def pack_entry(
    messages: Sequence[Message],
    *,
    producer_name: str,
    publish_ms: int,
    batched: bool | None = None,
    compression: int = 0,
    checksum: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> bytes:
    """Encode an entry as a client would send it. ``batched`` None: as a batch only when there are several messages.

    ``extra`` sets further MessageMetadata fields by name.
    """
    first = messages[0]
    as_batch = len(messages) > 1 if batched is None else batched
    fields: dict[str, Any] = {
        "producer_name": producer_name,
        "sequence_id": first.sequence_id,
        "publish_time": publish_ms,
    }
    if as_batch:
        fields["num_messages_in_batch"] = len(messages)
        payload = b"".join(map(_pack_member, messages))
    else:
        if len(messages) != 1:
            raise ValueError(f"{len(messages)} messages need a batch")
        fields |= _message_fields(first)
        payload = first.value or b""
    if compression:
        fields |= {"compression": compression, "uncompressed_size": len(payload)}
    metadata = pb.MessageMetadata(**(fields | dict(extra or {}))).SerializeToString()
    body = _SIZE.pack(len(metadata)) + metadata + compress(compression, payload)
    return _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body if checksum else body


def key_bytes(metadata: AnyMessage) -> bytes | None:
    """Return the key in a message's own metadata, as its producer had it; None without one."""
    own: Any = metadata
    if own.null_partition_key or not own.HasField("partition_key"):
        return None
    key = own.partition_key
    raw = key.encode() if isinstance(key, str) else bytes(key)
    if not own.partition_key_b64_encoded:
        return raw
    try:
        return binascii.a2b_base64(raw)
    except binascii.Error:
        return raw


def _message_fields(message: Message) -> dict[str, Any]:
    return {
        "properties": [{"key": key, "value": value} for key, value in message.properties.items()],
        "partition_key": message.key,
        "partition_key_b64_encoded": message.key_is_base64 or None,
        "ordering_key": message.ordering_key,
        "event_time": message.event_ms or None,
        "null_value": True if message.value is None else None,
    }


def _pack_member(message: Message) -> bytes:
    value = message.value or b""
    fields = _message_fields(message) | {
        "payload_size": len(value),
        "sequence_id": message.sequence_id,
        "compacted_out": message.compacted_out or None,
    }
    single = pb.SingleMessageMetadata(**fields).SerializeToString()
    return _SIZE.pack(len(single)) + single + value
