"""The target of an analysis, completed and checked before a run is queued."""

import asyncio
from functools import partial
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_INFO, INTERNAL_STATS, InternalStats
from engine.auth.identity import Identity
from engine.base.errors import (
    Failed,
    InvalidNameError,
    NotFound,
    NotReady,
    PreconditionFailed,
    UnusableField,
)
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.namespaces import get_policies
from engine.tenancy.tenants import get_tenant
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters
from gateway.http.auth.access import authorize_needs
from gateway.http.auth.identity import principal_of
from gateway.jobs.rights import need_of
from gateway.services.admin import existence
from gateway.services.engine_link import CALL_TIMEOUT_S, Engine
from spark_jobs.analysis import Analysis, AnalysisTarget

CHECK_S = 3.0
"""Time within which brokers must report whether a topic holds messages; without an answer the run is queued."""


async def completed(
    engine: Engine, kind: AnalysisTarget, parameters: dict[str, Any], field: str = ""
) -> dict[str, Any]:
    """Return the parameters with the full name of their target, which must exist.

    A topic must be persistent and hold messages, in any of its partitions. ``field``: the parameter with the name,
    where it is not that of the kind. Raises UnusableField.
    """
    if kind is AnalysisTarget.CLUSTER:
        return parameters
    field = field or kind.value
    check = {
        AnalysisTarget.TOPIC: _topic,
        AnalysisTarget.NAMESPACE: _namespace,
        AnalysisTarget.TENANT: _tenant,
    }[kind]
    try:
        return {**parameters, field: await check(engine, str(parameters[field]))}
    except (InvalidNameError, PreconditionFailed) as error:
        raise UnusableField(f"parameters.{field}", str(error)) from error


async def also_read(
    analysis: Analysis,
    parameters: dict[str, Any],
    clusters: Clusters,
    cluster: Cluster,
    identity: Identity,
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return the parameters with the full names of further topics that are read, and these topics as runs store them.

    ``cluster``: that of the run. The caller needs the right to each topic. Raises UnusableField, AccessRefusedError.
    """
    also_reads = []
    for names in analysis.also_reads:
        if not parameters.get(names.topic):
            continue
        home = _named(names.cluster, parameters, clusters, cluster)
        try:
            need = need_of((AnalysisTarget.TOPIC, str(parameters[names.topic])))
        except InvalidNameError as error:
            raise UnusableField(f"parameters.{names.topic}", str(error)) from error
        await authorize_needs([need], identity, home)
        parameters = await home.link.arun(
            partial(completed, kind=AnalysisTarget.TOPIC, parameters=parameters, field=names.topic),
            principal=principal_of(identity),
            timeout_s=CALL_TIMEOUT_S,
        )
        also_reads.append(
            {"cluster": stored_name(home, clusters), "topic": parameters[names.topic]}
        )
    return parameters, also_reads


def stored_name(cluster: Cluster, clusters: Clusters) -> str:
    """Return the name by which runs store a cluster: an empty one for the default."""
    return "" if cluster is clusters.default else cluster.name


def _named(field: str, parameters: dict[str, Any], clusters: Clusters, cluster: Cluster) -> Cluster:
    """Return the cluster that a parameter names, ``cluster`` for none. Raises UnusableField."""
    name = str(parameters.get(field) or "")
    try:
        return clusters.named(name) if name else cluster
    except NotFound as error:
        raise UnusableField(f"parameters.{field}", error.reason) from error


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
