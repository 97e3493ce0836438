"""Received add frames as storage keeps and finds them. Pure."""

from collections.abc import Iterator
from struct import Struct

from engine.base.slices import FRAME_PREFIX, AddRun

Stored = bytes | memoryview
"""An entry as it was received; a view is of bytes that never change."""
VIEWED_BYTES = 16 << 10
"""Entries of this mean size and above are answered with views: each byte copied costs more than the view."""
MASTER_KEY_BYTES = 20
ENTRY_IDS_BYTES = 16
_FRAME = Struct(">II20sqq")  # length, header, master key, ledger id, entry id


def cut_frames(buf: bytes) -> Iterator[AddRun]:
    """The runs in a buffer of whole V2 add frames. Raises ValueError when it is not that."""
    pos, size = 0, len(buf)
    unpack = _FRAME.unpack_from
    ledger = below = -1
    key = b""
    offsets: list[int] = []
    while pos < size:
        if pos + FRAME_PREFIX + ENTRY_IDS_BYTES > size:
            raise ValueError(f"add frame at {pos} is cut off")
        length, _, master_key, ledger_id, entry_id = unpack(buf, pos)
        stop = pos + 4 + length
        if stop > size or length < FRAME_PREFIX - 4 + ENTRY_IDS_BYTES:
            raise ValueError(f"add frame at {pos} has length {length}, {size - pos - 4} are there")
        if offsets and (entry_id != below or ledger_id != ledger or master_key != key):
            yield AddRun(buf, ledger, below - len(offsets), offsets, pos, key)
            offsets = []
        ledger, below, key = ledger_id, entry_id + 1, master_key
        offsets.append(pos + FRAME_PREFIX)
        pos = stop
    if offsets:
        yield AddRun(buf, ledger, below - len(offsets), offsets, pos, key)
