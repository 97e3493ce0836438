"""Where the console is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from engine.base.errors import MagnetarError
from engine.tenancy.nodes import children
from gateway.services import brokers
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

READ_TIMEOUT_S = 0.4
"""The console's shell waits for this answer: a metadata store that is away must not hold it."""

Body = dict[str, Any]

_read_last: Body = {"clusters": [], "broker_url": ""}


async def stored(engine: Engine) -> Body:
    """What the metadata store says of where we are: the clusters, and where clients of this one connect."""
    clusters = await children(engine.store, "/admin/clusters")
    return {
        "clusters": [name for name in clusters if name != "global"],
        "broker_url": brokers.service_url(await brokers.advertised(engine)),
    }


async def environment(
    read: Callable[[Callable[[Engine], Awaitable[Body]]], Awaitable[Body]],
) -> Body:
    """Where we are; without the user and our own address, which only the request knows. ``read`` runs ``stored`` on
    the engine; when that takes longer than ``READ_TIMEOUT_S`` or fails, the answer has what was read last: which part
    is away is said by the console's health, and here nothing else depends on it."""
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            _read_last.update(await read(stored))
    except (TimeoutError, MagnetarError):
        pass
    known = settings.ENVIRONMENT
    return {
        "cluster": known.cluster_name,
        "clusters": _read_last["clusters"] or [known.cluster_name],
        "version": settings.VERSION,
        "broker_url": _read_last["broker_url"],
        "authentication": settings.AUTHENTICATION_ENABLED,
        "now": now_ms(),
    }
