"""The first page: what needs attention, totals, the biggest backlogs, brokers and bookies; and the totals' history."""

from typing import Any
from urllib.parse import quote

from django.conf import settings

from admin_ui.params import Params
from gateway.services.collector import HISTORY_COLUMNS, INTERVAL_S, Snapshot, collector
from gateway.services.selection import Chosen

TOP_BACKLOGS = 10
ATTENTION_MAX = 20
Body = dict[str, Any]


async def overview(params: Params) -> Body:
    """The whole page, of the collector's last snapshot."""
    snapshot = await collector().snapshot()
    _, by_backlog = snapshot.rows(Chosen(sort="-backlog"), 0, TOP_BACKLOGS)
    return {
        "at": snapshot.at,
        "cluster": settings.ENVIRONMENT.cluster_name,
        "totals": snapshot.topics.totals,
        "attention": attention(snapshot),
        "top_backlogs": [row for row in by_backlog if row["backlog"]],
        "brokers": snapshot.brokers,
        "bookies": snapshot.bookies,
    }


def attention(snapshot: Snapshot) -> list[Body]:
    """What somebody should look at, errors first."""
    found: list[Body] = []

    def add(severity: str, title: str, detail: str, link: str) -> None:
        found.append({"severity": severity, "title": title, "detail": detail, "link": link})

    cluster = f"/c/{settings.ENVIRONMENT.cluster_name}"
    if not snapshot.brokers:
        add("error", "No broker is registered", "Clients cannot connect; start a broker", "/")
    for broker in snapshot.brokers:
        if broker["state"] != "up":
            add(
                "error",
                f"Broker {broker['id']} does not answer",
                "Its topics' numbers are stale",
                "/",
            )
    writable = [bookie for bookie in snapshot.bookies if bookie["state"] == "writable"]
    if not writable:
        add("error", "No bookie is writable", "Publishing to persistent topics fails", "/")
    for bookie in snapshot.bookies:
        if bookie["state"] == "down":
            add(
                "error",
                f"Bookie {bookie['id']} is down",
                "It registered before and is gone now",
                "/",
            )
        elif bookie["state"] == "read-only":
            add("warning", f"Bookie {bookie['id']} is read-only", "Its disk may be full", "/")
    _, standing = snapshot.rows(Chosen(standing=True), 0, ATTENTION_MAX - len(found))
    for row in standing:
        name = quote(row["topic"], safe="")
        link = f"{cluster}/t/{row['tenant']}/{row['namespace']}/{name}/subscriptions"
        what = "stands still" if row["consumers"] else "has no consumer"
        add("warning", f"{row['name']} {what}", f"{row['backlog']} entries wait", link)
    return found


async def history(params: Params) -> Body:
    """The last quarter of an hour of the cluster's totals, one point a second."""
    keeper = collector()
    snapshot = await keeper.snapshot()
    points = [list(point) for point in keeper.history]
    step_ms = int(INTERVAL_S * 1000)
    return {"at": snapshot.at, "step_ms": step_ms, "columns": HISTORY_COLUMNS, "points": points}
