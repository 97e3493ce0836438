"""Operations on brokers: lists, the leader, health checks, settings and statistics."""

import asyncio
from collections.abc import Mapping
from typing import Any

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import (
    BROKER_METRICS,
    CHECK_QUOTAS,
    HEALTH,
    LOAD_BALANCE,
    LOAD_REPORT,
    TOPICS_STATS,
    TopicsPage,
)
from engine.admin.api.bundles import OWNED_BUNDLES
from engine.admin.api.dynamic_settings import (
    CHANGE_SETTING,
    DYNAMIC_SETTINGS,
    RUNTIME_SETTINGS,
    ChangeSetting,
)
from engine.admin.client import BrokerAddress
from engine.base.addresses import CLEAR
from engine.base.errors import MagnetarError, NotFound, NotReady
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.rpc.operation import A, Operation, R
from engine.tenancy.nodes import find_node
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

HEALTH_TIMEOUT_S = 5.0
BALANCE_TIMEOUT_S = 3.0
"""Seconds for the answer of one broker on the balance of load."""


async def ids(engine: Engine) -> list[str]:
    """Return the ids of the registered brokers, sorted."""
    return [broker.id for broker in await engine.admin.brokers()]


async def require(engine: Engine, broker_id: str) -> BrokerAddress:
    """Return the registered broker of this id. Raises NotFound without one."""
    for broker in await engine.admin.brokers():
        if broker.id == broker_id:
            return broker
    raise NotFound(f"Broker id '{broker_id}' not found in available brokers.")


async def advertised(engine: Engine) -> list[str]:
    """Return ``host:port`` that each registered broker advertises to clients, without brokers that have no plain
    port."""
    urls = [broker.service_url for broker in await engine.admin.brokers()]
    return [url.removeprefix(CLEAR) for url in urls if url and url.startswith(CLEAR)]


async def service_urls(engine: Engine) -> list[str]:
    """Return the service URLs of the registered brokers that have one."""
    return [broker.service_url for broker in await engine.admin.brokers() if broker.service_url]


async def service_urls_tls(engine: Engine) -> list[str]:
    """Return the service URLs in TLS of the registered brokers that have one."""
    brokers = await engine.admin.brokers()
    return [broker.service_url_tls for broker in brokers if broker.service_url_tls]


def service_url(addresses: list[str]) -> str:
    """Return the service URL for client libraries, which send lookups to any of the addresses; empty without one."""
    return CLEAR + ",".join(addresses) if addresses else ""


async def health(engine: Engine, broker_id: str | None) -> None:
    """Return as soon as the named broker, or without a name any broker, passes its health check. Raises NotReady when
    none does, NotFound for an unregistered id."""
    if broker_id is not None:
        await engine.call_on(await require(engine, broker_id), HEALTH, NoArguments())
        return
    brokers = await engine.admin.brokers()
    if not brokers:
        raise NotReady("No broker is available")

    async def check(broker: BrokerAddress) -> Exception | None:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await engine.call_on(broker, HEALTH, NoArguments())
        except (MagnetarError, TimeoutError, OSError) as error:
            return error
        return None

    checks = TaskScope("health of brokers")
    failures = [checks.spawn(broker.id, check(broker)) for broker in brokers]
    try:
        for failure in asyncio.as_completed(failures):
            if await failure is None:
                return  # the checks of the others are cancelled: one may hang
    finally:
        await checks.close()
    raise NotReady(f"No broker is well: {failures[0].result()}")


async def on_any(engine: Engine, operation: Operation[A, R], args: A) -> R:
    """Run an operation that any broker can serve on the first that answers within ``HEALTH_TIMEOUT_S``. Raises
    NotReady when none does."""
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
    """Return the names of settings that may change while brokers run, and the changed values by name."""
    answer = await on_any(engine, DYNAMIC_SETTINGS, NoArguments())
    return answer["names"], answer["values"]


async def change_setting(engine: Engine, name: str, value: str | None) -> None:
    """Change a setting of all brokers; with None each broker's own setting holds again. Raises PreconditionFailed for
    one that cannot change while brokers run."""
    await on_any(engine, CHANGE_SETTING, ChangeSetting(name, value))


async def check_quotas(engine: Engine) -> None:
    """Have every broker check the backlog quotas of its topics now. Raises NotReady when a broker does not answer or
    could not check all its topics; the other brokers have checked theirs."""
    await each(
        await engine.admin.brokers(),
        lambda broker: engine.call_on(broker, CHECK_QUOTAS, NoArguments()),
    )


async def runtime_settings(engine: Engine) -> dict[str, str]:
    """Return the settings in force on a broker, by Pulsar's names."""
    return await on_any(engine, RUNTIME_SETTINGS, NoArguments())


async def load_report(engine: Engine) -> dict[str, Any]:
    """Return the load report of the first broker that answers."""
    return await on_any(engine, LOAD_REPORT, NoArguments())


async def metrics(engine: Engine) -> list[dict[str, Any]]:
    """Return the metrics of all brokers, with the broker and the cluster among the dimensions of each."""
    metrics = []
    for broker in await engine.admin.brokers():
        dimensions = {"broker": broker.id, "cluster": engine.cluster}
        metrics += [
            {**metric, "dimensions": dimensions | metric["dimensions"]}
            for metric in await engine.call_on(broker, BROKER_METRICS, NoArguments())
        ]
    return metrics


async def topics_stats(engine: Engine) -> dict[str, Any]:
    """Return the statistics of all loaded topics by namespace, bundle, domain and name."""
    stats: dict[str, Any] = {}
    for broker in await engine.admin.brokers():
        after: str | None = ""
        while after is not None:
            page = await engine.call_on(broker, TOPICS_STATS, TopicsPage(after))
            for namespace, bundles in page["topics"].items():
                for bundle, domains in bundles.items():
                    for domain, topics in domains.items():
                        of_bundle = stats.setdefault(namespace, {}).setdefault(bundle, {})
                        of_bundle.setdefault(domain, {}).update(topics)
            after = page["next"]
    return stats


async def leader(engine: Engine) -> dict[str, Any]:
    """Return BrokerInfo of the elected broker. Raises NotFound while there is none."""
    record = await find_node(engine.store, paths.LOADBALANCE_LEADER)
    if not record:
        raise NotFound("Couldn't find leader broker")
    return {
        "serviceUrl": record.get("serviceUrl", ""),
        "brokerId": record.get("brokerId") or record.get("serviceUrl", "").partition("://")[2],
    }


async def load_balance(engine: Engine) -> dict[str, Any]:
    """Return the last plan of the leader of load balance with its reasons, see ``engine.admin.api.brokers``, beside
    the reports, the overloaded bundles and the drains of all brokers.

    ``leader`` is None without one; ``reason`` states why there is no plan, empty when there is one. ``silent`` are the
    brokers that were not asked or did not answer. Raises NotReady when no broker answers.
    """
    record = await find_node(engine.store, paths.LOADBALANCE_LEADER)
    leader_id = str((record or {}).get("brokerId") or "")
    answers: dict[str, dict[str, Any]] = {}
    problems: dict[str, str] = {}
    is_apache = set[str]()

    async def ask(broker: BrokerAddress) -> None:
        try:
            report = await find_node(engine.store, paths.broker(broker.id))
            if not (report or {}).get("adminRpcUrl"):
                is_apache.add(broker.id)
                return
            async with asyncio.timeout(BALANCE_TIMEOUT_S):
                answers[broker.id] = await engine.call_on(broker, LOAD_BALANCE, NoArguments())
        except (MagnetarError, OSError) as error:  # OSError includes TimeoutError
            problems[broker.id] = str(error) or "no answer in time"

    brokers = await engine.admin.brokers()
    await each(brokers, ask)
    if problems and not answers:
        raise NotReady(f"No broker answers, first {next(iter(problems.items()))}")
    balance = {**_NO_BALANCE, **answers.get(leader_id, {}), "leader": leader_id or None}
    others = [answers[broker_id] for broker_id in sorted(answers)]
    if leader_id not in answers and others:
        # What every broker knows is shown without a leader, too.
        shared = ("reports", "moves", "spread_max", "draining")
        balance |= {name: value for name, value in others[0].items() if name in shared}
    balance["drains"] = _drains(answers)
    balance["splits"] = [split for answer in others for split in answer["splits"]]
    balance["silent"] = sorted({*problems, *is_apache})
    if not leader_id:
        reason = "no broker leads now"
    elif leader_id in is_apache:
        reason = "the leader is a broker of Apache Pulsar, which plans for its own brokers"
    elif leader_id in problems:
        reason = f"the leader does not answer: {problems[leader_id]}"
    elif leader_id not in answers:
        reason = "the leader is not registered"
    else:
        unplanned = balance["planned_ms"] is None
        reason = "the leader has not checked the balance yet" if unplanned else ""
    return {**balance, "reason": reason}


def _drains(answers: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the drained brokers, also those that are not registered, with their progress, which is None where they
    have not answered."""
    marks: dict[str, Any] = {}
    for answer in answers.values():
        marks |= answer.get("draining") or {}
    unknown: Mapping[str, Any] = {"left": None, "moved": None, "unloaded": None, "refused": []}
    return [
        {"broker": broker, **mark, **((answers.get(broker) or {}).get("drain") or unknown)}
        for broker, mark in sorted(marks.items())
    ]


_NO_BALANCE: Mapping[str, Any] = {
    "leads": False,
    "planned_ms": None,
    "spread": None,
    "spread_max": None,
    "loads": {},
    "reports": [],
    "skips": [],
    "moves": [],
}


async def owned_namespaces(engine: Engine, broker_id: str) -> dict[str, Any]:
    """Return NamespaceOwnershipStatus of each bundle that the broker owns. Raises NotFound for an unregistered id."""
    broker = await require(engine, broker_id)
    bundles = await engine.call_on(broker, OWNED_BUNDLES, NoArguments())
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {bundle: dict(status) for bundle in bundles}
