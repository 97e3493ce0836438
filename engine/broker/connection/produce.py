"""PRODUCER, SEND, CLOSE_PRODUCER of one connection."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.resource_names import CLUSTER, Resource, SubscriptionName, WholeCluster
from engine.auth.rights import OPENED, Right
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.connection.bounds import (
    check_int64,
    check_metadata,
    check_name,
    check_new_subscription,
)
from engine.broker.connection.confirmed_right import confirm
from engine.broker.connection.lookups import parse_topic, topic_of
from engine.broker.context import Context
from engine.broker.errors import (
    BrokerError,
    NotAllowed,
    ServiceNotReady,
    TooManyRequests,
    TopicMigrated,
)
from engine.broker.outlet import MIGRATION_VERSION, ClientConnection, Moved, next_addresses
from engine.broker.topics.publish import Producer, Publish, PublishHost
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.topics.topic import Topic
from engine.broker.transactions.buffer.named_entries import name_transaction
from engine.broker.transactions.txn_id import TxnId
from engine.managed.ledger import InitialPosition
from engine.net.routing import Route, Routes
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ProtocolViolation, ServerError
from engine.wire.events import CorruptSend, Sends
from engine.wire.geo.shadow_statements import SHADOW_LINK, shadow_link_name, stated_bytes
from engine.wire.geo.source_positions import SOURCE_POSITION, name_positions, origin_of
from engine.wire.kernels import SendRun, head_sequences
from engine.wire.states import CommandType
from engine.wire.varints import INT64_MAX

log = logging.getLogger(__name__)

CLOSED_REMEMBERED_MAX = 1000


class ProduceCommands:
    """Producers of one connection by id. An id is pending while its PRODUCER is being handled."""

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
        self.producers: dict[int, Producer] = {}
        self._pending: dict[int, bool] = {}
        """Ids of producers being created; True when the client closed it meanwhile."""
        self._waiting: dict[int, Producer] = {}
        """Producers that wait for exclusive access to a topic."""
        self._closed: dict[int, None] = {}
        """Ids that the broker closed recently: SENDs that the client sent before it knew are ignored."""

    # --- PRODUCER -------------------------------------------------------------------------------

    async def producer(self, body: pb.CommandProducer) -> bytes:
        """Handle PRODUCER and return the answer. Raises BrokerError; cancel-safe."""
        producer_id = body.producer_id
        existing = self.producers.get(producer_id)
        # A client raises the epoch at each new attempt, so a request that does not is a repeat of an earlier one.
        if existing is not None and not body.epoch > existing.epoch:
            if existing.closed:  # its close is withheld until its topic has moved
                raise ServiceNotReady(f"Topic {body.topic} is being unloaded")
            return commands.producer_success(
                body.request_id, existing.name, schema_version=existing.schema_version
            )
        waiting = self._waiting.get(producer_id)
        if waiting is not None and body.epoch > waiting.epoch:
            self._stop_waiting(producer_id)
            waiting = None
        if producer_id in self._pending or waiting is not None:
            raise ServiceNotReady("Producer is already present on the connection")
        if len(self.producers) + len(self._pending) + len(self._waiting) >= (
            self._context.settings.max_producers_per_connection
        ):
            raise TooManyRequests("Too many producers on the connection")
        self._pending[producer_id] = False
        try:
            return await self._create(body)
        finally:
            del self._pending[producer_id]

    async def _create(self, body: pb.CommandProducer) -> bytes:
        name = parse_topic(body.topic)
        metadata = check_metadata(body.metadata)
        producer_name = check_name("producer_name", body.producer_name)
        topic_epoch = None
        if body.HasField("topic_epoch"):
            topic_epoch = check_int64("topic_epoch", body.topic_epoch)
        if body.initial_subscription_name:
            check_new_subscription(body.initial_subscription_name)
        origin = origin_of(producer_name)
        is_link = producer_name.startswith(SHADOW_LINK)
        try:
            topic = await self._registry.get(name, create=not is_link)
            self._check_shadow(topic, producer_name)
            if body.txn_enabled:
                topic.check_transactional()
            topic.migration.check_producer()
        except TopicMigrated as error:
            if self._connection.protocol_version >= MIGRATION_VERSION:
                kind = pb.CommandTopicMigrated.Producer
                self._connection.send(
                    commands.topic_migrated(kind, body.producer_id, error.url, error.url_tls)
                )
            raise
        by_source = bool(origin) and (self._connection.replicates_by_source or not name.persistent)
        if origin and topic.policies.deduplication.enabled and not by_source:
            # By the sequence ids of the original producers messages are taken for repetitions that are none.
            raise NotAllowed(
                f"Replication from {origin} to a topic with deduplication needs a broker that names source positions: "
                "Apache Pulsar 3.0.11, 4.0.4 or newer"
            )
        await topic.quotas.admit()
        schema = body.schema if body.HasField("schema") else None
        version = await self._schemas.for_producer(topic, schema)
        if body.initial_subscription_name and name.persistent:
            if not topic.policies.subscriptions.auto_create:
                raise NotAllowed("Could not create the initial subscription: not allowed by policy")
            initial = SubscriptionName(name, body.initial_subscription_name)
            await self._confirm(Action.CONSUME, initial)
            await topic.subscriptions.create(
                body.initial_subscription_name, InitialPosition.EARLIEST, {}
            )
        producer = Producer(
            self._connection,
            body.producer_id,
            producer_name or self._registry.producer_name(),
            topic,
            now_ms=self._context.clock.wall_ms(),
            epoch=body.epoch,
            named_by_user=body.user_provided_producer_name and bool(producer_name),
            metadata=metadata,
            schema_version=version,
            access_mode=body.producer_access_mode,
            topic_epoch=topic_epoch,
            encrypted=body.encrypted,
            origin=origin if by_source else "",
        )
        await topic.deduplication.ready()
        await topic.replication.ready()  # (G2)
        if topic.rates.publish:
            self._connection.limit_reads()
        epoch = await topic.publishers.admit(producer)
        try:
            await self._confirm(Action.PRODUCE, name)
        except BaseException:
            producer.leave()
            raise
        if self._connection.closing or self._pending[producer.producer_id]:
            producer.leave()
            raise ServiceNotReady("The producer was closed while it was being created")
        if isinstance(epoch, asyncio.Future):
            self._waiting[producer.producer_id] = producer
            epoch.add_done_callback(partial(self._access_decided, body.request_id, producer))
            return commands.producer_success(
                body.request_id, producer.name, schema_version=version, producer_ready=False
            )
        return self._attach(body.request_id, producer, epoch)

    @staticmethod
    def _check_shadow(topic: Topic, producer_name: str) -> None:
        """Raise NotAllowed for a producer of a shadow topic that is not the link of its source, and for other links."""
        source = topic.shadow_source
        if source is None and producer_name.startswith(SHADOW_LINK):
            raise NotAllowed(f"Topic {topic.name} is no shadow topic")
        if source is not None and producer_name != shadow_link_name(source, topic.name):
            raise NotAllowed(
                f"Topic {topic.name} is a shadow topic: publish to its source {source}"
            )

    async def _confirm(self, action: Action, resource: Resource) -> None:
        """Confirm a right of PRODUCER. Raises NotAuthorized, and the judge's retriable error."""
        identity = self._connection.identity
        await confirm(self._context.judge, identity, action, resource, CommandType.PRODUCER)

    def _attach(self, request_id: int, producer: Producer, epoch: int | None) -> bytes:
        """Attach a producer, so that the client may send with it, and return the answer."""
        self._closed.pop(producer.producer_id, None)
        older = self.producers.get(producer.producer_id)
        if older is not None:
            older.leave()
        self.producers[producer.producer_id] = producer
        return commands.producer_success(
            request_id,
            producer.name,
            last_sequence_id=producer.topic.last_sequence(producer.name),
            schema_version=producer.schema_version,
            topic_epoch=epoch,
        )

    def _access_decided(
        self, request_id: int, producer: Producer, epoch: "asyncio.Future[int]"
    ) -> None:
        """Answer a producer that waited for exclusive access, once it has it or was refused."""
        if self._waiting.get(producer.producer_id) is not producer:
            return
        del self._waiting[producer.producer_id]
        if epoch.cancelled():
            return
        error = epoch.exception()
        if error is None:
            self._connection.send(self._attach(request_id, producer, epoch.result()))
        elif isinstance(error, BrokerError):
            self._connection.send(commands.error(request_id, error.code, str(error)))
        else:
            raise error

    # --- SEND -----------------------------------------------------------------------------------

    def send(self, event: Sends) -> None:
        """Handle a run of SENDs. Raises ProtocolViolation for an unknown producer."""
        run = event.run
        if run.owners is not None:
            self._send_mixed(run, run.owners)
            return
        producer = self._find(run.producer_id)
        if producer is None or not producer.takes:
            return
        chunk = marker = False
        txn = None if run.txn is None else TxnId(*run.txn)
        if event.command is not None:
            if event.command.HasField("message_id") and self._note_statement(
                event.command, run, producer
            ):
                return
            refusal = refuse_send(event.command)
            if refusal is not None:
                highest = max(event.command.sequence_id, event.command.highest_sequence_id)
                code, text = refusal
                self._connection.send(commands.send_error(run.producer_id, highest, code, text))
                return
            txn = _txn_of(event.command)
            chunk = event.command.is_chunk
            marker = event.command.marker
            if marker and not producer.origin:
                self._refuse_marker(event.command)
                return
        if txn is not None and not self._takes(txn, run, [producer]):
            return
        if producer.origin:
            self._send_replicated(run, producer, chunk, marker)
        else:
            Publish(run, producer, None, chunk, txn=txn).start()

    def _takes(self, txn: TxnId, run: SendRun, senders: Sequence[Producer]) -> bool:
        """Return whether the topic of ``senders`` takes a run of a transaction, whose entries name it on return; answer
        it if not."""
        topic = senders[0].topic
        try:
            if not isinstance(topic, Topic) or any(sender.origin for sender in senders):
                raise NotAllowed("Replicated messages are of no transaction")
            topic.take_transactions()
            name_transaction(run, txn)
        except NotAllowed as error:
            owners = run.owners or [run.producer_id] * run.count
            for owner, ids in zip(owners, head_sequences(run.heads), strict=True):
                self._connection.send(commands.send_error(owner, max(ids), error.code, str(error)))
            return False
        return True

    def _note_statement(self, body: pb.CommandSend, run: SendRun, producer: Producer) -> bool:
        """Pass on how far the source of a shadow topic may be read. Return False for a producer of another topic."""
        topic = producer.topic
        if not isinstance(topic, Topic) or topic.shadow_source is None:
            return False
        position = Position(body.message_id.ledgerId, body.message_id.entryId)
        if max(position) > INT64_MAX:
            raise ProtocolViolation(f"position {position}: at most {INT64_MAX}")
        topic.source_reached(position, stated_bytes(run.entry(0)))
        self._connection.send(commands.send_receipt(body.producer_id, body.sequence_id, position))
        return True

    def _refuse_marker(self, body: pb.CommandSend) -> None:
        """Refuse a marker of a client: brokers write them for brokers."""
        self._connection.send(
            commands.send_error(
                body.producer_id,
                max(body.sequence_id, body.highest_sequence_id),
                ServerError.NotAllowedError,
                "Only the replicator of another cluster sends markers",
            )
        )

    def _send_replicated(self, run: SendRun, producer: Producer, chunk: bool, marker: bool) -> None:
        """Publish what a replicator sends, whose entries name their positions in the cluster of origin.

        Those of a non-persistent topic have none.
        """
        named = name_positions(run) if producer.topic.name.persistent else run.count
        if named:
            part = run if named == run.count else run.pick(range(named))
            Publish(part, producer, None, chunk, marker).start()
        if named < run.count:
            log.warning(
                "replicated entry without a source position topic=%s producer=%s",
                producer.topic.name,
                producer.name,
            )
            self._connection.send(
                commands.send_error(
                    producer.producer_id,
                    head_sequences(run.heads[named : named + 1])[0][0],
                    ServerError.PersistenceError,
                    f"The entry's property {SOURCE_POSITION} is missing or malformed",
                )
            )
            producer.disconnect()

    def _send_mixed(self, run: SendRun, owners: list[int]) -> None:
        """Publish SENDs of several producers that arrived together, as one run for each topic."""
        by_topic: dict[PublishHost, tuple[list[int], list[Producer]]] = {}
        producers: dict[int, Producer] = {}
        for i, owner in enumerate(owners):
            producer = producers.get(owner)
            if producer is None:
                producer = self._find(owner)
                if producer is None or not producer.takes:
                    continue
                producers[owner] = producer
            share = by_topic.get(producer.topic)
            if share is None:
                share = by_topic[producer.topic] = ([], [])
            share[0].append(i)
            share[1].append(producer)
        txn = None if run.txn is None else TxnId(*run.txn)
        for indexes, senders in by_topic.values():
            if txn is None and any(sender.origin for sender in senders):
                self._send_each(run, indexes, senders)
                continue
            part = run if len(indexes) == run.count else run.pick(indexes)
            if txn is not None and not self._takes(txn, part, senders):
                continue
            same = senders.count(senders[0]) == len(senders)
            Publish(part, senders[0], None if same else senders, txn=txn).start()

    def _send_each(self, run: SendRun, indexes: list[int], senders: list[Producer]) -> None:
        """Publish a run in parts of one producer each, because a replicator is among them."""
        for sender in dict.fromkeys(senders):
            own = [i for i, other in zip(indexes, senders, strict=True) if other is sender]
            part = run.pick(own)
            if sender.origin:
                self._send_replicated(part, sender, chunk=False, marker=False)
            else:
                Publish(part, sender).start()

    def corrupt(self, event: CorruptSend) -> None:
        """Answer a SEND with a wrong checksum, which was skipped."""
        if self._find(event.producer_id) is not None:
            self._connection.send(
                commands.send_error(
                    event.producer_id,
                    event.sequence_id,
                    ServerError.ChecksumError,
                    "Checksum failed on the broker",
                )
            )

    def _find(self, producer_id: int) -> Producer | None:
        """Return a producer; None when the broker closed it recently. Raises ProtocolViolation for an unknown id."""
        producer = self.producers.get(producer_id)
        if producer is None and producer_id not in self._closed:
            raise ProtocolViolation(f"SEND for unknown producer {producer_id}")
        return producer

    # --- end ------------------------------------------------------------------------------------

    async def close(self, body: pb.CommandCloseProducer) -> bytes:
        """Handle the client's CLOSE_PRODUCER; entries that it sent are stored first. Unknown ids succeed."""
        self._stop_waiting(body.producer_id)
        if body.producer_id in self._pending:
            self._pending[body.producer_id] = True
        producer = self.producers.get(body.producer_id)
        if producer is not None:
            await producer.drained()
            producer.leave()
            if self.producers.get(body.producer_id) is producer:
                del self.producers[body.producer_id]
        return commands.success(body.request_id)

    def _stop_waiting(self, producer_id: int) -> None:
        """Remove a producer from those that wait for exclusive access, if it is one."""
        waiting = self._waiting.pop(producer_id, None)
        if waiting is not None:
            waiting.leave()

    def drop(self, producer_id: int, moved: Moved | None = None) -> None:
        """Close a producer on behalf of the broker."""
        if moved is not None and self.producers.get(producer_id) is not moved.client:
            return
        self.producers.pop(producer_id, None)
        self._closed[producer_id] = None
        if len(self._closed) > CLOSED_REMEMBERED_MAX:
            del self._closed[next(iter(self._closed))]
        url, url_tls = next_addresses(self._connection, moved)
        self._connection.send(
            commands.close_producer(producer_id, broker_url=url, broker_url_tls=url_tls)
        )

    def opened(self) -> list[Producer]:
        """Return all producers, those that wait for exclusive access last."""
        return [*self.producers.values(), *self._waiting.values()]

    def disconnected(self) -> None:
        """Detach all producers after the connection has ended."""
        producers = self.opened()
        self.producers.clear()
        self._waiting.clear()
        for producer in producers:
            producer.leave()


def initial_subscription(body: pb.CommandProducer) -> tuple[SubscriptionName, ...]:
    """Return the subscription that PRODUCER creates, if any. Raises InvalidTopicName."""
    if not body.initial_subscription_name:
        return ()
    return (SubscriptionName(topic_of(body), body.initial_subscription_name),)


def replicated_cluster(body: pb.CommandProducer) -> tuple[WholeCluster, ...]:
    """Return the cluster when PRODUCER is of a replicator: what it claims would hide others' messages (G1); or when it
    states the end of a shadow topic's source."""
    name = body.producer_name
    return (CLUSTER,) if origin_of(name) or name.startswith(SHADOW_LINK) else ()


ROUTES: Routes = {
    CommandType.PRODUCER: Route(
        ProduceCommands.producer,
        (
            Right(Action.PRODUCE, TopicName, topic_of),
            Right(Action.CONSUME, SubscriptionName, initial_subscription),
            Right(Action.SUPERUSER, WholeCluster, replicated_cluster),
        ),
        refusal=COMMAND_REFUSALS["PRODUCER"],
    ),
    CommandType.CLOSE_PRODUCER: Route(ProduceCommands.close, OPENED),
}


def _txn_of(body: pb.CommandSend) -> TxnId | None:
    """Return the transaction that a SEND names, if any."""
    if not body.HasField("txnid_most_bits"):
        return None
    return TxnId(body.txnid_most_bits, body.txnid_least_bits)


def refuse_send(body: pb.CommandSend) -> tuple[ServerError, str] | None:
    """Return the error and text with which a SEND with rare fields is refused; None when it is accepted."""
    for field in ("sequence_id", "highest_sequence_id"):
        number: int = getattr(body, field)
        if number > INT64_MAX:
            return ServerError.MetadataError, f"{field} {number}: must be at most {INT64_MAX}"
    if body.HasField("highest_sequence_id") and body.highest_sequence_id < body.sequence_id:
        return (
            ServerError.MetadataError,
            f"Invalid lowest or highest sequence id: {body.sequence_id}, {body.highest_sequence_id}",
        )
    if body.HasField("message_id"):
        return ServerError.NotAllowedError, "Only shadow topics take messages with a message id"
    if body.HasField("txnid_most_bits") is not body.HasField("txnid_least_bits"):
        return ServerError.MetadataError, "txnid_most_bits and txnid_least_bits: one is missing"
    if body.num_messages < 1:
        return ServerError.MetadataError, f"num_messages {body.num_messages}: must be at least 1"
    return None
