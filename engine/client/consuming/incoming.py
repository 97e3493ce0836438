"""Delivered entries opened into messages, at a low cost for each message. Pure.

Rarely used parts (key, properties, event time) stay in the parsed metadata until they are requested.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.base.ids import Position
from engine.base.ranges import bits_of
from engine.client.message_ids import MessageId
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import BatchFormatError, members
from engine.wire.texts import readable


class Batch:
    """Shared state of the messages of one delivered batch. Bits of ``left``: messages not acknowledged."""

    __slots__ = ("left", "size")

    def __init__(self, size: int, left: int) -> None:
        self.size = size
        self.left = left


class Encryption(NamedTuple):
    """The encryption of a payload, and its compression before. ``keys``: (data key, metadata) by key name."""

    keys: dict[str, tuple[bytes, dict[str, str]]]
    param: bytes
    algorithm: str | None
    compression: str
    uncompressed_size: int
    batch_size: int | None


class Given(NamedTuple):
    """The fields of a message that are needed to acknowledge or refuse it, without its content."""

    source: Any
    position: Position
    batch: Batch | None
    batch_index: int
    chunks: Sequence[Position] | None


class Incoming:
    """One message as a consumer receives it. ``content`` is None for a null value.

    ``source``: its attachment, for the consumer. ``batch_index``: within ``batch``, -1 without one. ``chunks``:
    positions of all entries of a message in chunks. ``encrypted``: ``content`` is as the producer compressed and
    encrypted it, also when that is a batch.
    """

    __slots__ = (
        "batch",
        "batch_index",
        "chunks",
        "content",
        "encrypted",
        "metadata",
        "own",
        "position",
        "redelivery_count",
        "source",
    )

    def __init__(
        self,
        source: Any,
        position: Position,
        redelivery_count: int,
        metadata: pb.MessageMetadata,
        own: pb.MessageMetadata | pb.SingleMessageMetadata,
        content: bytes | None,
        batch: Batch | None = None,
        batch_index: int = -1,
    ) -> None:
        self.source = source
        self.position = position
        self.redelivery_count = redelivery_count
        self.metadata = metadata
        self.own = own
        self.content = content
        self.batch = batch
        self.batch_index = batch_index
        self.chunks: Sequence[Position] | None = None
        self.encrypted = False

    @property
    def given(self) -> Given:
        return Given(self.source, self.position, self.batch, self.batch_index, self.chunks)

    @property
    def message_id(self) -> MessageId:
        batch, chunks = self.batch, self.chunks
        return MessageId(
            self.position,
            self.source.partition,
            self.batch_index,
            batch.size if batch is not None else 0,
            chunks[0] if chunks is not None else None,
        )

    @property
    def id_bytes(self) -> bytes:
        """``message_id`` serialized."""
        if self.batch is None and self.chunks is None:
            return bytes(self.source.plain_id(self.position))
        return self.message_id.serialized()

    @property
    def encryption(self) -> "Encryption | None":
        """Fields that a holder of the keys needs; None when the message is not ``encrypted``."""
        if not self.encrypted:
            return None
        metadata = self.metadata
        return Encryption(
            {
                readable(key.key): (
                    key.value,
                    {readable(pair.key): readable(pair.value) for pair in key.metadata},
                )
                for key in metadata.encryption_keys
            },
            metadata.encryption_param,
            metadata.encryption_algo or None,
            pb.CompressionType.Name(metadata.compression),
            metadata.uncompressed_size,
            metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None,
        )

    @property
    def topic(self) -> str:
        """The full name, of the partition if it is one."""
        return str(self.source.topic)

    @property
    def key(self) -> str | None:
        """The key as sent: base64 of the key's bytes when ``key_is_base64``."""
        own = self.own
        if own.null_partition_key or not own.HasField("partition_key"):
            return None
        return readable(own.partition_key)

    @property
    def key_is_base64(self) -> bool:
        return bool(self.own.partition_key_b64_encoded)

    @property
    def ordering_key(self) -> bytes | None:
        return self.own.ordering_key if self.own.HasField("ordering_key") else None

    @property
    def properties(self) -> dict[str, str]:
        return {readable(pair.key): readable(pair.value) for pair in self.own.properties}

    @property
    def publish_ms(self) -> int:
        return int(self.metadata.publish_time)

    @property
    def event_ms(self) -> int:
        """The event time; 0 for none."""
        return int(self.own.event_time)

    @property
    def replicated_from(self) -> str | None:
        """The cluster in which it was published, when that is another."""
        return readable(self.metadata.replicated_from) or None

    @property
    def size(self) -> int:
        """Bytes that it keeps alive, roughly."""
        content = self.content
        return 500 if content is None else 500 + len(content)


def open_entry(
    source: Any,
    position: Position,
    redelivery_count: int,
    metadata: pb.MessageMetadata,
    payload: bytes,
    due: Sequence[int] = (),
) -> list[Incoming]:
    """Return the messages of an entry that is neither encrypted nor a chunk nor a marker. ``due``: as
    ``Delivered.ack_set``.

    Raises BatchFormatError. Messages of a batch that are not due, or were compacted away, are left out.
    """
    if metadata.compression:
        payload = unpack(metadata, payload)
    if not metadata.HasField("num_messages_in_batch"):
        content = None if metadata.null_value else payload
        return [Incoming(source, position, redelivery_count, metadata, metadata, content)]
    size = metadata.num_messages_in_batch
    opened = members(size, payload)  # which checks the size
    all_bits = (1 << size) - 1
    left = bytearray(
        (all_bits & bits_of(due) if due else all_bits).to_bytes((size + 7) // 8, "little")
    )
    batch = Batch(size, 0)
    messages = []
    for index, (own, content) in enumerate(opened):
        # Bits of a bytearray: shifting one large integer for each message has quadratic cost.
        mask = 1 << (index & 7)
        if own.compacted_out:
            left[index >> 3] &= ~mask
        elif left[index >> 3] & mask:
            messages.append(
                Incoming(source, position, redelivery_count, metadata, own, content, batch, index)
            )
    batch.left = int.from_bytes(left, "little")
    return messages


def encrypted(
    source: Any,
    position: Position,
    redelivery_count: int,
    metadata: pb.MessageMetadata,
    payload: bytes,
) -> Incoming:
    """Return an entry that cannot be decrypted here as one message."""
    message = Incoming(source, position, redelivery_count, metadata, metadata, payload)
    message.encrypted = True
    return message


def unpack(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    """Return a payload decompressed. Raises BatchFormatError."""
    # Slow to import, rarely needed.
    from engine.wire.compression import CompressionError, decompress

    try:
        return decompress(metadata.compression, payload, metadata.uncompressed_size)
    except CompressionError as error:
        raise BatchFormatError(str(error)) from error


def messages_due(metadata: pb.MessageMetadata, due: Sequence[int]) -> int:
    """Return the number of permits that an entry used."""
    if due:
        return bits_of(due).bit_count()
    return max(1, metadata.num_messages_in_batch)
