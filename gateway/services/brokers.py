"""Verbs on brokers: who is there, who leads, are they well."""

import asyncio
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.base.errors import MagnetarError, NotFound, NotReady
from engine.metadata import paths
from engine.tenancy.nodes import find_node
from gateway.services.engine_link import Engine

HEALTH_TIMEOUT_S = 5.0
SCHEME = "pulsar://"


async def ids(engine: Engine) -> list[str]:
    """Of live brokers, sorted."""
    return [broker.id for broker in await engine.admin.brokers()]


async def require(engine: Engine, broker_id: str) -> BrokerAddress:
    """The registered broker of this id; NotFound without."""
    for broker in await engine.admin.brokers():
        if broker.id == broker_id:
            return broker
    raise NotFound(f"Broker id '{broker_id}' not found in available brokers.")


async def advertised(engine: Engine) -> list[str]:
    """``host:port`` that each registered broker tells clients; one without a plain port is left out."""
    urls = [broker.service_url for broker in await engine.admin.brokers()]
    return [url.removeprefix(SCHEME) for url in urls if url and url.startswith(SCHEME)]


def service_url(addresses: list[str]) -> str:
    """What client libraries take: they ask any of these who serves a topic. Empty without an address."""
    return SCHEME + ",".join(addresses) if addresses else ""


async def health(engine: Engine, broker_id: str | None) -> None:
    """Returns when the named broker, or without a name at least one, is well; else NotReady."""
    if broker_id is not None:
        await engine.call_on(await require(engine, broker_id), api.HEALTH, api.NoArguments())
        return
    brokers = await engine.admin.brokers()
    if not brokers:
        raise NotReady("No broker is available")

    async def ask(broker: BrokerAddress) -> Exception | None:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await engine.call_on(broker, api.HEALTH, api.NoArguments())
        except (MagnetarError, TimeoutError, OSError) as error:
            return error
        return None

    failures = await asyncio.gather(*(ask(broker) for broker in brokers))
    if all(failures):
        raise NotReady(f"No broker is well: {failures[0]}")


async def leader(engine: Engine) -> dict[str, Any]:
    """BrokerInfo of the elected broker; NotFound while there is none."""
    found = await find_node(engine.store, paths.LOADBALANCE_LEADER)
    if not found:
        raise NotFound("Couldn't find leader broker")
    return {
        "serviceUrl": found.get("serviceUrl", ""),
        "brokerId": found.get("brokerId") or found.get("serviceUrl", "").partition("://")[2],
    }


async def owned_namespaces(engine: Engine, broker_id: str) -> dict[str, Any]:
    """NamespaceOwnershipStatus of each bundle the broker owns."""
    broker = await require(engine, broker_id)
    bundles = await engine.call_on(broker, api.OWNED_BUNDLES, api.NoArguments())
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {bundle: dict(status) for bundle in bundles}
