"""Bytes of an entry log; layout in docs/formats/entry-log.md. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct, pack, unpack_from

from bookie.storage.runs import FRAME_PREFIX, Run
from engine.base.crc32c import crc32c

FILE_MAGIC = b"MGELOG01"
BLOCK_MAGIC = b"MGBK"
VERSION = 1
FILE_HEADER_BYTES = 4096
PAGE = 4096
"""Writes begin and end on a multiple of this."""
_FILE = Struct(">8sIII")
_BLOCK = Struct(">4sqqIII")
_CRC = Struct(">I")
_IDS = Struct(">qq")


class Block:
    """Consecutive entries of one ledger to be written: frames as ``parts``, entries at ``table`` in their sequence."""

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

    def take(self, run: Run) -> None:
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
        """Parts to write and their length together."""
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

    def entry(self, entry_id: int) -> bytes | None:
        """The entry's bytes; None when what lies there is not this entry."""
        i = entry_id - self.first
        if not 0 <= i < len(self.table):
            return None
        stop = self.table[i + 1] - FRAME_PREFIX if i + 1 < len(self.table) else len(self.data)
        start = self.table[i]
        if stop - start < _IDS.size or _IDS.unpack_from(self.data, start) != (
            self.ledger_id,
            entry_id,
        ):
            return None
        return self.data[start:stop]


def encode_file_header(log_id: int) -> bytes:
    head = _FILE.pack(FILE_MAGIC, VERSION, log_id, FRAME_PREFIX)
    return (head + _CRC.pack(crc32c(head))).ljust(FILE_HEADER_BYTES, b"\0")


def padding(size: int) -> bytes:
    """Zeros that fill ``size`` bytes up to whole pages."""
    return bytes(-size % PAGE)


def decode_file_header(data: bytes) -> int | None:
    """The log id, or None when damaged or of another version."""
    if len(data) < _FILE.size + 4:
        return None
    magic, version, log_id, prefix = _FILE.unpack_from(data)
    if _CRC.unpack_from(data, _FILE.size)[0] != crc32c(data[: _FILE.size]):
        return None
    if magic != FILE_MAGIC or version != VERSION or prefix != FRAME_PREFIX:
        return None
    return int(log_id)


def decode_block(buf: bytes) -> StoredBlock | None:
    """The block that ``buf`` holds from its first byte on; None when anything about it does not verify."""
    if len(buf) < _BLOCK.size + 4:
        return None
    magic, ledger_id, first, n, length, crc = _BLOCK.unpack_from(buf)
    head = _BLOCK.size + 4 * n
    if magic != BLOCK_MAGIC or head + 4 + length > len(buf):
        return None
    if _CRC.unpack_from(buf, head)[0] != crc32c(buf[:head]):
        return None
    data = buf[head + 4 : head + 4 + length]
    if crc32c(data) != crc:
        return None
    return StoredBlock(ledger_id, first, unpack_from(f">{n}I", buf, _BLOCK.size), data)


def block_size(buf: bytes) -> int:
    """Bytes that the block beginning at ``buf`` claims to have, 0 without magic. Unverified."""
    if len(buf) < _BLOCK.size or buf[:4] != BLOCK_MAGIC:
        return 0
    _, _, _, n, length, _ = _BLOCK.unpack_from(buf)
    return int(_BLOCK.size + 4 * n + 4 + length)


def blocks_of(runs: Iterable[Run], bytes_max: int) -> Iterator[Block]:
    """Pack one ledger's runs (ordered, not overlapping) into blocks of at most ``bytes_max`` data, or of one entry."""
    block: Block | None = None
    for whole in runs:
        for run in _split(whole, bytes_max):
            if (
                block is None
                or block.below != run.first
                or block.length + run.stop - run.start > bytes_max
            ):
                if block is not None:
                    yield block
                block = Block(run.ledger_id, run.first)
            block.take(run)
    if block is not None:
        yield block


def _split(run: Run, bytes_max: int) -> Iterator[Run]:
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
