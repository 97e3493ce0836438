"""Who gets the next messages: Exclusive, Failover, Shared. Pure functions over plain values.

Failover follows Apache Pulsar: only the best (lowest) priority level counts; consumers are sorted by name; a partition
takes its index modulo their number, a plain topic a ring of 100 points per consumer hashed with Murmur3.
"""

from bisect import bisect_left
from collections.abc import Sequence

RING_POINTS = 100
_MASK = 0xFFFFFFFF


def murmur3_32(data: bytes) -> int:
    """Murmur3 x86 32-bit, seed 0, with the sign bit cleared: 0..2^31-1."""
    h = 0
    blocks = len(data) & ~3
    for at in range(0, blocks, 4):
        h ^= _mix(int.from_bytes(data[at : at + 4], "little"))
        h = ((h << 13) | (h >> 19)) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    tail = data[blocks:]
    if tail:
        h ^= _mix(int.from_bytes(tail, "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return (h ^ (h >> 16)) & 0x7FFFFFFF


def _mix(k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    return (k * 0x1B873593) & _MASK


def choose_active(members: Sequence[tuple[int, str]], partition: int, topic: str) -> int | None:
    """Index of the active consumer of a Failover subscription; None without members.

    ``members``: (priority level, consumer name) in order of joining. ``partition``: index of the topic's partition
    or -1. Members of equal name keep their order of joining.
    """
    if not members:
        return None
    best = min(priority for priority, _ in members)
    ranked = sorted((name, i) for i, (priority, name) in enumerate(members) if priority == best)
    if len(ranked) == 1:
        return ranked[0][1]
    if partition >= 0:
        return ranked[partition % len(ranked)][1]
    ring: dict[int, int] = {}
    for name, i in ranked:
        for point in range(RING_POINTS):
            ring.setdefault(murmur3_32(f"{name}{point}".encode()), i)
    points = sorted(ring)
    at = bisect_left(points, murmur3_32(topic.encode()))
    return ring[points[at % len(points)]]


def choose_shared(priorities: Sequence[int], eligible: Sequence[bool], last: int) -> int | None:
    """Index of the consumer whose turn it is on a Shared subscription; None when nobody is eligible.

    ``last``: index that had the previous turn, or -1. Lower priority numbers go first; equals take turns, starting
    behind ``last``.
    """
    best: int | None = None
    count = len(priorities)
    for step in range(1, count + 1):
        i = (last + step) % count
        if eligible[i] and (best is None or priorities[i] < priorities[best]):
            best = i
    return best
