"""Operations on the subscriptions of a topic or of its partitions."""

from dataclasses import replace
from typing import Any, TypeVar

from engine.admin.api.arguments import MessagePosition, OnSubscription, OnTopic
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    REPLICATE,
    REPLICATED,
    SET_SUBSCRIPTION_PROPERTIES,
    SUBSCRIPTION_PROPERTIES,
    SUBSCRIPTIONS,
    CreateSubscription,
    Replicate,
    SubscriptionProperties,
)
from engine.admin.fan_out import on_each
from engine.base.errors import AlreadyExists, InvalidRequest, NotFound
from engine.base.names import TopicName
from engine.metadata.cached import fresh
from engine.rpc.operation import Operation
from engine.tenancy import topics as metadata
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

R = TypeVar("R")
S = TypeVar("S", bound=OnSubscription)


async def names(engine: Engine, name: TopicName) -> list[str]:
    """Return the names of the subscriptions, sorted; for a partitioned topic those of any partition."""
    by_part = await existence.on_each_member(engine, SUBSCRIPTIONS, OnTopic(name))
    return sorted({subscription for names in by_part.values() for subscription in names})


async def create(
    engine: Engine,
    name: TopicName,
    subscription: str,
    position: MessagePosition | None,
    properties: dict[str, str],
    *,
    replicated: bool,
) -> None:
    """Create a subscription at ``position`` (None: latest), on every partition. Raises AlreadyExists only when all of
    them have it."""
    if not name.persistent:
        raise InvalidRequest(
            "Create subscription on non-persistent topic can only be done through client"
        )
    await existence.require_namespace(engine, name.namespace)
    # Not from the cache: a partition that was just added must have the subscription, too.
    fresh(engine.store, metadata.partitioned_path(name))
    count = await existence.partitions_of(engine, name)
    parts = [name.partition_at(index) for index in range(count)] or [name]

    async def create_on(part: TopicName) -> AlreadyExists | None:
        args = CreateSubscription(part, subscription, position, properties, replicated)
        try:
            await engine.call(CREATE_SUBSCRIPTION, args)
        except AlreadyExists as error:
            return error
        return None

    conflicts = await on_each(parts, create_on)
    first = conflicts[0]
    if first is not None and all(conflicts):
        raise first


async def on_any(engine: Engine, operation: Operation[S, Any], args: S, missing: str = "") -> None:
    """Run ``operation`` on the topic, or on each partition that has the subscription. Raises NotFound, with the text
    ``missing`` if given, when none has it."""
    parts = await existence.members(engine, args.topic)
    if parts == [args.topic]:
        await engine.call(operation, args)
        return

    async def attempt(part: TopicName) -> bool:
        try:
            await engine.call(operation, replace(args, topic=part))
        except NotFound:
            return False
        return True

    if not any(await on_each(parts, attempt)):
        text = f"Subscription {args.subscription} not found for topic {args.topic}"
        raise NotFound(missing or text)


async def properties(engine: Engine, name: TopicName, subscription: str) -> dict[str, str]:
    """Return a subscription's properties; for a partitioned topic those of all partitions, where a later partition's
    value replaces an earlier one's."""
    args = OnSubscription(name, subscription)
    by_part = await _on_every(engine, SUBSCRIPTION_PROPERTIES, args)
    return {key: value for properties in by_part for key, value in properties.items()}


async def set_properties(
    engine: Engine, name: TopicName, subscription: str, properties: dict[str, str]
) -> None:
    """Replace a subscription's properties, on every partition. Raises NotFound when a partition lacks the subscription;
    they are replaced on the others."""
    args = SubscriptionProperties(name, subscription, properties)
    await _on_every(engine, SET_SUBSCRIPTION_PROPERTIES, args)


async def _on_every(engine: Engine, operation: Operation[S, R], args: S) -> list[R]:
    """Run ``operation`` on the topic or on each partition; return the answers. Raises NotFound when a partition lacks
    the subscription, or there is no partition."""
    parts = await existence.members(engine, args.topic)
    missing = f"Subscription {args.subscription} not found for topic {args.topic}"
    if not parts:
        raise NotFound(missing)
    try:
        return await on_each(parts, lambda part: engine.call(operation, replace(args, topic=part)))
    except NotFound as error:
        if parts != [args.topic]:
            raise NotFound(missing) from error
        raise


async def replicated(engine: Engine, name: TopicName, subscription: str) -> dict[str, bool]:
    """Return whether a subscription is to be replicated, by topic or partition."""
    parts = await existence.members(engine, name)
    args = OnSubscription(name, subscription)
    answers = await _on_every(engine, REPLICATED, args)
    return {str(part): answer for part, answer in zip(parts, answers, strict=True)}


async def replicate(
    engine: Engine, name: TopicName, subscription: str, *, replicated: bool
) -> None:
    """Store whether a subscription is to be replicated, on every partition."""
    await _on_every(engine, REPLICATE, Replicate(name, subscription, replicated))
