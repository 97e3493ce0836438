"""Administrative operations that find and read messages."""

from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.messages import (
    COMPACTED_ENTRIES,
    EXAMINE,
    LAST_MESSAGE_ID,
    LATEST_ENTRIES,
    MESSAGE_BY_ID,
    MESSAGE_ID_BY_TIME,
    NEXT_ENTRIES,
    PEEK,
    CompactedEntries,
    Examine,
    LatestEntries,
    MessageById,
    MessageIdByTime,
    NextEntries,
    Peek,
)
from engine.admin.messages import NO_TRANSACTION, TransactionState, message_answer
from engine.admin.unacknowledged import nth_unacknowledged
from engine.base.errors import Failed, MagnetarError, NotFound, NotReady, PreconditionFailed
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.administration import reports
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.compaction.compacted_ledger import CompactedLedger
from engine.broker.dispatch.facts import MARKER, TRANSACTION, facts_of, hidden_of
from engine.broker.topics.topic import Topic
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.errors import InvalidPositionError
from engine.rpc.operation import Handlers, bind


class MessageOperations:
    """Handlers of the operations, which ``engine.admin.api.messages`` describes."""

    def __init__(
        self,
        topics: OwnedTopics,
    ) -> None:
        self._topics = topics

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(PEEK, self.peek),
                bind(EXAMINE, self.examine),
                bind(LATEST_ENTRIES, self.latest_entries),
                bind(NEXT_ENTRIES, self.next_entries),
                bind(COMPACTED_ENTRIES, self.compacted_entries),
                bind(MESSAGE_BY_ID, self.message_by_id),
                bind(LAST_MESSAGE_ID, self.last_message_id),
                bind(MESSAGE_ID_BY_TIME, self.message_id_by_time),
            ]
        )

    async def peek(self, args: Peek) -> JsonObject:
        topic, subscription = await self._topics.subscription(args, "Peek messages")
        ledgers, cursor = topic.log.stats().ledgers, subscription.cursor.stats()
        return await _message(topic, nth_unacknowledged(ledgers, cursor, args.nth))

    async def examine(self, args: Examine) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Examine messages")
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
        topic = await self._topics.persistent(args.topic, "Reading messages")
        end = topic.log.next_position(topic.log.last_readable)
        before = min(args.before.position, end) if args.before is not None else end
        rows, more, _ = await _bounded(args, topic, lambda: topic.log.newest_first(before))
        return {"entries": rows, "more": more}

    async def next_entries(self, args: NextEntries) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Reading messages")
        start = args.start.position
        rows, more, last = await _bounded(args, topic, lambda: topic.log.oldest_first(start))
        # What is published later than the entries is at or behind this position, in this ledger or a later one.
        following = list(start) if last is None else [last.ledger_id, last.entry_id + 1]
        return {"entries": rows, "more": more, "next": following}

    async def compacted_entries(self, args: CompactedEntries) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Reading compacted messages")
        start = args.start.position
        try:
            # A compaction that cannot be read is none that the topic does not have.
            await topic.compaction.ready()
            ledger = await topic.compaction.ledger()
            kept = None
            if ledger is not None and start <= ledger.horizon:
                kept = await _kept(ledger, args)
        except MagnetarError as error:
            kind = NotReady if error.retriable or isinstance(error, NoSuchLedgerError) else Failed
            raise kind(f"What was compacted of {args.topic} cannot be read: {error}") from error
        return (kept if kept is not None else await self.next_entries(args)) | {
            "ledger": -1 if ledger is None else ledger.ledger_id,
            "horizon": None if ledger is None else list(ledger.horizon),
        }

    async def message_by_id(self, args: MessageById) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "GetMessageById")
        position = Position(args.ledger_id, args.entry_id)
        ledgers = {ledger.ledger_id: ledger for ledger in topic.log.stats().ledgers}
        if position.ledger_id not in ledgers:
            raise NotFound("Message id not found")
        return await _message(topic, position)

    async def last_message_id(self, args: OnTopic) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "GetLastMessageId")
        return reports.message_id(topic.log.last_confirmed, args.topic.partition)

    async def message_id_by_time(self, args: MessageIdByTime) -> JsonObject:
        first = await (
            await self._topics.persistent(args.topic, "Get message ID by timestamp")
        ).first_since(args.timestamp_ms)
        return reports.message_id(first, args.topic.partition)


async def _bounded(
    args: LatestEntries | NextEntries,
    topic: Topic,
    iterate: Callable[[], AsyncGenerator[tuple[Slice, int], None]],
) -> tuple[list[tuple[int, int, str]], bool, Position | None]:
    """Return entries within the bounds of ``args``, at least one, whether there may be more of them, and where the last
    one that was read is. Those of aborted transactions are left out."""
    rows: list[tuple[int, int, str]] = []
    last: Position | None = None
    messages = size = 0
    try:
        async with aclosing(iterate()) as entries:
            async for run, i in entries:
                if topic.aborted and i in hidden_of(run, MARKER, topic.aborted):
                    last = run.position(i)
                    continue
                entry = run.entry(i)
                size += len(entry)
                if rows and size > args.bytes_max:
                    return rows, True, last
                last = run.position(i)
                rows.append((*last, b64encode(entry).decode()))
                messages += run.messages_of(i, i + 1)
                if messages >= args.messages:
                    return rows, True, last
    except MagnetarError as error:
        kind = NotReady if error.retriable else Failed
        raise kind(f"Messages of {args.topic} cannot be read: {error}") from error
    return rows, False, last


async def _kept(ledger: CompactedLedger, args: CompactedEntries) -> JsonObject:
    """Return entries that a compaction kept. Raises LedgerError, CompactedFormatError."""
    number = await ledger.find(args.start.position)
    views, _, ahead = await ledger.read(number, args.start.position, args.messages, args.bytes_max)
    rows = [
        (*view.run.position(i), b64encode(view.run.entry(i)).decode())
        for view in views
        for i in view.indexes
    ]
    # Whether the topic has entries behind the horizon is what the next page says.
    return {"entries": rows, "more": True, "next": list(ahead)}


async def _message(topic: Topic, position: Position | None) -> JsonObject:
    if position is None:
        raise NotFound("Message not found")
    try:
        entry = await topic.log.read_entry(position)
    except InvalidPositionError as error:
        raise NotFound("Message not found") from error
    except MagnetarError as error:
        raise Failed(f"Entry {position} cannot be read: {error}") from error
    return message_answer(position, bytes(entry.entry(0)), _transaction_state(topic, entry))


def _transaction_state(topic: Topic, entry: Slice) -> TransactionState:
    facts = facts_of(entry, TRANSACTION).special.get(0)
    if facts is None or facts.transaction is None or topic.transactions is None:
        return NO_TRANSACTION
    aborted = facts.transaction in topic.aborted
    return TransactionState(not aborted and entry.position(0) > topic.log.last_readable, aborted)
