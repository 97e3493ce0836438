"""Unpacking of stored entries into messages, from the newest to the oldest. Pure.

A message's chunks are therefore read last one first; the message is complete with its first chunk.
"""

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
"""Ledger id, entry id and the stored bytes."""


class OpenedMessage(NamedTuple):
    """A message, or an entry whose messages cannot be read.

    ``id``: ledger:entry, in a batch ledger:entry:index. ``version``: that of the topic's schema, when the producer set
    one. ``content`` is None when the message cannot be read, for the reason in ``why`` (a constant of this module) and
    ``reason`` (a text). ``messages``: their number in a batch that cannot be opened, otherwise 1.
    """

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


class EntryOpener:
    """Unpacking for one topic or partition; entries are passed in the order that ``LATEST_ENTRIES`` returns."""

    def __init__(self) -> None:
        self._chunks: dict[str, dict[int, bytes]] = {}
        self._chunked_bytes = 0

    def open(self, entries: Iterable[Entry]) -> list[OpenedMessage]:
        """Return the messages of the entries, newest first, without markers."""
        return [message for entry in entries for message in self._open(*entry)]

    def _open(self, ledger: int, entry: int, stored: bytes) -> list[OpenedMessage]:
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
            _opened(at, metadata, message)
            for message in reversed(opened.messages)
            if not message.compacted_out
        ]

    def _chunk(self, at: str, metadata: pb.MessageMetadata, packed: bytes) -> list[OpenedMessage]:
        parts = self._chunks.setdefault(metadata.uuid, {})
        parts[metadata.chunk_id] = packed
        self._chunked_bytes += len(packed)
        if metadata.chunk_id > 0 and self._chunked_bytes <= UNCOMPRESSED_BYTES_MAX:
            return []
        del self._chunks[metadata.uuid]
        self._chunked_bytes -= sum(len(part) for part in parts.values())
        count = metadata.num_chunks_from_msg  # claimed by the producer: no bound for an allocation
        if len(parts) != count or any(number not in parts for number in range(len(parts))):
            reason = f"{len(parts)} of its {count} chunks were read"
            return [_unopened(at, metadata, CHUNKS, reason)]
        packed = b"".join(parts[number] for number in range(len(parts)))
        content = decompress(metadata.compression, packed, metadata.uncompressed_size)
        return [_opened(at, metadata, Message(content, *_key_of(metadata)))]


def _claimed_messages(metadata: pb.MessageMetadata, packed_bytes: int) -> int:
    """Return how many messages a batch that cannot be opened claims; 1 when its bytes cannot hold so many."""
    claimed = metadata.num_messages_in_batch
    size = metadata.uncompressed_size if metadata.compression else packed_bytes
    return claimed if 0 < claimed <= min(size, UNCOMPRESSED_BYTES_MAX) // MEMBER_BYTES_MIN else 1


def _key_of(metadata: pb.MessageMetadata) -> tuple[str | None, bool]:
    has_key = metadata.HasField("partition_key")
    return readable(metadata.partition_key) if has_key else None, metadata.partition_key_b64_encoded


def _opened(at: str, metadata: pb.MessageMetadata, message: Message) -> OpenedMessage:
    at = at if message.batch_index < 0 else f"{at}:{message.batch_index}"
    version = version_of(metadata.schema_version)
    if message.value is None:
        return _unopened(at, metadata, NO_VALUE, "it has no value")
    if version is None and metadata.schema_version:
        reason = f"a schema version of {len(metadata.schema_version)} bytes, not 8"
        return _unopened(at, metadata, VERSION, reason)
    producer = readable(metadata.producer_name)
    return OpenedMessage(
        at, producer, metadata.publish_time, version, message.raw_key, message.value
    )


def _unopened(
    at: str, metadata: pb.MessageMetadata, why: str, reason: str, count: int = 1
) -> OpenedMessage:
    """Return the stand-in for a message, or ``count`` of them, that cannot be read."""
    producer = readable(metadata.producer_name)
    return OpenedMessage(at, producer, metadata.publish_time, None, None, None, why, reason, count)
