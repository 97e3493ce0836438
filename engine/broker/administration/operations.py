"""Administrative operations on the topics that this broker owns: the handlers of those in ``engine.admin.api``.

Each first makes sure that the topic is served here: MovedError names the owner otherwise. Texts of refusals are
Apache Pulsar's.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from engine.admin.api.arguments import (
    JsonObject,
    MessagePosition,
    NoArguments,
    OnSubscription,
    OnTopic,
)
from engine.admin.api.brokers import HEALTH
from engine.admin.api.cursors import (
    ANALYZE_BACKLOG,
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    EXPIRE_TO_POSITION,
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    RESET_CURSOR,
    SKIP_MESSAGES,
    AnalyzeBacklog,
    ExpireMessages,
    ExpireToPosition,
    MoveCursor,
    PreviewChange,
    ResetCursor,
    Skip,
)
from engine.admin.api.messages import (
    BACKLOG_SIZE,
    EXAMINE,
    LAST_MESSAGE_ID,
    LATEST_ENTRIES,
    MESSAGE_BY_ID,
    MESSAGE_ID_BY_TIME,
    PEEK,
    BacklogSize,
    Examine,
    LatestEntries,
    MessageById,
    MessageIdByTime,
    Peek,
)
from engine.admin.api.policies import POLICY_EFFECT, PolicyEffect
from engine.admin.api.rows import (
    SUBSCRIPTION_ROWS,
    TOPIC_ROWS,
    TOPICS,
    TOPICS_AT_REST,
    LoadedTopics,
    TopicRows,
    TopicsAtRest,
)
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DURABLE_SUBSCRIPTIONS,
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
    FORGET_PARTITIONED,
    HOLDINGS,
    INTERNAL_INFO,
    INTERNAL_STATS,
    LOOKUP,
    PARTITIONS_TO_USE,
    TERMINATE,
    TOPIC_PROPERTIES,
    TOPIC_STATS,
    TRIM,
    TRUNCATE,
    UNLOAD,
    ChangeProperties,
    CreateTopic,
    DeleteTopic,
    InternalStats,
    TopicStats,
)
from engine.admin.messages import message_answer, publish_time_ms
from engine.admin.operation import Handlers, bind
from engine.admin.partitions import existing_partitions
from engine.admin.unacknowledged import nth_unacknowledged
from engine.base.clock import Clock
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    Failed,
    InvalidRequest,
    MagnetarError,
    NotFound,
    NotReady,
    PreconditionFailed,
    Unsupported,
    WorldError,
)
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import TopicName
from engine.base.ranges import words_of
from engine.broker.administration import reports
from engine.broker.administration.admin_http import MovedError
from engine.broker.administration.backlog_scan import scan
from engine.broker.administration.bundle_operations import BundleOperations
from engine.broker.administration.internal_info import internal_info, internal_stats
from engine.broker.administration.lag_feed import LagFeed
from engine.broker.administration.nodes.node_operations import NodeOperations
from engine.broker.administration.policy_operations import PolicyOperations
from engine.broker.administration.previews import cursor_changes, holdings, policy_effects
from engine.broker.administration.row_feed import RowFeed
from engine.broker.administration.schema_operations import SchemaOperations
from engine.broker.administration.subscription_operations import (
    SubscriptionOperations,
    subscription_of,
)
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.control.dynamic_settings import DynamicSettings
from engine.broker.errors import MetadataError, NotAllowed, NotServedHere, TopicIsPartitioned
from engine.broker.ports import TopicPolicies
from engine.broker.settings import DataPathSettings
from engine.broker.topics.ephemeral import A_CHANGE, COMPACTION
from engine.broker.topics.registry import Forget, TopicRegistry
from engine.broker.topics.subscription import CompactionSubscription, Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import (
    InvalidPositionError,
    ManagedLedgerNotFoundError,
    StoredRecordError,
)
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.managed.stats import CursorStats
from engine.managed.stored.records import INTERNAL_PREFIX, OWN_PREFIX, LogRecord
from engine.managed.stored.resting import RestingLogs
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import BrokerRecord
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import UnreadableError
from engine.tenancy import topics
from engine.tenancy.checks import check_expected, check_properties_size
from engine.wire.batches import last_batch_index

LOADS_MAX = 3
"""Attempts to load a topic that was just created, while its bundle changes owner."""
NEARLY_CAUGHT_UP = 1000
"""Backlog in entries below which Pulsar reads only the oldest entry, where there are consumers."""
CAUGHT_UP = (
    "due to ongoing message expiration not finished or subscription almost catch  up. "
    "If it's performed on a partitioned topic operation might succeeded on other partitions, "
    "please check stats of individual partition."
)


@dataclass(frozen=True, slots=True)
class Collaborators:
    """Components that the operations use."""

    store: MetadataStore
    clock: Clock
    record: BrokerRecord
    registry: TopicRegistry
    assignment: BundleAssignment
    ownership: BundleOwnership
    catalog: Catalog
    rows: RowFeed
    lags: LagFeed
    resting: RestingLogs
    schemas: SchemaRegistry
    dynamic: DynamicSettings
    settings: DataPathSettings
    ledger_config: Callable[[TopicPolicies], LedgerConfig]
    forget: Forget


class BrokerOperations:
    """Handlers of the operations; ``engine.admin.api`` describes each."""

    def __init__(self, parts: Collaborators) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._policies = PolicyOperations(parts.catalog, self._here)
        self._schemas = SchemaOperations(parts.schemas, parts.catalog, self._here)
        self.bundles = BundleOperations(
            parts.store, parts.ownership, parts.assignment, parts.registry
        )
        self._subscriptions = SubscriptionOperations(self._topic, parts.clock)
        self._nodes = NodeOperations(
            *(parts.registry, parts.ownership, parts.dynamic, parts.record, parts.clock)
        )

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        own = dict(
            [
                bind(CREATE_TOPIC, self.create_topic),
                bind(DELETE_TOPIC, self.delete_topic),
                bind(FORGET_PARTITIONED, self.forget_partitioned),
                bind(HOLDINGS, self.holdings),
                bind(POLICY_EFFECT, self.policy_effect),
                bind(TOPIC_PROPERTIES, self.topic_properties),
                bind(CHANGE_PROPERTIES, self.change_properties),
                bind(TOPIC_STATS, self.topic_stats),
                bind(INTERNAL_STATS, self.internal_stats),
                bind(INTERNAL_INFO, self.internal_info),
                bind(LAST_MESSAGE_ID, self.last_message_id),
                bind(MESSAGE_ID_BY_TIME, self.message_id_by_time),
                bind(BACKLOG_SIZE, self.backlog_size),
                bind(TERMINATE, self.terminate),
                bind(UNLOAD, self.unload),
                bind(TRIM, self.trim),
                bind(TRUNCATE, self.truncate),
                bind(COMPACT, self.compact),
                bind(COMPACTION_STATUS, self.compaction_status),
                bind(PARTITIONS_TO_USE, self.partitions_to_use),
                bind(LOOKUP, self.lookup),
                bind(SUBSCRIPTIONS, self.subscriptions),
                bind(DURABLE_SUBSCRIPTIONS, self.durable_subscriptions),
                bind(CREATE_SUBSCRIPTION, self.create_subscription),
                bind(SUBSCRIPTION_PROPERTIES, self.subscription_properties),
                bind(SET_SUBSCRIPTION_PROPERTIES, self.set_subscription_properties),
                bind(SKIP_MESSAGES, self.skip_messages),
                bind(CLEAR_BACKLOG, self.clear_backlog),
                bind(RESET_CURSOR, self.reset_cursor),
                bind(EXPIRE_MESSAGES, self.expire_messages),
                bind(EXPIRE_TO_POSITION, self.expire_to_position),
                bind(ANALYZE_BACKLOG, self.analyze_backlog),
                bind(REPLICATED, self.replicated),
                bind(REPLICATE, self.replicate),
                bind(PREVIEW_CHANGE, self.preview_change),
                bind(MOVE_CURSOR, self.move_cursor),
                bind(LAST_CHANGES, self.last_changes),
                bind(PEEK, self.peek),
                bind(EXAMINE, self.examine),
                bind(LATEST_ENTRIES, self.latest_entries),
                bind(MESSAGE_BY_ID, self.message_by_id),
                bind(TOPIC_ROWS, self.topic_rows),
                bind(SUBSCRIPTION_ROWS, self.subscription_rows),
                bind(TOPICS_AT_REST, self.topics_at_rest),
                bind(TOPICS, self.topics),
                bind(HEALTH, self.health),
            ]
        )
        return (
            own
            | self._policies.handlers
            | self._schemas.handlers
            | self._subscriptions.handlers
            | self.bundles.handlers
            | self._nodes.handlers
        )

    # Access

    async def _here(self, name: TopicName) -> None:
        """Raise MovedError unless this broker serves the topic's bundle; one without an owner is acquired now."""
        place = await self._parts.assignment.place(name, authoritative=False)
        if not place.here:
            raise MovedError(place.owner.http_url)

    async def _topic(self, name: TopicName) -> Topic:
        """Return the topic, loaded. Raises NotFound when it does not exist, as a non-persistent one does not unless
        it is loaded."""
        await self._here(name)
        loaded = self._registry.loaded(name)
        if loaded is not None:
            return loaded
        if not name.persistent or not await topics.topic_exists(self._parts.store, name):
            parent = name.partitioned
            partition = name.persistent and parent != name
            if partition and await topics.find_partitions(self._parts.store, parent):
                raise NotFound("Topic partitions were not yet created")
            raise NotFound(f"Topic {name} not found")
        return await self._registry.get(name, create=False)

    async def _persistent_topic(self, name: TopicName, what: str) -> Topic:
        """Return the topic. Raises Unsupported, which names ``what`` is attempted, for a non-persistent one."""
        if not name.persistent:
            raise Unsupported(f"{what} on a non-persistent topic is not allowed")
        return await self._topic(name)

    async def _topic_and_subscription(
        self, args: OnSubscription, what: str
    ) -> tuple[Topic, Subscription]:
        return await self._with_subscription(await self._persistent_topic(args.topic, what), args)

    async def _with_subscription(
        self, topic: Topic, args: OnSubscription
    ) -> tuple[Topic, Subscription]:
        return topic, subscription_of(topic, args.subscription)

    # Topics

    async def create_topic(self, args: CreateTopic) -> None:
        name, store = args.topic, self._parts.store
        _check_properties(args.properties, OWN_PREFIX)
        await topics.check_new_topic(store, name)
        await self._here(name)
        if self._registry.loaded(name) is not None:
            raise AlreadyExists(topics.EXISTS)
        try:
            stop_counting = await self._parts.catalog.admit(name)
        except MetadataError as error:
            raise PreconditionFailed(str(error)) from error
        try:
            if name.persistent:
                record = LogRecord(properties=dict(args.properties))
                await topics.create_topic(store, name, record.encode())
            await self._load_created(name)
        finally:
            stop_counting()

    async def _load_created(self, name: TopicName) -> None:
        """Load a topic whose node was just created. Raises NotReady when its bundle moves meanwhile: the topic may
        exist then, and a repeated call may be answered with AlreadyExists."""
        for _ in range(LOADS_MAX):
            try:
                await self._registry.get(name, create=True, asked=False)
                return
            except TopicIsPartitioned as error:
                raise AlreadyExists(topics.EXISTS) from error
            except NotServedHere:
                with suppress(MovedError):
                    await self._here(name)
        raise NotReady(f"Topic {name} may have been made: its bundle changed hands meanwhile")

    async def delete_topic(self, args: DeleteTopic) -> JsonObject:
        name = args.topic
        if await topics.find_partitions(self._parts.store, name) is not None:
            raise Conflict(
                f"{name} is a partitioned topic, instead of calling delete topic, "
                "please call delete-partitioned-topic.",
            )
        topic = await self._topic(name)

        def check() -> None:
            users = topic.users
            if users and not args.force:
                raise PreconditionFailed(f"Topic has {users} connected producers/consumers")
            if args.seen is not None or args.dry:
                holdings.check(topic, args.seen)

        if args.dry:
            check()
            return {}
        before = holdings.before_deletion(topic)
        await self._registry.delete_checked(topic, check)
        return {"before": before}

    async def forget_partitioned(self, args: OnTopic) -> None:
        name, store = args.topic, self._parts.store
        await self._here(name)
        if not await topics.marked_deleted(fresh(store, topics.partitioned_path(name)), name):
            raise Conflict(f"Topic {name} is not being deleted")
        if name.persistent and (left := await existing_partitions(store, name)):
            raise PreconditionFailed(f"Topic partition {left[0]} still exists")
        await self._parts.forget(name)

    async def holdings(self, args: OnTopic) -> JsonObject:
        return await holdings.of(await self._topic(args.topic), self._parts.clock.wall_ms())

    async def policy_effect(self, args: PolicyEffect) -> JsonObject:
        if args.name not in policy_effects.RULES:
            raise NotFound(f"Nothing goes by the policy {args.name}")
        topic = await self._topic(args.topic)
        after = await self._policies.with_value(args.topic, args.name, args.value)
        now_ms = self._parts.clock.wall_ms() if args.at_ms is None else args.at_ms
        return await policy_effects.of(
            *(topic, args.name, after, self._parts.ledger_config(after), self._parts.settings),
            now_ms,
            measured=args.measured,
        )

    async def topic_properties(self, args: OnTopic) -> dict[str, str]:
        return dict((await self._persistent_topic(args.topic, "Properties")).log.properties)

    async def change_properties(self, args: ChangeProperties) -> JsonObject:
        topic = await self._persistent_topic(args.topic, "Properties")
        before: dict[str, str] = {}

        def check(present: Mapping[str, str]) -> None:
            if args.properties:
                _check_properties({**present, **args.properties}, OWN_PREFIX)
            check_expected(present, args.expected)
            before.update(present)

        await topic.change_properties(args.changes, check)
        return {"before": before}

    async def topic_stats(self, args: TopicStats) -> JsonObject:
        topic = await self._topic(args.topic)
        out = reports.topic_stats(topic, args, self._parts.record.id)
        if args.earliest_time_in_backlog and topic.name.persistent:
            await self._add_earliest_times(topic, out)
        return out

    async def _add_earliest_times(self, topic: Topic, out: JsonObject) -> None:
        for name, stats in out["subscriptions"].items():
            subscription = topic.subscriptions.get(name)
            if subscription is None:
                continue
            first = _nth(topic, subscription, 1) if stats["msgBacklog"] else None
            if first is None:
                stats["earliestMsgPublishTimeInBacklog"] = -1
                continue
            entry = await topic.log.read_entry(first)
            stats["earliestMsgPublishTimeInBacklog"] = publish_time_ms(entry.entry(0))
        durable = [cursor for cursor in topic.log.cursors.values() if cursor.durable]
        slowest = min(durable, key=lambda cursor: cursor.mark_delete, default=None)
        first = None if slowest is None else _first_due(topic, slowest.stats())
        if first is not None:
            entry = await topic.log.read_entry(first)
            out["earliestMsgPublishTimeInBacklogs"] = publish_time_ms(entry.entry(0))

    async def internal_stats(self, args: InternalStats) -> JsonObject:
        topic = await self._topic(args.topic)
        if topic.compaction.ledger_id >= 0:
            await topic.compaction.ready()
        out = internal_stats(topic, await self._schema_ledgers(topic.name))
        if args.metadata:
            for ledger in out["ledgers"]:
                value, stat = await self._parts.store.get(paths.ledger(ledger["ledgerId"]))
                ledger["metadata"] = f"version {stat.version}, {len(value)} bytes: {value.hex()}"
        return out

    async def _schema_ledgers(self, name: TopicName) -> Sequence[tuple[int, int, int]]:
        """Return id, entries and bytes of each ledger of the topic's schemas. Raises NotReady while they cannot be
        read."""
        try:
            return await self._parts.schemas.ledgers(name)
        except (WorldError, UnreadableError) as error:
            raise NotReady(f"The schemas of {name} cannot be read now: {error}") from error

    async def internal_info(self, args: OnTopic) -> JsonObject:
        name = args.topic
        try:
            stored = await survey(self._parts.store, name.managed_ledger_name)
        except ManagedLedgerNotFoundError as error:
            raise NotFound(f"Topic {name} not found") from error
        except StoredRecordError as error:
            raise Failed(str(error)) from error
        return internal_info(stored, self._parts.clock.wall_ms())

    async def topic_rows(self, args: TopicRows) -> JsonObject:
        return await self._parts.rows.since(args)

    async def subscription_rows(self, args: TopicRows) -> JsonObject:
        return await self._parts.lags.since(args)

    async def topics_at_rest(self, args: TopicsAtRest) -> JsonObject:
        at = self._parts.clock.wall_ms()
        logs = await self._parts.resting.read([name.managed_ledger_name for name in args.topics])
        rows: list[list[object]] = []
        missing: list[str] = []
        for name, log in zip(args.topics, logs, strict=True):
            if log is None:
                missing.append(name.full)
            else:
                rows.append([name.full, *reports.at_rest(log)])
        return {"at": at, "rows": rows, "missing": missing}

    async def topics(self, args: LoadedTopics) -> list[str]:
        return [str(topic.name) for topic in self._registry.topics(args.namespace)]

    async def terminate(self, args: OnTopic) -> JsonObject:
        name = args.topic
        if await topics.find_partitions(self._parts.store, name) is not None:
            raise Unsupported("Termination of a partitioned topic is not allowed")
        topic = await self._persistent_topic(name, "Termination")
        before = topic.log.terminated
        last = await topic.terminate()
        return {
            "last": reports.message_id(last, name.partition),
            "before": None if before is None else str(before),
            "after": str(last),
        }

    async def unload(self, args: OnTopic) -> None:
        await self._topic(args.topic)
        await self._registry.unload(args.topic)

    async def trim(self, args: OnTopic) -> None:
        await (await self._persistent_topic(args.topic, "Trim")).log.trim()

    async def truncate(self, args: OnTopic) -> None:
        topic = await self._persistent_topic(args.topic, "Truncate")
        if topic.unread:
            name, why = next(iter(topic.unread.items()))
            raise NotReady(f"Subscription {name} cannot be used now: {why}")
        for subscription in list(topic.subscriptions.values()):
            # the compaction has to read its backlog
            if not isinstance(subscription, CompactionSubscription):
                await subscription.clear()
        await topic.log.trim(retention=False)

    async def compact(self, args: OnTopic) -> None:
        if not (await self._persistent_topic(args.topic, COMPACTION)).compaction.start():
            raise Conflict("Compaction already in progress")

    async def compaction_status(self, args: OnTopic) -> JsonObject:
        compaction = (await self._persistent_topic(args.topic, COMPACTION)).compaction
        return {"status": compaction.status, "lastError": compaction.error}

    async def last_message_id(self, args: OnTopic) -> JsonObject:
        topic = await self._persistent_topic(args.topic, "GetLastMessageId")
        return reports.message_id(topic.log.last_confirmed, args.topic.partition)

    async def backlog_size(self, args: BacklogSize) -> int:
        log = (await self._persistent_topic(args.topic, "Backlog size")).log
        position = args.position.position
        known = any(ledger.ledger_id == position.ledger_id for ledger in log.stats().ledgers)
        return log.bytes_behind(position if known else EARLIEST)

    async def message_id_by_time(self, args: MessageIdByTime) -> JsonObject:
        first = await (
            await self._persistent_topic(args.topic, "Get message ID by timestamp")
        ).first_since(args.timestamp_ms)
        return reports.message_id(first, args.topic.partition)

    # Subscriptions

    async def subscriptions(self, args: OnTopic) -> list[str]:
        return (await self._topic(args.topic)).subscription_names

    async def durable_subscriptions(self, args: OnTopic) -> dict[str, dict[str, str]]:
        topic = await self._topic(args.topic)
        for name, why in topic.unread.items():
            raise NotReady(f"Subscription {name} of {args.topic} cannot be read: {why}")
        return {
            name: _users_properties(subscription.cursor.cursor_properties)
            for name, subscription in sorted(topic.subscriptions.items())
            if subscription.durable
        }

    async def create_subscription(self, args: CreateSubscription) -> None:
        name = args.topic
        if not name.persistent:
            raise InvalidRequest(
                "Create subscription on non-persistent topic can only be done through client"
            )
        await self._here(name)
        _check_properties(args.properties, INTERNAL_PREFIX)
        topic = await self._registry.get(name, create=True)
        if args.subscription in topic.subscriptions:
            raise AlreadyExists("Subscription already exists for topic")
        initial: Position | InitialPosition = InitialPosition.LATEST
        if args.position is not None:
            initial = args.position.position
        try:
            created = await topic.create_subscription(args.subscription, initial, args.properties)
        except NotAllowed as error:
            raise Conflict(str(error)) from error
        if created is None:
            raise AlreadyExists("Subscription already exists for topic")
        if args.replicated:
            created.replicate(True)
            await created.cursor.persisted()

    async def subscription_properties(self, args: OnSubscription) -> dict[str, str]:
        _, subscription = await self._with_subscription(await self._topic(args.topic), args)
        return subscription.cursor.cursor_properties

    async def set_subscription_properties(self, args: SubscriptionProperties) -> JsonObject:
        before = await self.subscription_properties(args)
        _check_properties(args.properties, INTERNAL_PREFIX)
        topic, _ = await self._with_subscription(await self._topic(args.topic), args)
        await topic.set_subscription_properties(args.subscription, args.properties)
        return {"before": before}

    async def skip_messages(self, args: Skip) -> JsonObject:
        _, subscription = await self._topic_and_subscription(args, "Skip messages")
        before = subscription.cursor.mark_delete
        await subscription.skip(args.count)
        return _moved(before, subscription)

    async def clear_backlog(self, args: OnSubscription) -> JsonObject:
        _, subscription = await self._topic_and_subscription(args, "Clear backlog")
        before = subscription.cursor.mark_delete
        await subscription.clear()
        return _moved(before, subscription)

    async def reset_cursor(self, args: ResetCursor) -> JsonObject:
        topic, subscription = await self._topic_and_subscription(args, "Reset-cursor")
        left: list[int] = []
        if args.position is not None and args.position.batch_index >= 0:
            target, left = await _in_batch(topic, args.position)
        else:
            target = await _target(topic, args.timestamp_ms, args.position)
        before = subscription.cursor.mark_delete
        await subscription.reset(target, left)
        return _moved(before, subscription)

    async def expire_messages(self, args: ExpireMessages) -> JsonObject:
        _, subscription = await self._topic_and_subscription(args, "Expire messages")
        before = subscription.cursor.mark_delete
        since_ms = max(self._parts.clock.wall_ms() - args.seconds * 1000, 0)
        backlog = subscription.cursor.backlog_entries()
        near = not backlog or (subscription.consumers and backlog < NEARLY_CAUGHT_UP)
        if not await subscription.expire(since_ms) and near:
            raise Conflict(
                f"Expire message by timestamp not issued on topic {args.topic} for subscription "
                f"{args.subscription} {CAUGHT_UP}",
            )
        await subscription.cursor.persisted()
        return _moved(before, subscription)

    async def expire_to_position(self, args: ExpireToPosition) -> JsonObject:
        topic, subscription = await self._topic_and_subscription(args, "Expire messages")
        before = subscription.cursor.mark_delete
        last, wanted = topic.log.last_confirmed, _start(topic, args.position)
        if wanted > last:
            raise Conflict(
                f"Expire message by position not issued on topic {args.topic} for subscription "
                f"{args.subscription} due to ongoing message expiration not finished or invalid message position "
                "provided."
            )
        subscription.expire_to(wanted)
        await subscription.cursor.persisted()
        return _moved(before, subscription)

    async def analyze_backlog(self, args: AnalyzeBacklog) -> JsonObject:
        topic, subscription = await self._topic_and_subscription(args, "Analyze backlog")
        start = None if args.position is None else args.position.position
        try:
            return await scan(topic.log, subscription.cursor, start)
        except MagnetarError as error:
            kind = NotReady if error.retriable else Failed
            raise kind(f"Messages of {args.topic} cannot be read: {error}") from error

    async def replicated(self, args: OnSubscription) -> bool:
        return (await self._topic_and_subscription(args, "Replication of subscriptions"))[
            1
        ].replicated

    async def replicate(self, args: Replicate) -> JsonObject:
        before = await self.replicated(args)
        _, subscription = await self._topic_and_subscription(args, "Replication of subscriptions")
        subscription.replicate(args.replicated)
        await subscription.cursor.persisted()
        return {"before": before}

    # Messages

    async def peek(self, args: Peek) -> JsonObject:
        topic, subscription = await self._topic_and_subscription(args, "Peek messages")
        return await _message(topic, _nth(topic, subscription, args.nth))

    async def examine(self, args: Examine) -> JsonObject:
        topic = await self._persistent_topic(args.topic, "Examine messages")
        stats = topic.log.stats()
        total = sum(ledger.entries for ledger in stats.ledgers)
        if not total:
            raise PreconditionFailed("Could not examine messages due to the total message is zero")
        index = min(args.nth, total) - 1
        if args.initial == "latest":
            index = total - 1 - index
        for ledger in stats.ledgers:
            if index < ledger.entries:
                return await _message(topic, Position(ledger.ledger_id, index))
            index -= ledger.entries
        raise NotFound("Message not found")

    async def latest_entries(self, args: LatestEntries) -> JsonObject:
        topic = await self._persistent_topic(args.topic, "Reading messages")
        before = args.before.position if args.before is not None else None
        rows: list[list[object]] = []
        messages = size = 0
        try:
            async with aclosing(topic.log.newest_first(before)) as entries:
                async for run, i in entries:
                    entry = run.entry(i)
                    size += len(entry)
                    if rows and size > args.bytes_max:
                        return {"entries": rows, "more": True}
                    rows.append([*run.position(i), b64encode(entry).decode()])
                    messages += run.messages_of(i, i + 1)
                    if messages >= args.messages:
                        return {"entries": rows, "more": True}
        except MagnetarError as error:
            kind = NotReady if error.retriable else Failed
            raise kind(f"Messages of {args.topic} cannot be read: {error}") from error
        return {"entries": rows, "more": False}

    async def message_by_id(self, args: MessageById) -> JsonObject:
        topic = await self._persistent_topic(args.topic, "GetMessageById")
        position = Position(args.ledger_id, args.entry_id)
        ledgers = {ledger.ledger_id: ledger for ledger in topic.log.stats().ledgers}
        if position.ledger_id not in ledgers:
            raise NotFound("Message id not found")
        return await _message(topic, position)

    async def preview_change(self, args: PreviewChange) -> JsonObject:
        topic, subscription = await self._topic_and_subscription(args, A_CHANGE)
        target = None
        if args.change == "reset":
            target = await _target(topic, args.timestamp_ms, args.position)
        return await cursor_changes.preview(subscription, args, target, self._parts.clock.wall_ms())

    async def move_cursor(self, args: MoveCursor) -> JsonObject:
        _, subscription = await self._topic_and_subscription(args, A_CHANGE)
        return await cursor_changes.make(subscription, args, self._parts.clock)

    async def last_changes(self, args: OnTopic) -> list[JsonObject]:
        topic = await self._persistent_topic(args.topic, A_CHANGE)
        return await cursor_changes.last_changes(topic.subscriptions)

    # The broker

    async def partitions_to_use(self, args: OnTopic) -> int:
        return await self._parts.catalog.partitions(args.topic, allow_create=True)

    async def lookup(self, args: OnTopic) -> JsonObject:
        place = await self._parts.assignment.place(args.topic, authoritative=False)
        if place.chosen:
            raise MovedError(place.owner.http_url)
        url = place.owner.native_url
        return {
            "brokerUrl": url,
            "httpUrl": place.owner.http_url,
            "nativeUrl": url,
            "brokerUrlSsl": "",
        }

    async def health(self, args: NoArguments) -> str:
        record = await self._parts.store.exists(paths.broker(self._parts.record.id))
        if record is None or record.ephemeral_owner != self._parts.store.session_id:
            raise NotReady("This broker is not registered")
        return "ok"


def _users_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that the broker stores for this cursor alone, which other cursors must not
    receive."""
    return {key: text for key, text in properties.items() if not key.startswith(INTERNAL_PREFIX)}


def _check_properties(properties: dict[str, str], reserved: str) -> None:
    """Raise PreconditionFailed for names that are reserved for brokers, and for properties too large for a node."""
    if any(key.startswith(reserved) for key in properties):
        raise PreconditionFailed(f"Property names with {reserved} are reserved")
    check_properties_size(properties)


def _first_due(topic: Topic, cursor: CursorStats) -> Position | None:
    """Return the position of the first unacknowledged entry."""
    return nth_unacknowledged(topic.log.stats().ledgers, cursor, 1)


def _nth(topic: Topic, subscription: Subscription, nth: int) -> Position | None:
    stats = topic.log.stats().ledgers
    return nth_unacknowledged(stats, subscription.cursor.stats(), nth)


async def _message(topic: Topic, position: Position | None) -> JsonObject:
    if position is None:
        raise NotFound("Message not found")
    try:
        entry = await topic.log.read_entry(position)
    except InvalidPositionError as error:
        raise NotFound("Message not found") from error
    except MagnetarError as error:
        raise Failed(f"Entry {position} cannot be read: {error}") from error
    return message_answer(position, bytes(entry.entry(0)))


def _start(topic: Topic, position: MessagePosition) -> Position:
    """Return the first entry to deliver for an administrator's position."""
    start = position.position
    if start in (EARLIEST, LATEST):
        return start
    return topic.log.next_position(start) if position.excluded else start


def _moved(before: Position, subscription: Subscription) -> JsonObject:
    """Return the subscription's mark-delete positions before and after a change."""
    return {"before": str(before), "after": str(subscription.cursor.mark_delete)}


async def _target(
    topic: Topic, timestamp_ms: int | None, position: MessagePosition | None
) -> Position:
    """Return the first entry to deliver after a reset, within the topic."""
    ledger = topic.log
    if timestamp_ms is not None:
        return await topic.first_since(timestamp_ms)
    assert position is not None, "the arguments were checked"
    target = _start(topic, position)
    end = ledger.next_position(ledger.last_confirmed)
    first = ledger.next_position(EARLIEST)
    return min(max(target, first), end)


async def _in_batch(topic: Topic, position: MessagePosition) -> tuple[Position, list[int]]:
    """Return what ``_target`` does for one message of a batch, and the messages of that entry that are to be delivered,
    as an ack set: empty for all."""
    try:
        entry = await topic.log.read_entry(position.position)
    except InvalidPositionError:
        return await _target(topic, None, position), []
    size = last_batch_index(entry.entry(0)) + 1
    first = position.batch_index + position.excluded
    if first < size:
        return position.position, words_of((1 << size) - (1 << first)) if first else []
    return await _target(topic, None, replace(position, excluded=position.excluded or size > 0)), []
