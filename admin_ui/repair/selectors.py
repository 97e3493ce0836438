"""Repair of ledgers, as it is shown."""

from collections import Counter
from typing import Any

from engine.auth.viewer import Viewer
from engine.base.errors import NotFound
from engine.repair.blast_radius import BookieShare
from engine.repair.decommissions import Decommission
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import Engine
from gateway.services.health.repair_watch import RepairState

Body = dict[str, Any]
ROWS_MAX = 100


async def repair(viewer: Viewer, cluster: Cluster, engine: Engine) -> Body:
    """Return the marked ledgers and their repair. Raises Forbidden for a viewer who does not see everything."""
    viewer.require_everything("The repair of ledgers")
    snapshot = await cluster.collector.snapshot()
    watch = cluster.collector.repair
    state = watch.last or await watch.read(engine.store)
    marked = state.marked
    return {
        "at": state.at,
        "enabled": state.enabled,
        "auditor": state.auditor,
        "delay_s": state.delay_s,
        "ledgers": marked.ledgers,
        "all": marked.is_all,
        "size": marked.size,
        "sized": sum(row.size is not None for row in marked.rows),
        "oldest": marked.oldest_ms,
        "ledgers_per_s": watch.ledgers_per_s,
        "bytes_per_s": watch.bytes_per_s,
        "seconds_left": watch.seconds_left,
        "workers": [
            {"worker": worker, "ledgers": count} for worker, count in marked.workers.most_common()
        ],
        "lost": lost(snapshot.bookies, state, state.delay_s),
        "decommissions": [
            decommission_row(bookie, request) for bookie, request in state.decommissions.items()
        ],
        "rows": [
            {
                "ledger": row.ledger_id,
                "owner": row.owner,
                "bookies": list(row.bookies),
                "since": row.since_ms or None,
                "size": row.size,
                "open": row.open,
                "worker": row.worker,
            }
            for row in marked.rows[:ROWS_MAX]
        ],
    }


def lost(bookies: list[Body], state: RepairState, delay_s: float | None) -> list[Body]:
    """Return the bookies that are not registered, with the time at which the auditor marks their ledgers after
    ``delay_s``. Two that are away together are not waited for."""
    away = [row for row in bookies if row["state"] == "down"]
    named = Counter(bookie for row in state.marked.rows for bookie in row.bookies)
    waits = state.enabled and delay_s is not None and len(away) == 1
    wait_ms = round(delay_s * 1000) if waits and delay_s is not None else None
    return [
        {
            "bookie": row["id"],
            "since": row["since"],
            "due": None if wait_ms is None or named[row["id"]] else row["since"] + wait_ms,
            "ledgers": named[row["id"]],
        }
        for row in away
    ]


def decommission_row(bookie: str, request: Decommission) -> Body:
    """Return a requested decommission as it is shown."""
    return {
        "bookie": bookie,
        "by": request.by,
        "at": request.at_ms,
        "first": request.first,
        "left": request.left,
        "counted": request.counted_ms,
        "waits": request.waits,
        "drain": request.drain,
    }


async def radius(viewer: Viewer, cluster: Cluster, engine: Engine, bookie: str) -> Body:
    """Return what would remain of the entries on a bookie. Raises Forbidden for a viewer who does not see everything,
    NotFound for a bookie that neither has a cookie nor is named by a ledger."""
    viewer.require_everything("The ledgers of bookies")
    snapshot = await cluster.collector.snapshot()
    at, read = await cluster.collector.repair.radius(engine.store)
    share = read.bookies.get(bookie)
    if share is None:
        if all(row["id"] != bookie for row in snapshot.bookies):
            raise NotFound(f"Bookie {bookie} is not known")
        share = BookieShare()
    return {
        "at": at,
        "bookie": bookie,
        "ledgers": share.ledgers,
        "open": share.open,
        "size": share.size,
        "of_ledgers": read.ledgers,
        "counts": counts(share),
        "weakest": [weak._asdict() for weak in share.weakest],
    }


def counts(share: BookieShare) -> list[Body]:
    """Return how many owners keep how many copies."""
    return [{"copies": copies, "owners": count} for copies, count in sorted(share.owners.items())]


async def state_now(cluster: Cluster, engine: Engine) -> tuple[list[Body], RepairState]:
    """Return the rows of the bookies, and the state of repair read now."""
    snapshot = await cluster.collector.snapshot()
    return snapshot.bookies, await cluster.collector.repair.read(engine.store)
