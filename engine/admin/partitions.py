"""Changes of partitioned topics that need the brokers of their partitions: growth, missing partitions, deletion.

A partition is included in the count of the partitioned topic's record only after it has the durable subscriptions of
the others, at its earliest message. A producer may find the partition long before the consumers do, and these must
receive what it publishes there. Every change can be repeated after a partial failure. Functions raise Refusal with
Pulsar's texts, and the store's errors. After cancellation a change may have happened completely, in part, or not.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DURABLE_SUBSCRIPTIONS,
    CreateSubscription,
)
from engine.admin.api.topics import DELETE_TOPIC, FORGET_PARTITIONED, DeleteTopic
from engine.admin.fan_out import on_each
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
from engine.rpc.operation import Caller
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
"""Number of lost compare-and-sets of the record after which a change fails."""
IN_USE = "Topic has active producers/subscriptions"

Properties = dict[str, str]


async def grow(store: MetadataStore, brokers: Caller, topic: TopicName, partitions: int) -> None:
    """Increase the number of partitions; the current number completes a failed growth.

    Raises Conflict when the topic is not partitioned or is being deleted, Unprocessable for fewer partitions than now,
    NotAcceptable above the limit.
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
        await _complete(store, brokers, present, new, record)
        if partitions == before:
            return
        record["partitions"] = partitions
        try:
            await store.put(partitioned_path(topic), encode_json(record), version)
        except (BadVersionError, NoNodeError):
            continue  # the record was changed by another writer: decide again by the new one
        # Consumers that read the old number may have created subscriptions meanwhile.
        await _complete(store, brokers, present, new, record)
        return
    raise Conflict("Concurrent modification")


async def create_missed(store: MetadataStore, brokers: Caller, topic: TopicName) -> None:
    """Create the partitions that the record counts and that are missing, with the durable subscriptions of the others.

    Raises NotFound when the topic is not partitioned.
    """
    try:
        record, _ = await _record(store, topic)
    except Conflict as error:
        raise NotFound(f"Topic {topic} does not exist") from error
    parts = _range(topic, 0, int(record["partitions"]))
    await _complete(store, brokers, parts, parts, record)


async def delete(
    store: MetadataStore,
    brokers: Caller,
    topic: TopicName,
    *,
    force: bool = False,
    seen: Mapping[str, Any] | None = None,
) -> None:
    """Delete all partitions, also those beyond the count that a failed growth created, then the record.

    The record is marked as deleted meanwhile, so that no client creates a partition again. Schemas, policies and
    permissions, which the partitions share, are deleted after the last partition. ``seen`` has the argument ``seen`` of
    DELETE_TOPIC for each partition by name.

    Raises NotFound when no topic of that name exists, Conflict for a plain topic, Conflict when a partition holds more
    than was seen. Raises PreconditionFailed when a partition is in use and ``force`` is not set: that partition remains
    with its contents. No partition was deleted then, unless the use began during the deletion.
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
        await brokers.call(FORGET_PARTITIONED, OnTopic(topic))
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
    """Check the name of a topic that is not partitioned; see ``check_parent``.

    An existing partitioned topic may have such a name, if it was created by its use.
    """
    if await find_partitions(store, topic) is None:
        check_parent(topic)


async def existing_partitions(store: MetadataStore, topic: TopicName) -> list[TopicName]:
    """Return the partitions of ``topic`` that exist as topics, by index, independently of its record.

    For a non-persistent topic, these are the partitions in its record, which may be loaded.
    """
    if not topic.persistent:
        record = await find_partitions(store, topic)
        return _range(topic, 0, int(record["partitions"])) if record is not None else []
    path = paths.managed_ledgers(str(topic.namespace))
    names = await names_below(fresh(store, path), path, full_names)
    start = f"{topic}{PARTITION_SUFFIX}"
    candidates = (TopicName.parse(name) for name in names if name.startswith(start))
    parts = [part for part in candidates if part.partition >= 0 and part.partitioned == topic]
    return sorted(parts, key=lambda part: part.partition)


def _range(topic: TopicName, first: int, stop: int) -> list[TopicName]:
    return [topic.partition_at(index) for index in range(first, stop)]


async def _record(store: MetadataStore, topic: TopicName) -> tuple[Document, int]:
    """Return the record and its version. Raises Conflict without a record, or when it is marked as deleted."""
    path = partitioned_path(topic)
    try:
        value, stat = await fresh(store, path).get(path)
    except NoNodeError as error:
        raise Conflict(f"Topic {topic} is not the partitioned topic.") from error
    record = partitioned_record(value, path)
    if record is None:  # also for the claim of a creation in progress
        raise Conflict(f"Topic {topic} is not the partitioned topic.")
    if record.get("deleted"):
        raise Conflict(f"Topic {topic} is being deleted")
    return record, stat.version


async def _complete(
    store: MetadataStore,
    brokers: Caller,
    present: Sequence[TopicName],
    targets: Sequence[TopicName],
    record: Document,
) -> None:
    """Create the missing ones of ``targets``, with every durable subscription that a partition of ``present`` has.

    ``record``: that of the partitioned topic.
    """
    if not targets or not targets[0].persistent:
        return
    subscriptions = await _subscriptions(store, brokers, present)

    async def complete(target: TopicName) -> None:
        await create_missing(store, target, record.get("properties"))
        for name, properties in subscriptions.items():
            try:
                args = CreateSubscription(target, name, EARLIEST_MESSAGE, properties)
                await brokers.call(CREATE_SUBSCRIPTION, args)
            except AlreadyExists:
                continue

    await on_each(targets, complete)


async def _subscriptions(
    store: MetadataStore, brokers: Caller, parts: Sequence[TopicName]
) -> dict[str, Properties]:
    """Return the durable subscriptions of the existing partitions, as their owners report them.

    A list from the metadata store may lack a subscription that was confirmed already.
    """

    async def subscriptions_of(part: TopicName) -> dict[str, Properties]:
        if not await topic_exists(fresh(store, ledger_path(part)), part):
            return {}
        return await brokers.call(DURABLE_SUBSCRIPTIONS, OnTopic(part))

    subscriptions: dict[str, Properties] = {}
    for of_partition in await on_each(parts, subscriptions_of):
        for name, properties in of_partition.items():
            subscriptions.setdefault(name, properties)
    return subscriptions


async def _refuse_use(brokers: Caller, parts: Sequence[TopicName]) -> None:
    async def refuse_use(part: TopicName) -> None:
        try:
            await brokers.call(DELETE_TOPIC, DeleteTopic(part, dry=True))
        except NotFound:
            return
        except PreconditionFailed as error:
            raise PreconditionFailed(IN_USE) from error

    await on_each(parts, refuse_use)


def _refuse_unseen(parts: Sequence[TopicName], seen: Mapping[str, Any]) -> None:
    for part in parts:
        if str(part) not in seen:
            raise Conflict(f"Partition {part.partition} was made since the preview")


async def _check_seen(brokers: Caller, parts: Sequence[TopicName], seen: Mapping[str, Any]) -> None:
    _refuse_unseen(parts, seen)

    async def check(part: TopicName) -> None:
        args = DeleteTopic(part, force=True, seen=seen[str(part)], dry=True)
        try:
            await brokers.call(DELETE_TOPIC, args)
        except NotFound:
            return

    await on_each(parts, check)


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
        # A partition may have been created between the check and the mark.
        _refuse_unseen(parts, seen)

    async def delete_partition(part: TopicName) -> None:
        try:
            known = None if seen is None else seen[str(part)]
            await brokers.call(DELETE_TOPIC, DeleteTopic(part, force, known))
        except PreconditionFailed as error:
            raise PreconditionFailed(IN_USE) from error
        except NotFound:
            return

    await on_each(parts, delete_partition)


async def _mark(store: MetadataStore, topic: TopicName, *, deleted: bool) -> int:
    """Set or remove the record's mark, and return its version. Raises NotFound without a record."""
    path = partitioned_path(topic)
    for attempt in range(RACES_MAX):
        try:
            # First by the record that the caller has read: the compare-and-set fails when it is not the last one.
            value, stat = await (fresh(store, path) if attempt else store).get(path)
            record = decode_json(value, "partitioned topic")
            if bool(record.get("deleted")) is deleted:
                if attempt:
                    return stat.version
                continue  # nothing is written, so that only the service can confirm it
            record["deleted"] = deleted
            return (await store.put(path, encode_json(record), stat.version)).version
        except BadVersionError:
            continue
        except NoNodeError as error:
            raise NotFound(f"Partitioned Topic {topic} not found") from error
    raise Conflict("Concurrent modification")


async def _unmark(store: MetadataStore, topic: TopicName) -> None:
    """Remove the mark after a failed deletion. If this fails as well, the deletion can be repeated."""
    try:
        await _mark(store, topic, deleted=False)
    except (Refusal, WorldError) as error:
        log.warning("still marked as deleted topic=%s: %s", topic, error)
