"""Who is active on a Failover subscription. Pure.

As in Apache Pulsar: only the best (lowest) priority level counts; consumers are sorted by name; a partition takes its
index modulo their number, a plain topic a ring of 100 points per consumer hashed with Murmur3.
"""

from collections.abc import Sequence
from functools import lru_cache

from engine.broker.dispatch.choose.keys import murmur3_32

RING_POINTS = 100
_RING = 1 << 31


def rank(priority: int, name: str) -> tuple[int, bytes]:
    """Where a consumer stands: by priority level, then by name as Java compares texts. Equals stay as they came."""
    return priority, name.encode("utf-16-be", "surrogatepass")


def choose_active(
    members: Sequence[tuple[int, str]], partition: int, topic: str, *, by_ring: bool = False
) -> int | None:
    """Index of the active consumer of a Failover subscription; None without members.

    ``members``: (priority level, consumer name) in order of their ``rank``. ``partition``: index of the topic's
    partition or -1. ``by_ring``: also for a partition.
    """
    if not members:
        return None
    best = members[0][0]
    count = next((i for i, (priority, _) in enumerate(members) if priority != best), len(members))
    if partition >= 0 and not by_ring:
        return partition % count
    at = murmur3_32(topic.encode())
    # Of several with the same point, as those of one name have, the last has it.
    return min(reversed(range(count)), key=lambda i: _to_next_point(members[i][1], at))


@lru_cache(1 << 14)
def _to_next_point(name: str, at: int) -> int:
    """How far it is along the ring from ``at`` to the first point of the consumer."""
    return min((murmur3_32(f"{name}{point}".encode()) - at) % _RING for point in range(RING_POINTS))
