"""Administrative operations on the cursors of subscriptions."""

from dataclasses import replace

from engine.admin.api.arguments import JsonObject, MessagePosition, OnSubscription, OnTopic
from engine.admin.api.cursors import (
    ACKNOWLEDGE_MESSAGES,
    ANALYZE_BACKLOG,
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    EXPIRE_TO_POSITION,
    LAST_CHANGES,
    MOVE_CURSOR,
    PREVIEW_CHANGE,
    RESET_CURSOR,
    SKIP_MESSAGES,
    AcknowledgeMessages,
    AnalyzeBacklog,
    ExpireMessages,
    ExpireToPosition,
    MoveCursor,
    PreviewChange,
    ResetCursor,
    Skip,
)
from engine.base.clock import Clock
from engine.base.errors import Conflict, Failed, MagnetarError, NotFound, NotReady
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.ranges import words_of
from engine.broker.administration.backlog_scan import scan
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.previews import cursor_changes, single_messages
from engine.broker.topics.ephemeral import A_CHANGE
from engine.broker.topics.geo.replicator import Replicator
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import InvalidPositionError
from engine.rpc.operation import Handlers, bind
from engine.wire.batches import last_batch_index
from engine.wire.geo.source_positions import origin_of

NEARLY_CAUGHT_UP = 1000
"""Backlog in entries below which Pulsar reads only the oldest entry, where there are consumers."""
CAUGHT_UP = (
    "due to ongoing message expiration not finished or subscription almost catch  up. "
    "If it's performed on a partitioned topic operation might succeeded on other partitions, "
    "please check stats of individual partition."
)


class CursorOperations:
    """Handlers of the operations, which ``engine.admin.api.cursors`` describes."""

    def __init__(
        self,
        topics: OwnedTopics,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(SKIP_MESSAGES, self.skip_messages),
                bind(CLEAR_BACKLOG, self.clear_backlog),
                bind(RESET_CURSOR, self.reset_cursor),
                bind(EXPIRE_MESSAGES, self.expire_messages),
                bind(EXPIRE_TO_POSITION, self.expire_to_position),
                bind(ANALYZE_BACKLOG, self.analyze_backlog),
                bind(PREVIEW_CHANGE, self.preview_change),
                bind(MOVE_CURSOR, self.move_cursor),
                bind(LAST_CHANGES, self.last_changes),
                bind(ACKNOWLEDGE_MESSAGES, self.acknowledge_messages),
            ]
        )

    async def skip_messages(self, args: Skip) -> JsonObject:
        reader = await self._reader(args, "Skip messages")
        before = reader.cursor.mark_delete
        await reader.moves.skip(args.count)
        return _moved(before, reader)

    async def clear_backlog(self, args: OnSubscription) -> JsonObject:
        reader = await self._reader(args, "Clear backlog")
        before = reader.cursor.mark_delete
        await reader.moves.clear()
        return _moved(before, reader)

    async def reset_cursor(self, args: ResetCursor) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, "Reset-cursor")
        left: list[int] = []
        if args.position is not None and args.position.batch_index >= 0:
            target, left = await _in_batch(topic, args.position)
        else:
            target = await _target(topic, args.timestamp_ms, args.position)
        before = subscription.cursor.mark_delete
        await subscription.moves.reset(target, left)
        return _moved(before, subscription)

    async def expire_messages(self, args: ExpireMessages) -> JsonObject:
        reader = await self._reader(args, "Expire messages")
        before = reader.cursor.mark_delete
        since_ms = max(self._clock.wall_ms() - args.seconds * 1000, 0)
        backlog = reader.cursor.backlog_entries()
        consumers = reader.consumers if isinstance(reader, Subscription) else ()
        near = not backlog or (consumers and backlog < NEARLY_CAUGHT_UP)
        if not await reader.moves.expire(since_ms) and near:
            raise Conflict(
                f"Expire message by timestamp not issued on topic {args.topic} for subscription "
                f"{args.subscription} {CAUGHT_UP}",
            )
        await reader.cursor.persisted()
        return _moved(before, reader)

    async def _reader(self, args: OnSubscription, what: str) -> Subscription | Replicator:
        """Return the subscription, or the replicator whose cursor has this name. Raises as
        ``OwnedTopics.subscription``."""
        remote = origin_of(args.subscription)
        if not remote:
            return (await self._topics.subscription(args, what))[1]
        topic = await self._topics.persistent(args.topic, what)
        try:
            return topic.replication.replicators[remote]
        except KeyError:
            raise NotFound("Replicator not found") from None

    async def expire_to_position(self, args: ExpireToPosition) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Expire messages")
        reader = await self._reader(args, "Expire messages")
        before = reader.cursor.mark_delete
        last, wanted = topic.log.last_confirmed, _start(topic, args.position)
        if wanted > last:
            raise Conflict(
                f"Expire message by position not issued on topic {args.topic} for subscription "
                f"{args.subscription} due to ongoing message expiration not finished or invalid message position "
                "provided."
            )
        reader.moves.expire_to(wanted)
        await reader.cursor.persisted()
        return _moved(before, reader)

    async def analyze_backlog(self, args: AnalyzeBacklog) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, "Analyze backlog")
        start = None if args.position is None else args.position.position
        try:
            return await scan(topic.log, subscription.cursor, start)
        except MagnetarError as error:
            kind = NotReady if error.retriable else Failed
            raise kind(f"Messages of {args.topic} cannot be read: {error}") from error

    async def preview_change(self, args: PreviewChange) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, A_CHANGE)
        target = None
        if args.change == "reset":
            target = await _target(topic, args.timestamp_ms, args.position)
        return await cursor_changes.preview(subscription, args, target, self._clock.wall_ms())

    async def move_cursor(self, args: MoveCursor) -> JsonObject:
        _, subscription = await self._topics.subscription(args, A_CHANGE)
        return await cursor_changes.make(subscription, args, self._clock)

    async def last_changes(self, args: OnTopic) -> list[JsonObject]:
        topic = await self._topics.persistent(args.topic, A_CHANGE)
        return await cursor_changes.last_changes(topic.subscriptions)

    async def acknowledge_messages(self, args: AcknowledgeMessages) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, "Acknowledging messages")
        sizes = await single_messages.batch_sizes(topic.log, subscription.cursor, args.messages)
        states = single_messages.states_of(topic.log, subscription.cursor, args.messages, sizes)
        answer = {"states": states, "acknowledged": states.count("held")}
        if args.dry:
            return answer
        before = subscription.cursor.mark_delete
        wanted = single_messages.by_entry(args.messages)
        single_messages.acknowledge(subscription, wanted, sizes)
        await subscription.cursor.persisted()
        return answer | _moved(before, subscription)


def _start(topic: Topic, position: MessagePosition) -> Position:
    """Return the first entry to deliver for an administrator's position."""
    start = position.position
    if start in (EARLIEST, LATEST):
        return start
    return topic.log.next_position(start) if position.excluded else start


def _moved(before: Position, subscription: Subscription | Replicator) -> JsonObject:
    """Return the cursor's mark-delete positions before and after a change."""
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
