"""Statistics of topics and of their backlogs."""

from typing import Any

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.statistics import (
    BACKLOG_SIZE,
    HELD_LEDGERS,
    INTERNAL_INFO,
    INTERNAL_STATS,
    TOPIC_STATS,
    BacklogSize,
    InternalStats,
    TopicStats,
)
from engine.base.errors import Unsupported
from engine.base.names import TopicName
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def stats(engine: Engine, name: TopicName, flags: dict[str, bool]) -> Json:
    """Return TopicStats of one concrete topic."""
    await existence.require(engine, name)
    return await engine.call(TOPIC_STATS, TopicStats(name, **flags))


async def internal_stats(engine: Engine, name: TopicName, *, with_metadata: bool) -> Json:
    """Return PersistentTopicInternalStats of one concrete topic."""
    await existence.require(engine, name)
    return await engine.call(INTERNAL_STATS, InternalStats(name, with_metadata))


async def held_space(engine: Engine, name: TopicName) -> dict[str, Json]:
    """Return what holds the ledgers of a topic, or of each created partition, by name; see HELD_LEDGERS."""
    if not name.persistent:
        raise Unsupported("A non-persistent topic has no ledgers")
    return await existence.on_each_member(engine, HELD_LEDGERS, OnTopic(name))


async def internal_info(engine: Engine, name: TopicName) -> Json:
    """Return PartitionedManagedLedgerInfo of a partitioned topic, else ManagedLedgerInfo."""
    if not name.persistent:
        raise Unsupported("Internal info of a non-persistent topic is not kept")
    infos = await existence.on_each_member(engine, INTERNAL_INFO, OnTopic(name))
    return infos.get(str(name), {"version": 0, "partitions": infos})


async def backlog_size(engine: Engine, name: TopicName, position: MessagePosition) -> int:
    """Return the number of stored bytes after a position of a plain topic or one partition."""
    await existence.require_any(engine, name)
    await existence.refuse_parent(
        engine, name, "calculate backlog size is not allowed for partitioned-topic"
    )
    return await engine.call(BACKLOG_SIZE, BacklogSize(name, position))
