"""Changes of partitioned topics that need the brokers of their partitions: growth, missing partitions, deletion.

A partition is only promised to clients (by the count in the partitioned topic's record) when it has the durable
subscriptions of the others, at its earliest message: a producer may find it long before the consumers do, and what it
publishes there belongs to them. Every change can be repeated after it failed half-way. Raises Refusal with Pulsar's
texts, and the store's own errors. Cancelled: a change may or may not have happened, in parts.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from engine.admin import api
from engine.admin.fan_out import on_each
from engine.admin.operation import Caller
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    PreconditionFailed,
    Refusal,
    Unprocessable,
    WorldError,
)
from engine.base.names import PARTITION_SUFFIX, TopicName
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Document, decode_json, encode_json
from engine.metadata.store import BadVersionError, MetadataStore, NoNodeError
from engine.tenancy.topics import (
    check_count,
    check_parent,
    create_missing,
    find_partitions,
    full_names,
    ledger_path,
    names_below,
    partitioned_path,
    partitioned_record,
    require_namespace,
    require_partitioned,
    topic_exists,
)

log = logging.getLogger(__name__)

RACES_MAX = 100
"""Lost compare-and-sets of the record after which a growth gives up."""
IN_USE = "Topic has active producers/subscriptions"

Properties = dict[str, str]


async def grow(store: MetadataStore, brokers: Caller, topic: TopicName, partitions: int) -> None:
    """Raise the number of partitions; the number there is makes up for what a growth that failed left undone.

    Conflict when not partitioned or being deleted, Unprocessable for fewer than now, NotAcceptable above the limit.
    """
    await _check_parent(store, topic)
    await require_namespace(store, topic)
    check_count(partitions)
    for _ in range(RACES_MAX):
        record, version = await _record(store, topic)
        before = int(record["partitions"])
        if partitions < before:
            raise Unprocessable(
                f"Desired partitions {partitions} can't be less than the current partitions {before}.",
            )
        present = _range(topic, 0, before)
        new = _range(topic, before, partitions) or present
        await _complete(store, brokers, present, new)
        if partitions == before:
            return
        record["partitions"] = partitions
        try:
            await store.put(partitioned_path(topic), encode_json(record), version)
        except (BadVersionError, NoNodeError):
            continue  # somebody else changed it: what he left decides
        # Subscriptions that consumers made meanwhile, who were told of the old number.
        await _complete(store, brokers, present, new)
        return
    raise Conflict("Concurrent modification")


async def create_missed(store: MetadataStore, brokers: Caller, topic: TopicName) -> None:
    """Make the partitions that the record promises and nobody made, and on each the durable subscriptions of the
    others. NotFound when not partitioned."""
    try:
        record, _ = await _record(store, topic)
    except Conflict as error:
        raise NotFound(f"Topic {topic} does not exist") from error
    parts = _range(topic, 0, int(record["partitions"]))
    await _complete(store, brokers, parts, parts)


async def delete(
    store: MetadataStore,
    brokers: Caller,
    topic: TopicName,
    *,
    force: bool = False,
    seen: Mapping[str, Any] | None = None,
) -> None:
    """Delete all partitions, also those a failed growth left behind the count, then the record.

    NotFound when nothing of that name exists, Conflict for a plain topic, PreconditionFailed when a partition is in
    use and not ``force``: then nothing was deleted, unless it came into use meanwhile; it stays with all that it holds.
    ``seen``: of each partition by name what DELETE_TOPIC takes; Conflict when one holds more by now. The record is
    marked as deleted meanwhile, so that no client makes a partition anew. Schemas, policies and permissions, which are
    of all partitions, go when the last of them is gone.
    """
    await _check_parent(store, topic)
    await require_partitioned(store, topic)
    if not force:
        await _refuse_use(brokers, await existing_partitions(store, topic))
    if seen is not None:
        await _check_seen(brokers, await existing_partitions(store, topic), seen)
    version = await _mark(store, topic, deleted=True)
    try:
        await _delete_partitions(store, brokers, topic, force=force, seen=seen)
        await brokers.call(api.FORGET_PARTITIONED, api.OnTopic(topic))
    except BaseException:
        await _unmark(store, topic)
        raise
    try:
        await store.delete(partitioned_path(topic), version)
    except NoNodeError as error:
        raise NotFound(f"Partitioned Topic {topic} not found") from error
    except BadVersionError as error:
        raise Conflict("Concurrent modification") from error


async def _check_parent(store: MetadataStore, topic: TopicName) -> None:
    """As ``check_parent``, but for a topic that is partitioned: one that its use made may have such a name."""
    if await find_partitions(store, topic) is None:
        check_parent(topic)


async def existing_partitions(store: MetadataStore, topic: TopicName) -> list[TopicName]:
    """Partitions of ``topic`` that exist as topics, whatever its record says, by index; of a non-persistent one those
    that may be loaded, which its record tells."""
    if not topic.persistent:
        record = await find_partitions(store, topic)
        return _range(topic, 0, int(record["partitions"])) if record is not None else []
    path = paths.managed_ledgers(str(topic.namespace))
    names = await names_below(fresh(store, path), path, full_names)
    start = f"{topic}{PARTITION_SUFFIX}"
    found = (TopicName.parse(name) for name in names if name.startswith(start))
    parts = [each for each in found if each.partition >= 0 and each.partitioned == topic]
    return sorted(parts, key=lambda part: part.partition)


def _range(topic: TopicName, first: int, stop: int) -> list[TopicName]:
    return [topic.partition_at(index) for index in range(first, stop)]


async def _record(store: MetadataStore, topic: TopicName) -> tuple[Document, int]:
    """The record and its version; Conflict without one, or when it is being deleted."""
    path = partitioned_path(topic)
    try:
        value, stat = await fresh(store, path).get(path)
    except NoNodeError as error:
        raise Conflict(f"Topic {topic} is not the partitioned topic.") from error
    record = partitioned_record(value, path)
    if record is None:  # also a claim of who makes it
        raise Conflict(f"Topic {topic} is not the partitioned topic.")
    if record.get("deleted"):
        raise Conflict(f"Topic {topic} is being deleted")
    return record, stat.version


async def _complete(
    store: MetadataStore,
    brokers: Caller,
    present: Sequence[TopicName],
    targets: Sequence[TopicName],
) -> None:
    """Make ``targets`` exist, with every durable subscription that a partition of ``present`` has."""
    if not targets or not targets[0].persistent:
        return
    wanted = await _subscriptions(store, brokers, present)

    async def one(target: TopicName) -> None:
        await create_missing(store, target)
        for name, properties in wanted.items():
            try:
                args = api.CreateSubscription(target, name, api.EARLIEST_MESSAGE, properties)
                await brokers.call(api.CREATE_SUBSCRIPTION, args)
            except AlreadyExists:
                continue

    await on_each(targets, one)


async def _subscriptions(
    store: MetadataStore, brokers: Caller, parts: Sequence[TopicName]
) -> dict[str, Properties]:
    """Durable subscriptions of the partitions that exist, from their owners: a list read from the metadata store may
    be older than a subscription that was confirmed."""

    async def one(part: TopicName) -> dict[str, Properties]:
        if not await topic_exists(fresh(store, ledger_path(part)), part):
            return {}
        return await brokers.call(api.DURABLE_SUBSCRIPTIONS, api.OnTopic(part))

    wanted: dict[str, Properties] = {}
    for found in await on_each(parts, one):
        for name, properties in found.items():
            wanted.setdefault(name, properties)
    return wanted


async def _refuse_use(brokers: Caller, parts: Sequence[TopicName]) -> None:
    async def one(part: TopicName) -> None:
        try:
            args = api.TopicStats(part, subscription_backlog_size=False)
            stats = await brokers.call(api.TOPIC_STATS, args)
        except NotFound:
            return
        if stats["publishers"] or any(s["consumers"] for s in stats["subscriptions"].values()):
            raise PreconditionFailed(IN_USE)

    await on_each(parts, one)


def _refuse_unseen(parts: Sequence[TopicName], seen: Mapping[str, Any]) -> None:
    for part in parts:
        if str(part) not in seen:
            raise Conflict(f"Partition {part.partition} was made since the preview")


async def _check_seen(brokers: Caller, parts: Sequence[TopicName], seen: Mapping[str, Any]) -> None:
    _refuse_unseen(parts, seen)

    async def one(part: TopicName) -> None:
        args = api.DeleteTopic(part, force=True, seen=seen[str(part)], dry=True)
        try:
            await brokers.call(api.DELETE_TOPIC, args)
        except NotFound:
            return

    await on_each(parts, one)


async def _delete_partitions(
    store: MetadataStore,
    brokers: Caller,
    topic: TopicName,
    *,
    force: bool,
    seen: Mapping[str, Any] | None,
) -> None:
    parts = await existing_partitions(store, topic)
    if seen is not None:
        _refuse_unseen(parts, seen)  # made since they were checked, before the record was marked

    async def one(part: TopicName) -> None:
        try:
            known = None if seen is None else seen[str(part)]
            await brokers.call(api.DELETE_TOPIC, api.DeleteTopic(part, force, known))
        except PreconditionFailed as error:
            raise PreconditionFailed(IN_USE) from error
        except NotFound:
            return

    await on_each(parts, one)
    left = await existing_partitions(store, topic)
    if left and topic.persistent:
        raise PreconditionFailed(f"Topic partition {left[0]} still exists")


async def _mark(store: MetadataStore, topic: TopicName, *, deleted: bool) -> int:
    """Set the record's mark, whatever else changes in it; its version then. NotFound without a record."""
    path = partitioned_path(topic)
    for _ in range(RACES_MAX):
        try:
            value, stat = await fresh(store, path).get(path)
            record = decode_json(value, "partitioned topic")
            if bool(record.get("deleted")) is deleted:
                return stat.version
            record["deleted"] = deleted
            return (await store.put(path, encode_json(record), stat.version)).version
        except BadVersionError:
            continue
        except NoNodeError as error:
            raise NotFound(f"Partitioned Topic {topic} not found") from error
    raise Conflict("Concurrent modification")


async def _unmark(store: MetadataStore, topic: TopicName) -> None:
    """After a deletion that failed. When this fails, too, the topic stays marked, and its deletion can be repeated."""
    try:
        await _mark(store, topic, deleted=False)
    except (Refusal, WorldError) as error:
        log.warning("still marked as deleted topic=%s: %s", topic, error)
