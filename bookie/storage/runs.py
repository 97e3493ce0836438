"""Received add frames as storage holds them. Pure."""

from collections.abc import Iterator
from struct import Struct

from engine.base.slices import FRAME_PREFIX, AddRun

Stored = bytes | memoryview
"""An entry as it was received; a view is of bytes that never change."""
VIEWED_BYTES = 16 << 10
"""Mean entry size from which reads return views, because copying costs more than the view."""
MASTER_KEY_BYTES = 20
ENTRY_IDS_BYTES = 16
_FRAME = Struct(">II20sqq")  # length, header, master key, ledger id, entry id


def cut_frames(buf: bytes) -> Iterator[AddRun]:
    """Yield the runs in a buffer of complete V2 add frames. Raises ValueError for anything else."""
    pos, size = 0, len(buf)
    unpack = _FRAME.unpack_from
    ledger = below = -1
    key = b""
    offsets: list[int] = []
    while pos < size:
        if pos + FRAME_PREFIX + ENTRY_IDS_BYTES > size:
            raise ValueError(f"add frame at {pos} is cut off")
        length, _, master_key, ledger_id, entry_id = unpack(buf, pos)
        end = pos + 4 + length
        if end > size or length < FRAME_PREFIX - 4 + ENTRY_IDS_BYTES:
            raise ValueError(f"add frame at {pos} has length {length}, {size - pos - 4} are there")
        if offsets and (entry_id != below or ledger_id != ledger or master_key != key):
            yield AddRun(buf, ledger, below - len(offsets), offsets, pos, key)
            offsets = []
        ledger, below, key = ledger_id, entry_id + 1, master_key
        offsets.append(pos + FRAME_PREFIX)
        pos = end
    if offsets:
        yield AddRun(buf, ledger, below - len(offsets), offsets, pos, key)
