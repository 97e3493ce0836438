"""Stored entries opened into messages, read from the newest to the oldest. Pure.

The chunks of a message come last one first; it is complete with its first chunk.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import NamedTuple

from engine.schema.kinds import version_of
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import (
    MEMBER_BYTES_MIN,
    BatchFormatError,
    Message,
    split_entry,
    unpack_entry,
)
from engine.wire.compression import UNCOMPRESSED_BYTES_MAX, CompressionError, decompress
from engine.wire.texts import readable

ENCRYPTED = "encrypted"
NO_VALUE = "no-value"
DAMAGED = "damaged"
CHUNKS = "chunks"
VERSION = "version"
Entry = tuple[int, int, bytes]
"""Ledger, entry, and what is stored there."""


class Found(NamedTuple):
    """A message. ``id``: ledger:entry, of a batch with :index; ``version``: of the topic's schema, if the producer
    gave one. ``content`` None: it cannot be decoded, and ``why`` and ``reason`` say so. ``messages``: of a batch that
    cannot be opened, how many."""

    id: str
    producer: str
    publish_ms: int
    version: int | None
    key: bytes | None
    content: bytes | None
    why: str = ""
    reason: str = ""
    messages: int = 1

    @property
    def size(self) -> int:
        return len(self.content) if self.content is not None else 0


class Opener:
    """Of one topic or partition; its entries come in the order in which ``LATEST_ENTRIES`` gives them."""

    def __init__(self) -> None:
        self._chunks: dict[str, dict[int, bytes]] = {}
        self._chunked_bytes = 0

    def open(self, entries: Iterable[Entry]) -> list[Found]:
        """Their messages, newest first. Markers are none."""
        return [one for entry in entries for one in self._open(*entry)]

    def _open(self, ledger: int, entry: int, stored: bytes) -> list[Found]:
        at = f"{ledger}:{entry}"
        try:
            _, metadata, packed = split_entry(stored)
            if metadata.encryption_keys:
                count = _claimed_messages(metadata, len(packed))
                return [_unopened(at, metadata, ENCRYPTED, "it is encrypted", count)]
            if metadata.num_chunks_from_msg > 1:
                return self._chunk(at, metadata, packed)
            opened = unpack_entry(stored)
        except (BatchFormatError, CompressionError) as error:
            return [_unopened(at, pb.MessageMetadata(), DAMAGED, str(error))]
        return [
            _found(at, metadata, one) for one in reversed(opened.messages) if not one.compacted_out
        ]

    def _chunk(self, at: str, metadata: pb.MessageMetadata, packed: bytes) -> list[Found]:
        parts = self._chunks.setdefault(metadata.uuid, {})
        parts[metadata.chunk_id] = packed
        self._chunked_bytes += len(packed)
        if metadata.chunk_id > 0 and self._chunked_bytes <= UNCOMPRESSED_BYTES_MAX:
            return []
        del self._chunks[metadata.uuid]
        self._chunked_bytes -= sum(len(part) for part in parts.values())
        count = metadata.num_chunks_from_msg  # anything that a producer claims
        if len(parts) != count or any(number not in parts for number in range(len(parts))):
            reason = f"{len(parts)} of its {count} chunks are there"
            return [_unopened(at, metadata, CHUNKS, reason)]
        whole = b"".join(parts[number] for number in range(len(parts)))
        content = decompress(metadata.compression, whole, metadata.uncompressed_size)
        return [_found(at, metadata, Message(content, *_key_of(metadata)))]


def _claimed_messages(metadata: pb.MessageMetadata, packed_bytes: int) -> int:
    """Messages of a batch that cannot be opened; 1 where more are claimed than its bytes can hold."""
    claimed = metadata.num_messages_in_batch
    size = metadata.uncompressed_size if metadata.compression else packed_bytes
    return claimed if 0 < claimed <= min(size, UNCOMPRESSED_BYTES_MAX) // MEMBER_BYTES_MIN else 1


def _key_of(metadata: pb.MessageMetadata) -> tuple[str | None, bool]:
    given = metadata.HasField("partition_key")
    return readable(metadata.partition_key) if given else None, metadata.partition_key_b64_encoded


def _found(at: str, metadata: pb.MessageMetadata, one: Message) -> Found:
    at = at if one.batch_index < 0 else f"{at}:{one.batch_index}"
    version = version_of(metadata.schema_version)
    if one.value is None:
        return _unopened(at, metadata, NO_VALUE, "it has no value")
    if version is None and metadata.schema_version:
        reason = f"a schema version of {len(metadata.schema_version)} bytes, not 8"
        return _unopened(at, metadata, VERSION, reason)
    producer = readable(metadata.producer_name)
    return Found(at, producer, metadata.publish_time, version, _key(one), one.value)


def _key(one: Message) -> bytes | None:
    if one.key is None or not one.key_is_base64:
        return one.key.encode() if one.key is not None else None
    try:
        return b64decode(one.key)
    except (Base64Error, ValueError):
        return one.key.encode()


def _unopened(
    at: str, metadata: pb.MessageMetadata, why: str, reason: str, count: int = 1
) -> Found:
    producer = readable(metadata.producer_name)
    return Found(at, producer, metadata.publish_time, None, None, None, why, reason, count)
