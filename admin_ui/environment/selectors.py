"""Where the console is."""

from typing import Any

from django.conf import settings

from engine.tenancy.nodes import children
from gateway.services import brokers
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

Body = dict[str, Any]


async def environment(engine: Engine) -> Body:
    """Where we are; without the user and our own address, which only the request knows."""
    known = settings.ENVIRONMENT
    clusters = await children(engine.store, "/admin/clusters")
    return {
        "cluster": known.cluster_name,
        "clusters": [name for name in clusters if name != "global"] or [known.cluster_name],
        "version": settings.VERSION,
        "broker_url": brokers.service_url(await brokers.advertised(engine)),
        "now": now_ms(),
    }
