"""SUBSCRIBE, FLOW, ACK, redelivery, SEEK, UNSUBSCRIBE, last message id, consumer statistics of one connection."""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import OPENED, Right
from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.broker.connection.bounds import (
    check_metadata,
    check_name,
    check_new_subscription,
    check_subscription_properties,
)
from engine.broker.connection.confirmed_right import confirm
from engine.broker.connection.lookups import parse_topic, topic_of
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
    TopicMigrated,
)
from engine.broker.outlet import MIGRATION_VERSION, ClientConnection, Moved, next_addresses
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.subscriptions.unacked_subscription import CompactionSubscription
from engine.broker.topics.topic import Topic
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from engine.managed.errors import InvalidPositionError
from engine.managed.ledger import InitialPosition
from engine.net.routing import Answer, Route, Routes
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
    """A consumer with its subscription and topic; ``consumer.attached`` is False once it was detached."""

    consumer: Consumer
    subscription: Subscription
    topic: Topic

    def check_present(self) -> None:
        """Raise ServiceNotReady when the consumer was detached and its close is withheld until its topic has moved."""
        if not self.consumer.attached and self.topic.closing:
            raise ServiceNotReady(f"Topic {self.topic.name} is being unloaded")


class ConsumeCommands:
    """Consumers of one connection by id. An id is pending while its SUBSCRIBE is being handled."""

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
        """Ids of consumers being created; True when the client closed it meanwhile."""

    # --- SUBSCRIBE ------------------------------------------------------------------------------

    def subscribe(self, body: pb.CommandSubscribe) -> None:
        """Handle SUBSCRIBE; the answer follows later."""
        self._connection.answer_later(self._subscribe(body), body.request_id, self._again(body))

    def _again(self, body: pb.CommandSubscribe) -> bytes:
        """Return what follows a refusal that may pass.

        The C++ library, and those built on it, treat a refused consumer as attached to the connection: they subscribe
        again only after a CLOSE_CONSUMER.
        """
        stranded = self._connection.client_version.startswith("Pulsar-CPP")
        return commands.close_consumer(body.consumer_id) if stranded else b""

    def refuse(self, body: pb.CommandSubscribe, code: ServerError, text: str) -> bytes:
        """Return the answer to a client that may not subscribe, or of which that cannot be known now."""
        passes = code is ServerError.ServiceNotReady
        again = self._again(body) if passes else b""
        return commands.error(body.request_id, code, text) + again

    async def _subscribe(self, body: pb.CommandSubscribe) -> bytes:
        consumer_id = body.consumer_id
        present = self.consumers.get(consumer_id)
        if present is not None:
            present.check_present()
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
        try:
            topic = await self._registry.get(name, create=body.force_topic_creation)
        except TopicMigrated as error:
            if self._connection.protocol_version >= MIGRATION_VERSION:
                consumer_kind = pb.CommandTopicMigrated.Consumer
                self._connection.send(
                    commands.topic_migrated(
                        consumer_kind, body.consumer_id, error.url, error.url_tls
                    )
                )
            raise
        initial = await self._initial_position(body, topic)
        if body.read_compacted:
            consumer.read_compacted, consumer.start = True, _compacted_start(initial)
            await topic.compaction.ready()
        schema = body.schema if body.HasField("schema") else None
        consumer.schema_version = await self._schemas.for_consumer(topic, schema)
        subscription = await topic.subscriptions.attach(
            consumer,
            body.subscription,
            durable=body.durable,
            initial=initial,
            properties=properties,
            replicated=body.replicate_subscription_state,
            rolls_back=body.start_message_rollback_duration_sec > 0 and name.persistent,
        )
        try:
            await confirm(
                context.judge,
                self._connection.identity,
                Action.CONSUME,
                SubscriptionName(name, body.subscription),
                CommandType.SUBSCRIBE,
            )
        except BaseException:
            subscription.detach(consumer)
            raise
        if self._connection.closing or self._pending[body.consumer_id]:
            subscription.detach(consumer)
            raise ServiceNotReady("The consumer was closed while it was being created")
        self.consumers[body.consumer_id] = Attached(consumer, subscription, topic)
        return consumer

    async def _initial_position(
        self, body: pb.CommandSubscribe, topic: Topic
    ) -> Position | InitialPosition:
        """Return where the subscription starts if it is created now. A start message id behind the end of the topic is
        ignored."""
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
        """Add a consumer's permits; unknown consumers are ignored. Raises ProtocolViolation on 0 permits, for which
        Pulsar closes the connection."""
        attached = self._attached(body.consumer_id)
        if attached is None:
            return
        if body.messagePermits < 1:
            raise ProtocolViolation("FLOW with messagePermits 0")
        # Permits above PERMITS_MAX exceed any queue, so they count as no limit.
        permits = min(body.messagePermits, PERMITS_MAX - max(attached.consumer.permits, 0))
        attached.subscription.flow(attached.consumer, permits)

    def ack_run(self, consumer_id: int, positions: list[Position]) -> None:
        """Apply plain individual acknowledgements together; those of an unknown consumer are ignored."""
        attached = self._attached(consumer_id)
        if attached is not None:
            attached.subscription.acknowledge(attached.consumer, positions)

    def ack(self, body: pb.CommandAck) -> Awaitable[bytes] | None:
        """Apply an ACK at once. Return, if the client requested an answer, an awaitable of it that completes when the
        acknowledgement is durable."""
        attached = self._attached(body.consumer_id)
        if attached is None:
            return None
        subscription = attached.subscription
        if body.HasField("txnid_most_bits") and body.HasField("txnid_least_bits"):
            return self._ack_in_transaction(body, attached.consumer, subscription)
        refusal: MagnetarError | None = None
        try:
            self.apply_ack(attached.consumer, subscription, body)
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

    def _ack_in_transaction(
        self, body: pb.CommandAck, consumer: Consumer, subscription: Subscription
    ) -> Awaitable[bytes] | None:
        """Acknowledge in a transaction; answered when that is durable, if the client requested an answer."""
        txn = TxnId(body.txnid_most_bits, body.txnid_least_bits)
        acks = [
            StatedAck(wire_position(at), list(at.ack_set) if any(at.ack_set) else (), at.batch_size)
            for at in body.message_id
        ]
        cumulative = body.ack_type == pb.CommandAck.Cumulative
        connection = self._connection

        def report(error: BrokerError | None) -> None:
            connection.answered(_ack_in_answer(body, txn, subscription, error))

        connection.awaits()
        try:
            taken = subscription.acknowledge_in_soon(
                txn, consumer, acks, cumulative=cumulative, outcome=report
            )
        except BrokerError as error:
            report(error)
            return None
        if taken:
            return None
        connection.answered(b"")

        async def later() -> bytes:
            try:
                await subscription.acknowledge_in(txn, consumer, acks, cumulative=cumulative)
            except BrokerError as error:
                return _ack_in_answer(body, txn, subscription, error)
            return _ack_in_answer(body, txn, subscription)

        return later()

    def apply_ack(
        self, consumer: Consumer, subscription: Subscription, body: pb.CommandAck
    ) -> None:
        """Apply an ACK without waiting. Raises NotAllowed, InvalidPositionError."""
        if body.ack_type == pb.CommandAck.Cumulative:
            if len(body.message_id) != 1:
                raise NotAllowed(
                    f"a cumulative acknowledgement has one message id, not {len(body.message_id)}"
                )
            message_id = body.message_id[0]
            subscription.acknowledge_cumulative(
                consumer, wire_position(message_id), list(message_id.ack_set)
            )
            return
        positions: list[Position] = []
        for message_id in body.message_id:
            if any(message_id.ack_set):
                subscription.acknowledge_partly(
                    consumer, wire_position(message_id), list(message_id.ack_set)
                )
            else:
                positions.append(wire_position(message_id))
        if positions:
            subscription.acknowledge(consumer, positions)

    def redeliver(self, body: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        attached = self._attached(body.consumer_id)
        if attached is None:
            return
        positions = [wire_position(message_id) for message_id in body.message_ids] or None
        epoch = body.consumer_epoch if body.HasField("consumer_epoch") else None
        attached.subscription.redeliver(attached.consumer, positions, epoch)

    # --- requests about a consumer --------------------------------------------------------------

    def _attached(self, consumer_id: int) -> Attached | None:
        """Return the attached consumer of an id; None for an unknown id or a consumer that the broker detached."""
        attached = self.consumers.get(consumer_id)
        return attached if attached is not None and attached.consumer.attached else None

    def _find(self, consumer_id: int) -> Attached:
        """Return the attached consumer of an id. Raises ServiceNotReady while its topic is being moved, MetadataError
        when there is none."""
        present = self.consumers.get(consumer_id)
        if present is not None:
            present.check_present()
        attached = self._attached(consumer_id)
        if attached is None:
            raise MetadataError("Consumer not found")
        return attached

    async def unsubscribe(self, body: pb.CommandUnsubscribe) -> bytes:
        attached = self._find(body.consumer_id)
        consumer, subscription = attached.consumer, attached.subscription
        if isinstance(subscription, CompactionSubscription):
            # The compacted data would be deleted with the subscription.
            raise NotAllowed(
                f"Subscription {subscription.name} is deleted by an administrator alone"
            )
        if subscription.consumers != [consumer] and not body.force:
            raise MetadataError("Unconnected or shared consumer attempting to unsubscribe")
        self._forget(attached)
        if not subscription.durable and not subscription.consumers:
            return commands.success(body.request_id)  # it was deleted with its last consumer
        try:
            await attached.topic.subscriptions.delete(subscription.name, force=body.force)
        except ConsumerBusy as error:
            self._close_after_refusal(consumer)
            raise MetadataError(
                "Unconnected or shared consumer attempting to unsubscribe"
            ) from error
        except BrokerError:
            self._close_after_refusal(consumer)
            raise
        return commands.success(body.request_id)

    def _close_after_refusal(self, consumer: Consumer) -> None:
        """Send CLOSE_CONSUMER behind the refusal of UNSUBSCRIBE, because the client still treats its consumer as
        attached.

        Before the refusal, Java's client would ignore it, because it treats the consumer as closing.
        """
        close = commands.close_consumer(consumer.consumer_id)
        asyncio.get_running_loop().call_soon(self._connection.send, close)

    async def seek(self, body: pb.CommandSeek) -> bytes:
        """Handle SEEK: the consumers are closed, then the cursor is moved, then SUCCESS is returned."""
        if not body.HasField("message_id") and not body.HasField("message_publish_time"):
            raise MetadataError("Message id and message publish time were not present")
        attached = self._find(body.consumer_id)
        subscription = attached.subscription
        if not attached.topic.name.persistent:
            return commands.success(body.request_id)  # such a topic has no stored messages
        if body.HasField("message_id"):
            target = body.message_id
            await subscription.moves.reset(wire_position(target), list(target.ack_set))
        else:
            since_ms = body.message_publish_time
            since_ms = 0 if since_ms >> 63 else since_ms  # a negative number in Java's clients
            await subscription.moves.reset(await attached.topic.first_since(since_ms))
        return commands.success(body.request_id)

    def last_message_id(self, body: pb.CommandGetLastMessageId) -> Answer:
        """Handle GET_LAST_MESSAGE_ID, at once where nothing has to be read.

        A new reader sends FLOW behind this request, and messages must not overtake the answer: Java's table views
        decode messages that arrived before it in the thread that reads the connection, and wait there for a schema
        that arrives on the same connection.
        """
        attached = self._attached(body.consumer_id)
        if attached is None:
            return self._read_last_message_id(body)
        last = attached.topic.last_message.at_hand(compacted=attached.consumer.read_compacted)
        if last is None:
            return self._read_last_message_id(body)
        return _last_message_id(body, attached, last)

    async def _read_last_message_id(self, body: pb.CommandGetLastMessageId) -> bytes:
        attached = self._find(body.consumer_id)
        last = await attached.topic.last_message.read(compacted=attached.consumer.read_compacted)
        return _last_message_id(body, attached, last)

    def stats(self, body: pb.CommandConsumerStats) -> bytes:
        attached = self._attached(body.consumer_id)
        if attached is None:
            return commands.consumer_stats_failed(
                body.request_id, ServerError.ConsumerNotFound, "Consumer not found"
            )
        consumer = attached.consumer
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
                "msgRateExpired": attached.subscription.counters.expired.per_second,
                "msgBacklog": attached.subscription.cursor.backlog_entries(),
                "messageAckRate": consumer.acked.per_second,
            },
        )

    # --- end ------------------------------------------------------------------------------------

    async def close(self, body: pb.CommandCloseConsumer) -> bytes:
        """Handle the client's CLOSE_CONSUMER. Unknown ids succeed.

        It is a task, as SUBSCRIBE is: begun behind one that was read together with it, it finds the consumer pending.
        """
        attached = self.consumers.get(body.consumer_id)
        if attached is not None:
            self._forget(attached)
        elif body.consumer_id in self._pending:
            self._pending[body.consumer_id] = True
        return commands.success(body.request_id)

    def drop(self, consumer_id: int, moved: Moved | None = None) -> None:
        """Close a consumer on behalf of the broker, which has detached it already."""
        attached = self.consumers.get(consumer_id)
        if attached is None or (moved is not None and attached.consumer is not moved.client):
            return
        del self.consumers[consumer_id]
        url, url_tls = next_addresses(self._connection, moved)
        self._connection.send(
            commands.close_consumer(consumer_id, broker_url=url, broker_url_tls=url_tls)
        )

    def wake(self) -> None:
        """Resume dispatch to the consumers when the connection is writable again."""
        for attached in list(self.consumers.values()):
            if attached.consumer.attached:
                attached.subscription.dispatch.wake()

    def disconnected(self) -> None:
        """Detach all consumers after the connection has ended."""
        consumers = list(self.consumers.values())
        self.consumers.clear()
        for attached in consumers:
            attached.subscription.detach(attached.consumer)

    def _forget(self, attached: Attached) -> None:
        self.consumers.pop(attached.consumer.consumer_id, None)
        attached.subscription.detach(attached.consumer)


def subscription_of(body: pb.CommandSubscribe) -> SubscriptionName:
    """Return the subscription that SUBSCRIBE names. Raises InvalidTopicName."""
    return SubscriptionName(topic_of(body), body.subscription)


ROUTES: Routes = {
    CommandType.SUBSCRIBE: Route(
        ConsumeCommands.subscribe,
        Right(Action.CONSUME, SubscriptionName, subscription_of),
        refuse=ConsumeCommands.refuse,
        refusal=COMMAND_REFUSALS["SUBSCRIBE"],
    ),
    CommandType.FLOW: Route(ConsumeCommands.flow, OPENED),
    CommandType.ACK: Route(ConsumeCommands.ack, OPENED),
    CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES: Route(ConsumeCommands.redeliver, OPENED),
    CommandType.UNSUBSCRIBE: Route(ConsumeCommands.unsubscribe, OPENED),
    CommandType.SEEK: Route(ConsumeCommands.seek, OPENED),
    CommandType.GET_LAST_MESSAGE_ID: Route(ConsumeCommands.last_message_id, OPENED),
    CommandType.CONSUMER_STATS: Route(ConsumeCommands.stats, OPENED),
    CommandType.CLOSE_CONSUMER: Route(ConsumeCommands.close, OPENED),
}


def check_subscribe(body: pb.CommandSubscribe, kind: SubscriptionType, *, persistent: bool) -> None:
    """Check the fields of SUBSCRIBE. Raises ProducerBusy, NotAllowed."""
    check_new_subscription(body.subscription)
    if body.read_compacted and not persistent:
        raise NotAllowed("readCompacted only valid on persistent topics")
    if body.read_compacted and kind not in (
        SubscriptionType.EXCLUSIVE,
        SubscriptionType.FAILOVER,
    ):
        raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")


def _compacted_start(initial: Position | InitialPosition) -> Position:
    """Return the position from which a compacted read starts."""
    if isinstance(initial, Position):
        return initial
    return EARLIEST if initial is InitialPosition.EARLIEST else LATEST


def _last_message_id(
    body: pb.CommandGetLastMessageId, attached: Attached, last: tuple[Position, int]
) -> bytes:
    """Return the answer to GET_LAST_MESSAGE_ID. ``last`` is the position of the last entry and the index in its
    batch."""
    return commands.last_message_id(
        body.request_id,
        last[0],
        partition=attached.topic.name.partition,
        batch_index=last[1],
        mark_delete=attached.subscription.cursor.mark_delete,
    )


def _ack_in_answer(
    body: pb.CommandAck, txn: TxnId, subscription: Subscription, error: BrokerError | None = None
) -> bytes:
    """Return the answer to an acknowledgement in a transaction; empty when the client requested none."""
    requested = body.HasField("request_id")
    if error is None:
        if not requested:
            return b""
        return commands.ack_response(body.consumer_id, body.request_id, txn=txn)
    if not requested:
        log.info("acknowledgement refused subscription=%s: %s", subscription.name, error)
        return b""
    return commands.ack_response(
        body.consumer_id, body.request_id, code=error.code, message=str(error), txn=txn
    )


def key_policy(meta: pb.KeySharedMeta) -> KeyPolicy:
    """Return the policy of a Key_Shared consumer. Raises ConsumerAssignError."""
    sticky = meta.keySharedMode == pb.STICKY
    ranges = tuple((slots.start, slots.end) for slots in meta.hashRanges) if sticky else ()
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


def wire_position(message_id: pb.MessageIdData) -> Position:
    """Return the position of a message id; -1:-1 is EARLIEST, the largest numbers are LATEST."""
    ledger_id, entry_id = message_id.ledgerId, message_id.entryId
    if ledger_id >> 63:
        return EARLIEST
    if ledger_id == LATEST.ledger_id:
        return LATEST
    return Position(ledger_id, -1 if entry_id >> 63 else entry_id)
