"""A run of consecutive entries of one ledger inside one received buffer, as storage keeps it. Pure."""

from collections.abc import Iterator
from struct import Struct

FRAME_PREFIX = 28
"""Bytes of a V2 add frame before its entry: length 4, header 4, master key 20."""
MASTER_KEY_BYTES = 20
ENTRY_IDS_BYTES = 16
_FRAME = Struct(">II20sqq")  # length, header, master key, ledger id, entry id


class Run:
    """Entries ``first .. first + len(offsets) - 1``; entry ``i`` is ``buf[offsets[i]:end(i)]``, frames are contiguous.

    ``buf`` is immutable and kept alive by the run. ``stop`` is where the last frame ends.
    """

    __slots__ = ("buf", "first", "ledger_id", "master_key", "offsets", "stop")

    def __init__(
        self,
        buf: bytes,
        ledger_id: int,
        first: int,
        offsets: list[int],
        stop: int,
        master_key: bytes,
    ) -> None:
        self.buf = buf
        self.ledger_id = ledger_id
        self.first = first
        self.offsets = offsets
        self.stop = stop
        self.master_key = master_key

    @property
    def start(self) -> int:
        """Where the first frame begins."""
        return self.offsets[0] - FRAME_PREFIX

    @property
    def count(self) -> int:
        return len(self.offsets)

    @property
    def below(self) -> int:
        """The entry id after the last."""
        return self.first + len(self.offsets)

    def end(self, i: int) -> int:
        """Where entry ``i`` ends in ``buf``."""
        return self.offsets[i + 1] - FRAME_PREFIX if i + 1 < len(self.offsets) else self.stop

    def part(self, start: int, stop: int) -> "Run":
        """Entries with index ``start`` to ``stop`` (exclusive, > start) over the same buffer."""
        return Run(
            self.buf,
            self.ledger_id,
            self.first + start,
            self.offsets[start:stop],
            self.end(stop - 1),
            self.master_key,
        )


def cut_frames(buf: bytes) -> Iterator[Run]:
    """The runs in a buffer of whole V2 add frames. Raises ValueError when it is not that."""
    pos, size = 0, len(buf)
    unpack = _FRAME.unpack_from
    run: Run | None = None
    while pos < size:
        if pos + FRAME_PREFIX + ENTRY_IDS_BYTES > size:
            raise ValueError(f"add frame at {pos} is cut off")
        length, _, key, ledger_id, entry_id = unpack(buf, pos)
        stop = pos + 4 + length
        if stop > size or length < FRAME_PREFIX - 4 + ENTRY_IDS_BYTES:
            raise ValueError(f"add frame at {pos} has length {length}, {size - pos - 4} are there")
        if (
            run is None
            or run.ledger_id != ledger_id
            or run.below != entry_id
            or run.master_key != key
        ):
            if run is not None:
                yield run
            run = Run(buf, ledger_id, entry_id, [], pos, key)
        run.offsets.append(pos + FRAME_PREFIX)
        run.stop = stop
        pos = stop
    if run is not None:
        yield run
