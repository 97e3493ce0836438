"""Verbs on brokers: who is there, who leads, are they well."""

import asyncio
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.admin.operation import A, Operation, R
from engine.base.errors import MagnetarError, NotFound, NotReady
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.tenancy.nodes import find_node
from gateway.services.catalog import each
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
    """Returns as soon as the named broker, or without a name one of them, is well; else NotReady."""
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

    asked = TaskScope("health of brokers")
    answers = [asked.spawn(broker.id, ask(broker)) for broker in brokers]
    try:
        for answer in asyncio.as_completed(answers):
            if await answer is None:
                return  # whatever becomes of the others, of which one may hang
    finally:
        await asked.close()
    raise NotReady(f"No broker is well: {answers[0].result()}")


async def on_any(engine: Engine, operation: Operation[A, R], args: A) -> R:
    """Run what any broker can on the first that answers within ``HEALTH_TIMEOUT_S``. NotReady without one."""
    failed = NotReady("No broker is available")
    for broker in await engine.admin.brokers():
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                return await engine.call_on(broker, operation, args)
        except NotReady as error:
            failed = error
        except TimeoutError:
            failed = NotReady(f"Broker {broker.id} gave no answer within {HEALTH_TIMEOUT_S:g} s")
    raise failed


async def dynamic_settings(engine: Engine) -> tuple[list[str], dict[str, str]]:
    """Names of settings that may change while brokers run, and those that were changed, by name."""
    found = await on_any(engine, api.DYNAMIC_SETTINGS, api.NoArguments())
    return found["names"], found["values"]


async def change_setting(engine: Engine, name: str, value: str | None) -> None:
    """For all brokers; None has their own settings hold again. PreconditionFailed for what must not change."""
    await on_any(engine, api.CHANGE_SETTING, api.ChangeSetting(name, value))


async def check_quotas(engine: Engine) -> None:
    """Have every broker look at the backlog quotas of its topics now. Raises NotReady when one does not answer, or
    could not judge all: the others did."""
    await each(
        await engine.admin.brokers(),
        lambda broker: engine.call_on(broker, api.CHECK_QUOTAS, api.NoArguments()),
    )


async def runtime_settings(engine: Engine) -> dict[str, str]:
    """What is in force on a broker, by Pulsar's names."""
    return await on_any(engine, api.RUNTIME_SETTINGS, api.NoArguments())


async def load_report(engine: Engine) -> dict[str, Any]:
    """Of the first broker that answers."""
    return await on_any(engine, api.LOAD_REPORT, api.NoArguments())


async def metrics(engine: Engine) -> list[dict[str, Any]]:
    """Of all brokers, which each metric names."""
    found = []
    for broker in await engine.admin.brokers():
        own = await engine.call_on(broker, api.BROKER_METRICS, api.NoArguments())
        found += [
            {
                **one,
                "dimensions": {"broker": broker.id, "cluster": engine.cluster} | one["dimensions"],
            }
            for one in own
        ]
    return found


async def topics_stats(engine: Engine) -> dict[str, Any]:
    """Of all topics that are loaded, by namespace, bundle and domain."""
    found: dict[str, Any] = {}
    for broker in await engine.admin.brokers():
        after: str | None = ""
        while after is not None:
            page = await engine.call_on(broker, api.TOPICS_STATS, api.TopicsPage(after))
            for namespace, bundles in page["topics"].items():
                for bundle, domains in bundles.items():
                    for domain, topics in domains.items():
                        place = found.setdefault(namespace, {}).setdefault(bundle, {})
                        place.setdefault(domain, {}).update(topics)
            after = page["next"]
    return found


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
