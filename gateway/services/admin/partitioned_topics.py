"""Operations on partitioned topics as a whole: their records, partitions and statistics."""

from collections.abc import Mapping
from typing import Any

from engine.admin import partitions
from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_STATS, TOPIC_STATS, InternalStats, TopicStats
from engine.admin.api.topics import GROW_ELSEWHERE, TERMINATE, GrowElsewhere
from engine.admin.fan_out import on_each
from engine.base.errors import NotFound, Unprocessable, Unsupported
from engine.base.names import TopicName
from engine.metadata.records import Stored
from engine.tenancy import topics as metadata
from engine.tenancy.geo.shadow_checks import check_source
from gateway.services.admin import existence, lookup, messages
from gateway.services.admin.summed_stats import sum_stats
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def create(engine: Engine, name: TopicName, count: int, properties: dict[str, str]) -> None:
    """Create a partitioned topic and its partitions. Raises PreconditionFailed for a partition's name."""
    metadata.check_parent(name)
    await check_source(engine.store, name, properties, count)

    async def is_loaded() -> bool:
        return not name.persistent and str(name) in await existence.loaded_nonpersistent(
            engine, name.namespace
        )

    await metadata.create_partitioned(engine.store, name, count, properties, is_loaded=is_loaded)


async def grow(engine: Engine, name: TopicName, count: int, *, only_here: bool = False) -> None:
    """Increase the number of partitions to ``count``, and unless ``only_here`` in the other clusters that the topic is
    replicated to. Raises Unprocessable for fewer than there are, NotReady when another cluster does not follow."""
    if count <= 0:
        present = await existence.partitions_of(engine, name)
        if present:
            raise Unprocessable(
                f"Desired partitions {count} can't be less than the current partitions {present}.",
            )
    await partitions.grow(engine.store, engine, name, count)
    if not only_here:
        await engine.call(GROW_ELSEWHERE, GrowElsewhere(name, count))


async def create_missed(engine: Engine, name: TopicName) -> None:
    """Create the partitions that the record counts and that do not exist, with the subscriptions of the others."""
    await partitions.create_missed(engine.store, engine, name)


async def delete(
    engine: Engine, name: TopicName, *, force: bool, seen: Mapping[str, Any] | None = None
) -> None:
    """Delete the partitions through their brokers, then the record. ``seen``: by partition, see ``DeleteTopic``."""
    try:
        await metadata.require_partitioned(engine.store, name)
    except NotFound as error:
        raise NotFound(f"Topic {name} not found.") from error
    await partitions.delete(engine.store, engine, name, force=force, seen=seen)


async def get_metadata(engine: Engine, name: TopicName, *, allow_missing: bool) -> Stored:
    """Return PartitionedTopicMetadata; ``allow_missing``: the caller is about to use the topic, which may create it."""
    await existence.require_namespace(engine, name.namespace)
    try:
        return await metadata.get_partitions(engine.store, name)
    except NotFound:
        loaded = not name.persistent and str(name) in await existence.loaded_nonpersistent(
            engine, name.namespace
        )
        if loaded:
            return dict(metadata.NO_PARTITIONS)
        if not allow_missing:
            raise
        return {
            **metadata.NO_PARTITIONS,
            "partitions": await lookup.partitions_to_use(engine, name),
        }


async def _get_record(engine: Engine, name: TopicName) -> Stored:
    record = await metadata.find_partitions(engine.store, name)
    if record is None and name.persistent:
        raise NotFound(f"Partitioned Topic {name} not found")
    if record is None:
        raise NotFound(f"Partitioned topic not found {name}")
    return record


async def stats(
    engine: Engine, name: TopicName, flags: dict[str, bool], *, per_partition: bool
) -> Json:
    """Return PartitionedTopicStats: sums, the record, and with ``per_partition`` each partition's statistics."""
    record = await _get_record(engine, name)
    by_name = await existence.on_each_member(engine, TOPIC_STATS, TopicStats(name, **flags))
    answer = sum_stats(list(by_name.values()))
    if not name.persistent:
        answer.setdefault("msgDropRate", 0.0)
    answer["metadata"] = record
    answer["partitions"] = by_name if per_partition else {}
    return answer


async def internal_stats(engine: Engine, name: TopicName) -> Json:
    """Return PartitionedTopicInternalStats."""
    record = await _get_record(engine, name)
    by_name = await existence.on_each_member(engine, INTERNAL_STATS, InternalStats(name))
    return {"metadata": record, "partitions": by_name}


async def terminate(engine: Engine, name: TopicName) -> Json:
    """Terminate every partition of a partitioned topic; return the last MessageId of each by its index."""
    existence.require_persistent(name)
    await existence.require_namespace(engine, name.namespace)
    count = await existence.partitions_of(engine, name)
    if not count:
        raise Unsupported(
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate,"
            " please use terminate commands"
        )
    parts = [name.partition_at(index) for index in range(count)]
    answers = await on_each(parts, lambda part: engine.call(TERMINATE, OnTopic(part)))
    return {
        str(index): {**messages.message_id(answer["last"]), "partitionIndex": -1}
        for index, answer in enumerate(answers)
    }
