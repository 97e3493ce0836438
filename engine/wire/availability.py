"""The list of a ledger's entries that a bookie stores, as BookKeeper encodes it in answers to
GET_LIST_OF_ENTRIES_OF_LEDGER. Pure.

::

    i32 version 0 | i32 groups | zeros up to 64 bytes
    group   i64 start of the first sequence | i64 start of the last | i32 entries in each | i32 distance of their starts

A group is a number of equally long sequences of consecutive entries at equal distances, as striping produces them. A
group of a single sequence has distance 0.
"""

from collections.abc import Iterable
from struct import Struct

from engine.base.errors import PeerError

HEADER_BYTES = 64
GROUP_BYTES = 24
SEQUENCE_MAX = (1 << 31) - 1
_HEADER = Struct(">ii")
_GROUP = Struct(">qqii")


class AvailabilityError(PeerError):
    """Bytes that are not such a list."""


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges (first, last), which may overlap. Return ranges with gaps between them, in order."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def encode(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Encode ranges (first entry, last entry), which ascend and have gaps between them; see ``merged``."""
    groups: list[list[int]] = []  # first start, last start, size, distance
    for first, last in ranges:
        while last - first + 1 > SEQUENCE_MAX:
            groups.append([first, first, SEQUENCE_MAX, 0])
            first += SEQUENCE_MAX
        size = last - first + 1
        group = groups[-1] if groups else None
        if group is not None and group[2] == size:
            distance = first - group[1]
            if distance == group[3] or (not group[3] and distance <= SEQUENCE_MAX):
                group[1], group[3] = first, distance
                continue
        groups.append([first, first, size, 0])
    head = _HEADER.pack(0, len(groups)).ljust(HEADER_BYTES, b"\0")
    return head + b"".join([_GROUP.pack(*group) for group in groups])


def decode(data: bytes, sequences_max: int = 1 << 20) -> list[tuple[int, int]]:
    """Return the ranges (first, last), in order. Raises AvailabilityError, also for more than ``sequences_max`` of
    them."""
    if len(data) < HEADER_BYTES:
        raise AvailabilityError(f"list of entries has {len(data)} bytes, at least {HEADER_BYTES}")
    version, count = _HEADER.unpack_from(data)
    if version != 0:
        raise AvailabilityError(f"list of entries has version {version}, 0 is known")
    if count < 0 or HEADER_BYTES + GROUP_BYTES * count != len(data):
        raise AvailabilityError(f"list of entries claims {count} groups in {len(data)} bytes")
    ranges: list[tuple[int, int]] = []
    for start, stop, size, distance in _GROUP.iter_unpack(memoryview(data)[HEADER_BYTES:]):
        if start < 0 or stop < start or size <= 0 or distance < 0:
            raise AvailabilityError(f"group {start}..{stop} of {size} every {distance} is none")
        if distance == 0 and start != stop:
            raise AvailabilityError(f"group {start}..{stop} has sequences at no distance")
        steps = (stop - start) // distance if distance else 0
        if steps + len(ranges) >= sequences_max:
            raise AvailabilityError(f"list of entries has more than {sequences_max} sequences")
        ranges += [
            (at, at + size - 1)
            for at in range(start, start + steps * max(distance, 1) + 1, max(distance, 1))
        ]
    return ranges
