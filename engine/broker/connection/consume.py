"""SUBSCRIBE, FLOW, ACK, redelivery, SEEK, UNSUBSCRIBE, last message id, consumer statistics of one connection."""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.broker.connection.bounds import (
    check_metadata,
    check_name,
    check_new_subscription,
    check_subscription_properties,
)
from engine.broker.connection.lookups import parse_topic
from engine.broker.context import Context
from engine.broker.dispatch.choose.keys import SLOTS, KeyPolicy
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import (
    BrokerError,
    ConsumerAssignError,
    ConsumerBusy,
    MetadataError,
    NotAllowed,
    ServiceNotReady,
    TooManyRequests,
)
from engine.broker.outlet import ClientConnection
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.topics.subscription import CompactionSubscription, Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import InvalidPositionError
from engine.managed.ledger import InitialPosition
from engine.net.routing import Access, Answer, Route, Routes
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ProtocolViolation, ServerError
from engine.wire.states import CommandType

log = logging.getLogger(__name__)

_NAME_BYTES = 5
PERMITS_MAX = (1 << 31) - 1
RANGES_MAX = 1000
"""Hash ranges of one Key_Shared consumer."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A consumer and where it was attached; ``consumer.attached`` tells whether it still is."""

    consumer: Consumer
    subscription: Subscription
    topic: Topic


class ConsumeCommands:
    """Consumers by id. An id is pending while its SUBSCRIBE is being answered."""

    def __init__(
        self,
        connection: ClientConnection,
        context: Context,
        registry: TopicRegistry,
        schemas: SchemaRules,
    ) -> None:
        self._connection = connection
        self._context = context
        self._registry = registry
        self._schemas = schemas
        self.consumers: dict[int, Attached] = {}
        self._pending: dict[int, bool] = {}
        """Being created, by id; True: the client closed it meanwhile."""

    # --- SUBSCRIBE ------------------------------------------------------------------------------

    def subscribe(self, body: pb.CommandSubscribe) -> None:
        """The C++ library, and those on top of it, takes a refused consumer for attached to the connection: it asks
        again only when it is sent away from there."""
        stranded = self._connection.client_version.startswith("Pulsar-CPP")
        again = commands.close_consumer(body.consumer_id) if stranded else b""
        self._connection.answer_later(self._subscribe(body), body.request_id, again)

    async def _subscribe(self, body: pb.CommandSubscribe) -> bytes:
        consumer_id = body.consumer_id
        if consumer_id in self.consumers:
            return commands.success(body.request_id)
        if consumer_id in self._pending:
            raise ServiceNotReady("Consumer is already present on the connection")
        if len(self.consumers) + len(self._pending) >= (
            self._context.settings.max_consumers_per_connection
        ):
            raise TooManyRequests("Too many consumers on the connection")
        self._pending[consumer_id] = False
        try:
            consumer = await self._attach(body)
        finally:
            del self._pending[consumer_id]
        return commands.success(body.request_id) + consumer.answered()

    async def _attach(self, body: pb.CommandSubscribe) -> Consumer:
        name = parse_topic(body.topic)
        kind = SubscriptionType(body.subType)
        check_subscribe(body, kind, persistent=name.persistent)
        properties = check_subscription_properties(body.subscription_properties)
        context = self._context
        consumer = Consumer(
            self._connection,
            body.consumer_id,
            check_name("consumer_name", body.consumer_name) or context.entropy.hex(_NAME_BYTES),
            kind,
            settings=context.settings,
            partition=name.partition,
            now_ms=context.clock.wall_ms(),
            priority=body.priority_level,
            epoch=body.consumer_epoch if body.HasField("consumer_epoch") else None,
            metadata=check_metadata(body.metadata),
            keys=key_policy(body.keySharedMeta) if kind == SubscriptionType.KEY_SHARED else None,
            acknowledges=name.persistent,
            reads_any_schema=body.HasField("schema") and body.schema.type == pb.Schema.AutoConsume,
            subscribing=True,
        )
        topic = await self._registry.get(name, create=body.force_topic_creation)
        initial = await self._initial(body, topic)
        if body.read_compacted:
            consumer.read_compacted, consumer.start = True, _start(initial)
            await topic.compaction.ready()
        schema = body.schema if body.HasField("schema") else None
        consumer.schema_version = await self._schemas.for_consumer(topic, schema)
        subscription = await topic.subscribe(
            consumer,
            body.subscription,
            durable=body.durable,
            initial=initial,
            properties=properties,
            replicated=body.replicate_subscription_state,
            rolls_back=body.start_message_rollback_duration_sec > 0 and name.persistent,
        )
        if self._connection.closing or self._pending[body.consumer_id]:
            subscription.detach(consumer)
            raise ServiceNotReady("The consumer was closed while it was being created")
        self.consumers[body.consumer_id] = Attached(consumer, subscription, topic)
        return consumer

    async def _initial(self, body: pb.CommandSubscribe, topic: Topic) -> Position | InitialPosition:
        """Where a subscription starts if it is made now. An id behind the end of the topic is none."""
        if not topic.name.persistent:
            return InitialPosition.LATEST
        earliest = body.initialPosition == pb.CommandSubscribe.Earliest
        if body.start_message_rollback_duration_sec > 0:
            back_ms = body.start_message_rollback_duration_sec * 1000
            since_ms = max(0, self._context.clock.wall_ms() - back_ms)
            return await topic.first_since(since_ms)
        if not body.durable and body.HasField("start_message_id"):
            start = wire_position(body.start_message_id)
            if start <= topic.log.next_position(topic.log.last_confirmed):
                return start
        return InitialPosition.EARLIEST if earliest else InitialPosition.LATEST

    # --- permits and acknowledgements -----------------------------------------------------------

    def flow(self, body: pb.CommandFlow) -> None:
        """Unknown consumers are ignored. Raises ProtocolViolation on 0 permits, as Pulsar closes the connection."""
        found = self._attached(body.consumer_id)
        if found is None:
            return
        if body.messagePermits < 1:
            raise ProtocolViolation("FLOW with messagePermits 0")
        # What a client asks for beyond any queue's size is as good as no limit.
        permits = min(body.messagePermits, PERMITS_MAX - max(found.consumer.permits, 0))
        found.subscription.flow(found.consumer, permits)

    def ack_run(self, consumer_id: int, positions: list[Position]) -> None:
        """Plain individual acknowledgements, in one go."""
        found = self._attached(consumer_id)
        if found is not None:
            found.subscription.acknowledge(found.consumer, positions)

    def ack(self, body: pb.CommandAck) -> Awaitable[bytes] | None:
        """Any ACK, applied at once. What is returned answers the client, if it asked, when it is durable."""
        found = self._attached(body.consumer_id)
        if found is None:
            return None
        subscription = found.subscription
        refusal: MagnetarError | None = None
        try:
            self.apply_ack(found.consumer, subscription, body)
        except (BrokerError, InvalidPositionError) as error:
            refusal = error
        if body.HasField("request_id"):
            return self._ack_answer(body, subscription, refusal)
        if refusal is not None:
            log.info("acknowledgement refused subscription=%s: %s", subscription.name, refusal)
        return None

    async def _ack_answer(
        self, body: pb.CommandAck, subscription: Subscription, refusal: MagnetarError | None
    ) -> bytes:
        if refusal is None:
            try:
                await subscription.cursor.persisted()
            except MagnetarError as error:
                refusal = error
        if refusal is None:
            return commands.ack_response(body.consumer_id, body.request_id)
        code = refusal.code if isinstance(refusal, BrokerError) else ServerError.MetadataError
        return commands.ack_response(
            body.consumer_id, body.request_id, code=code, message=str(refusal)
        )

    def apply_ack(
        self, consumer: Consumer, subscription: Subscription, body: pb.CommandAck
    ) -> None:
        """Do what the ACK says, without waiting. Raises NotAllowed, InvalidPositionError."""
        if body.HasField("txnid_most_bits") or body.HasField("txnid_least_bits"):
            raise NotAllowed("Transactions are not enabled.")
        if body.ack_type == pb.CommandAck.Cumulative:
            if len(body.message_id) != 1:
                raise NotAllowed(
                    f"a cumulative acknowledgement has one message id, not {len(body.message_id)}"
                )
            one = body.message_id[0]
            subscription.acknowledge_cumulative(consumer, wire_position(one), list(one.ack_set))
            return
        whole: list[Position] = []
        for one in body.message_id:
            if any(one.ack_set):
                subscription.acknowledge_partly(consumer, wire_position(one), list(one.ack_set))
            else:
                whole.append(wire_position(one))
        if whole:
            subscription.acknowledge(consumer, whole)

    def redeliver(self, body: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        found = self._attached(body.consumer_id)
        if found is None:
            return
        positions = [wire_position(one) for one in body.message_ids] or None
        epoch = body.consumer_epoch if body.HasField("consumer_epoch") else None
        found.subscription.redeliver(found.consumer, positions, epoch)

    # --- requests about a consumer --------------------------------------------------------------

    def _attached(self, consumer_id: int) -> Attached | None:
        """None for one that is unknown, or that the broker has sent away."""
        found = self.consumers.get(consumer_id)
        return found if found is not None and found.consumer.attached else None

    def _find(self, consumer_id: int) -> Attached:
        found = self._attached(consumer_id)
        if found is None:
            raise MetadataError("Consumer not found")
        return found

    async def unsubscribe(self, body: pb.CommandUnsubscribe) -> bytes:
        found = self._find(body.consumer_id)
        consumer, subscription = found.consumer, found.subscription
        if isinstance(subscription, CompactionSubscription):  # what was compacted would go with it
            raise NotAllowed(
                f"Subscription {subscription.name} is deleted by an administrator alone"
            )
        if subscription.consumers != [consumer] and not body.force:
            raise MetadataError("Unconnected or shared consumer attempting to unsubscribe")
        self._forget(found)
        if not subscription.durable and not subscription.consumers:
            return commands.success(body.request_id)  # it went with its consumer
        try:
            await found.topic.delete_subscription(subscription.name, force=body.force)
        except ConsumerBusy as error:
            self._send_back(consumer)
            raise MetadataError(
                "Unconnected or shared consumer attempting to unsubscribe"
            ) from error
        except BrokerError:
            self._send_back(consumer)
            raise
        return commands.success(body.request_id)

    def _send_back(self, consumer: Consumer) -> None:
        """Its client takes it for attached still when UNSUBSCRIBE failed: tell it to come again, behind the refusal.

        Before that, Java's client would not listen: it takes the consumer for one that is on its way out.
        """
        close = commands.close_consumer(consumer.consumer_id)
        asyncio.get_running_loop().call_soon(self._connection.send, close)

    async def seek(self, body: pb.CommandSeek) -> bytes:
        """The consumers are closed first, then the cursor moves, then SUCCESS."""
        if not body.HasField("message_id") and not body.HasField("message_publish_time"):
            raise MetadataError("Message id and message publish time were not present")
        found = self._find(body.consumer_id)
        subscription = found.subscription
        if not found.topic.name.persistent:
            return commands.success(body.request_id)  # there is no other place to go to
        if body.HasField("message_id"):
            target = body.message_id
            await subscription.reset(wire_position(target), list(target.ack_set))
        else:
            since_ms = body.message_publish_time
            since_ms = 0 if since_ms >> 63 else since_ms  # a negative number of Java's
            await subscription.reset(await found.topic.first_since(since_ms))
        return commands.success(body.request_id)

    def last_message_id(self, body: pb.CommandGetLastMessageId) -> Answer:
        """At once where nothing has to be read: a new reader sends FLOW behind it, and messages must not overtake the
        answer. Java's table views decode those that came before it in the thread that reads from the connection, and
        wait there for the schema that would come by it."""
        found = self._attached(body.consumer_id)
        if found is None:
            return self._read_last_message_id(body)
        last = found.topic.last_message_at_hand(compacted=found.consumer.read_compacted)
        if last is None:
            return self._read_last_message_id(body)
        return _last_message_id(body, found, last)

    async def _read_last_message_id(self, body: pb.CommandGetLastMessageId) -> bytes:
        found = self._find(body.consumer_id)
        last = await found.topic.last_message(compacted=found.consumer.read_compacted)
        return _last_message_id(body, found, last)

    def stats(self, body: pb.CommandConsumerStats) -> bytes:
        found = self._attached(body.consumer_id)
        if found is None:
            return commands.consumer_stats_failed(
                body.request_id, ServerError.ConsumerNotFound, "Consumer not found"
            )
        consumer = found.consumer
        since = datetime.fromtimestamp(consumer.connected_ms / 1000, UTC)
        return commands.consumer_stats(
            body.request_id,
            {
                "msgRateOut": consumer.out.messages.per_second,
                "msgThroughputOut": consumer.out.bytes.per_second,
                "msgRateRedeliver": consumer.redelivered.per_second,
                "consumerName": consumer.name,
                "availablePermits": max(consumer.permits, 0),
                "unackedMessages": consumer.unacked,
                "blockedConsumerOnUnackedMsgs": consumer.blocked,
                "address": f"/{self._connection.address}",
                "connectedSince": since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "type": consumer.kind.title,
                "msgRateExpired": found.subscription.expired.per_second,
                "msgBacklog": found.subscription.cursor.backlog_entries(),
                "messageAckRate": consumer.acked.per_second,
            },
        )

    # --- end ------------------------------------------------------------------------------------

    def close(self, body: pb.CommandCloseConsumer) -> bytes:
        """CLOSE_CONSUMER of the client. Unknown ids succeed."""
        found = self.consumers.get(body.consumer_id)
        if found is not None:
            self._forget(found)
        elif body.consumer_id in self._pending:
            self._pending[body.consumer_id] = True
        return commands.success(body.request_id)

    def drop(self, consumer_id: int) -> None:
        """The broker sends it away; it is detached already."""
        if self.consumers.pop(consumer_id, None) is not None:
            self._connection.send(commands.close_consumer(consumer_id))

    def wake(self) -> None:
        """The socket takes data again."""
        for found in list(self.consumers.values()):
            if found.consumer.attached:
                found.subscription.wake()

    def leave(self) -> None:
        """The connection is gone."""
        leaving = list(self.consumers.values())
        self.consumers.clear()
        for found in leaving:
            found.subscription.detach(found.consumer)

    def _forget(self, found: Attached) -> None:
        self.consumers.pop(found.consumer.consumer_id, None)
        found.subscription.detach(found.consumer)


ROUTES: Routes = {
    CommandType.SUBSCRIBE: Route(ConsumeCommands.subscribe, Access.CONSUME),
    CommandType.FLOW: Route(ConsumeCommands.flow),
    CommandType.ACK: Route(ConsumeCommands.ack),
    CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES: Route(ConsumeCommands.redeliver),
    CommandType.UNSUBSCRIBE: Route(ConsumeCommands.unsubscribe),
    CommandType.SEEK: Route(ConsumeCommands.seek),
    CommandType.GET_LAST_MESSAGE_ID: Route(ConsumeCommands.last_message_id),
    CommandType.CONSUMER_STATS: Route(ConsumeCommands.stats),
    CommandType.CLOSE_CONSUMER: Route(ConsumeCommands.close),
}


def check_subscribe(body: pb.CommandSubscribe, kind: SubscriptionType, *, persistent: bool) -> None:
    """Refuse what SUBSCRIBE must not ask."""
    check_new_subscription(body.subscription)
    if body.read_compacted and not persistent:
        raise NotAllowed("readCompacted only valid on persistent topics")
    if body.read_compacted and kind not in (
        SubscriptionType.EXCLUSIVE,
        SubscriptionType.FAILOVER,
    ):
        raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")


def _start(initial: Position | InitialPosition) -> Position:
    """The place to be read first, of all that was ever in the topic."""
    if isinstance(initial, Position):
        return initial
    return EARLIEST if initial is InitialPosition.EARLIEST else LATEST


def _last_message_id(
    body: pb.CommandGetLastMessageId, found: Attached, last: tuple[Position, int]
) -> bytes:
    """``last``: position of the last entry and index in its batch."""
    return commands.last_message_id(
        body.request_id,
        last[0],
        partition=found.topic.name.partition,
        batch_index=last[1],
        mark_delete=found.subscription.cursor.mark_delete,
    )


def key_policy(meta: pb.KeySharedMeta) -> KeyPolicy:
    """Raises ConsumerAssignError."""
    sticky = meta.keySharedMode == pb.STICKY
    ranges = tuple((one.start, one.end) for one in meta.hashRanges) if sticky else ()
    if sticky and not ranges:
        raise ConsumerAssignError("Ranges for KeyShared policy must not be empty.")
    if len(ranges) > RANGES_MAX:
        raise ConsumerAssignError(
            f"A consumer has at most {RANGES_MAX} hash ranges, hashRanges has {len(ranges)}"
        )
    for start, end in ranges:
        if start > end:
            raise ConsumerAssignError(f"Fixed hash range start > end for range: [{start},{end}]")
        if start < 0 or end >= SLOTS:
            raise ConsumerAssignError(f"Hash range [{start},{end}] is not within [0,{SLOTS - 1}]")
    for (a, b), (c, d) in pairwise(sorted(ranges)):
        if c <= b:
            raise ConsumerAssignError(
                f"Consumer's own ranges conflict: [{a},{b}] overlaps with [{c},{d}]"
            )
    return KeyPolicy(sticky, meta.allowOutOfOrderDelivery, ranges)


def wire_position(one: pb.MessageIdData) -> Position:
    """Position of a message id; -1:-1 is EARLIEST, the largest numbers LATEST."""
    ledger_id, entry_id = one.ledgerId, one.entryId
    if ledger_id >> 63:
        return EARLIEST
    if ledger_id == LATEST.ledger_id:
        return LATEST
    return Position(ledger_id, -1 if entry_id >> 63 else entry_id)
