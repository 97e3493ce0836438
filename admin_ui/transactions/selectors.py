"""The transactions of a cluster in the shapes of the console API."""

from typing import Any

from admin_ui.lists.record_order import sorted_rows
from admin_ui.params import Params, number, sort_of, window
from engine.auth.viewer import Viewer
from gateway.services import transactions as of_cluster
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

Body = dict[str, Any]
OLDER_MAX_S = 10**9
SORTS = ("since", "id", "status", "timeout_ms", "owner")
DEFAULT_SORT = "since"


async def transactions(viewer: Viewer, engine: Engine, params: Params) -> Body:
    """Return a window of the transactions that are not ended, and all coordinators.

    Raises InvalidField, and Forbidden for a viewer who does not see everything.
    """
    viewer.require_everything("Transactions")
    (offset, limit), sort = window(params), sort_of(params, SORTS, DEFAULT_SORT)
    older_ms = 1000 * number(params, "older", 0, 0, OLDER_MAX_S)
    words = params.get("q", "").lower().split()
    gathered = await of_cluster.gathered(engine, older_ms)
    rows = [row(metadata) for metadata in gathered.transactions]
    chosen = [shown for shown in rows if all(word in _text(shown) for word in words)]
    chosen.sort(key=lambda shown: (shown["since"], shown["coordinator"], shown["number"]))
    chosen = sorted_rows(chosen, sort, _value)
    return {
        "at": now_ms(),
        "enabled": gathered.coordinators is not None,
        "coordinators": gathered.coordinators or [],
        "total": len(chosen),
        "offset": offset,
        "limit": limit,
        "rows": chosen[offset : offset + limit],
    }


def row(metadata: Body) -> Body:
    """Return one transaction from Pulsar's TransactionMetadata."""
    most, _, least = metadata["txnId"].strip("()").partition(",")
    return {
        "coordinator": int(most),
        "number": int(least),
        "status": metadata["status"],
        "since": metadata["openTimestamp"],
        "timeout_ms": metadata["timeoutAt"],
        "owner": metadata["owner"],
        "topics": sorted(metadata["producedPartitions"]),
        "subscriptions": [
            {"topic": topic, "subscription": name}
            for topic, names in sorted(metadata["ackedPartitions"].items())
            for name in sorted(names)
        ],
    }


def _value(shown: Body, field: str) -> Any:
    if field == "id":
        return shown["coordinator"], shown["number"]
    return shown[field]


def _text(shown: Body) -> str:
    acked = [f"{at['topic']} {at['subscription']}" for at in shown["subscriptions"]]
    return "\n".join([shown["owner"] or "", *shown["topics"], *acked]).lower()
