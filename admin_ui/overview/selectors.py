"""The first page: items that need attention, totals, the biggest backlogs, brokers and bookies."""

import shlex
from functools import partial
from typing import Any

from admin_ui.params import Params
from engine.auth.viewer import Viewer
from engine.base.settings import command
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import rights_are_judged
from gateway.http.auth.viewers import Viewers
from gateway.services.attention.board import AttentionList
from gateway.services.attention.part_items import Instance
from gateway.services.clock import now_ms
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.selection import Chosen

TOP_BACKLOGS = 10
Body = dict[str, Any]


async def overview(viewer: Viewer, cluster: Cluster, params: Params) -> Body:
    """Return the whole page, of the collector's last snapshot.

    Brokers and bookies are listed for a viewer who sees everything: their numbers are sums over all tenants.
    """
    snapshot = await cluster.collector.snapshot()
    _, by_backlog = snapshot.rows(viewer, Chosen(sort="-backlog"), 0, TOP_BACKLOGS)
    return {
        "at": snapshot.at,
        "cluster": cluster.name,
        "totals": {
            **snapshot.topics.sums.totals(viewer),
            "oldest_at": snapshot.topics.sums.oldest(viewer),
        },
        "attention": attention(viewer, cluster, snapshot),
        "top_backlogs": [row for row in by_backlog if row["backlog"]],
        "brokers": snapshot.brokers if viewer.everything else [],
        "bookies": snapshot.bookies if viewer.everything else [],
    }


def attention(viewer: Viewer, cluster: Cluster, snapshot: Snapshot) -> AttentionList:
    """Return the items that need attention. It is ``known`` that there are no others only while every broker and the
    metadata store answer."""
    at, last_seen = now_ms(), snapshot.known_until()
    return snapshot.attention.overview(
        viewer,
        cluster.name,
        at,
        known=bool(snapshot.brokers)
        and last_seen is not None
        and at - last_seen <= cluster.collector.late_ms,
        instance=Instance(
            cluster.collector.health.hops.bad,
            snapshot.brokers,
            snapshot.bookies,
            cluster.part(Viewers).damaged() if rights_are_judged() else {},
            cluster.settings.part_prefix,
            cluster.collector.repair.last,
        ),
        behind=partial(cluster.collector.links.topics, all_topics=False),
        start=start_command(cluster),
    )


def start_command(cluster: Cluster) -> str:
    """Return the command line that starts a part of the cluster, without its name; empty where nothing supervises the
    parts."""
    settings = cluster.settings
    if not settings.control_socket:
        return ""
    data = f"MAGNETAR_DATA_DIR={shlex.quote(str(settings.data_dir))}"
    return f"{data} {command()} start"
