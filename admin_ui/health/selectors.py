"""The parts of the instance that answer, and the time that all other shown values are of."""

from typing import Any

from gateway.clusters.cluster import Cluster
from gateway.services.clock import now_ms

BEAT_S = 1.0
Body = dict[str, Any]


async def health(cluster: Cluster) -> Body:
    """Return all hops. Only a hop that is probed for the first time is waited for, at most 0.4 s. Runs on the engine
    link's loop."""
    source = cluster.collector
    source.start()
    checks = source.health.checks
    checks.note_viewer()
    await checks.first()
    return {
        "now": now_ms(),
        "at": source.known_until(),
        "late_ms": source.late_ms,
        "current": source.is_current,
        "hops": [hop.as_json() for hop in source.health.hops.all],
    }


async def beat(cluster: Cluster, waiting: bool) -> Body:
    """Return the message for every live socket of a cluster: the hops that do not answer. It is returned at once, or
    with ``waiting`` after a change, at most ``BEAT_S`` later. Runs on the engine link's loop. Cancel-safe."""
    source = cluster.collector
    source.start()
    source.health.checks.note_viewer()
    if waiting:
        await source.health.change(BEAT_S)
    return {
        "op": "beat",
        "now": now_ms(),
        "at": source.known_until(),
        "late_ms": source.late_ms,
        "current": source.is_current,
        "hops": [hop.as_json() for hop in source.health.hops.bad],
    }
