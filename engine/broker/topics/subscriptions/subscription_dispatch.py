"""Dispatch of one subscription: the dispatcher of its type, and what successive dispatchers share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import View
from engine.base.tasks import TaskScope
from engine.broker.compaction.compacted_cursor import CompactedCursor, start_of
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.context import Context
from engine.broker.control.rate_limit import RateLevel, RateLimit
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.choose.sticky import KeyStats, Sticky
from engine.broker.dispatch.choose.turns import Turns
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.core import SharingDispatcher
from engine.broker.dispatch.dispatcher import Dispatcher, DispatchState, Held
from engine.broker.dispatch.ports import DispatchCursor, Transactional
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.single import SingleDispatcher
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import TopicPolicies
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.rates import TopicRates
from engine.broker.transactions.pending.pending_cursor import PendingCursor
from engine.broker.transactions.pending.pending_state import PendingState


class DispatchHost(Transactional, Protocol):
    """Parts of a topic that the dispatch of its subscriptions uses."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    @property
    def policies(self) -> TopicPolicies: ...

    @property
    def rates(self) -> TopicRates: ...

    @property
    def compaction(self) -> TopicCompaction: ...


class SubscriptionDispatch:
    """Sends the entries of one subscription to its consumers. The first consumer that attaches decides the type."""

    __slots__ = (
        "_consumers",
        "_context",
        "_counts",
        "_cursor",
        "_host",
        "_pending",
        "_rate",
        "_scope",
        "_seek_position",
        "_source",
        "_start_over",
        "_throttle",
        "compacted",
        "dispatcher",
        "keys",
        "kind",
    )

    def __init__(
        self,
        host: DispatchHost,
        cursor: SubscriptionCursor,
        consumers: list[Consumer],
        pass_markers: Callable[[list[View]], None],
        start_over: Callable[[], None],
    ) -> None:
        """Create the dispatch of a subscription without consumers.

        Dispatchers add the attached consumers to ``consumers``, in their order. ``pass_markers`` acknowledges entries
        that were read and are left out. ``start_over`` disconnects all consumers.
        """
        context = host.context
        self._host = host
        self._cursor = cursor
        self._consumers = consumers
        self._context = context
        self._start_over = start_over
        self._scope = TaskScope(host.name.full)
        self._counts = RedeliveryCounts()
        self._source = EntrySource(cursor, self._scope, context, self.wake, pass_markers, host)
        self._rate = RateLimit(context.clock, host.rates.published, RateLevel.SUBSCRIPTION)
        self._throttle = Throttle(
            self.wake,
            by_entry=context.settings.dispatch_throttling_on_batch_message_enabled,
            holds=self._are_rates_in_force,
        )
        self.dispatcher: Dispatcher | None = None
        """Dispatcher of the consumers; None before the first one and while the cursor is moved back."""
        self.kind: SubscriptionType | None = None
        """Type of the subscription; None while there is no dispatcher."""
        self.keys: KeyPolicy | None = None
        """Key policy of a Key_Shared subscription, the same for all its consumers; None for other types."""
        self.compacted: CompactedCursor | None = None
        """Cursor of the compacted topic while the active consumer reads that; None otherwise."""
        self._pending: PendingState | None = None
        """Acknowledgements of open transactions; None before the first of them."""
        self._seek_position: Position | None = None
        """Target of the last seek since the topic was loaded; a compacted cursor begins there."""
        self.apply()
        cursor.on_unblocked = self.wake

    @property
    def state(self) -> DispatchState:
        """State of dispatch, with what it waits for."""
        if self.dispatcher is None:
            return DispatchState("consumer")
        state = self.dispatcher.state
        # There are entries to read, but the cursor reads none until acknowledgements let it store its state.
        if state.paused_for == "append" and self._cursor.blocked is not None:
            return replace(state, paused_for="acks")
        return state

    @property
    def again(self) -> int:
        """Number of unacknowledged entries that were given back at least once; 0 for Exclusive and Failover."""
        return len(self._counts)

    def redeliveries(self, position: Position) -> int:
        """Return how often an entry was given back; 0 for Exclusive and Failover, which do not count."""
        return self._counts.count(position)

    @property
    def first_held(self) -> Position | None:
        """The first entry that was read and not yet delivered; None without one."""
        return self._source.first_held

    @property
    def held(self) -> Held | None:
        """Consumer for which entries wait that no other consumer may receive; None when there is none."""
        return None if self.dispatcher is None else self.dispatcher.held()

    @property
    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        """Statistics of keys by consumer of a Key_Shared subscription."""
        return {} if self.dispatcher is None else self.dispatcher.key_stats()

    @property
    def throttled(self) -> Counter[tuple[RateLevel, bool]]:
        """Number of times that a dispatch rate stopped it, by the rate's level and whether it was the one in bytes."""
        return self._throttle.stops

    def apply(self) -> None:
        """Apply dispatch rates and limits of the topic's policies, which may have changed."""
        policies = self._host.policies
        own = policies.rates.by_subscription.get(self._cursor.name, policies.rates.subscription)
        self._rate.set(own)
        self._throttle.by_entry = (
            self._context.settings.dispatch_throttling_on_batch_message_enabled
        )
        self._throttle.set((*self._host.rates.dispatch, self._rate))
        if self.dispatcher is not None:
            self.dispatcher.apply(policies.dispatch)

    def _are_rates_in_force(self) -> bool:
        """Return whether dispatch rates apply now: always to a subscription with a backlog, by a setting to others."""
        settings = self._context.settings
        return (
            settings.dispatch_throttling_on_non_backlog_consumer_enabled
            or self._cursor.backlog_entries() >= settings.managed_ledger_cursor_backlogged_threshold
        )

    def hold(self, on: bool) -> None:
        """Stop dispatch, or resume it: all consumers of the broker together have too many unacknowledged messages."""
        if self.dispatcher is not None:
            self.dispatcher.hold(on)

    def wake(self) -> None:
        """Wake dispatch after an event that it may wait for (D2)."""
        if self.dispatcher is not None:
            self.dispatcher.wake()

    # --- consumers ------------------------------------------------------------------------------

    def conflict(self, consumer: Consumer) -> Consumer | None:
        """Return the attached consumer of the same type that keeps ``consumer`` from joining; None without one."""
        return None if self.dispatcher is None else self.dispatcher.conflict(consumer)

    def add(self, consumer: Consumer) -> None:
        """Send entries to ``consumer`` as well."""
        if self.dispatcher is None or (not self._consumers and self._changes_type(consumer)):
            self.dispatcher = self._make_dispatcher(consumer)
            self.kind, self.keys = consumer.kind, consumer.keys
        self.dispatcher.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Send nothing more to ``consumer``; its unacknowledged entries are delivered to others."""
        assert self.dispatcher is not None
        self.dispatcher.remove(consumer)

    def _changes_type(self, consumer: Consumer) -> bool:
        """Return whether ``consumer``, the first to attach, changes the subscription's type or key policy."""
        if consumer.keys is None or self.keys is None:
            return self.kind != consumer.kind
        return bool(consumer.keys.disagreement(self.keys))

    def _make_dispatcher(self, consumer: Consumer) -> Dispatcher:
        kind, context = consumer.kind, self._context
        if kind.ordered:
            name = self._host.name
            return SingleDispatcher(
                kind,
                self._source,
                context,
                self._throttle,
                self._consumers,
                topic=name.full,
                partition=name.partition,
                entries_for=self._entries_for,
            )
        # Consumers of the type before may have read the compacted topic.
        self._source.read_from(self._visible(self._cursor))
        return self._make_sharing(consumer.keys)

    def _entries_for(self, consumer: Consumer) -> DispatchCursor:
        """Return the cursor from which ``consumer``, which becomes active, is served."""
        if not consumer.read_compacted:
            self.compacted = None
            return self._visible(self._cursor)
        if self.compacted is None:
            start = consumer.start if self._seek_position is None else self._seek_position
            # A durable subscription begins at its cursor, whatever start the consumer requests, unless it was sought.
            if self._cursor.durable and self._seek_position is None:
                start = start_of(self._cursor, start)
            self.compacted = self._host.compaction.cursor(self._cursor, start)
        return self._visible(self.compacted)

    def _make_sharing(self, keys: KeyPolicy | None) -> Dispatcher:
        return SharingDispatcher(
            self._source,
            self._context,
            self._cursor,
            self._throttle,
            self._counts,
            self._chooser(keys),
            self._host.policies.dispatch,
            self._start_over,
            self._consumers,
        )

    def _chooser(self, keys: KeyPolicy | None) -> Chooser:
        return Turns() if keys is None else Sticky(keys, self._context.settings)

    # --- transactions ---------------------------------------------------------------------------

    def _visible(self, cursor: DispatchCursor) -> DispatchCursor:
        """Return ``cursor`` without what open transactions have acknowledged."""
        return cursor if self._pending is None else PendingCursor(cursor, self._pending)

    def hide(self, pending: PendingState) -> None:
        """Leave out what ``pending`` has, from now on. Called once, before the first transactional acknowledgement."""
        self._pending = pending
        self._source.cursor = self._visible(self._source.cursor)
        self._source.acknowledged_ahead()

    def visible_part(self, position: Position) -> list[int] | None:
        """Return the messages of a batch that are not acknowledged, also by no open transaction, as ``ack_set``."""
        return self._source.cursor.ack_set(position)

    def is_hidden(self, position: Position) -> bool:
        """Return whether all messages of an entry are acknowledged, for good or by open transactions."""
        return self._source.cursor.is_acknowledged(position)

    def release(self, positions: Sequence[Position]) -> None:
        """Deliver entries again that a transaction had acknowledged which was aborted."""
        if self.dispatcher is not None:
            self.dispatcher.released(positions)

    # --- the cursor -----------------------------------------------------------------------------

    def pass_to(self, position: Position) -> None:
        """Send nothing up to ``position`` any more, because the cursor passed or is about to pass it."""
        if self.dispatcher is not None:
            self.dispatcher.acknowledged_up_to(position)

    def sought(self, position: Position) -> None:
        """Note the target of a seek; a compacted cursor begins there."""
        self._seek_position = position

    async def reset(self) -> None:
        """Forget what was read and sent to the consumers, which are all disconnected; the cursor is moved next."""
        # A read in progress would bring entries of the old position behind the move (D7).
        await self._source.settle()
        self._counts = RedeliveryCounts()
        self.dispatcher = None
        self.compacted = None
        self.kind = self.keys = None

    async def close(self) -> None:
        """Stop reading, and await the end of a read in progress."""
        self._source.close()
        self._throttle.close()
        await self._scope.close()

    def stop(self) -> None:
        """Stop reading without waiting."""
        self._source.close()
        self._throttle.close()
        self._scope.cancel()
