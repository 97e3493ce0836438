"""Operations on topics and subscriptions as Pulsar's REST interface has them: existence checks with its texts, and
calls to every partition of a partitioned topic."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from engine.admin import partitions as partitioned_topics
from engine.admin.api.arguments import MessagePosition, OnSubscription, OnTopic
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
from engine.admin.api.messages import (
    EXAMINE,
    LAST_MESSAGE_ID,
    MESSAGE_BY_ID,
    MESSAGE_ID_BY_TIME,
    PEEK,
    Examine,
    MessageById,
    MessageIdByTime,
    Peek,
)
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.api.statistics import (
    BACKLOG_SIZE,
    INTERNAL_INFO,
    INTERNAL_STATS,
    TOPIC_STATS,
    BacklogSize,
    InternalStats,
    TopicStats,
)
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
from engine.admin.api.topics import (
    CHANGE_PROPERTIES,
    COMPACT,
    COMPACTION_STATUS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    LOOKUP,
    PARTITIONS_TO_USE,
    TERMINATE,
    TOPIC_PROPERTIES,
    TRIM,
    TRUNCATE,
    UNLOAD,
    ChangeProperties,
    CreateTopic,
    DeleteTopic,
)
from engine.admin.fan_out import on_each
from engine.admin.operation import Operation
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidNameError,
    InvalidRequest,
    NotAcceptable,
    NotBuilt,
    NotFound,
    PreconditionFailed,
    Unprocessable,
    Unsupported,
)
from engine.base.names import PERSISTENT, NamespaceName, TopicName, check_subscription
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Stored
from engine.tenancy import grants
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import bundles_beside, get_bundles, get_policies, namespace_name
from engine.tenancy.nodes import find_node
from gateway.services.catalog import each
from gateway.services.engine_link import Engine
from gateway.services.partitioned import sum_stats

Json = dict[str, Any]
R = TypeVar("R")
T = TypeVar("T", bound=OnTopic)
S = TypeVar("S", bound=OnSubscription)


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """Return the topic that path segments name. Raises PreconditionFailed."""
    parent = namespace_name(tenant, namespace)
    try:
        return parent.topic(topic, domain)
    except InvalidNameError as error:
        raise PreconditionFailed(f"Topic name is not valid: {error}") from error


def subscription_name(name: str) -> str:
    """Return ``name`` if it is a valid subscription name. Raises PreconditionFailed."""
    try:
        return check_subscription(name)
    except InvalidNameError as error:
        raise PreconditionFailed(str(error)) from error


async def require_namespace(engine: Engine, namespace: NamespaceName) -> Stored:
    """Return the namespace's policies. Raises NotFound with the text of the topic routes."""
    try:
        return await get_policies(engine.store, namespace)
    except NotFound as error:
        raise NotFound("Namespace not found") from error


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


async def _of_each(engine: Engine, operation: Operation[T, R], args: T) -> dict[str, R]:
    """Run ``operation`` on the topic, or on each of ``members``; return the answers by name."""
    parts = await members(engine, args.topic)
    answers = await on_each(parts, lambda part: engine.call(operation, replace(args, topic=part)))
    return {str(part): answer for part, answer in zip(parts, answers, strict=True)}


async def refuse_parent(engine: Engine, name: TopicName, refusal: str) -> None:
    """Raise Unsupported with ``refusal`` when the topic is partitioned, NotFound when it does not exist."""
    if await partitions_of(engine, name):
        raise Unsupported(refusal)
    await require(engine, name)


# Lists


async def list_topics(
    engine: Engine,
    domain: str,
    namespace: NamespaceName,
    *,
    bundle: str | None = None,
    include_system: bool = False,
) -> Sequence[str]:
    """Return the concrete topics of a namespace: persistent ones that exist, or non-persistent ones that are
    loaded."""
    if domain == PERSISTENT:
        if bundle and bundle not in (await get_bundles(engine.store, namespace)).ranges:
            return []
        return await metadata.list_topics(
            engine.store, namespace, bundle=bundle, include_system=include_system
        )
    await get_policies(engine.store, namespace)
    return await loaded_nonpersistent(engine, namespace)


async def loaded_nonpersistent(engine: Engine, namespace: NamespaceName) -> list[str]:
    """Return the non-persistent topics of a namespace that any broker has loaded, sorted."""
    args = LoadedTopics(namespace)
    brokers = await engine.admin.brokers()
    by_broker = await each(brokers, lambda broker: engine.call_on(broker, TOPICS, args))
    return sorted(
        {name for names in by_broker for name in names if name.startswith("non-persistent://")}
    )


# Topics


async def create(engine: Engine, name: TopicName, properties: dict[str, str]) -> None:
    """Create a plain topic. Its broker decides whether it may exist."""
    await engine.call(CREATE_TOPIC, CreateTopic(name, properties))


async def delete(engine: Engine, name: TopicName, *, force: bool, seen: Any = None) -> None:
    """Delete a plain topic or one partition. Its broker decides whether it may be deleted; ``seen``: see
    ``DeleteTopic``."""
    try:
        await engine.call(DELETE_TOPIC, DeleteTopic(name, force, seen))
    except NotFound as error:
        if name.persistent:  # a non-persistent topic that is not loaded is deleted already
            raise NotFound(f"Topic {name} not found") from error


async def create_partitioned(
    engine: Engine, name: TopicName, count: int, properties: dict[str, str]
) -> None:
    """Create a partitioned topic and its partitions. Raises PreconditionFailed for a partition's name."""
    metadata.check_parent(name)

    async def is_loaded() -> bool:
        return not name.persistent and str(name) in await loaded_nonpersistent(
            engine, name.namespace
        )

    await metadata.create_partitioned(engine.store, name, count, properties, is_loaded=is_loaded)


async def grow(engine: Engine, name: TopicName, count: int) -> None:
    """Increase the number of partitions to ``count``. Raises Unprocessable for fewer than there are."""
    if count <= 0:
        present = await partitions_of(engine, name)
        if present:
            raise Unprocessable(
                f"Desired partitions {count} can't be less than the current partitions {present}.",
            )
    await partitioned_topics.grow(engine.store, engine, name, count)


async def create_missed(engine: Engine, name: TopicName) -> None:
    """Create the partitions that the record counts and that do not exist, with the subscriptions of the others."""
    await partitioned_topics.create_missed(engine.store, engine, name)


async def delete_partitioned(
    engine: Engine, name: TopicName, *, force: bool, seen: Mapping[str, Any] | None = None
) -> None:
    """Delete the partitions through their brokers, then the record. ``seen``: by partition, see ``DeleteTopic``."""
    try:
        await metadata.require_partitioned(engine.store, name)
    except NotFound as error:
        raise NotFound(f"Topic {name} not found.") from error
    await partitioned_topics.delete(engine.store, engine, name, force=force, seen=seen)


async def partitions(engine: Engine, name: TopicName, *, allow_missing: bool) -> Stored:
    """Return PartitionedTopicMetadata; ``allow_missing``: the caller is about to use the topic, which may create it."""
    await require_namespace(engine, name.namespace)
    try:
        return await metadata.get_partitions(engine.store, name)
    except NotFound:
        loaded = not name.persistent and str(name) in await loaded_nonpersistent(
            engine, name.namespace
        )
        if loaded:
            return dict(metadata.NO_PARTITIONS)
        if not allow_missing:
            raise
        return {**metadata.NO_PARTITIONS, "partitions": await _to_use(engine, name)}


async def _to_use(engine: Engine, name: TopicName) -> int:
    """Create a missing topic because it is used; return its number of partitions. Raises NotFound where use creates no
    topics."""
    try:
        return await engine.call(PARTITIONS_TO_USE, OnTopic(name))
    except NotFound as error:
        raise NotFound(f"Topic {name} not found") from error


def _require_persistent(name: TopicName) -> None:
    if not name.persistent:
        raise NotAcceptable("Need to provide a persistent topic name")


async def properties(engine: Engine, name: TopicName) -> dict[str, str]:
    """Return the properties of a plain topic, a partition or a partitioned topic: each has its own."""
    _require_persistent(name)
    record = await metadata.find_partitions(engine.store, name)
    if record is not None:
        return record.get("properties") or {}
    await require(engine, name)
    return await engine.call(TOPIC_PROPERTIES, OnTopic(name))


async def set_properties(engine: Engine, name: TopicName, properties: dict[str, str]) -> None:
    """Set properties, and keep those with other keys."""
    await change_properties(engine, ChangeProperties(name, properties))


async def remove_property(engine: Engine, name: TopicName, key: str) -> None:
    """Remove a property; a missing one is no error."""
    await change_properties(engine, ChangeProperties(name, removed=[key]))


async def change_properties(engine: Engine, args: ChangeProperties) -> None:
    """Change the properties of a plain topic, a partition or a partitioned topic. Raises Conflict when they are not as
    expected."""
    _require_persistent(args.topic)
    if await partitions_of(engine, args.topic):
        await metadata.change_properties(
            engine.store, args.topic, args.changes, expected=args.expected
        )
        return
    await require(engine, args.topic)
    await engine.call(CHANGE_PROPERTIES, args)


async def stats(engine: Engine, name: TopicName, flags: dict[str, bool]) -> Json:
    """Return TopicStats of one concrete topic."""
    await require(engine, name)
    return await engine.call(TOPIC_STATS, TopicStats(name, **flags))


async def internal_stats(engine: Engine, name: TopicName, *, with_metadata: bool) -> Json:
    """Return PersistentTopicInternalStats of one concrete topic."""
    await require(engine, name)
    return await engine.call(INTERNAL_STATS, InternalStats(name, with_metadata))


async def _parent(engine: Engine, name: TopicName) -> Stored:
    record = await metadata.find_partitions(engine.store, name)
    if record is None and name.persistent:
        raise NotFound(f"Partitioned Topic {name} not found")
    if record is None:
        raise NotFound(f"Partitioned topic not found {name}")
    return record


async def partitioned_stats(
    engine: Engine, name: TopicName, flags: dict[str, bool], *, per_partition: bool
) -> Json:
    """Return PartitionedTopicStats: sums, the record, and with ``per_partition`` each partition's statistics."""
    record = await _parent(engine, name)
    partitions = await _of_each(engine, TOPIC_STATS, TopicStats(name, **flags))
    answer = sum_stats(list(partitions.values()))
    if not name.persistent:
        answer.setdefault("msgDropRate", 0.0)
    answer["metadata"] = record
    answer["partitions"] = partitions if per_partition else {}
    return answer


async def partitioned_internal_stats(engine: Engine, name: TopicName) -> Json:
    """Return PartitionedTopicInternalStats."""
    record = await _parent(engine, name)
    partitions = await _of_each(engine, INTERNAL_STATS, InternalStats(name))
    return {"metadata": record, "partitions": partitions}


async def internal_info(engine: Engine, name: TopicName) -> Json:
    """Return PartitionedManagedLedgerInfo of a partitioned topic, else ManagedLedgerInfo."""
    if not name.persistent:
        raise Unsupported("Internal info of a non-persistent topic is not kept")
    infos = await _of_each(engine, INTERNAL_INFO, OnTopic(name))
    return infos.get(str(name), {"version": 0, "partitions": infos})


async def last_message_id(engine: Engine, name: TopicName) -> Json:
    """Return the MessageId of the newest message; entry -1 of the open ledger without one."""
    await require(engine, name)
    if not name.persistent:
        raise Unsupported("GetLastMessageId on a non-persistent topic is not allowed")
    return message_id(await engine.call(LAST_MESSAGE_ID, OnTopic(name)))


def message_id(fields: Json) -> Json:
    """Return a MessageId with the fields that Pulsar's server always writes."""
    return {"batchSize": 0, "batchIndex": -1, "partitionIndex": -1, **fields}


async def message_id_by_time(engine: Engine, name: TopicName, timestamp_ms: int) -> Json:
    """Return the MessageId of the first message that was published at or after a time."""
    refusal = (
        "Get message ID by timestamp on a partitioned topic is not allowed,"
        " please try do it on specific topic partition"
    )
    await refuse_parent(engine, name, refusal)
    args = MessageIdByTime(name, timestamp_ms)
    return message_id(await engine.call(MESSAGE_ID_BY_TIME, args))


async def backlog_size(engine: Engine, name: TopicName, position: MessagePosition) -> int:
    """Return the number of stored bytes after a position of a plain topic or one partition."""
    await require_any(engine, name)
    await refuse_parent(engine, name, "calculate backlog size is not allowed for partitioned-topic")
    return await engine.call(BACKLOG_SIZE, BacklogSize(name, position))


async def offload_status(engine: Engine, name: TopicName) -> Json:
    """Return OffloadProcessStatus of a plain topic or one partition: no offload ever ran, since there is none."""
    await _require_plain(engine, name)
    return {
        "status": "NOT_RUN",
        "lastError": "",
        "firstUnoffloadedMessage": message_id({"ledgerId": -1, "entryId": -1}),
    }


async def offload(engine: Engine, name: TopicName) -> None:
    """Raise NotBuilt for an existing topic, NotFound for any other."""
    await _require_plain(engine, name)
    raise NotBuilt("offload: nothing moves ledgers to other storage in this version")


async def _require_plain(engine: Engine, name: TopicName) -> None:
    if await partitions_of(engine, name):
        raise NotFound(f"Topic {name} not found")
    await require_any(engine, name)


async def terminate(engine: Engine, name: TopicName) -> Json:
    """Terminate the topic and return its last MessageId."""
    _require_persistent(name)
    await refuse_parent(engine, name, "Termination of a partitioned topic is not allowed")
    return message_id((await engine.call(TERMINATE, OnTopic(name)))["last"])


async def terminate_partitions(engine: Engine, name: TopicName) -> Json:
    """Terminate every partition of a partitioned topic; return the last MessageId of each by its index."""
    _require_persistent(name)
    await require_namespace(engine, name.namespace)
    count = await partitions_of(engine, name)
    if not count:
        raise Unsupported(
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate,"
            " please use terminate commands"
        )
    parts = [name.partition_at(index) for index in range(count)]
    answers = await on_each(parts, lambda part: engine.call(TERMINATE, OnTopic(part)))
    return {
        str(index): {**message_id(answer["last"]), "partitionIndex": -1}
        for index, answer in enumerate(answers)
    }


async def unload(engine: Engine, name: TopicName) -> None:
    """Unload the topic, or every partition, from its broker."""
    await _of_each(engine, UNLOAD, OnTopic(name))


async def trim(engine: Engine, name: TopicName) -> None:
    """Delete the ledgers of the topic, or of every partition, that no cursor and no retention needs."""
    await _of_each(engine, TRIM, OnTopic(name))


async def truncate(engine: Engine, name: TopicName) -> None:
    """Delete all messages but those of the open ledger, of the topic or every partition; all subscriptions then have
    them acknowledged."""
    if not name.persistent:
        raise PreconditionFailed("unsupport truncate")
    await _of_each(engine, TRUNCATE, OnTopic(name))


async def compact(engine: Engine, name: TopicName) -> None:
    """Start to compact the topic, or every partition."""
    await _of_each(engine, COMPACT, OnTopic(name))


async def compaction_status(engine: Engine, name: TopicName) -> Json:
    """Return the status of the last compaction of the topic, or of its partitions together."""
    return await engine.call(COMPACTION_STATUS, OnTopic(name))


async def examine(engine: Engine, name: TopicName, initial: str, nth: int) -> Json:
    """Return the nth message from an end of the topic, as headers and base64 body."""
    if not name.persistent:
        raise Unsupported("Examine messages on a non-persistent topic is not allowed")
    refusal = (
        "Examine messages on a partitioned topic is not allowed,"
        " please try examine message on specific topic partition"
    )
    await refuse_parent(engine, name, refusal)
    args = Examine(name, "earliest" if initial == "earliest" else "latest", nth)
    return await engine.call(EXAMINE, args)


async def message_by_id(engine: Engine, name: TopicName, ledger_id: int, entry_id: int) -> Json:
    """Return one message by its position."""
    await refuse_parent(engine, name, "GetMessageById is not allowed on partitioned-topic")
    return await engine.call(MESSAGE_BY_ID, MessageById(name, ledger_id, entry_id))


async def lookup(engine: Engine, name: TopicName) -> Json:
    """Return LookupData of the topic's owner in the metadata store; a bundle without one is acquired by a broker.
    Raises NotFound for a topic that does not exist and is not created by its use."""
    namespace = name.namespace
    policies = await require_namespace(engine, namespace)
    if (
        name.persistent
        and name.partition < 0
        and not await metadata.topic_exists(engine.store, name)
    ):
        try:
            await _to_use(engine, name)
        except NotFound as error:
            raise NotFound(f"Topic not found {name}") from error
    bundle = (await bundles_beside(engine.store, namespace, policies)).of_topic(name)
    owner = await find_node(engine.store, paths.bundle_owner(str(namespace), bundle.range))
    if owner is None:
        return await engine.call(LOOKUP, OnTopic(name))
    url = owner.get("nativeUrl") or ""
    return {
        "brokerUrl": url,
        "httpUrl": owner.get("httpUrl") or "",
        "nativeUrl": url,
        "brokerUrlSsl": "",
    }


async def bundle_of(engine: Engine, name: TopicName) -> str:
    """Return the hash range of the topic's bundle; the full range without the namespace, as Pulsar answers."""
    try:
        bundles = await get_bundles(engine.store, name.namespace)
    except NotFound:
        return "0x00000000_0xffffffff"
    return bundles.of_topic(name).range


# Permissions of roles


async def grants_on(engine: Engine, name: TopicName) -> grants.Granted:
    """Return the granted actions by role, those of the namespace included. Raises NotFound without the topic."""
    await require_any(engine, name)
    return await grants.of_topic(engine.store, name)


async def grant(engine: Engine, name: TopicName, role: str, actions: list[str]) -> None:
    """Grant actions to a role, see ``grants.grant``. Raises NotFound without the topic."""
    await require_any(engine, name)
    await grants.grant(engine.store, name.namespace, role, actions, topic=name)


async def revoke(engine: Engine, name: TopicName, role: str) -> None:
    """Revoke the actions of a role, see ``grants.revoke``. Raises NotFound without the topic."""
    await require_any(engine, name)
    await grants.revoke(engine.store, name.namespace, role, topic=name)


async def grant_each(engine: Engine, given: Sequence[tuple[TopicName, str, list[str]]]) -> None:
    """Grant each triple of topic, role and actions, one after the other."""
    for name, role, actions in given:
        await grant(engine, name, role, actions)


async def revoke_each(engine: Engine, given: Sequence[tuple[TopicName, str]]) -> None:
    """Revoke for each pair of topic and role, one after the other."""
    for name, role in given:
        await revoke(engine, name, role)


# Subscriptions


async def subscriptions(engine: Engine, name: TopicName) -> list[str]:
    """Return the names of the subscriptions, sorted; for a partitioned topic those of any partition."""
    by_part = await _of_each(engine, SUBSCRIPTIONS, OnTopic(name))
    return sorted({subscription for names in by_part.values() for subscription in names})


async def create_subscription(
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
    await require_namespace(engine, name.namespace)
    # Not from the cache: a partition that was just added must have the subscription, too.
    fresh(engine.store, metadata.partitioned_path(name))
    count = await partitions_of(engine, name)
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


async def on_subscription(
    engine: Engine, operation: Operation[S, Any], args: S, missing: str = ""
) -> None:
    """Run ``operation`` on the topic, or on each partition that has the subscription. Raises NotFound, with the text
    ``missing`` if given, when none has it."""
    parts = await members(engine, args.topic)
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


async def subscription_properties(
    engine: Engine, name: TopicName, subscription: str
) -> dict[str, str]:
    """Return a subscription's properties; for a partitioned topic those of all partitions, where a later partition's
    value replaces an earlier one's."""
    args = OnSubscription(name, subscription)
    by_part = await _on_every(engine, SUBSCRIPTION_PROPERTIES, args)
    return {key: value for properties in by_part for key, value in properties.items()}


async def set_subscription_properties(
    engine: Engine, name: TopicName, subscription: str, properties: dict[str, str]
) -> None:
    """Replace a subscription's properties, on every partition. Raises NotFound when a partition lacks the subscription;
    they are replaced on the others."""
    args = SubscriptionProperties(name, subscription, properties)
    await _on_every(engine, SET_SUBSCRIPTION_PROPERTIES, args)


async def _on_every(engine: Engine, operation: Operation[S, R], args: S) -> list[R]:
    """Run ``operation`` on the topic or on each partition; return the answers. Raises NotFound when a partition lacks
    the subscription, or there is no partition."""
    parts = await members(engine, args.topic)
    missing = f"Subscription {args.subscription} not found for topic {args.topic}"
    if not parts:
        raise NotFound(missing)
    try:
        return await on_each(parts, lambda part: engine.call(operation, replace(args, topic=part)))
    except NotFound as error:
        if parts != [args.topic]:
            raise NotFound(missing) from error
        raise


async def skip(engine: Engine, name: TopicName, subscription: str, count: int) -> None:
    """Acknowledge the next ``count`` entries."""
    await refuse_parent(engine, name, "Skip messages on a partitioned topic is not allowed")
    await engine.call(SKIP_MESSAGES, Skip(name, subscription, count))


async def reset_to_position(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition
) -> None:
    """Move a subscription to a message of a plain topic or one partition."""
    await refuse_parent(
        engine, name, "Reset-cursor at position is not allowed for partitioned-topic"
    )
    args = ResetCursor(name, subscription, position=position)
    await engine.call(RESET_CURSOR, args)


async def expire_to_position(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition
) -> None:
    """Acknowledge everything up to a message of a plain topic or one partition."""
    await refuse_parent(
        engine, name, "Expire message at position is not supported for partitioned-topic"
    )
    args = ExpireToPosition(name, subscription, position)
    await engine.call(EXPIRE_TO_POSITION, args)


async def expire_all(engine: Engine, name: TopicName, seconds: int) -> None:
    """Acknowledge messages older than ``seconds`` in every subscription. When some refuse, the others are tried, and
    the first refusal is raised then."""

    async def expire(part: TopicName) -> list[Conflict]:
        refusals = []
        for subscription in await engine.call(SUBSCRIPTIONS, OnTopic(part)):
            args = ExpireMessages(part, subscription, seconds)
            try:
                await engine.call(EXPIRE_MESSAGES, args)
            except Conflict as error:
                refusals.append(error)
        return refusals

    for refusals in await on_each(await members(engine, name), expire):
        if refusals:
            raise refusals[0]


async def analyze_backlog(
    engine: Engine, name: TopicName, subscription: str, position: MessagePosition | None
) -> Json:
    """Return the analysis of a subscription's backlog, see ANALYZE_BACKLOG."""
    await refuse_parent(
        engine,
        name,
        "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition",
    )
    args = AnalyzeBacklog(name, subscription, position)
    return await engine.call(ANALYZE_BACKLOG, args)


async def replicated(engine: Engine, name: TopicName, subscription: str) -> dict[str, bool]:
    """Return whether a subscription is to be replicated, by topic or partition."""
    parts = await members(engine, name)
    args = OnSubscription(name, subscription)
    answers = await _on_every(engine, REPLICATED, args)
    return {str(part): answer for part, answer in zip(parts, answers, strict=True)}


async def replicate(
    engine: Engine, name: TopicName, subscription: str, *, replicated: bool
) -> None:
    """Store whether a subscription is to be replicated, on every partition."""
    await _on_every(engine, REPLICATE, Replicate(name, subscription, replicated))


async def peek(engine: Engine, name: TopicName, subscription: str, nth: int) -> Json:
    """Return the nth unacknowledged message, as headers and base64 body. Never creates the subscription."""
    if not name.persistent:
        raise Unsupported("Peek messages on a non-persistent topic is not allowed")
    await refuse_parent(engine, name, "Peek messages on a partitioned topic is not allowed")
    return await engine.call(PEEK, Peek(name, subscription, nth))
