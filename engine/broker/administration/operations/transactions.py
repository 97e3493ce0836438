"""Administrative operations on transactions."""

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.transactions import (
    ABORT_TRANSACTION,
    BUFFER_STATS,
    COORDINATOR_LOG_STATS,
    COORDINATOR_STATS,
    DISABLED,
    PENDING_ACK_LOG_STATS,
    PENDING_ACK_STATS,
    POSITION_IN_PENDING_ACK,
    SLOW_TRANSACTIONS,
    TRANSACTION_IN_BUFFER,
    TRANSACTION_IN_PENDING_ACK,
    TRANSACTION_METADATA,
    AcknowledgedPosition,
    BufferStats,
    LogStats,
    OnTransaction,
    PendingAckLogStats,
    PendingAckStats,
    SlowTransactions,
    TransactionOnSubscription,
)
from engine.base.clock import Clock
from engine.base.errors import NotFound, NotReady
from engine.base.ids import Position
from engine.broker.administration.operations.owned_topics import OwnedTopics, subscription_of
from engine.broker.topics.limits import is_system
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.broker.transactions.coordinator.transaction_table import ClientTransaction
from engine.broker.transactions.log_stats import log_stats
from engine.broker.transactions.ports import TransactionAcks, TransactionBuffer
from engine.broker.transactions.txn_id import TxnId
from engine.managed.ledger import ManagedLedger
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.rpc.operation import Handlers, bind
from engine.tenancy.initialization import COORDINATORS


class TransactionOperations:
    """Handlers of the operations, which ``engine.admin.api.transactions`` describes. ``coordinators``: None where
    transactions are not enabled."""

    def __init__(
        self,
        topics: OwnedTopics,
        coordinators: Coordinators | None,
        store: MetadataStore,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._coordinators = coordinators
        self._store = store
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(COORDINATOR_STATS, self.coordinator_stats),
                bind(COORDINATOR_LOG_STATS, self.coordinator_log_stats),
                bind(TRANSACTION_METADATA, self.transaction_metadata),
                bind(SLOW_TRANSACTIONS, self.slow_transactions),
                bind(ABORT_TRANSACTION, self.abort_transaction),
                bind(BUFFER_STATS, self.buffer_stats),
                bind(TRANSACTION_IN_BUFFER, self.transaction_in_buffer),
                bind(PENDING_ACK_STATS, self.pending_ack_stats),
                bind(PENDING_ACK_LOG_STATS, self.pending_ack_log_stats),
                bind(TRANSACTION_IN_PENDING_ACK, self.transaction_in_pending_ack),
                bind(POSITION_IN_PENDING_ACK, self.position_in_pending_ack),
            ]
        )

    # Coordinators

    async def _coordinator(self, args: OnTopic) -> Coordinator:
        """Return the coordinator of a partition of the assignment topic. Raises NotFound for another topic."""
        if self._coordinators is None:
            raise NotReady(DISABLED)
        name = args.topic
        if name.partitioned != COORDINATORS or name.partition < 0:
            raise NotFound(f"Topic {name} is of no transaction coordinator")
        await self._topics.check_owned(name)
        if name.partition >= await self._coordinators.count():
            raise NotFound(f"Transaction coordinator not found! coordinator id : {name.partition}")
        return await self._coordinators.of(name.partition)

    async def coordinator_stats(self, args: OnTopic) -> JsonObject:
        coordinator = await self._coordinator(args)
        table = coordinator.table
        return {
            "state": coordinator.state.value,
            "leastSigBits": table.newest,
            "lowWaterMark": table.low_water_mark,
            "ongoingTxnSize": len(table),
            "recoverStartTime": coordinator.recover_began_ms,
            "recoverEndTime": coordinator.recover_ended_ms,
        }

    async def coordinator_log_stats(self, args: LogStats) -> JsonObject:
        coordinator = await self._coordinator(args)
        stats = log_stats(coordinator.log.ledger)
        if args.metadata:
            await self._add_metadata(stats)
        return {"transactionLogStats": stats}

    async def _add_metadata(self, stats: JsonObject) -> None:
        for ledger in stats["managedLedgerInternalStats"]["ledgers"]:
            value, stat = await self._store.get(paths.ledger(ledger["ledgerId"]))
            ledger["metadata"] = f"version {stat.version}, {len(value)} bytes: {value.hex()}"

    async def transaction_metadata(self, args: OnTransaction) -> JsonObject:
        coordinator = await self._coordinator(args)
        return _metadata(coordinator.find(TxnId(args.most, args.least)))

    async def slow_transactions(self, args: SlowTransactions) -> dict[str, JsonObject]:
        coordinator = await self._coordinator(args)
        before_ms = self._clock.wall_ms() - args.timeout_ms
        return {
            str(txn.id): _metadata(txn) for txn in coordinator.table if txn.started_ms <= before_ms
        }

    async def abort_transaction(self, args: OnTransaction) -> None:
        coordinator = await self._coordinator(args)
        await coordinator.end(TxnId(args.most, args.least), commit=False)

    # Topics

    async def _buffer(self, args: OnTopic) -> TransactionBuffer | None:
        """Return the topic's buffer; None for one that never had a transaction. Raises NotFound without the topic."""
        if self._coordinators is None:
            raise NotReady(DISABLED)
        return (await self._topics.persistent(args.topic, "A transaction")).transactions

    async def buffer_stats(self, args: BufferStats) -> JsonObject:
        buffer = await self._buffer(args)
        if buffer is None:
            topic = await self._topics.get(args.topic)
            if is_system(args.topic) or not isinstance(topic.log, ManagedLedger):
                raise NotFound(f"Topic {args.topic} has no transactions")
            buffer = TopicBuffer(topic, topic.log)  # as of a topic before its first transaction
        return buffer.stats(low_water_marks=args.low_water_marks, segments=args.segments)

    async def transaction_in_buffer(self, args: OnTransaction) -> JsonObject:
        buffer = await self._buffer(args)
        if buffer is None:
            return {"aborted": False}
        return buffer.transaction_stats(TxnId(args.most, args.least))

    # Subscriptions

    async def _pending(
        self,
        args: PendingAckStats
        | PendingAckLogStats
        | TransactionOnSubscription
        | AcknowledgedPosition,
    ) -> TransactionAcks:
        """Return the subscription's acknowledgements of transactions. Raises NotFound."""
        if self._coordinators is None:
            raise NotReady(DISABLED)
        topic = await self._topics.persistent(args.topic, "A transaction")
        pending = subscription_of(topic, args.subscription).pending_acks
        if pending is None:
            raise NotFound(f"Subscription {args.subscription} has no transactions")
        # The log is loaded by the first consumer, or by the end of a transaction.
        await pending.ready()
        return pending

    async def pending_ack_stats(self, args: PendingAckStats) -> JsonObject:
        return (await self._pending(args)).stats(low_water_marks=args.low_water_marks)

    async def pending_ack_log_stats(self, args: PendingAckLogStats) -> JsonObject:
        stats = (await self._pending(args)).log_stats()
        if stats is None:
            raise NotFound(f"Subscription {args.subscription} has no log of acknowledgements")
        if args.metadata:
            await self._add_metadata(stats)
        return {"pendingAckLogStats": stats}

    async def transaction_in_pending_ack(self, args: TransactionOnSubscription) -> JsonObject:
        return (await self._pending(args)).transaction_stats(TxnId(args.most, args.least))

    async def position_in_pending_ack(self, args: AcknowledgedPosition) -> JsonObject:
        pending = await self._pending(args)
        index = args.batch_index if args.batch_index >= 0 else None
        return {"state": pending.position_state(Position(args.ledger_id, args.entry_id), index)}


def _metadata(txn: ClientTransaction) -> JsonObject:
    """Return Pulsar's TransactionMetadata, in which ``timeoutAt`` is a duration."""
    acked: dict[str, dict[str, JsonObject]] = {}
    for topic, subscription in txn.subscriptions:
        acked.setdefault(topic, {})[subscription] = {}
    return {
        "txnId": str(txn.id),
        "status": txn.status_name,
        "openTimestamp": txn.started_ms,
        "timeoutAt": txn.timeout_ms,
        "producedPartitions": {topic: {} for topic in txn.partitions},
        "ackedPartitions": acked,
        "owner": txn.owner,
    }
