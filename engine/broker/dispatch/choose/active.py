"""Choice of the active consumer of a Failover subscription. Pure.

The rules are Apache Pulsar's: only the best (lowest) priority level counts, and consumers are sorted by name. A
partition chooses by its index modulo their number, a plain topic by a ring of 100 points per consumer, hashed with
Murmur3.
"""

from collections.abc import Sequence
from functools import lru_cache

from engine.broker.dispatch.choose.keys import murmur3_32

RING_POINTS = 100
_RING = 1 << 31


def rank(priority: int, name: str) -> tuple[int, bytes]:
    """Return the sort key of a consumer: its priority level, then its name as Java compares strings.

    Consumers with equal keys stay in order of joining.
    """
    return priority, name.encode("utf-16-be", "surrogatepass")


def choose_active(
    members: Sequence[tuple[int, str]], partition: int, topic: str, *, by_ring: bool = False
) -> int | None:
    """Return the index of the active consumer of a Failover subscription; None without members.

    ``members``: (priority level, consumer name), sorted by ``rank``. ``partition``: index of the partition, or -1 for a
    plain topic. ``by_ring``: use the ring for a partition as well.
    """
    if not members:
        return None
    best = members[0][0]
    count = next((i for i, (priority, _) in enumerate(members) if priority != best), len(members))
    if partition >= 0 and not by_ring:
        return partition % count
    place = murmur3_32(topic.encode())
    # A point that several consumers have, as those of one name do, belongs to the last of them.
    return min(reversed(range(count)), key=lambda i: _to_next_point(members[i][1], place))


@lru_cache(1 << 14)
def _to_next_point(name: str, place: int) -> int:
    """Return the distance along the ring from ``place`` to the next point of the consumer."""
    points = [murmur3_32(f"{name}{point}".encode()) for point in range(RING_POINTS)]
    return min((point - place) % _RING for point in points)
