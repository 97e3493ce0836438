"""Administrative operations that report the statistics of a topic."""

from collections.abc import Sequence

from engine.admin.api.arguments import JsonObject, OnTopic
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
from engine.admin.messages import publish_time_ms
from engine.admin.unacknowledged import nth_unacknowledged
from engine.base.clock import Clock
from engine.base.errors import Failed, NotFound, NotReady, WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.broker.administration import reports
from engine.broker.administration.internal_info import held_space, internal_info, internal_stats
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.topics.topic import Topic
from engine.managed.errors import ManagedLedgerNotFoundError, StoredRecordError
from engine.managed.stats import CursorStats
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.ownership.registration import BrokerRecord
from engine.rpc.operation import Handlers, bind
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import UnreadableError


class StatisticsOperations:
    """Handlers of the operations, which ``engine.admin.api.statistics`` describes."""

    def __init__(
        self,
        topics: OwnedTopics,
        store: MetadataStore,
        schemas: SchemaRegistry,
        clock: Clock,
        record: BrokerRecord,
    ) -> None:
        self._topics = topics
        self._store = store
        self._schemas = schemas
        self._clock = clock
        self._record = record

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(TOPIC_STATS, self.topic_stats),
                bind(INTERNAL_STATS, self.internal_stats),
                bind(INTERNAL_INFO, self.internal_info),
                bind(HELD_LEDGERS, self.held_ledgers),
                bind(BACKLOG_SIZE, self.backlog_size),
            ]
        )

    async def topic_stats(self, args: TopicStats) -> JsonObject:
        topic = await self._topics.get(args.topic)
        out = reports.topic_stats(topic, args, self._record.id)
        if args.earliest_time_in_backlog and topic.name.persistent:
            await self._add_earliest_times(topic, out)
        return out

    async def _add_earliest_times(self, topic: Topic, out: JsonObject) -> None:
        for name, stats in out["subscriptions"].items():
            subscription = topic.subscriptions.get(name)
            if subscription is None:
                continue
            first = _first_due(topic, subscription.cursor.stats()) if stats["msgBacklog"] else None
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
        topic = await self._topics.get(args.topic)
        if topic.compaction.ledger_id >= 0:
            await topic.compaction.ready()
        out = internal_stats(topic, await self._schema_ledgers(topic.name))
        if args.metadata:
            for ledger in out["ledgers"]:
                value, stat = await self._store.get(paths.ledger(ledger["ledgerId"]))
                ledger["metadata"] = f"version {stat.version}, {len(value)} bytes: {value.hex()}"
        return out

    async def _schema_ledgers(self, name: TopicName) -> Sequence[tuple[int, int, int]]:
        """Return id, entries and bytes of each ledger of the topic's schemas. Raises NotReady while they cannot be
        read."""
        try:
            return await self._schemas.ledgers(name)
        except (WorldError, UnreadableError) as error:
            raise NotReady(f"The schemas of {name} cannot be read now: {error}") from error

    async def internal_info(self, args: OnTopic) -> JsonObject:
        name = args.topic
        try:
            stored = await survey(self._store, name.managed_ledger_name)
        except ManagedLedgerNotFoundError as error:
            raise NotFound(f"Topic {name} not found") from error
        except StoredRecordError as error:
            raise Failed(str(error)) from error
        return internal_info(stored, self._clock.wall_ms())

    async def held_ledgers(self, args: OnTopic) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Held ledgers")
        spans = topic.log.held_spans()
        return held_space(spans, topic.policies, self._clock.wall_ms())

    async def backlog_size(self, args: BacklogSize) -> int:
        log = (await self._topics.persistent(args.topic, "Backlog size")).log
        position = args.position.position
        known = any(ledger.ledger_id == position.ledger_id for ledger in log.stats().ledgers)
        return log.bytes_behind(position if known else EARLIEST)


def _first_due(topic: Topic, cursor: CursorStats) -> Position | None:
    """Return the position of the first unacknowledged entry."""
    return nth_unacknowledged(topic.log.stats().ledgers, cursor, 1)
