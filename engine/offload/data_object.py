"""The entries of a ledger as one object, in the format of Apache Pulsar's offloaders. Pure.

The object is a sequence of blocks, and no entry spans two of them. A block is a header of HEADER_BYTES (u32 magic, i64
bytes of the header, i64 bytes of the block, i64 id of the first entry, zeros), then for each entry a u32 length, its
i64 id and its bytes, then padding up to the length of the block. All integers are big-endian.

Blocks written here end behind their last entry. Apache's brokers fill all but the last with padding up to one size.
"""

from struct import Struct
from typing import NamedTuple

from engine.base.slices import Slice
from engine.ledger.digest import VIEWED_BYTES
from engine.offload.errors import DamagedObjectError

MAGIC = 0xFBDBABCB
HEADER_BYTES = 128
ENTRY_OVERHEAD = 12
"""Bytes in front of each entry: its length and its id."""
_HEADER = Struct(">Iqqq")
_ENTRY = Struct(">iq")


class DataBlock(NamedTuple):
    """A block by the id of its ``first`` entry, its number from 1 (``part``), and the ``offset`` of its header."""

    first: int
    part: int
    offset: int


class WrittenBlock(NamedTuple):
    """A complete block of a data object with its bytes."""

    block: DataBlock
    data: bytes


class DataObjectWriter:
    """Composes the blocks of a data object from entries in order. Holds the bytes of at most one block."""

    def __init__(self, block_bytes: int) -> None:
        """Compose blocks of about ``block_bytes``; a larger entry has a block of its own."""
        self._block_bytes = block_bytes
        self._pieces: list[bytes | memoryview] = []
        self._size = HEADER_BYTES
        self._first = 0
        self._part = 1
        self.next_entry = 0
        """Id of the next entry."""
        self.payload = 0
        """Bytes of all entries so far, without what the format adds."""
        self.written = 0
        """Bytes of the blocks returned so far."""

    def add(self, run: Slice) -> list[WrittenBlock]:
        """Append the entries of ``run``, which must begin with ``next_entry``; return the blocks that are complete."""
        complete: list[WrittenBlock] = []
        # Small entries are cheaper to copy than to view.
        large = run.size >= VIEWED_BYTES * run.count
        source: bytes | memoryview = memoryview(run.buf) if large else run.buf
        pack, add, block_bytes = _ENTRY.pack, self._pieces.append, self._block_bytes
        size, entry_id, spans = self._size, self.next_entry, run.spans
        for start, end in zip(spans[::2], spans[1::2], strict=True):
            length = end - start
            size += ENTRY_OVERHEAD + length
            if size > block_bytes and self._pieces:
                self._size, self.next_entry = size - ENTRY_OVERHEAD - length, entry_id
                complete += self.end()
                add, size = self._pieces.append, self._size + ENTRY_OVERHEAD + length
            add(pack(length, entry_id))
            add(source[start:end])
            entry_id += 1
        self._size, self.next_entry = size, entry_id
        self.payload += run.size
        return complete

    def end(self) -> list[WrittenBlock]:
        """Return the last block, if there is one."""
        if not self._pieces:
            return []
        header = _HEADER.pack(MAGIC, HEADER_BYTES, self._size, self._first)
        data = b"".join([header, bytes(HEADER_BYTES - len(header)), *self._pieces])
        block = WrittenBlock(DataBlock(self._first, self._part, self.written), data)
        self.written += len(data)
        self._pieces = []
        self._size = HEADER_BYTES
        self._first = self.next_entry
        self._part += 1
        return [block]


def check_header(data: bytes, block: DataBlock) -> None:
    """Raise DamagedObjectError unless ``data`` begins with the header of ``block``."""
    if len(data) < HEADER_BYTES:
        raise DamagedObjectError(f"block {block.part}: {len(data)} bytes are no header")
    magic, header_bytes, _size, first = _HEADER.unpack_from(data)
    if magic != MAGIC or header_bytes != HEADER_BYTES or first != block.first:
        raise DamagedObjectError(
            f"block {block.part}: header {magic:#x} of {header_bytes} bytes with first entry {first}, "
            f"not {MAGIC:#x} of {HEADER_BYTES} bytes with first entry {block.first}"
        )


class Taken(NamedTuple):
    """Entries that were found in a part of a block: where each begins and ends (flat, as ``Slice.spans``), and the
    offset behind the last one in the part."""

    spans: list[int]
    end: int


def take_entries(data: bytes, at: int, first: int, count_max: int) -> Taken:
    """Return the entries from ``at`` in ``data`` on, at most ``count_max``, of which the first must have id ``first``.

    Ends before an entry that is not complete in ``data``, and at padding. Raises DamagedObjectError when an entry has
    another id than expected.
    """
    spans: list[int] = []
    add, unpack = spans.append, _ENTRY.unpack_from
    stop = len(data)
    end = at
    for entry_id in range(first, first + count_max):
        start = end + ENTRY_OVERHEAD
        if start > stop:
            break
        size, stored_id = unpack(data, end)
        # Padding and the header of a block have a first word with the highest bit set.
        if size < 0 or start + size > stop:
            break
        if stored_id != entry_id:
            raise DamagedObjectError(f"entry {stored_id} in place of entry {entry_id}")
        end = start + size
        add(start)
        add(end)
    return Taken(spans, end)
