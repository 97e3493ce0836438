"""Existence checks with the texts of Pulsar's REST interface, and calls to every partition of a partitioned topic."""

from dataclasses import replace
from typing import TypeVar

from engine.admin.api.arguments import OnTopic
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.fan_out import on_each
from engine.base.errors import NotAcceptable, NotFound, Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Stored
from engine.rpc.operation import Operation
from engine.tenancy import topics as metadata
from engine.tenancy.geo.homes import HeldElsewhereError, peer_holding
from engine.tenancy.namespaces import get_policies
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

R = TypeVar("R")
T = TypeVar("T", bound=OnTopic)


async def require_namespace(engine: Engine, namespace: NamespaceName) -> Stored:
    """Return the namespace's policies. Raises NotFound with the text of the topic routes."""
    try:
        return await get_policies(engine.store, namespace)
    except NotFound as error:
        raise NotFound("Namespace not found") from error


async def require_held(engine: Engine, namespace: NamespaceName) -> None:
    """Raise HeldElsewhereError for a namespace that a peer of this cluster holds, PreconditionFailed for one that
    neither holds. One that does not exist is left to what is done next."""
    try:
        policies = await get_policies(engine.store, namespace)
    except NotFound:
        return
    peer = await peer_holding(engine.store, namespace, policies, engine.cluster)
    if peer is not None:
        raise HeldElsewhereError(namespace, peer.get("serviceUrl") or "")


async def require(engine: Engine, name: TopicName) -> None:
    """Raise NotFound unless a plain topic or partition of this name exists.

    Only the namespace is checked for a non-persistent topic: it exists only at its owner.
    """
    await require_namespace(engine, name.namespace)
    if not name.persistent or await metadata.topic_exists(engine.store, name):
        return
    if name.partition >= 0 and await partitions_of(engine, name.partitioned):
        raise NotFound("Topic partitions were not yet created")
    raise NotFound(f"Topic {name} not found")


async def require_any(engine: Engine, name: TopicName) -> None:
    """Raise NotFound unless a topic of that name exists, plain or partitioned; a non-persistent one exists while it is
    loaded."""
    missing = NotFound(f"Topic {name} not found")
    try:
        if await partitions_of(engine, name):
            return
        await require(engine, name)
    except NotFound as error:
        raise missing from error
    if not name.persistent and str(name) not in await loaded_nonpersistent(engine, name.namespace):
        raise missing


async def partitions_of(engine: Engine, name: TopicName) -> int:
    """Return the number of partitions, 0 when ``name`` is not a partitioned topic."""
    record = await metadata.find_partitions(engine.store, name)
    return int(record["partitions"]) if record is not None else 0


async def members(engine: Engine, name: TopicName) -> list[TopicName]:
    """Return the topic itself, or a partitioned topic's existing partitions, non-persistent ones if they are loaded.
    Raises NotFound when neither exists."""
    count = await partitions_of(engine, name)
    if count == 0:
        await require(engine, name)
        return [name]
    parts = [name.partition_at(index) for index in range(count)]
    if not name.persistent:
        loaded = await loaded_nonpersistent(engine, name.namespace)
        return [part for part in parts if str(part) in loaded]
    exist = await on_each(parts, lambda part: metadata.topic_exists(engine.store, part))
    return [part for part, exists in zip(parts, exist, strict=True) if exists]


async def on_each_member(engine: Engine, operation: Operation[T, R], args: T) -> dict[str, R]:
    """Run ``operation`` on the topic, or on each of ``members``; return the answers by name."""
    parts = await members(engine, args.topic)
    answers = await on_each(parts, lambda part: engine.call(operation, replace(args, topic=part)))
    return {str(part): answer for part, answer in zip(parts, answers, strict=True)}


async def refuse_parent(engine: Engine, name: TopicName, refusal: str) -> None:
    """Raise Unsupported with ``refusal`` when the topic is partitioned, NotFound when it does not exist."""
    if await partitions_of(engine, name):
        raise Unsupported(refusal)
    await require(engine, name)


async def loaded_nonpersistent(engine: Engine, namespace: NamespaceName) -> list[str]:
    """Return the non-persistent topics of a namespace that any broker has loaded, sorted."""
    args = LoadedTopics(namespace)
    brokers = await engine.admin.brokers()
    by_broker = await each(brokers, lambda broker: engine.call_on(broker, TOPICS, args))
    return sorted(
        {name for names in by_broker for name in names if name.startswith("non-persistent://")}
    )


def require_persistent(name: TopicName) -> None:
    """Raise NotAcceptable for a non-persistent topic."""
    if not name.persistent:
        raise NotAcceptable("Need to provide a persistent topic name")


async def require_plain(engine: Engine, name: TopicName) -> None:
    """Raise NotFound unless a topic of that name exists that is not a partitioned topic, see ``require_any``."""
    if await partitions_of(engine, name):
        raise NotFound(f"Topic {name} not found")
    await require_any(engine, name)
