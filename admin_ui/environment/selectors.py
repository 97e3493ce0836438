"""The environment of the console."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from engine.base.errors import MagnetarError
from engine.tenancy.nodes import children
from gateway.services import brokers
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

READ_TIMEOUT_S = 0.4
"""Longest wait for the metadata store: the console's shell waits for this answer."""

Body = dict[str, Any]

_read_last: Body = {"clusters": [], "broker_url": ""}


async def stored(engine: Engine) -> Body:
    """Return the stored part: the names of the clusters, and the service URL for clients of this cluster."""
    clusters = await children(engine.store, "/admin/clusters")
    return {
        "clusters": [name for name in clusters if name != "global"],
        "broker_url": brokers.service_url(await brokers.advertised(engine)),
    }


async def environment(
    read: Callable[[Callable[[Engine], Awaitable[Body]]], Awaitable[Body]],
) -> Body:
    """Return the environment, without the user and the gateway's own address, which only the request has.

    ``read`` runs ``stored`` on the engine. When that fails or takes longer than ``READ_TIMEOUT_S``, the answer has the
    values that were read last: the console's health reports the part that does not answer, and nothing else here
    depends on it.
    """
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            _read_last.update(await read(stored))
    except (TimeoutError, MagnetarError):
        pass
    configured = settings.ENVIRONMENT
    return {
        "cluster": configured.cluster_name,
        "clusters": _read_last["clusters"] or [configured.cluster_name],
        "version": settings.VERSION,
        "broker_url": _read_last["broker_url"],
        "authentication": settings.AUTHENTICATION_ENABLED,
        "now": now_ms(),
    }
