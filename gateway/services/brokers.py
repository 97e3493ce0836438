"""Verbs on brokers: who is there, who leads, are they well."""

import asyncio
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.admin.nodes import find_node
from engine.base.errors import AdminError, MagnetarError
from engine.metadata import paths
from gateway.services.engine_link import Engine

HEALTH_TIMEOUT_S = 5.0


async def require(engine: Engine, broker_id: str) -> BrokerAddress:
    """The registered broker of this id; 404 without."""
    for broker in await engine.admin.brokers():
        if broker.id == broker_id:
            return broker
    raise AdminError(404, f"Broker id '{broker_id}' not found in available brokers.")


async def health(engine: Engine, broker_id: str | None) -> None:
    """Returns when the named broker, or without a name at least one, is well; else AdminError."""
    if broker_id is not None:
        await engine.admin.health(await require(engine, broker_id))
        return
    brokers = await engine.admin.brokers()
    if not brokers:
        raise AdminError(503, "No broker is available")

    async def ask(broker: BrokerAddress) -> Exception | None:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await engine.admin.health(broker)
        except (MagnetarError, TimeoutError, OSError) as error:
            return error
        return None

    failures = await asyncio.gather(*(ask(broker) for broker in brokers))
    if all(failures):
        raise AdminError(503, f"No broker is well: {failures[0]}")


async def leader(engine: Engine) -> dict[str, Any]:
    """BrokerInfo of the elected broker; 404 while there is none."""
    found = await find_node(engine.store, paths.LOADBALANCE_LEADER)
    if not found:
        raise AdminError(404, "Couldn't find leader broker")
    return {
        "serviceUrl": found.get("serviceUrl", ""),
        "brokerId": found.get("brokerId") or found.get("serviceUrl", "").partition("://")[2],
    }


async def owned_namespaces(engine: Engine, broker_id: str) -> dict[str, Any]:
    """NamespaceOwnershipStatus of each bundle the broker owns."""
    broker = await require(engine, broker_id)
    bundles = await engine.admin.call_on(broker, "owned_bundles", api.NoArguments())
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {bundle: dict(status) for bundle in bundles}
