"""One subscription: a cursor, the dispatch of its entries, and the attached consumers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.dispatch.consumer import Consumer, SubscriptionType, count_bits
from engine.broker.dispatch.facts import MARKER, ORIGIN, PLAIN, facts_of
from engine.broker.dispatch.ports import DeliveryObserver
from engine.broker.errors import (
    BrokerError,
    ConsumerAssignError,
    ConsumerBusy,
    NotAllowed,
    ServiceNotReady,
)
from engine.broker.outlet import WithheldCloses
from engine.broker.ports import MigrationTarget
from engine.broker.topics.geo.replicated_position import ReplicatedPosition
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor
from engine.broker.topics.subscriptions.cursor_moves import CursorMoves
from engine.broker.topics.subscriptions.oldest_entry import OldestEntry
from engine.broker.topics.subscriptions.pending_host import SubscriptionOfPending
from engine.broker.topics.subscriptions.subscription_counters import SubscriptionCounters
from engine.broker.topics.subscriptions.subscription_dispatch import (
    DispatchHost,
    SubscriptionDispatch,
)
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.pending.pending_ack_handle import PendingAckHandle
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from engine.wire.geo.markers import SNAPSHOT, ClusterSnapshot, read_marker

REPLICATED = "pulsar.replicated.subscription"
"""Property of a cursor whose subscription is to be copied to other clusters, as Pulsar stores it."""


class Migration(Protocol):
    """The migration of a topic to another cluster, as its subscriptions use it."""

    @property
    def begun(self) -> bool: ...

    def target_for(self, subscription: "Subscription", /) -> MigrationTarget | None: ...


class SubscriptionHost(DispatchHost, Protocol):
    """Parts of a topic that a subscription uses."""

    @property
    def scope(self) -> TaskScope: ...

    @property
    def closing(self) -> bool:
        """True when no consumer can attach any more."""
        ...

    @property
    def terminated(self) -> bool:
        """True when nothing more will be appended."""
        ...

    @property
    def migration(self) -> Migration: ...

    @property
    def log(self) -> ReadableLog: ...

    def touched(self) -> None:
        """Note that the statistics may have changed."""
        ...

    def delivery_observer(self, subscription: "Subscription", /) -> DeliveryObserver | None:
        """Return the observer for a new consumer; None while no entry is traced."""
        ...

    def subscription_replicated(self) -> None:
        """Note that the state of one more subscription is to be copied to other clusters."""
        ...

    def snapshot_passed(self, subscription: str, snapshot: ClusterSnapshot, /) -> None:
        """Notify the other clusters that a subscription passed ``snapshot``."""
        ...


class SubscriptionOwner(Protocol):
    """The subscriptions of a topic, as one of them uses them."""

    def check_room(self, subscription: "Subscription") -> None:
        """Raise ConsumerBusy when one more consumer would exceed a limit."""
        ...

    def abandoned(self, subscription: "Subscription") -> None:
        """Handle that the last consumer of ``subscription`` left."""
        ...

    def abandoned_later(self, subscription: "Subscription") -> None:
        """Handle that the consumers of ``subscription`` were disconnected and are expected to attach again."""
        ...


class Subscription:
    """A subscription of a persistent topic. Methods raise BrokerError when they refuse."""

    __slots__ = (
        "_closed",
        "_context",
        "_host",
        "_mark",
        "_owner",
        "consumers",
        "counters",
        "cursor",
        "dispatch",
        "durable",
        "moves",
        "name",
        "oldest",
        "pending_acks",
        "replication",
    )

    def __init__(
        self,
        host: SubscriptionHost,
        owner: SubscriptionOwner,
        cursor: SubscriptionCursor,
        *,
        fresh: bool = False,
    ) -> None:
        """``fresh``: the cursor was just created."""
        self._host = host
        self._owner = owner
        self.cursor = cursor
        self.name = cursor.name
        self.durable = cursor.durable
        self._context: Context = host.context
        self._closed = False
        self._mark = cursor.mark
        self.replication: ReplicatedPosition | None = None
        """State of its replication to other clusters; None when it is not replicated."""
        if REPLICATED in cursor.properties:
            self.replication = self._make_replication()
        self.consumers: list[Consumer] = []
        """Attached consumers, in the dispatcher's order."""
        self.counters = SubscriptionCounters(self.consumers)
        self.dispatch = self._make_dispatch()
        self.moves = self._make_moves()
        self.oldest = OldestEntry(host.log, cursor)
        self.pending_acks = self._make_pending(fresh=fresh)
        """Acknowledgements of transactions; None without transactions and when it is not durable."""

    def _make_dispatch(self) -> SubscriptionDispatch:
        return SubscriptionDispatch(
            self._host, self.cursor, self.consumers, self.pass_markers, self.disconnect
        )

    def _make_pending(self, *, fresh: bool) -> PendingAckHandle | None:
        logs = self._context.pending_ack_logs
        if logs is None or not self.durable or not self._host.name.persistent:
            return None
        host = SubscriptionOfPending(self._host, self.cursor, self.dispatch, self.cursor_advanced)
        return PendingAckHandle(host, logs, self._context, fresh=fresh)

    def _make_moves(self) -> CursorMoves:
        return CursorMoves(self, self.cursor, self._host.log)

    @property
    def closing(self) -> bool:
        """True when its topic is being closed."""
        return self._host.closing

    @property
    def closed(self) -> bool:
        """True when the subscription has ended and accepts no consumer."""
        return self._closed

    @property
    def active_ms(self) -> int:
        """Time of the last change or of the last attached consumer, in milliseconds since the epoch."""
        if self.consumers:
            return self._context.clock.wall_ms()
        stored, counters = self.cursor.stats().last_active_ms, self.counters
        return max(stored, counters.left_ms, counters.acked_ms, counters.consumed_ms)

    def _make_replication(self) -> ReplicatedPosition:
        room = self._context.settings.replicated_subscriptions_snapshot_max_cached_per_subscription
        return ReplicatedPosition(room, self._host.log.entries_between)

    @property
    def replicated(self) -> bool:
        """True when its state is copied to other clusters that have the topic."""
        return self.replication is not None

    def replicate(self, wanted: bool) -> None:
        """Set whether its state is copied; stored with the cursor's next durable change."""
        self.cursor.set_property(REPLICATED, 1 if wanted else None)
        if not wanted:
            self.replication = None
        elif self.replication is None:
            self.replication = self._make_replication()
            self._host.subscription_replicated()
        self._host.touched()

    @property
    def unacked(self) -> int:
        """Number of messages sent and not acknowledged, of consumers that share the subscription."""
        return sum(consumer.unacked for consumer in self.consumers)

    def notify_end(self) -> None:
        """Notify each consumer once that the topic is terminated and all of it is acknowledged.

        Of a topic that was migrated the consumers are disconnected, to attach in the other cluster (G5).
        """
        if self._host.migration.begun:
            target = self._host.migration.target_for(self)
            if target is not None and not self.cursor.backlog_entries():
                for consumer in list(self.consumers):
                    consumer.send_on(target.url, target.url_tls)
                    self.disconnect_one(consumer)
            return
        if not self._host.terminated or self.cursor.backlog_entries():
            return
        for consumer in self.consumers:
            consumer.tell_end()

    # --- consumers ------------------------------------------------------------------------------

    async def attach(self, consumer: Consumer) -> bool:
        """Attach ``consumer``. Return False when the subscription was deleted meanwhile: the caller creates a new one.

        Waits while the cursor is being moved. When another consumer prevents the attachment, its connection is probed,
        and it is removed when the connection is dead. Cancel-safe. Raises ConsumerBusy, also at a limit of consumers,
        ConsumerAssignError, ServiceNotReady.
        """
        while True:
            if self.pending_acks is not None:
                await self.pending_acks.ready()
            async with self.moves.lock:
                if self._closed:
                    return False
                if self._host.closing:
                    raise ServiceNotReady(f"Topic {self._host.name} is being unloaded")
                holder = self._obstacle(consumer)
                if holder is None:
                    self._owner.check_room(self)
                    self._attach(consumer)
                    return True
            # Outside the lock: the probe of a dead connection takes long, and the holder may leave meanwhile.
            if holder.outlet is not consumer.outlet and not await holder.outlet.is_alive():
                self.detach(holder)
                continue
            if holder.attached:
                self.counters.refused += 1
                raise self._refusal(holder)

    def _obstacle(self, consumer: Consumer) -> Consumer | None:
        """Return the consumer that prevents ``consumer`` from attaching, None when there is none (D8).

        Raises ConsumerBusy when the subscription is of another type.
        """
        attached = self.consumers
        if not attached:
            return None
        first = attached[0]
        why = ""
        if first.kind != consumer.kind:
            why = (
                f"Active subscription type of '{first.kind.title}' is different than the connecting "
                f"consumer's type '{consumer.kind.title}'."
            )
        elif consumer.keys is not None and first.keys is not None:
            why = consumer.keys.disagreement(first.keys)
        if why:
            raise ConsumerBusy(f"Subscription is of different type. {why}")
        return self.dispatch.conflict(consumer)

    def _refusal(self, holder: Consumer) -> BrokerError:
        if holder.kind == SubscriptionType.EXCLUSIVE:
            return ConsumerBusy("Exclusive consumer is already connected")
        return ConsumerAssignError(f"Range conflict with consumer {holder.name}")

    def _attach(self, consumer: Consumer) -> None:
        consumer.attach(self._host.touched)
        consumer.observer = self._host.delivery_observer(self)
        self.counters.joined += 1
        self.dispatch.add(consumer)
        self._host.touched()

    def detach(self, consumer: Consumer) -> None:
        """Detach a consumer that left; its unacknowledged entries are delivered to others. Safe to call twice."""
        if consumer.attached:
            self._detach(consumer)
            if not self.consumers:
                self._owner.abandoned(self)

    def _detach(self, consumer: Consumer) -> None:
        consumer.detach()
        self.counters.add_detached(consumer)
        self.dispatch.remove(consumer)
        if not self.consumers:
            self.counters.left_ms = self._context.clock.wall_ms()
        self._host.touched()

    def disconnect(self, *, moving: bool = False, withheld: WithheldCloses | None = None) -> None:
        """Disconnect all consumers; their clients connect again. ``moving``: the cursor is moved before they do.

        With ``withheld`` the clients are notified when that is sent.
        """
        for consumer in list(self.consumers):
            if withheld is None:
                self._drop(consumer)
            else:
                self._detach(consumer)
                withheld.add(consumer.moved)
        if not moving:
            self._owner.abandoned(self)
        elif not self.durable:
            self._owner.abandoned_later(self)

    def disconnect_one(self, consumer: Consumer) -> None:
        """Disconnect an attached consumer; its client may connect again. Its unacknowledged entries are redelivered."""
        self._drop(consumer)
        if not self.consumers and not self.durable:
            self._owner.abandoned_later(self)

    def _drop(self, consumer: Consumer) -> None:
        self._detach(consumer)
        consumer.outlet.drop_consumer(consumer.consumer_id)

    # --- acknowledgements -----------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, positions: list[Position]) -> None:
        """Acknowledge whole entries individually."""
        dispatcher = self.dispatch.dispatcher
        assert dispatcher is not None
        self.cursor.acknowledge(positions)
        self._acked(consumer, dispatcher.acknowledged(consumer, positions))

    def acknowledge_partly(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        """Acknowledge a part of a batch; bits that are set in ``ack_set`` are still unacknowledged."""
        dispatcher = self.dispatch.dispatcher
        assert dispatcher is not None
        if self.cursor.acknowledge_batch(position, ack_set):
            self._acked(consumer, dispatcher.acknowledged(consumer, [position]))
        else:
            unacked = count_bits(list(self.cursor.ack_set(position) or ack_set))
            dispatcher.acknowledged_partly(consumer, position, unacked)

    def acknowledge_cumulative(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        """Acknowledge everything up to ``position``. Ignored for Shared and Key_Shared, as in Pulsar.

        Raises InvalidPositionError.
        """
        dispatch = self.dispatch
        if dispatch.kind is None or not dispatch.kind.ordered:
            return
        assert dispatch.dispatcher is not None
        before = self.cursor.backlog_entries()
        self.cursor.acknowledge_cumulative(position, ack_set)
        if dispatch.compacted is not None and not any(ack_set):
            dispatch.compacted.acknowledged(position)
        dispatch.dispatcher.acknowledged_up_to(position)
        self._acked(consumer, before - self.cursor.backlog_entries())

    async def acknowledge_in(
        self, txn: TxnId, consumer: Consumer, acks: Sequence[StatedAck], *, cumulative: bool
    ) -> None:
        """Acknowledge entries when a transaction commits; durable on return.

        Raises as ``PendingAckHandle.acknowledge``.
        """
        pending = self._pending_for(cumulative)
        if pending is not None:
            await pending.acknowledge(txn, acks, cumulative=cumulative)
            self._acknowledged_in(consumer, acks, cumulative)

    def acknowledge_in_soon(
        self,
        txn: TxnId,
        consumer: Consumer,
        acks: Sequence[StatedAck],
        *,
        cumulative: bool,
        outcome: Outcome,
    ) -> bool:
        """Acknowledge as ``acknowledge_in``; see ``TransactionAcks.acknowledge_soon``."""
        pending = self._pending_for(cumulative)
        if pending is None:
            outcome(None)
            return True

        def report(error: BrokerError | None) -> None:
            if error is None:
                self._acknowledged_in(consumer, acks, cumulative)
            outcome(error)

        return pending.acknowledge_soon(txn, acks, cumulative=cumulative, outcome=report)

    def _pending_for(self, cumulative: bool) -> PendingAckHandle | None:
        """Return what takes acknowledgements of transactions; None when these are ignored as ``acknowledge_cumulative``
        ignores them. Raises NotAllowed."""
        if self.pending_acks is None:
            raise NotAllowed("Transactions are not enabled.")
        ignored = cumulative and not (self.dispatch.kind is not None and self.dispatch.kind.ordered)
        return None if ignored else self.pending_acks

    def _acknowledged_in(
        self, consumer: Consumer, acks: Sequence[StatedAck], cumulative: bool
    ) -> None:
        """Take entries from their consumers that a transaction has acknowledged."""
        dispatch = self.dispatch
        if dispatch.dispatcher is None:
            return  # the cursor was moved meanwhile
        now_ms = self._context.clock.wall_ms()
        if cumulative:
            dispatch.pass_to(acks[0].position)
            consumer.acknowledged(1, now_ms)
            return
        hidden: list[Position] = []
        for ack in acks:
            # All of an entry is pending when a transaction acknowledged all of it.
            if not ack.ack_set or dispatch.is_hidden(ack.position):
                hidden.append(ack.position)
                continue
            left = count_bits(list(dispatch.visible_part(ack.position) or ack.ack_set))
            dispatch.dispatcher.acknowledged_partly(consumer, ack.position, left)
        if hidden:
            consumer.acknowledged(dispatch.dispatcher.acknowledged(consumer, hidden), now_ms)
        self._host.touched()

    async def clear_pending(self) -> None:
        """Forget what open transactions acknowledged, after the cursor was moved back; durable on return. Raises
        ServiceNotReady."""
        if self.pending_acks is not None:
            await self.pending_acks.clear()

    def _acked(self, consumer: Consumer, messages: int) -> None:
        consumer.acknowledged(messages, self._context.clock.wall_ms())
        self.cursor_advanced()
        if consumer.observer is not None:
            consumer.observer.acknowledged()

    def cursor_advanced(self) -> None:
        """Note that entries were acknowledged, by a consumer or by a transaction that committed."""
        now_ms, counters = self._context.clock.wall_ms(), self.counters
        counters.acked_ms = now_ms
        self._host.touched()
        if self._host.terminated:
            self.notify_end()
        if self.cursor.mark != self._mark:
            self._mark = self.cursor.mark
            counters.advanced_ms = now_ms
            if self.replication is not None:
                self._check_snapshots(self.replication)

    def acknowledge_unattended(self, positions: list[Position]) -> None:
        """Acknowledge whole entries for an administrator, whichever consumer has them or none."""
        self.cursor.acknowledge(positions)
        if self.consumers and self.dispatch.dispatcher is not None:
            # Any consumer will do: entries that it does not have are looked for at the others and in the queues.
            self.dispatch.dispatcher.acknowledged(self.consumers[0], positions)
        self.cursor_moved()

    def acknowledge_unattended_part(self, position: Position, ack_set: Sequence[int]) -> None:
        """Acknowledge a part of a batch as ``acknowledge_unattended`` does; bits that are set are unacknowledged."""
        self.cursor.acknowledge_batch(position, ack_set)
        if self.consumers and self.dispatch.dispatcher is not None:
            left = count_bits(list(ack_set))
            self.dispatch.dispatcher.acknowledged_partly(self.consumers[0], position, left)

    def acknowledged_whole(self, position: Position) -> bool:
        """Return whether the entry at ``position`` is acknowledged as a whole."""
        return self.cursor.is_acknowledged(position)

    def redeliver(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        """Redeliver ``positions`` that ``consumer`` holds, or all; Exclusive and Failover redeliver all in order."""
        self.counters.given_back += 1
        if epoch is not None:
            consumer.began(epoch)
        if self.dispatch.dispatcher is not None:
            self.dispatch.dispatcher.redeliver(consumer, positions)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add ``permits`` (>= 1) messages to what ``consumer`` may receive, and wake dispatch (D1, D2)."""
        now_ms = self.counters.flow_ms = self._context.clock.wall_ms()
        consumer.granted(permits, now_ms)
        self.dispatch.wake()
        if self._host.terminated:
            self.notify_end()

    def pass_markers(self, markers: list[View]) -> None:
        """Acknowledge markers and messages of aborted transactions that were read, which no consumer receives (D17);
        note the snapshots among them."""
        self.cursor.acknowledge([view.run.position(i) for view in markers for i in view.indexes])
        if self.replication is not None:
            self._note_snapshots(self.replication, markers)
            self._check_snapshots(self.replication)
        self._host.touched()
        self.notify_end()

    def _note_snapshots(self, replication: ReplicatedPosition, markers: list[View]) -> None:
        for view in markers:
            special = facts_of(view.run, MARKER | ORIGIN).special
            for i in view.indexes:
                # One of another cluster, or of a client that claims to be a broker there, is not this cluster's.
                facts = special.get(i, PLAIN)
                if facts.marker == SNAPSHOT and not facts.replicated_from:
                    snapshot = read_marker(view.run.entry(i), SNAPSHOT)
                    if isinstance(snapshot, ClusterSnapshot):
                        replication.add(snapshot, self._context.clock.wall_ms())

    def _check_snapshots(self, replication: ReplicatedPosition) -> None:
        """Notify the other clusters of the last snapshot that the position passed, if it passed one."""
        if replication.snapshots:
            passed = replication.passed(self.cursor.mark_delete)
            if passed is not None:
                replication.sent_ms = self._context.clock.wall_ms()
                self._host.snapshot_passed(self.name, passed)

    # --- moving the cursor ----------------------------------------------------------------------

    def recheck_read_ahead(self) -> None:
        """Make the dispatcher check entries that were read ahead against the cursor again before it sends them.

        Called before the cursor is moved: its state changes at once, and its storage follows. Once the move covers a
        batch that is acknowledged in part, the cursor no longer knows the part, and the batch would be sent whole.
        """
        self.dispatch.pass_to(self.cursor.mark_delete)

    def cursor_moved(self) -> None:
        """Continue dispatch behind the cursor after it was moved."""
        self._host.touched()
        self.dispatch.pass_to(self.cursor.mark_delete)
        if self.replication is not None:
            self._check_snapshots(self.replication)
        self.dispatch.wake()
        self.notify_end()

    async def restart(self) -> None:
        """Disconnect all consumers and forget what was read and sent; the cursor is moved next."""
        self.disconnect(moving=True)
        await self.dispatch.reset()

    def touched(self) -> None:
        """Mark the statistics as possibly changed."""
        self._host.touched()

    def count_expired(self, entries: int) -> None:
        """Count entries that became too old before they were acknowledged."""
        self.counters.expired_ms = self._context.clock.wall_ms()
        self.counters.expired.total += entries

    def end(self) -> None:
        """End the subscription without waiting: no consumer can attach any more. See ``Subscriptions.abandoned``."""
        self._closed = True
        self.dispatch.stop()

    async def close(self, *, force: bool, check: Callable[[], None] = lambda: None) -> None:
        """End the subscription and disconnect its consumers, before its cursor is deleted.

        ``check`` is called before anything is changed, and what it raises is raised. Raises ConsumerBusy when consumers
        are attached and not ``force``.
        """
        async with self.moves.lock:
            check()
            if self.consumers and not force:
                raise ConsumerBusy("Subscription has active connected consumers")
            self._closed = True
            self.disconnect(moving=True)
            await self.dispatch.close()
