"""Administrative operations on topics: creation and deletion, properties, lookup, and what is done to their logs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.topics import (
    CHANGE_PROPERTIES,
    COMPACT,
    COMPACTION_STATUS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    FORGET_PARTITIONED,
    GROW_ELSEWHERE,
    HOLDINGS,
    LOOKUP,
    OFFLOAD,
    OFFLOAD_STATUS,
    PARTITIONS_TO_USE,
    TERMINATE,
    TOPIC_PROPERTIES,
    TRIM,
    TRUNCATE,
    UNLOAD,
    ChangeProperties,
    CreateTopic,
    DeleteTopic,
    GrowElsewhere,
    MoveLedgers,
)
from engine.admin.partitions import existing_partitions
from engine.base.clock import Clock
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    MagnetarError,
    NotReady,
    PreconditionFailed,
    Unprocessable,
    Unsupported,
)
from engine.base.names import TopicName
from engine.broker.administration import reports
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.previews import holdings
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.catalog import Catalog
from engine.broker.errors import (
    MetadataError,
    NotServedHere,
    TopicIsPartitioned,
    TopicNotFound,
)
from engine.broker.ports import RemoteClusters
from engine.broker.topics.ephemeral import COMPACTION
from engine.broker.topics.lifecycle.topic_deletions import ForgetTopic
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.subscriptions.unacked_subscription import CompactionSubscription
from engine.managed.errors import ManagedLedgerNotFoundError, OffloadRunningError
from engine.managed.stored.records import OWN_PREFIX, LogRecord
from engine.managed.stored.resting import RestingLogs
from engine.metadata.cached import fresh
from engine.metadata.store import MetadataStore
from engine.offload.errors import OffloadError
from engine.rpc.operation import Handlers, bind
from engine.rpc.server import MovedError
from engine.tenancy import topics
from engine.tenancy.checks import check_expected, check_new_properties
from engine.tenancy.geo.shadow_checks import check_source
from engine.tenancy.geo.shadow_topics import check_unchanged

LOADS_MAX = 3
"""Attempts to load a topic that was just created, while its bundle changes owner."""


class TopicOperations:
    """Handlers of the operations, which ``engine.admin.api.topics`` describes."""

    def __init__(
        self,
        topics: OwnedTopics,
        registry: TopicRegistry,
        assignment: BundleAssignment,
        store: MetadataStore,
        catalog: Catalog,
        resting: RestingLogs,
        clock: Clock,
        forget: ForgetTopic,
        remotes: RemoteClusters,
    ) -> None:
        self._topics = topics
        self._registry = registry
        self._assignment = assignment
        self._store = store
        self._catalog = catalog
        self._resting = resting
        self._clock = clock
        self._forget = forget
        self._remotes = remotes

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(CREATE_TOPIC, self.create_topic),
                bind(DELETE_TOPIC, self.delete_topic),
                bind(FORGET_PARTITIONED, self.forget_partitioned),
                bind(HOLDINGS, self.holdings),
                bind(TOPIC_PROPERTIES, self.topic_properties),
                bind(CHANGE_PROPERTIES, self.change_properties),
                bind(TERMINATE, self.terminate),
                bind(UNLOAD, self.unload),
                bind(TRIM, self.trim),
                bind(TRUNCATE, self.truncate),
                bind(OFFLOAD, self.offload),
                bind(OFFLOAD_STATUS, self.offload_status),
                bind(COMPACT, self.compact),
                bind(COMPACTION_STATUS, self.compaction_status),
                bind(PARTITIONS_TO_USE, self.partitions_to_use),
                bind(GROW_ELSEWHERE, self.grow_elsewhere),
                bind(LOOKUP, self.lookup),
            ]
        )

    async def create_topic(self, args: CreateTopic) -> None:
        name, store = args.topic, self._store
        check_new_properties(args.properties, OWN_PREFIX)
        await topics.check_new_topic(store, name)
        await check_source(store, name, args.properties)
        await self._topics.check_owned(name)
        if self._registry.loaded(name) is not None:
            raise AlreadyExists(topics.EXISTS)
        try:
            stop_counting = await self._catalog.admit(name)
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
                    await self._topics.check_owned(name)
        raise NotReady(f"Topic {name} may have been made: its bundle changed hands meanwhile")

    async def delete_topic(self, args: DeleteTopic) -> JsonObject:
        name = args.topic
        if not args.force and name.persistent:
            await self._topics.check_owned(name)
            await self._refuse_replicated(name)
        if self._registry.loaded(name) is None:
            if name.persistent and args.seen is None:
                await self._topics.check_owned(name)
                if args.dry:
                    return {}  # a topic that is not loaded has no clients
                before = await self._delete_unloaded(name)
                if before is not None:
                    return {"before": before}
            # Only now, because a topic that exists or is loaded is not partitioned (N1).
            if await topics.find_partitions(self._store, name) is not None:
                raise Conflict(
                    f"{name} is a partitioned topic, instead of calling delete topic, "
                    "please call delete-partitioned-topic.",
                )
        topic = await self._topics.get(name)

        def check() -> None:
            users = topic.users
            if users and not args.force:
                raise PreconditionFailed(f"Topic has {users} connected producers/consumers")
            if args.seen is not None:
                holdings.check(topic, args.seen)

        if args.dry:
            check()
            return {}
        before = holdings.before_deletion(topic)
        await self._registry.deletions.delete_checked(topic, check)
        return {"before": before}

    async def _refuse_replicated(self, name: TopicName) -> None:
        """Raise Unprocessable for a topic that is sent to other clusters, as Pulsar does."""
        try:
            policies = await self._catalog.policies(name)
        except TopicNotFound:
            return  # its namespace is being deleted
        others = policies.other_clusters(self._catalog.cluster)
        if others:
            raise Unprocessable(
                f"Delete forbidden topic is replicated on clusters [{', '.join(others)}]"
            )

    async def _delete_unloaded(self, name: TopicName) -> JsonObject | None:
        """Delete a topic from what is stored of it and return its contents; None when it is loaded, or not found."""
        before: JsonObject = {}

        async def inspect(record: LogRecord, cursors: Sequence[str]) -> None:
            before.update(await holdings.at_rest(self._resting, name, record, cursors))

        try:
            return before if await self._registry.deletions.delete_unloaded(name, inspect) else None
        except ManagedLedgerNotFoundError:
            return None

    async def forget_partitioned(self, args: OnTopic) -> None:
        name, store = args.topic, self._store
        await self._topics.check_owned(name)
        if not await topics.marked_deleted(fresh(store, topics.partitioned_path(name)), name):
            raise Conflict(f"Topic {name} is not being deleted")
        if name.persistent and (left := await existing_partitions(store, name)):
            raise PreconditionFailed(f"Topic partition {left[0]} still exists")
        await self._forget(name)

    async def holdings(self, args: OnTopic) -> JsonObject:
        return await holdings.of(await self._topics.get(args.topic), self._clock.wall_ms())

    async def topic_properties(self, args: OnTopic) -> dict[str, str]:
        return dict((await self._topics.persistent(args.topic, "Properties")).log.properties)

    async def change_properties(self, args: ChangeProperties) -> JsonObject:
        check_unchanged(args.changes)
        topic = await self._topics.persistent(args.topic, "Properties")
        before: dict[str, str] = {}

        def check(present: Mapping[str, str]) -> None:
            if args.properties:
                check_new_properties({**present, **args.properties}, OWN_PREFIX)
            check_expected(present, args.expected)
            before.update(present)

        await topic.change_properties(args.changes, check)
        return {"before": before}

    async def terminate(self, args: OnTopic) -> JsonObject:
        name = args.topic
        if await topics.find_partitions(self._store, name) is not None:
            raise Unsupported("Termination of a partitioned topic is not allowed")
        topic = await self._topics.persistent(name, "Termination")
        if topic.shadow_source is not None:
            raise Unsupported("Terminate is not allowed on shadow topic.")
        before = topic.log.terminated
        last = await topic.terminate()
        return {
            "last": reports.message_id(last, name.partition),
            "before": None if before is None else str(before),
            "after": str(last),
        }

    async def unload(self, args: OnTopic) -> None:
        await self._topics.get(args.topic)
        await self._registry.unload(args.topic)

    async def trim(self, args: OnTopic) -> None:
        await (await self._topics.persistent(args.topic, "Trim")).log.trim()

    async def truncate(self, args: OnTopic) -> None:
        topic = await self._topics.persistent(args.topic, "Truncate")
        if topic.subscriptions.unread:
            name, why = next(iter(topic.subscriptions.unread.items()))
            raise NotReady(f"Subscription {name} cannot be used now: {why}")
        for subscription in list(topic.subscriptions.values()):
            # the compaction has to read its backlog
            if not isinstance(subscription, CompactionSubscription):
                await subscription.moves.clear()
        await topic.log.trim(retention=False)

    async def offload(self, args: MoveLedgers) -> None:
        topic = await self._topics.persistent(args.topic, "Offload")
        try:
            topic.log.offload(args.before.position)
        except OffloadRunningError as error:
            raise Conflict("Offload already in progress") from error
        except OffloadError as error:
            raise PreconditionFailed(str(error)) from error

    async def offload_status(self, args: OnTopic) -> JsonObject:
        status = (await self._topics.persistent(args.topic, "Offload")).log.offload_status
        first = status.first_unmoved
        return {
            "status": status.phase.value,
            "lastError": status.error,
            "first": None
            if first is None
            else {"ledgerId": first.ledger_id, "entryId": first.entry_id},
        }

    async def compact(self, args: OnTopic) -> None:
        if not (await self._topics.persistent(args.topic, COMPACTION)).compaction.start():
            raise Conflict("Compaction already in progress")

    async def compaction_status(self, args: OnTopic) -> JsonObject:
        compaction = (await self._topics.persistent(args.topic, COMPACTION)).compaction
        return {"status": compaction.status, "lastError": compaction.error}

    async def partitions_to_use(self, args: OnTopic) -> int:
        return await self._catalog.partitions(args.topic, allow_create=True)

    async def grow_elsewhere(self, args: GrowElsewhere) -> None:
        catalog, topic = self._catalog, args.topic
        failures: list[str] = []
        for remote in (await catalog.policies(topic)).other_clusters(catalog.cluster):
            try:
                await self._remotes.grow(remote, topic, args.partitions)
            except MagnetarError as error:
                failures.append(f"{remote}: {error}")
        if failures:
            raise NotReady(
                f"{topic} has {args.partitions} partitions here, but not in {'; '.join(failures)}. Repeat the call"
            )

    async def lookup(self, args: OnTopic) -> JsonObject:
        place = await self._assignment.place(args.topic, authoritative=False)
        if place.chosen:
            raise MovedError(place.owner.http_url, place.owner.http_url_tls)
        url = place.owner.native_url
        return {
            "brokerUrl": url,
            "httpUrl": place.owner.http_url,
            "nativeUrl": url,
            "brokerUrlSsl": "",
            **({"brokerUrlTls": place.owner.native_url_tls} if place.owner.native_url_tls else {}),
        }
