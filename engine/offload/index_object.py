"""The index of a ledger's data object, in version 1 of Apache Pulsar's format. Pure.

u32 magic, i32 bytes of the index, i64 bytes of the data object, i64 bytes of a block's header, i32 number of blocks,
i32 bytes of the ledger's metadata, the metadata as a message LedgerMetadataFormat, then for each block i64 id of its
first entry, i32 part from 1, i64 offset in the data object. All integers are big-endian.

The format has no checksums. Those of this project's blocks are a custom value of the ledger's metadata, which Apache's
brokers keep without looking at it.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from struct import Struct, error, unpack

from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import (
    LedgerMetadata,
    LedgerState,
    decode_message,
    encode_message,
)
from engine.offload.data_object import HEADER_BYTES, DataBlock
from engine.offload.errors import DamagedObjectError

MAGIC = 0xDE47DE47
MAGIC_STREAMED = 0x3D1FB0BC
"""First word of an index of an object with several ledgers, which Apache's brokers do not write by default."""
CHECKSUMS = "magnetar.block-crc32c"
"""Name of the custom value with the CRC-32C of each block, u32 each."""
_HEAD = Struct(">IiqqII")
_BLOCK = Struct(">qiq")


@dataclass(frozen=True, slots=True)
class ObjectIndex:
    """The index of a data object of ``data_bytes``. ``checksums``: the CRC-32C of each block, empty when unknown."""

    metadata: LedgerMetadata
    data_bytes: int
    blocks: tuple[DataBlock, ...]
    checksums: tuple[int, ...] = ()


def encode_index(index: ObjectIndex) -> bytes:
    """Return the bytes of the index object."""
    metadata = index.metadata
    if index.checksums:
        packed = b"".join(checksum.to_bytes(4, "big") for checksum in index.checksums)
        metadata = replace(metadata, custom={**metadata.custom, CHECKSUMS: packed})
    message = encode_message(metadata, secrets=False)
    size = _HEAD.size + len(message) + _BLOCK.size * len(index.blocks)
    head = _HEAD.pack(MAGIC, size, index.data_bytes, HEADER_BYTES, len(index.blocks), len(message))
    return b"".join([head, message, *(_BLOCK.pack(*block) for block in index.blocks)])


def decode_index(data: bytes) -> ObjectIndex:
    """Decode an index object. Raises DamagedObjectError naming the field."""
    try:
        magic, _size, data_bytes, header_bytes, count, message_bytes = _HEAD.unpack_from(data)
        if magic == MAGIC_STREAMED:
            raise DamagedObjectError("index: an object of several ledgers, which is not read")
        if magic != MAGIC or header_bytes != HEADER_BYTES:
            raise DamagedObjectError(
                f"index: magic {magic:#x} with headers of {header_bytes} bytes, not {MAGIC:#x} with {HEADER_BYTES}"
            )
        at = _HEAD.size + message_bytes
        metadata = decode_message(data[_HEAD.size : at])
        blocks = tuple(
            DataBlock(*_BLOCK.unpack_from(data, at + i * _BLOCK.size)) for i in range(count)
        )
        custom = dict(metadata.custom)
        packed = custom.pop(CHECKSUMS, b"")
        checksums = unpack(f">{len(packed) // 4}I", packed)
    except error as cause:
        raise DamagedObjectError(f"index: {len(data)} bytes are too few: {cause}") from cause
    except MetadataFormatError as cause:
        raise DamagedObjectError(f"index: ledger metadata: {cause}") from cause
    _check(metadata, data_bytes, blocks, checksums)
    return ObjectIndex(replace(metadata, custom=custom), data_bytes, blocks, checksums)


def _check(
    metadata: LedgerMetadata,
    data_bytes: int,
    blocks: tuple[DataBlock, ...],
    checksums: tuple[int, ...],
) -> None:
    if metadata.state is not LedgerState.CLOSED:
        raise DamagedObjectError(f"index: the ledger is {metadata.state.name}, not closed")
    if not blocks or blocks[0][::2] != (0, 0):
        raise DamagedObjectError("index: the first block must be that of entry 0 at offset 0")
    for before, block in pairwise(blocks):
        if block.first <= before.first or block.offset < before.offset + HEADER_BYTES:
            raise DamagedObjectError(f"index: block {block.part} does not follow {before.part}")
    last = blocks[-1]
    if last.first > metadata.last_entry or last.offset + HEADER_BYTES > data_bytes:
        raise DamagedObjectError(
            f"index: block {last.part} is behind entry {metadata.last_entry} or byte {data_bytes}"
        )
    if checksums and len(checksums) != len(blocks):
        raise DamagedObjectError(f"index: {len(checksums)} checksums of {len(blocks)} blocks")
