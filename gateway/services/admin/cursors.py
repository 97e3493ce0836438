"""Operations that move or analyse the cursor of a subscription."""

from typing import Any

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.cursors import (
    ANALYZE_BACKLOG,
    EXPIRE_MESSAGES,
    EXPIRE_TO_POSITION,
    RESET_CURSOR,
    SKIP_MESSAGES,
    AnalyzeBacklog,
    ExpireMessages,
    ExpireToPosition,
    ResetCursor,
    Skip,
)
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.admin.fan_out import on_each
from engine.base.errors import Refusal
from engine.base.names import TopicName
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def skip(engine: Engine, name: TopicName, subscription: str, count: int) -> None:
    """Acknowledge the next ``count`` entries."""
    await existence.refuse_parent(
        engine, name, "Skip messages on a partitioned topic is not allowed"
    )
    await engine.call(SKIP_MESSAGES, Skip(name, subscription, count))


async def reset_to_position(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition
) -> None:
    """Move a subscription to a message of a plain topic or one partition."""
    await existence.refuse_parent(
        engine, name, "Reset-cursor at position is not allowed for partitioned-topic"
    )
    args = ResetCursor(name, subscription, position=position)
    await engine.call(RESET_CURSOR, args)


async def expire_to_position(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition
) -> None:
    """Acknowledge everything up to a message of a plain topic or one partition."""
    await existence.refuse_parent(
        engine, name, "Expire message at position is not supported for partitioned-topic"
    )
    args = ExpireToPosition(name, subscription, position)
    await engine.call(EXPIRE_TO_POSITION, args)


async def expire_all(engine: Engine, name: TopicName, seconds: int) -> None:
    """Acknowledge messages older than ``seconds`` in every subscription. When some are refused, as those that are
    closed to the caller, the others are tried, and the first refusal is raised then."""

    async def expire(part: TopicName) -> list[Refusal]:
        refusals: list[Refusal] = []
        for subscription in await engine.call(SUBSCRIPTIONS, OnTopic(part)):
            args = ExpireMessages(part, subscription, seconds)
            try:
                await engine.call(EXPIRE_MESSAGES, args)
            except Refusal as error:
                if error.retriable:
                    # The broker does not answer, so that each further subscription would wait as long.
                    raise
                refusals.append(error)
        return refusals

    for refusals in await on_each(await existence.members(engine, name), expire):
        if refusals:
            raise refusals[0]


async def analyze_backlog(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition | None
) -> Json:
    """Return the analysis of a subscription's backlog, see ANALYZE_BACKLOG."""
    await existence.refuse_parent(
        engine,
        name,
        "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition",
    )
    args = AnalyzeBacklog(name, subscription, position)
    return await engine.call(ANALYZE_BACKLOG, args)
