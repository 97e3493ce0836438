"""Who is active on a Failover subscription. Pure.

As in Apache Pulsar: only the best (lowest) priority level counts; consumers are sorted by name; a partition takes its
index modulo their number, a plain topic a ring of 100 points per consumer hashed with Murmur3.
"""

from bisect import bisect_left
from collections.abc import Sequence

from engine.broker.dispatch.choose.keys import murmur3_32

RING_POINTS = 100


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
