"""Processing of runs of BookKeeper V2 frames, for the hot paths. The broker builds adds and cuts replies, the bookie
does the reverse.

Pure; import these through ``engine.wire.kernels``. All integers big-endian, ids signed 64 bit::

    add request    u32 length | u32 header | master key 20 | ledger | entry | lac | length | crc32c | payload
    add reply      u32 24     | u32 header | i32 rc | ledger | entry
    read reply     u32 length | u32 header | i32 rc | ledger | entry | stored entry (absent unless rc is 0)

``header`` is version << 24 | opcode << 16 | flags. The stored entry is the request from ``ledger`` on, byte for byte.
"""

from collections.abc import Sequence
from struct import Struct

from engine.base.crc32c import crc32c
from engine.base.slices import FRAME_PREFIX, AddRun, Slice

NEED, OTHER, BAD_CHECKSUM, TOO_LARGE = 0, 1, 2, 3
"""The reasons why a kernel stopped: more bytes are needed; not a frame of its shape; a wrong checksum; a frame above
the limit."""

LARGE_ENTRY_BYTES = 16 * 1024
"""Mean entry size above which frames are returned in parts, which are written without being joined."""

ADD_HEADER = 0x0201_0000
READ_HEADER = 0x0202_0000
ADD_FLAGS = (0, 2, 4, 6)
"""Flags that an add may have: recovery add 2, high priority 4."""

_ADD = Struct(">I24s32sI")  # length, header and master key, the entry's header, digest
_ADD_START = Struct(">I20s")
_INT64 = Struct(">q")
_ENTRY_HEADER = Struct(">8sq8sq")
_ADD_IDS = Struct(">II20sqq")
_REPLY = Struct(">IIiqq")
_REPLY_BYTES = _REPLY.size
_LENGTH = Struct(">I")
_ADD_LENGTH_MIN = 4 + 20 + 32
_REPLY_OK = bytes.fromhex("000000180201000000000000")


def build_adds(
    run: Slice,
    start: int,
    stop: int,
    ledger_id: int,
    first_entry: int,
    lac: int,
    length: int,
    master_key: bytes,
    flags: int = 0,
) -> tuple[list[bytes | memoryview], int]:
    """Build V2 add frames with CRC32C digest for entries ``start..stop`` of a slice, the first as entry
    ``first_entry``.

    ``length`` is the ledger's payload bytes before these entries; the new value is the second result. ``lac`` must be
    below ``first_entry``. Small entries are returned as one joined part. Those above LARGE_ENTRY_BYTES on average are
    returned as heads and views of the slice's buffer.
    """
    if stop <= start:
        return [], length
    buf, spans = run.buf, run.spans
    large = spans[2 * stop - 1] - spans[2 * start] > LARGE_ENTRY_BYTES * (stop - start)
    source: bytes | memoryview = memoryview(buf) if large else buf
    parts: list[bytes | memoryview] = []
    add = parts.append
    pack, pack_header = _ADD.pack, _ENTRY_HEADER.pack
    # The common fields of all frames are packed once: copying eight bytes costs less than packing a 64-bit number.
    frame_start = _ADD_START.pack(ADD_HEADER | flags, master_key)
    ledger, confirmed = _INT64.pack(ledger_id), _INT64.pack(lac)
    entry = first_entry
    pairs = iter(spans[2 * start : 2 * stop])
    for a in pairs:
        b = next(pairs)
        size = b - a
        payload = source[a:b]
        length += size
        header = pack_header(ledger, entry, confirmed, length)
        add(pack(60 + size, frame_start, header, crc32c(payload, crc32c(header))))
        add(payload)
        entry += 1
    return (parts if large else [b"".join(parts)]), length


def take_add_replies(
    buf: bytes, pos: int, end: int
) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """Cut the add replies at ``pos``. Return (position behind, NEED or OTHER, runs of (rc, ledger id, first entry,
    count)).

    Replies of consecutive entries of one ledger with one result are one run.
    """
    replies: list[tuple[int, int, int, int]] = []
    reply_count = (end - pos) // _REPLY_BYTES
    ledger = code = -1
    first = expected = -2
    begun = False
    reply_bytes = reply_count * _REPLY_BYTES
    source = buf if reply_bytes == len(buf) else memoryview(buf)[pos : pos + reply_bytes]
    for size, header, rc, ledger_id, entry in _REPLY.iter_unpack(source):
        if header != ADD_HEADER or size != 24:
            break
        if entry != expected or ledger_id != ledger or rc != code:
            if begun:
                replies.append((code, ledger, first, expected - first))
            begun = True
            first, ledger, code = entry, ledger_id, rc
            expected = entry
        expected += 1
        pos += _REPLY_BYTES
    if begun:
        replies.append((code, ledger, first, expected - first))
    return pos, NEED if pos == end else _reply_why(buf, pos, end), replies


def _reply_why(buf: bytes, pos: int, end: int) -> int:
    if pos + 4 > end or pos + 4 + _LENGTH.unpack_from(buf, pos)[0] > end:
        return NEED
    return OTHER


def take_read_replies(
    buf: bytes, pos: int, end: int
) -> tuple[int, int, list[tuple[int, int, int, int, int]]]:
    """Cut the read replies at ``pos``. Return (position behind, NEED or OTHER, [(rc, ledger id, entry id, start,
    stop)]).

    ``buf[start:stop]`` is the stored entry; empty unless rc is 0. The entry id is that of the request (-1: the last).
    """
    replies: list[tuple[int, int, int, int, int]] = []
    unpack = _REPLY.unpack_from
    while pos + _REPLY_BYTES <= end:
        size, header, rc, ledger_id, entry = unpack(buf, pos)
        stop = pos + 4 + size
        if header != READ_HEADER or size < 24 or stop > end:
            break
        replies.append((rc, ledger_id, entry, pos + _REPLY_BYTES, stop))
        pos = stop
    return pos, _reply_why(buf, pos, end), replies


def take_adds(buf: bytes, pos: int, end: int, frame_max: int) -> tuple[int, int, list[AddRun]]:
    """Cut the V2 add frames at ``pos`` into runs. Return (position behind, why it stopped, runs in order of arrival).

    A run ends when the ledger, the key or the flags change or the entry id is not the next one. Frames of another
    operation or version, with unknown flags, negative ids or no room for the entry's header stop with OTHER.
    """
    runs: list[AddRun] = []
    unpack, prefix = _ADD_IDS.unpack_from, FRAME_PREFIX
    ledger = expected = -1
    key = b""
    word = 0
    offsets: list[int] = []
    add_offset = offsets.append
    while pos + 44 <= end:
        size, header, master_key, ledger_id, entry = unpack(buf, pos)
        stop = pos + 4 + size
        if stop > end or size > frame_max:
            break
        if entry != expected or ledger_id != ledger or header != word or master_key != key:
            flags = header ^ ADD_HEADER
            if flags not in ADD_FLAGS or ledger_id < 0 or entry < 0:
                break
            if offsets:
                runs.append(_add_run(buf, ledger, expected, offsets, pos, key, word))
            ledger, expected, key, word = ledger_id, entry, master_key, header
            offsets = []
            add_offset = offsets.append
        if size < _ADD_LENGTH_MIN:
            break
        add_offset(pos + prefix)
        expected += 1
        pos = stop
    if offsets:
        runs.append(_add_run(buf, ledger, expected, offsets, pos, key, word))
    if pos + 4 > end:
        return pos, NEED, runs
    size = _LENGTH.unpack_from(buf, pos)[0]
    if size > frame_max:
        return pos, TOO_LARGE, runs
    return pos, NEED if pos + 4 + size > end else OTHER, runs


def _add_run(
    buf: bytes, ledger: int, below: int, offsets: list[int], stop: int, key: bytes, header: int
) -> AddRun:
    return AddRun(buf, ledger, below - len(offsets), offsets, stop, key, header ^ ADD_HEADER)


def build_add_replies(
    buf: bytes, run: AddRun, rc: int, start: int = 0, stop: int | None = None
) -> bytes:
    """Build replies with result ``rc`` (V2 code) to the adds ``start..stop`` of a run; ``buf`` is the run's buffer."""
    offsets: Sequence[int] = run.offsets
    if start or (stop is not None and stop != run.count):
        offsets = offsets[start:stop]
    if not offsets:
        return b""
    head = _REPLY_OK if rc == 0 else _REPLY_OK[:8] + rc.to_bytes(4, "big", signed=True)
    return head + head.join([buf[a : a + 16] for a in offsets])
