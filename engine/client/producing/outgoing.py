"""Messages to be published, and the entries that carry them: single, in batches, in chunks. Pure.

An entry is ``0x0e01 u32 crc32c | u32 size MessageMetadata | payload``, see ``wire.batches``. Fields of every message
are encoded by hand, rare ones by protobuf: fields of a protobuf message may be in any order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

from engine.base.crc32c import crc32c
from engine.wire import pulsar_pb2 as pb
from engine.wire.compression import NONE, compress
from engine.wire.kernels import CHECKSUM_MAGIC
from engine.wire.varints import varint

_MAGIC = Struct(">HI")
_SIZE = Struct(">I")
CHUNK_BYTES_MIN = 1024
"""Least bytes of payload in a chunk, however large its metadata is."""


class PayloadSealer(Protocol):
    """Encryption of one producer's payloads, as ``engine.client.sealing`` does it.

    ``overhead``: bytes that it adds to an entry. ``seal`` returns fields of MessageMetadata and the encrypted payload.
    """

    @property
    def overhead(self) -> int: ...

    def seal(self, payload: bytes) -> tuple[bytes, bytes]: ...


@dataclass(slots=True)
class OutgoingMessage:
    """A message to publish. Times are epoch milliseconds, 0 for none.

    ``token`` is returned with its result. ``replicate_to``: clusters. ``extra_metadata``: further serialized fields of
    MessageMetadata, such as the schema's version, or how the caller compressed and encrypted the payload; its producer
    then does not compress. ``beside_bytes``: bytes that it keeps alive besides the payload, for the budget.
    """

    payload: bytes
    token: Any = None
    key: str | None = None
    ordering_key: bytes | None = None
    properties: Mapping[str, str] | None = None
    event_ms: int = 0
    deliver_at_ms: int = 0
    replicate_to: Sequence[str] = ()
    extra_metadata: bytes = b""
    beside_bytes: int = 0

    @property
    def is_alone(self) -> bool:
        """True when it cannot be in a batch, which has one time of delivery, list of clusters and extra metadata."""
        return bool(self.deliver_at_ms or self.replicate_to or self.extra_metadata)

    def metadata(self) -> bytes:
        """Return the fields of MessageMetadata that only this message has."""
        if self.key is None and not (
            self.properties
            or self.event_ms
            or self.deliver_at_ms
            or self.replicate_to
            or self.ordering_key
        ):
            return self.extra_metadata
        fields = pb.MessageMetadata(
            partition_key=self.key,
            ordering_key=self.ordering_key,
            event_time=self.event_ms or None,
            deliver_at_time=self.deliver_at_ms or None,
            replicate_to=self.replicate_to,
        )
        for key, value in (self.properties or {}).items():
            fields.properties.add(key=key, value=value)
        return fields.SerializePartialToString() + self.extra_metadata

    def member(self, sequence_id: int) -> bytes:
        """Return the message as a member of a batch: ``u32 size SingleMessageMetadata payload``."""
        payload = self.payload
        metadata = b"\x18" + varint(len(payload)) + b"\x40" + varint(sequence_id)
        if self.key is not None or self.properties or self.event_ms or self.ordering_key:
            fields = pb.SingleMessageMetadata(
                partition_key=self.key,
                ordering_key=self.ordering_key,
                event_time=self.event_ms or None,
            )
            for key, value in (self.properties or {}).items():
                fields.properties.add(key=key, value=value)
            metadata += fields.SerializePartialToString()
        return _SIZE.pack(len(metadata)) + metadata + payload


class EntryBuilder:
    """Encodes the entries of one producer. ``compression``: codec number of ``wire.compression``. ``sealer`` encrypts
    them."""

    def __init__(
        self, producer_name: str, compression: int, sealer: PayloadSealer | None = None
    ) -> None:
        name = producer_name.encode()
        self._name = producer_name
        self._head = b"\x0a" + varint(len(name)) + name + b"\x10"
        self._compression = compression
        self._sealer = sealer
        self._published = -1, b""

    def _first_fields(self, sequence_id: int, publish_ms: int) -> bytes:
        """Return the fields of every entry. The time of publishing is encoded once for a run."""
        ms, encoded = self._published
        if ms != publish_ms:
            encoded = b"\x18" + varint(publish_ms)
            self._published = publish_ms, encoded
        return self._head + varint(sequence_id) + encoded

    def single(self, message: OutgoingMessage, sequence_id: int, publish_ms: int) -> bytes:
        """Return an entry of one message."""
        payload = message.payload
        metadata = self._first_fields(sequence_id, publish_ms) + message.metadata()
        if self._compression != NONE:
            metadata += self._compressed(len(payload))
            payload = compress(self._compression, payload)
        return self._entry(metadata, payload)

    def batch(
        self, messages: Sequence[OutgoingMessage], first_sequence: int, publish_ms: int
    ) -> bytes:
        """Return an entry of several messages with consecutive sequence ids. It has the first message's key."""
        payload = b"".join(
            [message.member(first_sequence + i) for i, message in enumerate(messages)]
        )
        count = len(messages)
        metadata = self._first_fields(first_sequence, publish_ms)
        if messages[0].key is not None:
            metadata += pb.MessageMetadata(partition_key=messages[0].key).SerializePartialToString()
        if self._compression != NONE:
            metadata += self._compressed(len(payload))
            payload = compress(self._compression, payload)
        metadata += b"\x58" + varint(count) + b"\xc0\x01" + varint(first_sequence + count - 1)
        return self._entry(metadata, payload)

    def chunks(
        self, message: OutgoingMessage, sequence_id: int, publish_ms: int, entry_bytes_max: int
    ) -> list[bytes]:
        """Return the entries that form one message together: compressed as a whole, then cut."""
        payload = compress(self._compression, message.payload)
        metadata = self._first_fields(sequence_id, publish_ms) + message.metadata()
        if self._compression != NONE:
            metadata += self._compressed(len(message.payload))
        uuid = f"{self._name}-{sequence_id}"
        longest = len(metadata) + len(uuid) + 64
        if self._sealer is not None:
            longest += self._sealer.overhead
        step = max(entry_bytes_max - longest, CHUNK_BYTES_MIN)
        starts = range(0, len(payload), step)
        entries = []
        for index, start in enumerate(starts):
            chunk_fields = pb.MessageMetadata(
                uuid=uuid,
                num_chunks_from_msg=len(starts),
                total_chunk_msg_size=len(payload),
                chunk_id=index,
            ).SerializePartialToString()
            entries.append(self._entry(metadata + chunk_fields, payload[start : start + step]))
        return entries

    def _entry(self, metadata: bytes, payload: bytes) -> bytes:
        if self._sealer is not None:
            fields, payload = self._sealer.seal(payload)
            metadata += fields
        return _entry(metadata, payload)

    def _compressed(self, size: int) -> bytes:
        return b"\x40" + varint(self._compression) + b"\x48" + varint(size)


def _entry(metadata: bytes, payload: bytes) -> bytes:
    body = _SIZE.pack(len(metadata)) + metadata + payload
    return _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body
