"""The list of all subscriptions of a cluster, in the shapes of the console API."""

from typing import Any

from admin_ui.params import LIMIT_MAX, OLDER_MAX_S, Params, number, window
from engine.admin.lag import LagCause
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from engine.base.names import DOMAINS
from gateway.clusters.cluster import Cluster
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.rows import KNOWN, parts_of
from gateway.services.index.selection import Chosen
from gateway.services.subscriptions.subscription_selection import FIELDS

Body = dict[str, Any]

CAUSES = ("any", *(cause.value for cause in LagCause))
"""Problems by which the list can be filtered; ``any`` stands for all that are more than information."""


def chosen_of(params: Params) -> Chosen:
    """Return the filter and order of a list request. Raises InvalidField."""
    sort = params.get("sort") or "-oldest_age"
    if sort.removeprefix("-") not in FIELDS:
        raise InvalidField(
            "sort", f"must be one of {', '.join(FIELDS)}, '-' in front to turn round"
        )
    domain = params.get("domain", "")
    if domain not in ("", *DOMAINS):
        raise InvalidField("domain", "must be persistent or non-persistent")
    attention = params.get("attention", "")
    if attention not in ("", *CAUSES):
        raise InvalidField("attention", f"must be one of {', '.join(CAUSES)}")
    late = params.get("late", "")
    if late not in ("", "true"):
        raise InvalidField("late", "must be true")
    return Chosen(
        q=params.get("q", ""),
        tenant=params.get("tenant", ""),
        namespace=params.get("namespace", ""),
        domain=domain,
        sort=sort,
        attention=attention,
        older_s=number(params, "older_s", 0, 0, OLDER_MAX_S),
        late=late == "true",
    )


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
