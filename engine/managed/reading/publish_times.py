"""The time of a stored entry: by the broker's clock where the broker wrote it, else by its publisher's. Pure.

Entry: optionally u16 0x0E02, u32 size and broker metadata; optionally u16 0x0E01 and a u32 checksum; then u32 size and
MessageMetadata; then the payload.
"""

import struct

from google.protobuf.message import DecodeError

from engine.managed.errors import StoredRecordError
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import entry_stamp

BROKER_METADATA = b"\x0e\x02"
CHECKSUM = b"\x0e\x01"


def publish_time(entry: bytes) -> int:
    """Return the broker's time of the entry, else the publisher's, in epoch milliseconds. Raises StoredRecordError."""
    at = 0
    try:
        if entry[:2] == BROKER_METADATA:
            brokers_ms, _ = entry_stamp(entry)
            if brokers_ms is not None:
                return brokers_ms
            at = 6 + int(struct.unpack_from(">I", entry, 2)[0])
        if entry[at : at + 2] == CHECKSUM:
            at += 6
        (size,) = struct.unpack_from(">I", entry, at)
        metadata = pb.MessageMetadata()
        metadata.ParseFromString(entry[at + 4 : at + 4 + size])
    except (struct.error, DecodeError) as error:
        raise StoredRecordError(
            f"entry of {len(entry)} bytes: no message metadata: {error}"
        ) from error
    return metadata.publish_time
