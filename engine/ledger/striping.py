"""Distribution of a run's add frames when the write quorum is smaller than the ensemble. Pure.

The frames are built once for all bookies. A position is sent the stretches of WQ entries that it holds, one in every E.
"""

from collections.abc import Sequence
from itertools import accumulate

FRAME_BYTES = 64
"""Bytes of an add frame with a CRC32C digest, without the payload."""


class StripedAdds:
    """Frames of entries ``first .. first + count - 1`` as ``build_adds`` returns them: one joined part, or a head and a
    payload for each entry. ``spans`` are the payloads' positions in their slice, starting with the first entry's."""

    __slots__ = ("_bounds", "_count", "_first", "_joined", "_parts", "_quorum", "_size")

    def __init__(
        self,
        parts: list[bytes | memoryview],
        spans: Sequence[int],
        first: int,
        ensemble: int,
        write_quorum: int,
    ) -> None:
        self._first = first
        self._count = len(spans) >> 1
        self._size = ensemble
        self._quorum = write_quorum
        self._parts = parts
        self._joined = len(parts) == 1
        if self._joined:
            sizes = [b - a + FRAME_BYTES for a, b in zip(spans[::2], spans[1::2], strict=True)]
            self._bounds = list(accumulate(sizes, initial=0))
        else:
            self._bounds = list(range(0, 2 * self._count + 1, 2))

    def of(self, position: int) -> list[bytes | memoryview]:
        """Return the parts to send to the bookie at ``position``, in entry order."""
        quorum, size, count, bounds = self._quorum, self._size, self._count, self._bounds
        selected: list[bytes | memoryview] = []
        low = (position - self._first) % size - quorum + 1
        while low < count:
            stop = low + quorum
            a, b = bounds[max(low, 0)], bounds[min(stop, count)]
            if self._joined:
                selected.append(self._parts[0][a:b])
            else:
                selected += self._parts[a:b]
            low += size
        return selected
