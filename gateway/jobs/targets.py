"""The target of an analysis, completed and checked before a run is queued."""

import asyncio
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_INFO, INTERNAL_STATS, InternalStats
from engine.base.errors import (
    Failed,
    InvalidField,
    InvalidNameError,
    NotFound,
    NotReady,
    PreconditionFailed,
)
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.namespaces import get_policies
from engine.tenancy.tenants import get_tenant
from gateway.services.admin import existence
from gateway.services.engine_link import Engine
from spark_jobs.analysis import AnalysisTarget

CHECK_S = 3.0
"""Time within which brokers must report whether a topic holds messages; without an answer the run is queued."""


async def completed(
    engine: Engine, kind: AnalysisTarget, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Return the parameters with the full name of their target, which must exist.

    A topic must be persistent and hold messages, in any of its partitions. Raises InvalidField.
    """
    if kind is AnalysisTarget.CLUSTER:
        return parameters
    check = {
        AnalysisTarget.TOPIC: _topic,
        AnalysisTarget.NAMESPACE: _namespace,
        AnalysisTarget.TENANT: _tenant,
    }[kind]
    try:
        return {**parameters, kind.value: await check(engine, str(parameters[kind]))}
    except (InvalidNameError, PreconditionFailed) as error:
        raise InvalidField(f"parameters.{kind}", str(error)) from error


async def _tenant(engine: Engine, given: str) -> str:
    try:
        await get_tenant(engine.store, given)
    except NotFound as error:
        raise PreconditionFailed(f"there is no tenant {given}") from error
    return given


async def _namespace(engine: Engine, given: str) -> str:
    name = NamespaceName.parse(given)
    try:
        await get_policies(engine.store, name)
    except NotFound as error:
        raise PreconditionFailed(f"there is no namespace {name}") from error
    return str(name)


async def _topic(engine: Engine, given: str) -> str:
    name = TopicName.parse(given)
    if not name.persistent:
        raise PreconditionFailed(f"{name} is not persistent: it keeps nothing that could be read")
    try:
        members = await existence.members(engine, name)
        async with asyncio.timeout(CHECK_S):
            empty = await _empty(engine, members)
    except NotFound as error:
        raise PreconditionFailed(f"there is no topic {name}: {error.reason}") from error
    except (TimeoutError, NotReady, Failed):
        empty = False  # Unknown: no broker answers now, and unknown is not empty.
    if empty:
        raise PreconditionFailed(f"{name} holds no messages")
    return str(name)


async def _empty(engine: Engine, members: list[TopicName]) -> bool:
    """Return whether no partition holds an entry.

    Closed ledgers in the metadata are read first, since no broker has to load the topic for them; then the owners are
    asked for their open ledgers.
    """
    for name in members:
        info = await engine.call(INTERNAL_INFO, OnTopic(name))
        if any(int(ledger.get("entries") or 0) for ledger in info["ledgers"]):
            return False
    for name in members:
        stats = await engine.call(INTERNAL_STATS, InternalStats(name))
        if stats["numberOfEntries"]:
            return False
    return True
