"""Administrative operations on the topics that this broker owns: the handlers of those in ``engine.admin.api``.

Each first makes sure that the topic is served here: MovedError names the owner otherwise. Texts of refusals are
Apache Pulsar's.
"""

from dataclasses import dataclass

from engine.admin import api
from engine.admin.api import JsonObject, MessagePosition
from engine.admin.messages import message_answer, publish_time_ms
from engine.admin.operation import Handlers, bind
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
)
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import BundleName, TopicName
from engine.broker.administration import cursor_changes, reports
from engine.broker.administration.admin_http import MovedError
from engine.broker.administration.internal_info import internal_info
from engine.broker.administration.lag_feed import LagFeed
from engine.broker.administration.policy_operations import PolicyOperations
from engine.broker.administration.row_feed import RowFeed
from engine.broker.administration.schema_operations import SchemaOperations
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.errors import NotAllowed
from engine.broker.topics.ephemeral import A_CHANGE
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import (
    InvalidPositionError,
    ManagedLedgerNotFoundError,
    StoredRecordError,
)
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import INTERNAL_PREFIX, OWN_PREFIX, LogRecord
from engine.managed.stored.resting import RestingLogs
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.ownership.owner import BundleOwnership
from engine.ownership.registration import BrokerRecord
from engine.schema.schema_registry import SchemaRegistry
from engine.tenancy import topics
from engine.tenancy.checks import check_properties_size

CAUGHT_UP = (
    "due to ongoing message expiration not finished or subscription almost catch  up. "
    "If it's performed on a partitioned topic operation might succeeded on other partitions, "
    "please check stats of individual partition."
)


@dataclass(frozen=True, slots=True)
class Collaborators:
    """What the operations work on."""

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


class BrokerOperations:
    """See ``engine.admin.api`` for what each does."""

    def __init__(self, parts: Collaborators) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._policies = PolicyOperations(parts.catalog, self._here)
        self._schemas = SchemaOperations(parts.schemas, parts.catalog, self._here)

    @property
    def handlers(self) -> Handlers:
        """Every operation with what does it."""
        own = dict(
            [
                bind(api.CREATE_TOPIC, self.create_topic),
                bind(api.DELETE_TOPIC, self.delete_topic),
                bind(api.TOPIC_PROPERTIES, self.topic_properties),
                bind(api.CHANGE_PROPERTIES, self.change_properties),
                bind(api.TOPIC_STATS, self.topic_stats),
                bind(api.INTERNAL_STATS, self.internal_stats),
                bind(api.INTERNAL_INFO, self.internal_info),
                bind(api.LAST_MESSAGE_ID, self.last_message_id),
                bind(api.MESSAGE_ID_BY_TIME, self.message_id_by_time),
                bind(api.TERMINATE, self.terminate),
                bind(api.UNLOAD, self.unload),
                bind(api.TRIM, self.trim),
                bind(api.LOOKUP, self.lookup),
                bind(api.SUBSCRIPTIONS, self.subscriptions),
                bind(api.DURABLE_SUBSCRIPTIONS, self.durable_subscriptions),
                bind(api.CREATE_SUBSCRIPTION, self.create_subscription),
                bind(api.DELETE_SUBSCRIPTION, self.delete_subscription),
                bind(api.SUBSCRIPTION_PROPERTIES, self.subscription_properties),
                bind(api.SET_SUBSCRIPTION_PROPERTIES, self.set_subscription_properties),
                bind(api.SKIP_MESSAGES, self.skip_messages),
                bind(api.CLEAR_BACKLOG, self.clear_backlog),
                bind(api.RESET_CURSOR, self.reset_cursor),
                bind(api.EXPIRE_MESSAGES, self.expire_messages),
                bind(api.PREVIEW_CHANGE, self.preview_change),
                bind(api.MOVE_CURSOR, self.move_cursor),
                bind(api.LAST_CHANGES, self.last_changes),
                bind(api.PEEK, self.peek),
                bind(api.EXAMINE, self.examine),
                bind(api.MESSAGE_BY_ID, self.message_by_id),
                bind(api.TOPIC_ROWS, self.topic_rows),
                bind(api.SUBSCRIPTION_ROWS, self.subscription_rows),
                bind(api.TOPICS_AT_REST, self.topics_at_rest),
                bind(api.TOPICS, self.topics),
                bind(api.OWNED_BUNDLES, self.owned_bundles),
                bind(api.UNLOAD_BUNDLE, self.unload_bundle),
                bind(api.HEALTH, self.health),
            ]
        )
        return own | self._policies.handlers | self._schemas.handlers

    # Finding

    async def _here(self, name: TopicName) -> None:
        """Nothing when the topic's bundle is served here, taken now if it has no owner; else MovedError."""
        place = await self._parts.assignment.place(name, authoritative=False)
        if not place.here:
            raise MovedError(place.owner.http_url)

    async def _topic(self, name: TopicName) -> Topic:
        """The topic, loaded; NotFound when there is none, as of a non-persistent one not in use."""
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

    async def _kept(self, name: TopicName, what: str) -> Topic:
        """The topic; Unsupported when it keeps no messages, which ``what`` is about."""
        if not name.persistent:
            raise Unsupported(f"{what} on a non-persistent topic is not allowed")
        return await self._topic(name)

    async def _found(self, args: api.OnSubscription, what: str) -> tuple[Topic, Subscription]:
        return await self._with_subscription(await self._kept(args.topic, what), args)

    async def _with_subscription(
        self, topic: Topic, args: api.OnSubscription
    ) -> tuple[Topic, Subscription]:
        found = topic.subscriptions.get(args.subscription)
        if found is None and args.subscription in topic.unread:
            why = topic.unread[args.subscription]
            raise NotReady(f"Subscription {args.subscription} cannot be used now: {why}")
        if found is None:
            raise NotFound(f"Subscription {args.subscription} not found for topic {args.topic}")
        return topic, found

    # Topics

    async def create_topic(self, args: api.CreateTopic) -> None:
        name, store = args.topic, self._parts.store
        _check_properties(args.properties, OWN_PREFIX)
        await topics.check_new_topic(store, name)
        await self._here(name)
        if self._registry.loaded(name) is not None:
            raise AlreadyExists(topics.EXISTS)
        await self._parts.catalog.check_room(name)
        if not name.persistent:
            await self._registry.get(name, create=True, asked=False)
            return
        record = LogRecord(properties=dict(args.properties))
        await topics.create_topic(store, name, record.encode())
        await self._registry.get(name, create=True, asked=False)

    async def delete_topic(self, args: api.DeleteTopic) -> None:
        name = args.topic
        if await topics.find_partitions(self._parts.store, name) is not None:
            raise Conflict(
                f"{name} is a partitioned topic, instead of calling delete topic, "
                "please call delete-partitioned-topic.",
            )
        topic = await self._topic(name)
        users = len(topic.producers) + sum(
            len(subscription.consumers) for subscription in topic.subscriptions.values()
        )
        if users and not args.force:
            raise PreconditionFailed(f"Topic has {users} connected producers/consumers")
        await self._forget_policies(name)
        await self._registry.delete(name, force=True)

    async def _forget_policies(self, name: TopicName) -> None:
        """A topic's policies go with it, and before it: nobody could find them later. Those of a partitioned topic go
        with the first of its partitions that is deleted because the whole topic is."""
        parent = name.partitioned
        if name.partition >= 0:
            record = await topics.find_partitions(self._parts.store, parent)
            if record is None or not record.get("deleted"):
                return
        await self._parts.catalog.own.forget(parent)

    async def topic_properties(self, args: api.OnTopic) -> dict[str, str]:
        return dict((await self._kept(args.topic, "Properties")).log.properties)

    async def change_properties(self, args: api.ChangeProperties) -> None:
        topic = await self._kept(args.topic, "Properties")
        if args.properties:
            _check_properties({**topic.log.properties, **args.properties}, OWN_PREFIX)
        await topic.change_properties(args.changes)

    async def topic_stats(self, args: api.TopicStats) -> JsonObject:
        topic = await self._topic(args.topic)
        out = reports.topic_stats(topic, args, self._parts.record.id)
        if args.earliest_time_in_backlog:
            await self._add_earliest_times(topic, out)
        return out

    async def _add_earliest_times(self, topic: Topic, out: JsonObject) -> None:
        for name, stats in out["subscriptions"].items():
            subscription = topic.subscriptions.get(name)
            if subscription is None or not stats["msgBacklog"]:
                continue
            first = _nth(topic, subscription, 1)
            if first is not None:
                entry = await topic.log.read_entry(first)
                stats["earliestMsgPublishTimeInBacklog"] = publish_time_ms(entry.entry(0))
        times = [each["earliestMsgPublishTimeInBacklog"] for each in out["subscriptions"].values()]
        earliest = min((time for time in times if time), default=0)
        out["earliestMsgPublishTimeInBacklogs"] = earliest
        if earliest:
            age_ms = self._parts.clock.wall_ms() - earliest
            out["oldestBacklogMessageAgeSeconds"] = max(age_ms // 1000, 0)

    async def internal_stats(self, args: api.InternalStats) -> JsonObject:
        topic = await self._topic(args.topic)
        out = reports.internal_stats(topic)
        if args.metadata:
            for ledger in out["ledgers"]:
                value, stat = await self._parts.store.get(paths.ledger(ledger["ledgerId"]))
                ledger["metadata"] = f"version {stat.version}, {len(value)} bytes: {value.hex()}"
        return out

    async def internal_info(self, args: api.OnTopic) -> JsonObject:
        name = args.topic
        try:
            stored = await survey(self._parts.store, name.managed_ledger_name)
        except ManagedLedgerNotFoundError as error:
            raise NotFound(f"Topic {name} not found") from error
        except StoredRecordError as error:
            raise Failed(str(error)) from error
        return internal_info(stored, self._parts.clock.wall_ms())

    async def topic_rows(self, args: api.TopicRows) -> JsonObject:
        return await self._parts.rows.since(args)

    async def subscription_rows(self, args: api.TopicRows) -> JsonObject:
        return await self._parts.lags.since(args)

    async def topics_at_rest(self, args: api.TopicsAtRest) -> JsonObject:
        at = self._parts.clock.wall_ms()
        found = await self._parts.resting.read([name.managed_ledger_name for name in args.topics])
        rows: list[list[object]] = []
        missing: list[str] = []
        for name, log in zip(args.topics, found, strict=True):
            if log is None:
                missing.append(name.full)
            else:
                rows.append([name.full, *reports.at_rest(log)])
        return {"at": at, "rows": rows, "missing": missing}

    async def topics(self, args: api.LoadedTopics) -> list[str]:
        return [str(topic.name) for topic in self._registry.topics(args.namespace)]

    async def terminate(self, args: api.OnTopic) -> JsonObject:
        name = args.topic
        if await topics.find_partitions(self._parts.store, name) is not None:
            raise Unsupported("Termination of a partitioned topic is not allowed")
        topic = await self._kept(name, "Termination")
        return reports.message_id(await topic.terminate(), name.partition)

    async def unload(self, args: api.OnTopic) -> None:
        await self._topic(args.topic)
        await self._registry.unload(args.topic)

    async def trim(self, args: api.OnTopic) -> None:
        await (await self._kept(args.topic, "Trim")).log.trim()

    async def last_message_id(self, args: api.OnTopic) -> JsonObject:
        topic = await self._kept(args.topic, "GetLastMessageId")
        return reports.message_id(topic.log.last_confirmed, args.topic.partition)

    async def message_id_by_time(self, args: api.MessageIdByTime) -> JsonObject:
        first = await (await self._kept(args.topic, "Get message ID by timestamp")).first_since(
            args.timestamp_ms
        )
        return reports.message_id(first, args.topic.partition)

    # Subscriptions

    async def subscriptions(self, args: api.OnTopic) -> list[str]:
        return (await self._topic(args.topic)).subscription_names

    async def durable_subscriptions(self, args: api.OnTopic) -> dict[str, dict[str, str]]:
        topic = await self._topic(args.topic)
        for name, why in topic.unread.items():
            raise NotReady(f"Subscription {name} of {args.topic} cannot be read: {why}")
        return {
            name: subscription.cursor.cursor_properties
            for name, subscription in sorted(topic.subscriptions.items())
            if subscription.durable
        }

    async def create_subscription(self, args: api.CreateSubscription) -> None:
        name = args.topic
        if not name.persistent:
            raise InvalidRequest(
                "Create subscription on non-persistent topic can only be done through client"
            )
        await self._here(name)
        _check_properties(args.properties, INTERNAL_PREFIX)
        if args.replicated:
            raise Unsupported("Replicated subscriptions are not supported yet")
        topic = await self._registry.get(name, create=True)
        if args.subscription in topic.subscriptions:
            raise AlreadyExists("Subscription already exists for topic")
        initial: Position | InitialPosition = InitialPosition.LATEST
        if args.position is not None:
            initial = _start(topic, args.position)
        try:
            made = await topic.create_subscription(args.subscription, initial, args.properties)
        except NotAllowed as error:
            raise Conflict(str(error)) from error
        if made is None:
            raise AlreadyExists("Subscription already exists for topic")

    async def delete_subscription(self, args: api.DeleteSubscription) -> None:
        topic = await self._topic(args.topic)
        if args.subscription not in topic.unread:
            await self._with_subscription(topic, args)  # the refusal with Pulsar's text
        await topic.delete_subscription(args.subscription, force=args.force)

    async def subscription_properties(self, args: api.OnSubscription) -> dict[str, str]:
        _, subscription = await self._with_subscription(await self._topic(args.topic), args)
        return subscription.cursor.cursor_properties

    async def set_subscription_properties(self, args: api.SubscriptionProperties) -> None:
        _check_properties(args.properties, INTERNAL_PREFIX)
        topic, _ = await self._with_subscription(await self._topic(args.topic), args)
        await topic.set_subscription_properties(args.subscription, args.properties)

    async def skip_messages(self, args: api.Skip) -> None:
        await (await self._found(args, "Skip messages"))[1].skip(args.count)

    async def clear_backlog(self, args: api.OnSubscription) -> None:
        await (await self._found(args, "Clear backlog"))[1].clear()

    async def reset_cursor(self, args: api.ResetCursor) -> None:
        topic, subscription = await self._found(args, "Reset-cursor")
        await subscription.reset(await _target(topic, args.timestamp_ms, args.position))

    async def expire_messages(self, args: api.ExpireMessages) -> None:
        _, subscription = await self._found(args, "Expire messages")
        since_ms = max(self._parts.clock.wall_ms() - args.seconds * 1000, 0)
        if not await subscription.expire(since_ms):
            raise Conflict(
                f"Expire message by timestamp not issued on topic {args.topic} for subscription "
                f"{args.subscription} {CAUGHT_UP}",
            )
        await subscription.cursor.persisted()

    # Messages

    async def peek(self, args: api.Peek) -> JsonObject:
        topic, subscription = await self._found(args, "Peek messages")
        return await _message(topic, _nth(topic, subscription, args.nth))

    async def examine(self, args: api.Examine) -> JsonObject:
        topic = await self._kept(args.topic, "Examine messages")
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

    async def message_by_id(self, args: api.MessageById) -> JsonObject:
        topic = await self._kept(args.topic, "GetMessageById")
        position = Position(args.ledger_id, args.entry_id)
        ledgers = {ledger.ledger_id: ledger for ledger in topic.log.stats().ledgers}
        if position.ledger_id not in ledgers:
            raise NotFound("Message id not found")
        return await _message(topic, position)

    async def preview_change(self, args: api.PreviewChange) -> JsonObject:
        topic, subscription = await self._found(args, A_CHANGE)
        target = None
        if args.change == "reset":
            target = await _target(topic, args.timestamp_ms, args.position)
        return await cursor_changes.preview(subscription, args, target, self._parts.clock.wall_ms())

    async def move_cursor(self, args: api.MoveCursor) -> JsonObject:
        _, subscription = await self._found(args, A_CHANGE)
        return await cursor_changes.make(subscription, args, self._parts.clock)

    async def last_changes(self, args: api.OnTopic) -> list[JsonObject]:
        topic = await self._kept(args.topic, A_CHANGE)
        return await cursor_changes.last_changes(topic.subscriptions)

    # The broker

    async def lookup(self, args: api.OnTopic) -> JsonObject:
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

    async def owned_bundles(self, args: api.NoArguments) -> list[str]:
        return [str(bundle) for bundle in self._parts.ownership.owned()]

    async def unload_bundle(self, args: api.OnBundle) -> None:
        namespace, owned = args.namespace, self._parts.ownership.owned()
        owned = [each for each in owned if each.namespace == namespace]
        if args.bundle is not None:
            wanted = BundleName.parse(namespace, args.bundle)
            owned = [each for each in owned if each == wanted]
        for bundle in owned:
            await self._parts.ownership.release(bundle, self.unload_topics)

    async def unload_topics(self, bundle: BundleName) -> None:
        """Close every loaded topic of ``bundle``."""
        await self._registry.unload_where(
            lambda name: name.namespace == bundle.namespace and bundle.holds(name.bundle_hash)
        )

    async def health(self, args: api.NoArguments) -> str:
        record = await self._parts.store.exists(paths.broker(self._parts.record.id))
        if record is None or record.ephemeral_owner != self._parts.store.session_id:
            raise NotReady("This broker is not registered")
        return "ok"


def _check_properties(properties: dict[str, str], reserved: str) -> None:
    """PreconditionFailed for names that are the brokers' own, and for more than a node may hold."""
    if any(key.startswith(reserved) for key in properties):
        raise PreconditionFailed(f"Property names with {reserved} are reserved")
    check_properties_size(properties)


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
    """First entry to deliver for an administrator's position."""
    start = position.position
    if start in (EARLIEST, LATEST):
        return start
    return topic.log.next_position(start) if position.excluded else start


async def _target(
    topic: Topic, timestamp_ms: int | None, position: MessagePosition | None
) -> Position:
    """First entry to deliver after a reset, within the topic."""
    ledger = topic.log
    if timestamp_ms is not None:
        return await topic.first_since(timestamp_ms)
    assert position is not None, "the arguments were checked"
    target = _start(topic, position)
    end = ledger.next_position(ledger.last_confirmed)
    first = ledger.next_position(EARLIEST)
    return min(max(target, first), end)
