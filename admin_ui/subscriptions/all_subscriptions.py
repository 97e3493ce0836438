"""The list of all subscriptions of a cluster, in the shapes of the console API."""

from typing import Any

from admin_ui.params import LIMIT_MAX, Params, list_choice, window
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.rows import KNOWN, parts_of
from gateway.services.index.selection import Chosen
from gateway.services.subscriptions.subscription_selection import FIELDS

Body = dict[str, Any]


def chosen_of(params: Params) -> Chosen:
    """Return the filter and order of a list request. Raises InvalidField."""
    late = params.get("late", "")
    if late not in ("", "true"):
        raise InvalidField("late", "must be true")
    return list_choice(params, FIELDS, "-oldest_age")._replace(late=late == "true")


async def subscriptions(
    viewer: Viewer, cluster: Cluster, params: Params, *, limit_max: int = LIMIT_MAX
) -> Body:
    """Return a window of the list of subscriptions that are seen. ``params`` as in ``api.FILTERS``. Raises
    InvalidField."""
    offset, limit = window(params, limit_max)
    chosen = chosen_of(params)
    snapshot = await cluster.collector.snapshot()
    selection = snapshot.select_subscriptions(viewer, chosen)
    keys = selection.names(offset, offset + limit)
    totals = snapshot.topics.sums.totals(viewer)
    return {
        "at": snapshot.at,
        "total": len(selection),
        "unread_topics": int(totals["unknown"]),
        "offset": offset,
        "limit": limit,
        "rows": [row for key in keys if (row := row_of(snapshot, key)) is not None],
    }


def row_of(snapshot: Snapshot, key: str) -> Body | None:
    """Return a row of the list; None when the subscription does not exist any more."""
    listed = snapshot.subscriptions.get(key)
    if listed is None or listed.topic not in snapshot.topics:
        return None
    (_, _, _, loaded, known), at = snapshot.topics.content_of(listed.topic, snapshot.taken)
    problem = snapshot.attention.cause_of_subscription(key)
    row = listed.row()
    if row["backlog"] is None and KNOWN[known] != "last":
        known = KNOWN.index("no")
    return {
        **row,
        "name": row.pop("topic"),
        **parts_of(listed.topic),
        "loaded": loaded,
        "known": KNOWN[known],
        "at": at,
        "attention": problem and {"severity": problem[0], "cause": problem[1]},
    }
