"""The first page: items that need attention, totals, the biggest backlogs, brokers and bookies."""

import shlex
from typing import Any

from django.conf import settings

from admin_ui.params import Params
from gateway.services.attention.board import AttentionList
from gateway.services.attention.part_items import Instance
from gateway.services.clock import now_ms
from gateway.services.collection.collector import LATE_MS, Collector, collector
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.selection import Chosen

TOP_BACKLOGS = 10
Body = dict[str, Any]


async def overview(params: Params) -> Body:
    """Return the whole page, of the collector's last snapshot."""
    source = collector()
    snapshot = await source.snapshot()
    _, by_backlog = snapshot.rows(Chosen(sort="-backlog"), 0, TOP_BACKLOGS)
    return {
        "at": snapshot.at,
        "cluster": settings.ENVIRONMENT.cluster_name,
        "totals": snapshot.topics.totals,
        "attention": attention(source, snapshot),
        "top_backlogs": [row for row in by_backlog if row["backlog"]],
        "brokers": snapshot.brokers,
        "bookies": snapshot.bookies,
    }


def attention(source: Collector, snapshot: Snapshot) -> AttentionList:
    """Return the items that need attention. It is ``known`` that there are no others only while every broker and the
    metadata store answer."""
    at, last_seen = now_ms(), snapshot.known_until()
    return snapshot.attention.overview(
        settings.ENVIRONMENT.cluster_name,
        at,
        known=bool(snapshot.brokers) and last_seen is not None and at - last_seen <= LATE_MS,
        instance=Instance(source.health.hops.bad, snapshot.brokers, snapshot.bookies),
        start=start_command(),
    )


def start_command() -> str:
    """Return the command line that starts a part of this instance, without its name; empty where nothing supervises the
    parts."""
    environment = settings.ENVIRONMENT
    if not environment.control_socket:
        return ""
    data = f"MAGNETAR_DATA_DIR={shlex.quote(str(environment.data_dir))}"
    return f"{data} .venv/bin/python manage.py standalone start"
