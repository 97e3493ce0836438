"""The format of an entry log; layout in docs/formats/entry-log.md. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct, pack, unpack_from
from typing import NamedTuple

from bookie.storage.runs import VIEWED_BYTES, Stored
from engine.base.crc32c import crc32c
from engine.base.slices import FRAME_PREFIX, AddRun

FILE_MAGIC = b"MGELOG01"
BLOCK_MAGIC = b"MGBK"
VERSION = 1
FILE_HEADER_BYTES = 4096
PAGE = 4096
"""Size in bytes; writes begin and end on a multiple of it."""
_FILE = Struct(">8sIII")
_BLOCK = Struct(">4sqqIII")
_CRC = Struct(">I")
_IDS = Struct(">qq")


class Block:
    """Consecutive entries of one ledger to be written: frames in ``parts``, offsets of entries in ``table``."""

    __slots__ = ("first", "ledger_id", "length", "parts", "table")

    def __init__(self, ledger_id: int, first: int) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.parts: list[bytes | memoryview] = []
        self.table: list[int] = []
        self.length = 0

    @property
    def below(self) -> int:
        return self.first + len(self.table)

    def take(self, run: AddRun) -> None:
        """Append a run that continues this block."""
        start = run.start
        shift = self.length - start
        if start == 0 and run.stop == len(run.buf):
            self.parts.append(run.buf)
        else:
            self.parts.append(memoryview(run.buf)[start : run.stop])
        self.table += [offset + shift for offset in run.offsets] if shift else run.offsets
        self.length += run.stop - start

    def encode(self) -> tuple[list[bytes | memoryview], int]:
        """Return the parts to write and their total length."""
        crc = 0
        for part in self.parts:
            crc = crc32c(part, crc)
        n = len(self.table)
        head = _BLOCK.pack(BLOCK_MAGIC, self.ledger_id, self.first, n, self.length, crc)
        head += pack(f">{n}I", *self.table)
        return [head + _CRC.pack(crc32c(head)), *self.parts], len(head) + 4 + self.length


class StoredBlock:
    """A verified block as read: entry ``i`` is ``data[table[i]:end(i)]``."""

    __slots__ = ("data", "first", "ledger_id", "table")

    def __init__(self, ledger_id: int, first: int, table: tuple[int, ...], data: bytes) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.table = table
        self.data = data

    @property
    def below(self) -> int:
        return self.first + len(self.table)

    def end(self, i: int) -> int:
        """Return where entry ``i`` ends in ``data``."""
        return self.table[i + 1] - FRAME_PREFIX if i + 1 < len(self.table) else len(self.data)

    def entry(self, entry_id: int) -> bytes | None:
        """Return the entry's bytes; None when the block has no such entry."""
        i = entry_id - self.first
        return self.data[self.table[i] : self.end(i)] if 0 <= i < len(self.table) else None

    def entries(self, first: int, below: int, bytes_max: int, overhead: int) -> list[Stored]:
        """Return entries ``first`` to ``below`` - 1, which the block has, as far as they fit ``bytes_max``.

        ``overhead`` bytes are charged for each. The result is empty when the first entry does not fit.
        """
        table = self.table
        i, j = first - self.first, below - self.first
        start, between = table[i], FRAME_PREFIX - overhead

        def size(k: int) -> int:  # of entries i to k
            return self.end(k) - start - between * (k - i) + overhead

        if size(j - 1) > bytes_max:
            j = bisect_right(range(j - 1), bytes_max, i, key=size)
            if i == j:
                return []
        data = self.data
        source = memoryview(data) if self.end(j - 1) - start >= VIEWED_BYTES * (j - i) else data
        entries = [source[a : b - FRAME_PREFIX] for a, b in pairwise(table[i:j])]
        entries.append(source[table[j - 1] : self.end(j - 1)])
        return entries

    def part(self, first: int, below: int) -> AddRun:
        """Return entries ``first`` to ``below`` - 1, which the block has, as a run to be written again."""
        i, j = first - self.first, below - self.first
        return AddRun(self.data, self.ledger_id, first, list(self.table[i:j]), self.end(j - 1), b"")


def encode_file_header(log_id: int) -> bytes:
    head = _FILE.pack(FILE_MAGIC, VERSION, log_id, FRAME_PREFIX)
    return (head + _CRC.pack(crc32c(head))).ljust(FILE_HEADER_BYTES, b"\0")


def padding(size: int) -> bytes:
    """Return the zeros that fill ``size`` bytes up to whole pages."""
    return bytes(-size % PAGE)


def decode_file_header(data: bytes) -> int | None:
    """Return the log id; None when the header is damaged or of another version."""
    if len(data) < _FILE.size + 4:
        return None
    magic, version, log_id, prefix = _FILE.unpack_from(data)
    if _CRC.unpack_from(data, _FILE.size)[0] != crc32c(data[: _FILE.size]):
        return None
    if magic != FILE_MAGIC or version != VERSION or prefix != FRAME_PREFIX:
        return None
    return int(log_id)


class BlockHead(NamedTuple):
    """A verified head; ``size`` is that of the whole block."""

    ledger_id: int
    first: int
    entries: int
    size: int


def decode_head(buf: bytes | memoryview, pos: int = 0) -> BlockHead | None:
    """Return the head at ``pos``; None when it does not verify. ``buf`` must hold all of it, see ``head_size``."""
    n = (head_size(buf, pos) - _BLOCK.size - _CRC.size) // 4
    if n <= 0 or len(buf) - pos < _BLOCK.size + 4 * n + _CRC.size:
        return None
    _, ledger_id, first, _, length, _ = _BLOCK.unpack_from(buf, pos)
    head = pos + _BLOCK.size + 4 * n
    if _CRC.unpack_from(buf, head)[0] != crc32c(memoryview(buf)[pos:head]):
        return None
    return BlockHead(ledger_id, first, n, head - pos + _CRC.size + length)


def head_size(buf: bytes | memoryview, pos: int = 0) -> int:
    """Return the bytes that the head at ``pos`` claims, 0 without magic. Unverified."""
    if len(buf) - pos < _BLOCK.size or buf[pos : pos + 4] != BLOCK_MAGIC:
        return 0
    n: int = _BLOCK.unpack_from(buf, pos)[3]
    return _BLOCK.size + 4 * n + _CRC.size


def decode_block(buf: bytes | memoryview, pos: int = 0) -> StoredBlock | None:
    """Return the block at ``pos``; None when any part of it does not verify (B3).

    The ids of the first and the last entry are compared. For those in between the valid checksums suffice.
    """
    head = decode_head(buf, pos)
    if head is None or pos + head.size > len(buf):
        return None
    ledger_id, first, n, size = head
    _, _, _, _, length, crc = _BLOCK.unpack_from(buf, pos)
    data = bytes(buf[pos + size - length : pos + size])
    if crc32c(data) != crc:
        return None
    block = StoredBlock(ledger_id, first, unpack_from(f">{n}I", buf, pos + _BLOCK.size), data)
    for i in (0, n - 1):
        start, end = block.table[i], block.end(i)
        if end > length or end - start < _IDS.size:
            return None
        if _IDS.unpack_from(data, start) != (ledger_id, first + i):
            return None
    return block


def block_size(buf: bytes) -> int:
    """Return the bytes that the block at the start of ``buf`` claims, 0 without magic. Unverified."""
    size = head_size(buf)
    return size + int(_BLOCK.unpack_from(buf)[4]) if size else 0


def blocks_of(runs: Iterable[AddRun], bytes_max: int) -> Iterator[Block]:
    """Yield one ledger's runs (ordered, not overlapping) packed into blocks of at most ``bytes_max`` data, or of one
    entry."""
    block: Block | None = None
    for run in runs:
        for piece in _split(run, bytes_max):
            if (
                block is None
                or block.below != piece.first
                or block.length + piece.stop - piece.start > bytes_max
            ):
                if block is not None:
                    yield block
                block = Block(piece.ledger_id, piece.first)
            block.take(piece)
    if block is not None:
        yield block


def _split(run: AddRun, bytes_max: int) -> Iterator[AddRun]:
    if run.stop - run.start <= bytes_max:
        yield run
        return
    i = 0
    while i < run.count:
        limit = run.offsets[i] + bytes_max  # a frame that begins at or before here ends the part
        j = bisect_right(run.offsets, limit, i + 1) - 1 if i + 1 < run.count else run.count
        if run.stop - run.offsets[i] + FRAME_PREFIX <= bytes_max:
            j = run.count
        j = max(j, i + 1)
        yield run.part(i, j)
        i = j
