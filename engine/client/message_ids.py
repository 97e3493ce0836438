"""Message ids as clients know them: ``MessageIdData`` in the bytes that Pulsar's Java client writes. Pure.

A batch's message has its index and the size of the batch; -1 is no partition, no index. 5:7 is ``08 05 10 07 30 00``.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import varint

_INT64_MAX = (1 << 63) - 1


class MessageIdError(MagnetarError, ValueError):
    """Bytes that are not a message id."""


class MessageId(NamedTuple):
    """The place of a message. ``first_chunk``: the first entry of a message of several entries."""

    position: Position
    partition: int = -1
    batch_index: int = -1
    batch_size: int = 0
    first_chunk: Position | None = None

    def serialized(self) -> bytes:
        """Return the bytes for users to store; equal ids have equal bytes."""
        position, partition, batch_index, batch_size, first_chunk = self
        parts = b"\x08" + varint(position.ledger_id) + b"\x10" + varint(position.entry_id)
        if partition >= 0:
            parts += b"\x18" + varint(partition)
        if batch_index >= 0:
            parts += b"\x20" + varint(batch_index)
        parts += b"\x30" + varint(batch_size)
        if first_chunk is not None:
            first = MessageId(first_chunk, partition).serialized()
            parts += b"\x3a" + varint(len(first)) + first
        return parts

    @classmethod
    def parse(cls, data: bytes) -> "MessageId":
        """Parse the bytes that any client wrote. Raises MessageIdError."""
        try:
            message = pb.MessageIdData.FromString(data)
        except DecodeError as error:
            raise MessageIdError(f"not a message id: {data[:40].hex()}") from error
        if not message.IsInitialized():
            raise MessageIdError(f"not a message id: {data[:40].hex()}")
        first = message.first_chunk_message_id
        return cls(
            _position(message),
            message.partition,
            message.batch_index,
            message.batch_size,
            _position(first) if message.HasField("first_chunk_message_id") else None,
        )


def _position(message: pb.MessageIdData) -> Position:
    ledger_id, entry_id = message.ledgerId, message.entryId
    return Position(
        ledger_id if ledger_id <= _INT64_MAX else -1, entry_id if entry_id <= _INT64_MAX else -1
    )


EARLIEST_ID = MessageId(Position(-1, -1))
LATEST_ID = MessageId(Position(_INT64_MAX, _INT64_MAX))
