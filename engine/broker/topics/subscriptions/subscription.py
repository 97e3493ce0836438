"""One subscription: a cursor, the dispatcher that reads it, and the attached consumers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.compaction.compacted_cursor import CompactedCursor, start_of
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.context import Context
from engine.broker.control.counters import Rate, Traffic
from engine.broker.control.rate_limit import RateLevel, RateLimit
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.choose.sticky import KeyStats, Sticky
from engine.broker.dispatch.choose.turns import Turns
from engine.broker.dispatch.consumer import Consumer, SubscriptionType, count_bits
from engine.broker.dispatch.core import SharingDispatcher
from engine.broker.dispatch.dispatcher import Dispatcher, DispatchState, Held
from engine.broker.dispatch.ports import DispatchCursor
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.single import SingleDispatcher
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.errors import (
    BrokerError,
    ConsumerAssignError,
    ConsumerBusy,
    ServiceNotReady,
)
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor
from engine.broker.topics.rates import TopicRates
from engine.broker.topics.subscriptions.cursor_moves import CursorMoves

REPLICATED = "pulsar.replicated.subscription"
"""Property of a cursor whose subscription is to be copied to other clusters, as Pulsar stores it."""


class SubscriptionHost(Protocol):
    """Parts of a topic that a subscription uses."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    @property
    def closing(self) -> bool:
        """True when no consumer can attach any more."""
        ...

    @property
    def terminated(self) -> bool:
        """True when nothing more will be appended."""
        ...

    @property
    def log(self) -> ReadableLog: ...

    @property
    def policies(self) -> TopicPolicies: ...

    @property
    def rates(self) -> TopicRates: ...

    @property
    def compaction(self) -> TopicCompaction: ...

    def touched(self) -> None:
        """Note that the statistics may have changed."""
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
        "_compacted",
        "_context",
        "_counts",
        "_dispatcher",
        "_host",
        "_keys",
        "_mark",
        "_owner",
        "_rate",
        "_scope",
        "_seek_position",
        "_source",
        "_throttle",
        "acked_ms",
        "advanced_ms",
        "consumed_ms",
        "cursor",
        "dropped",
        "durable",
        "entries_out",
        "expired",
        "expired_ms",
        "flow_ms",
        "given_back",
        "joined",
        "kind",
        "left_ms",
        "moves",
        "name",
        "out",
        "refused",
    )

    def __init__(
        self, host: SubscriptionHost, owner: SubscriptionOwner, cursor: SubscriptionCursor
    ) -> None:
        context = host.context
        self._host = host
        self._owner = owner
        self.cursor = cursor
        self.name = cursor.name
        self.durable = cursor.durable
        self._context = context
        self._scope = TaskScope(host.name.full)
        self._counts = RedeliveryCounts()
        self.dropped = Rate()
        """Messages for which no consumer had a permit, of topics that store none."""
        self.expired = Rate()
        """Entries that became too old before they were acknowledged."""
        self.expired_ms = 0
        """Time of the last expiry, in milliseconds since the epoch; 0 before the first."""
        self._source = EntrySource(cursor, self._scope, context, self.wake, self.pass_markers)
        self._rate = RateLimit(context.clock, host.rates.published, RateLevel.SUBSCRIPTION)
        self._throttle = Throttle(
            self.wake,
            by_entry=context.settings.dispatch_throttling_on_batch_message_enabled,
            holds=self._are_rates_in_force,
        )
        self._dispatcher: Dispatcher | None = None
        self.apply()
        self.kind: SubscriptionType | None = None
        self._keys: KeyPolicy | None = None
        self.moves = self._make_moves()
        self._closed = False
        self.out = Traffic()
        """Traffic of consumers that left; with the attached consumers' it is the subscription's total."""
        cursor.on_unblocked = self.wake
        self.flow_ms = 0
        self.consumed_ms = 0
        self.entries_out = 0
        """Entries sent to consumers that left, as ``out`` counts their messages."""
        self.acked_ms = 0
        self.advanced_ms = 0
        self.left_ms = 0
        """Time at which the last consumer left, in milliseconds since the epoch; 0 before that."""
        self.joined = 0
        """Number of consumers attached so far."""
        self.refused = 0
        """Number of consumers refused because another one is attached."""
        self.given_back = 0
        """Number of requests for redelivery."""
        self._mark = cursor.mark
        self._compacted: CompactedCursor | None = None
        """Cursor of the compacted topic while the active consumer reads that; None otherwise."""
        self._seek_position: Position | None = None
        """Target of the last seek since the topic was loaded; a compacted cursor begins there."""

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
    def consumers(self) -> list[Consumer]:
        """Attached consumers, in the dispatcher's order."""
        return [] if self._dispatcher is None else self._dispatcher.consumers

    @property
    def active_ms(self) -> int:
        """Time of the last change or of the last attached consumer, in milliseconds since the epoch."""
        if self.consumers:
            return self._context.clock.wall_ms()
        stored = self.cursor.stats().last_active_ms
        return max(stored, self.left_ms, self.acked_ms, self.consumed_ms)

    @property
    def state(self) -> DispatchState:
        """State of dispatch, with what it waits for."""
        if self._dispatcher is None:
            return DispatchState("consumer")
        state = self._dispatcher.state
        # There are entries to read, but the cursor reads none until acknowledgements let it store its state.
        if state.paused_for == "append" and self.cursor.blocked is not None:
            return replace(state, paused_for="acks")
        return state

    @property
    def again(self) -> int:
        """Number of unacknowledged entries that were given back at least once; 0 for Exclusive and Failover."""
        return len(self._counts)

    @property
    def held(self) -> Held | None:
        """Consumer for which entries wait that no other consumer may receive; None when there is none."""
        return None if self._dispatcher is None else self._dispatcher.held()

    @property
    def keys(self) -> KeyPolicy | None:
        """Key policy of a Key_Shared subscription, the same for all its consumers; None for other types."""
        return self._keys

    @property
    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        """Statistics of keys by consumer of a Key_Shared subscription."""
        return {} if self._dispatcher is None else self._dispatcher.key_stats()

    def apply(self) -> None:
        """Apply dispatch rates and limits of the topic's policies, which may have changed."""
        policies = self._host.policies
        own = policies.rates.by_subscription.get(self.name, policies.rates.subscription)
        self._rate.set(own)
        self._throttle.by_entry = (
            self._context.settings.dispatch_throttling_on_batch_message_enabled
        )
        self._throttle.set((*self._host.rates.dispatch, self._rate))
        if self._dispatcher is not None:
            self._dispatcher.apply(policies.dispatch)

    @property
    def throttled(self) -> Counter[tuple[RateLevel, bool]]:
        """Number of times that a dispatch rate stopped it, by the rate's level and whether it was the one in bytes."""
        return self._throttle.stops

    def _are_rates_in_force(self) -> bool:
        """Return whether dispatch rates apply now: always to a subscription with a backlog, by a setting to others."""
        settings = self._context.settings
        return (
            settings.dispatch_throttling_on_non_backlog_consumer_enabled
            or self.cursor.backlog_entries() >= settings.managed_ledger_cursor_backlogged_threshold
        )

    @property
    def replicated(self) -> bool:
        """True when its state is to be copied to other clusters. Only the wish is stored: nothing copies it."""
        return REPLICATED in self.cursor.properties

    def replicate(self, wanted: bool) -> None:
        """Set whether its state is to be copied; stored with the cursor's next durable change."""
        self.cursor.set_property(REPLICATED, 1 if wanted else None)
        self._host.touched()

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes sent since the topic was loaded."""
        messages, size = self.out.messages.total, self.out.bytes.total
        for consumer in self.consumers:
            messages += consumer.out.messages.total
            size += consumer.out.bytes.total
        return messages, size

    @property
    def unacked(self) -> int:
        """Number of messages sent and not acknowledged, of consumers that share the subscription."""
        return sum(consumer.unacked for consumer in self.consumers)

    def hold(self, on: bool) -> None:
        """Stop dispatch, or resume it: all consumers of the broker together have too many unacknowledged messages."""
        if self._dispatcher is not None:
            self._dispatcher.hold(on)

    def wake(self) -> None:
        """Wake dispatch after an event that it may wait for (D2)."""
        if self._dispatcher is not None:
            self._dispatcher.wake()

    def notify_end(self) -> None:
        """Notify each consumer once that the topic is terminated and all of it is acknowledged."""
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
                self.refused += 1
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
        assert self._dispatcher is not None
        return self._dispatcher.conflict(consumer)

    def _refusal(self, holder: Consumer) -> BrokerError:
        if holder.kind == SubscriptionType.EXCLUSIVE:
            return ConsumerBusy("Exclusive consumer is already connected")
        return ConsumerAssignError(f"Range conflict with consumer {holder.name}")

    def _attach(self, consumer: Consumer) -> None:
        if self._dispatcher is None or (not self.consumers and self._changes_type(consumer)):
            self._dispatcher = self._make_dispatcher(consumer)
            self.kind, self._keys = consumer.kind, consumer.keys
        consumer.attach(self._host.touched)
        self.joined += 1
        self._dispatcher.add(consumer)
        self._host.touched()

    def _changes_type(self, consumer: Consumer) -> bool:
        """Return whether ``consumer``, the first to attach, changes the subscription's type or key policy."""
        if consumer.keys is None or self._keys is None:
            return self.kind != consumer.kind
        return bool(consumer.keys.disagreement(self._keys))

    def _make_dispatcher(self, consumer: Consumer) -> Dispatcher:
        kind, context = consumer.kind, self._context
        if kind.ordered:
            name = self._host.name
            return SingleDispatcher(
                kind,
                self._source,
                context,
                self._throttle,
                topic=name.full,
                partition=name.partition,
                entries_for=self._entries_for,
            )
        # Consumers of the type before may have read the compacted topic.
        self._source.read_from(self.cursor)
        return self._make_sharing(consumer.keys)

    def _entries_for(self, consumer: Consumer) -> DispatchCursor:
        """Return the cursor from which ``consumer``, which becomes active, is served."""
        if not consumer.read_compacted:
            self._compacted = None
            return self.cursor
        if self._compacted is None:
            start = consumer.start if self._seek_position is None else self._seek_position
            # A durable subscription begins at its cursor, whatever start the consumer requests, unless it was sought.
            if self.durable and self._seek_position is None:
                start = start_of(self.cursor, start)
            self._compacted = self._host.compaction.cursor(self.cursor, start)
        return self._compacted

    def _make_sharing(self, keys: KeyPolicy | None) -> Dispatcher:
        return SharingDispatcher(
            self._source,
            self._context,
            self.cursor,
            self._throttle,
            self._counts,
            self._chooser(keys),
            self._host.policies.dispatch,
            self.disconnect,
        )

    def _chooser(self, keys: KeyPolicy | None) -> Chooser:
        return Turns() if keys is None else Sticky(keys, self._context.settings)

    def detach(self, consumer: Consumer) -> None:
        """Detach a consumer that left; its unacknowledged entries are delivered to others. Safe to call twice."""
        if consumer.attached:
            self._detach(consumer)
            if not self.consumers:
                self._owner.abandoned(self)

    def _detach(self, consumer: Consumer) -> None:
        consumer.detach()
        assert self._dispatcher is not None
        self.out.messages.total += consumer.out.messages.total
        self.entries_out += consumer.entries_out
        self.out.bytes.total += consumer.out.bytes.total
        self.consumed_ms = max(self.consumed_ms, consumer.consumed_ms)
        self._dispatcher.remove(consumer)
        if not self.consumers:
            self.left_ms = self._context.clock.wall_ms()
        self._host.touched()

    def disconnect(self, *, moving: bool = False) -> None:
        """Disconnect all consumers; their clients connect again. ``moving``: the cursor is moved before they do."""
        for consumer in list(self.consumers):
            self._drop(consumer)
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
        assert self._dispatcher is not None
        self.cursor.acknowledge(positions)
        self._acked(consumer, self._dispatcher.acknowledged(consumer, positions))

    def acknowledge_partly(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        """Acknowledge a part of a batch; bits that are set in ``ack_set`` are still unacknowledged."""
        assert self._dispatcher is not None
        if self.cursor.acknowledge_batch(position, ack_set):
            self._acked(consumer, self._dispatcher.acknowledged(consumer, [position]))
        else:
            unacked = count_bits(list(self.cursor.ack_set(position) or ack_set))
            self._dispatcher.acknowledged_partly(consumer, position, unacked)

    def acknowledge_cumulative(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        """Acknowledge everything up to ``position``. Ignored for Shared and Key_Shared, as in Pulsar.

        Raises InvalidPositionError.
        """
        if self.kind is None or not self.kind.ordered:
            return
        assert self._dispatcher is not None
        before = self.cursor.backlog_entries()
        self.cursor.acknowledge_cumulative(position, ack_set)
        if self._compacted is not None and not any(ack_set):
            self._compacted.acknowledged(position)
        self._dispatcher.acknowledged_up_to(position)
        self._acked(consumer, before - self.cursor.backlog_entries())

    def _acked(self, consumer: Consumer, messages: int) -> None:
        now_ms = self._context.clock.wall_ms()
        consumer.acknowledged(messages, now_ms)
        self.acked_ms = now_ms
        self._host.touched()
        if self._host.terminated:
            self.notify_end()
        if self.cursor.mark != self._mark:
            self._mark = self.cursor.mark
            self.advanced_ms = now_ms

    def redeliver(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        """Redeliver ``positions`` that ``consumer`` holds, or all; Exclusive and Failover redeliver all in order."""
        self.given_back += 1
        if epoch is not None:
            consumer.began(epoch)
        if self._dispatcher is not None:
            self._dispatcher.redeliver(consumer, positions)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add ``permits`` (>= 1) messages to what ``consumer`` may receive, and wake dispatch (D1, D2)."""
        self.flow_ms = self._context.clock.wall_ms()
        consumer.granted(permits, self.flow_ms)
        self.wake()
        if self._host.terminated:
            self.notify_end()

    def pass_markers(self, positions: list[Position]) -> None:
        """Acknowledge markers that were read, which no consumer receives (D17)."""
        self.cursor.acknowledge(positions)
        self._host.touched()
        self.notify_end()

    # --- moving the cursor ----------------------------------------------------------------------

    def recheck_read_ahead(self) -> None:
        """Make the dispatcher check entries that were read ahead against the cursor again before it sends them.

        Called before the cursor is moved: its state changes at once, and its storage follows. Once the move covers a
        batch that is acknowledged in part, the cursor no longer knows the part, and the batch would be sent whole.
        """
        if self._dispatcher is not None:
            self._dispatcher.acknowledged_up_to(self.cursor.mark_delete)

    def cursor_moved(self) -> None:
        """Continue dispatch behind the cursor after it was moved."""
        self._host.touched()
        if self._dispatcher is not None:
            self._dispatcher.acknowledged_up_to(self.cursor.mark_delete)
        self.wake()
        self.notify_end()

    async def restart(self) -> None:
        """Disconnect all consumers and forget what was read and sent; the cursor is moved next."""
        self.disconnect(moving=True)
        # A read in progress would bring entries of the old position behind the move (D7).
        await self._source.settle()
        self._counts = RedeliveryCounts()
        self._dispatcher = None
        self._compacted = None
        self.kind = self._keys = None

    def sought(self, position: Position) -> None:
        """Note the target of a seek; a compacted cursor begins there."""
        self._seek_position = position

    def touched(self) -> None:
        """Mark the statistics as possibly changed."""
        self._host.touched()

    def count_expired(self, entries: int) -> None:
        """Count entries that became too old before they were acknowledged."""
        self.expired_ms = self._context.clock.wall_ms()
        self.expired.total += entries

    def end(self) -> None:
        """End the subscription without waiting: no consumer can attach any more. See ``Subscriptions.abandoned``."""
        self._closed = True
        self.stop()

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
            self._source.close()
            self._throttle.close()
            await self._scope.close()

    def stop(self) -> None:
        """Stop reading, when the topic is closed."""
        self._source.close()
        self._throttle.close()
        self._scope.cancel()

    def tick(self, elapsed_s: float) -> bool:
        """Compute the rates, as ``Rate.tick`` does."""
        changes = self.dropped.tick(elapsed_s)
        changes = self.expired.tick(elapsed_s) or changes
        for consumer in self.consumers:
            changes = consumer.tick(elapsed_s) or changes
        return changes
