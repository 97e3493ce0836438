"""Stored form of the index of delayed entries; see docs/formats/delay-index.md. Pure.

An entry of an index ledger is MAGIC, the number of rows (u32), and columns of that many i64 one after the other,
compressed by zlib; all little-endian. The first entries are parts (time in ms, ledger id, entry id), in order. Spans
(ledger id, first entry, behind the last) of all entries in the parts follow. The last entry is the directory: the first
time and the end of each part.
"""

import struct
import sys
import zlib
from array import array
from collections.abc import Sequence

from engine.base.errors import MagnetarError

MAGIC = b"MDX1"
SPANS_MAX = 50_000
"""Largest number of spans in one entry."""
_HEAD = struct.Struct("<4sI")
_LEVEL = 1


class DelayIndexError(MagnetarError):
    """A stored index that is damaged or incomplete."""


def pack(*columns: Sequence[int]) -> bytes:
    """Encode columns of one length as an entry."""
    rows = len(columns[0])
    raw = b"".join(_little(array("q", column)).tobytes() for column in columns)
    return _HEAD.pack(MAGIC, rows) + zlib.compress(raw, _LEVEL)


def unpack(entry: bytes, count: int) -> "list[array[int]]":
    """Decode the ``count`` columns of an entry. Raises DelayIndexError."""
    if len(entry) < _HEAD.size:
        raise DelayIndexError(f"an index entry of {len(entry)} bytes is cut off")
    magic, rows = _HEAD.unpack_from(entry)
    if magic != MAGIC:
        raise DelayIndexError(f"an index entry begins with {magic!r}")
    size = rows * count * 8
    unzip = zlib.decompressobj()
    try:
        raw = unzip.decompress(entry[_HEAD.size :], size + 1)
    except zlib.error as error:
        raise DelayIndexError(f"an index entry cannot be decompressed: {error}") from error
    if len(raw) != size or not unzip.eof:
        raise DelayIndexError(f"an index entry of {size} bytes is cut off or too long")
    return [_little(array("q", raw[i * rows * 8 : (i + 1) * rows * 8])) for i in range(count)]


def _little(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column.byteswap()
    return column
