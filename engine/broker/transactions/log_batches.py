"""Entries that hold several records of a transaction log, as brokers with batched writes store them. Pure.

Layout: u16 0x0E01, u16 version 1, a protobuf message with the records. A single record begins with its first field's
tag, 0x08.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from engine.managed.errors import StoredRecordError
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import varint

MAGIC = b"\x0e\x01"
VERSION = b"\x00\x01"


def batch_of(records: Iterable[bytes]) -> bytes:
    """Return the entry that holds encoded records of either kind: in both batches they are field 1."""
    parts = [MAGIC, VERSION]
    for record in records:
        parts += (b"\x0a", varint(len(record)), record)
    return b"".join(parts)


def _batch(payload: bytes) -> bytes | None:
    """Return the message with the records of a batch; None for a single record. Raises StoredRecordError."""
    if payload[:2] != MAGIC:
        return None
    if payload[2:4] != VERSION:
        raise StoredRecordError(f"batch of a transaction log: unknown version {payload[2:4].hex()}")
    return payload[4:]


def coordinator_records(payload: bytes) -> list[pb.TransactionMetadataEntry]:
    """Return the records of an entry of a coordinator's log. Raises StoredRecordError."""
    batch = _batch(payload)
    try:
        if batch is None:
            return [pb.TransactionMetadataEntry.FromString(payload)]
        return list(pb.BatchedTransactionMetadataEntry.FromString(batch).transaction_logs)
    except DecodeError as error:
        raise StoredRecordError(f"record of a transaction coordinator: {error}") from error


def pending_ack_records(payload: bytes) -> list[pb.PendingAckMetadataEntry]:
    """Return the records of an entry of a subscription's log of pending acknowledgements. Raises StoredRecordError."""
    batch = _batch(payload)
    try:
        if batch is None:
            return [pb.PendingAckMetadataEntry.FromString(payload)]
        return list(pb.BatchedPendingAckMetadataEntry.FromString(batch).pending_ack_logs)
    except DecodeError as error:
        raise StoredRecordError(f"record of pending acknowledgements: {error}") from error
