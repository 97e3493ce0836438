"""The environment of the console."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from engine.base.errors import MagnetarError
from engine.tenancy.nodes import children
from gateway.clusters.cluster import Cluster
from gateway.services.admin import brokers
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

READ_TIMEOUT_S = 0.4
"""Longest wait for the metadata store: the console's shell waits for this answer."""

Body = dict[str, Any]


class ReadLast:
    """The stored part as it was read last: one of the cluster's parts."""

    def __init__(self, cluster: Cluster) -> None:
        self.body: Body = {"clusters": [cluster.name], "broker_url": ""}


async def stored(engine: Engine) -> Body:
    """Return the stored part: the names of the clusters, and the service URL for clients of this cluster."""
    clusters = await children(engine.store, "/admin/clusters")
    return {
        "clusters": [name for name in clusters if name != "global"],
        "broker_url": brokers.service_url(await brokers.advertised(engine)),
    }


async def environment(
    cluster: Cluster,
    read: Callable[[Callable[[Engine], Awaitable[Body]]], Awaitable[Body]],
) -> Body:
    """Return the environment of a cluster, without what only the request has: user, gateway's address, served clusters.

    ``read`` runs ``stored`` on the engine. When that fails or takes longer than ``READ_TIMEOUT_S``, the answer has the
    values that were read last: the console's health reports the part that does not answer, and nothing else here
    depends on it.
    """
    last = cluster.part(ReadLast)
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            last.body = await read(stored)
    except (TimeoutError, MagnetarError):
        pass
    authentication = settings.IDENTITY.general.authentication_enabled
    return {
        "cluster": cluster.name,
        "clusters": last.body["clusters"] or [cluster.name],
        "version": settings.VERSION,
        "broker_url": last.body["broker_url"],
        "kind": cluster.link.source.kind,
        "lacks": {ability.value: why for ability, why in cluster.link.source.lacks.items()},
        "authentication": authentication,
        "open_to_anyone": settings.REACH.insecure_anywhere and not authentication,
        "now": now_ms(),
    }
