"""One subscription: a cursor, the dispatcher over it, and the consumers attached."""

import asyncio
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
    NotAllowed,
    ServiceNotReady,
    SubscriptionBusy,
)
from engine.broker.ports import TopicPolicies
from engine.broker.topics.ports import Log, SubscriptionCursor
from engine.broker.topics.rates import TopicRates
from engine.managed.cursors.last_change import LastChange
from engine.managed.cursors.moves import Effect

REPLICATED = "pulsar.replicated.subscription"
"""Property of a cursor, as Pulsar stores it: the subscription's state is to be copied to other clusters."""


class SubscriptionHost(Protocol):
    """What a subscription needs of its topic."""

    @property
    def name(self) -> TopicName: ...

    @property
    def closing(self) -> bool:
        """Nobody can attach any more."""
        ...

    @property
    def terminated(self) -> bool:
        """Nothing more will be appended."""
        ...

    @property
    def log(self) -> Log: ...

    @property
    def policies(self) -> TopicPolicies: ...

    @property
    def rates(self) -> TopicRates: ...

    @property
    def compaction(self) -> TopicCompaction: ...

    def touched(self) -> None:
        """What statistics show has changed, or may have: it will be looked at."""
        ...

    def check_room(self, subscription: "Subscription") -> None:
        """Raises ConsumerBusy where one more consumer would be too many."""
        ...

    def abandoned(self, subscription: "Subscription") -> None:
        """Its last consumer left."""
        ...

    def abandoned_later(self, subscription: "Subscription") -> None:
        """Its consumers were sent away and should come back."""
        ...


class Subscription:
    """Attach, acknowledge, redeliver, move. Methods raise BrokerError where they refuse."""

    __slots__ = (
        "_closed",
        "_compacted",
        "_context",
        "_counts",
        "_dispatcher",
        "_host",
        "_keys",
        "_mark",
        "_moving",
        "_rate",
        "_scope",
        "_sought",
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
        "name",
        "out",
        "refused",
    )

    def __init__(
        self, host: SubscriptionHost, cursor: SubscriptionCursor, context: Context
    ) -> None:
        self._host = host
        self.cursor = cursor
        self.name = cursor.name
        self.durable = cursor.durable
        self._context = context
        self._scope = TaskScope(host.name.full)
        self._counts = RedeliveryCounts()
        self.dropped = Rate()
        """Messages that nobody could take when they came, where none are kept for later."""
        self.expired = Rate()
        """Entries that grew too old before they were acknowledged."""
        self.expired_ms = 0
        """When they were last looked for."""
        self._source = EntrySource(cursor, self._scope, context, self.wake)
        self._rate = RateLimit(context.clock, host.rates.published, RateLevel.SUBSCRIPTION)
        self._throttle = Throttle(
            self.wake,
            by_entry=context.settings.dispatch_throttling_on_batch_message_enabled,
            holds=self._rates_hold,
        )
        self._dispatcher: Dispatcher | None = None
        self.apply()
        self.kind: SubscriptionType | None = None
        self._keys: KeyPolicy | None = None
        self._moving = asyncio.Lock()
        self._closed = False
        self.out = Traffic()
        """Of consumers that have left; with those attached it makes the subscription's total."""
        cursor.on_unblocked = self.wake
        self.flow_ms = 0
        self.consumed_ms = 0
        self.entries_out = 0
        """Entries that went out to consumers that left, as ``out`` counts their messages."""
        self.acked_ms = 0
        self.advanced_ms = 0
        self.left_ms = 0
        """When the last consumer left; 0: none was here."""
        self.joined = 0
        """How often a consumer came."""
        self.refused = 0
        """How often one could not, because another is here."""
        self.given_back = 0
        """How often consumers gave back what they had received."""
        self._mark = cursor.mark
        self._compacted: CompactedCursor | None = None
        """What is delivered instead while a consumer that reads the compacted topic receives."""
        self._sought: Position | None = None

    @property
    def closed(self) -> bool:
        """Whether it has ended and takes no consumer any more."""
        return self._closed

    @property
    def consumers(self) -> list[Consumer]:
        """Attached consumers, as the dispatcher has them."""
        return [] if self._dispatcher is None else self._dispatcher.consumers

    @property
    def active_ms(self) -> int:
        """When a consumer was last here, or anything changed, in milliseconds since the epoch."""
        if self.consumers:
            return self._context.clock.wall_ms()
        stored = self.cursor.stats().last_active_ms
        return max(stored, self.left_ms, self.acked_ms, self.consumed_ms)

    @property
    def state(self) -> DispatchState:
        """How dispatch stands now."""
        if self._dispatcher is None:
            return DispatchState("consumer")
        state = self._dispatcher.state
        if state.paused_for == "append" and self.cursor.blocked is not None:
            return replace(state, paused_for="acks")
        return state

    @property
    def again(self) -> int:
        """Entries given back at least once that are unacknowledged; not counted for types with order."""
        return len(self._counts)

    @property
    def held(self) -> Held | None:
        """Who keeps entries waiting that only it may have."""
        return None if self._dispatcher is None else self._dispatcher.held()

    @property
    def keys(self) -> KeyPolicy | None:
        """What its consumers agreed on, of a Key_Shared subscription."""
        return self._keys

    @property
    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        """By consumer, of a Key_Shared subscription."""
        return {} if self._dispatcher is None else self._dispatcher.key_stats()

    def apply(self) -> None:
        """The topic's policies may be others: its dispatch rates and limits act at once."""
        policies = self._host.policies
        own = policies.subscription_rates.get(self.name, policies.subscription_rate)
        self._rate.set(own)
        self._throttle.by_entry = (
            self._context.settings.dispatch_throttling_on_batch_message_enabled
        )
        self._throttle.set((*self._host.rates.dispatch, self._rate))
        if self._dispatcher is not None:
            self._dispatcher.apply(policies)

    @property
    def throttled(self) -> Counter[tuple[RateLevel, bool]]:
        """How often a dispatch rate stopped it, by whose it is and whether for bytes."""
        return self._throttle.stops

    def _rates_hold(self) -> bool:
        """Whether dispatch rates hold for it now: for those that are behind, at least."""
        settings = self._context.settings
        return (
            settings.dispatch_throttling_on_non_backlog_consumer_enabled
            or self.cursor.backlog_entries() >= settings.managed_ledger_cursor_backlogged_threshold
        )

    @property
    def replicated(self) -> bool:
        """Whether its state is to be copied to other clusters. Only the wish is kept: there is nobody who does it."""
        return REPLICATED in self.cursor.properties

    def replicate(self, wanted: bool) -> None:
        """Keep the wish, durable with the next change of the cursor that is."""
        self.cursor.set_property(REPLICATED, 1 if wanted else None)
        self._host.touched()

    @property
    def total_out(self) -> tuple[int, int]:
        """Messages and bytes that went out since the topic was loaded."""
        messages, size = self.out.messages.total, self.out.bytes.total
        for each in self.consumers:
            messages += each.out.messages.total
            size += each.out.bytes.total
        return messages, size

    @property
    def unacked(self) -> int:
        """Messages out at consumers that share it."""
        return sum(consumer.unacked for consumer in self.consumers)

    def hold(self, on: bool) -> None:
        """Whether nothing may be sent because too much is out at all consumers of the broker."""
        if self._dispatcher is not None:
            self._dispatcher.hold(on)

    def wake(self) -> None:
        """Something that dispatch may wait for has happened."""
        if self._dispatcher is not None:
            self._dispatcher.wake()

    def tell_end(self) -> None:
        """Once per consumer, when the topic is sealed and all of it is acknowledged."""
        if not self._host.terminated or self.cursor.backlog_entries():
            return
        for consumer in self.consumers:
            consumer.tell_end()

    # --- consumers ------------------------------------------------------------------------------

    async def attach(self, consumer: Consumer) -> bool:
        """Let ``consumer`` receive. False: this subscription was deleted meanwhile, make a new one.

        Raises ConsumerBusy, also at a limit of consumers.

        A holder of an Exclusive subscription on another connection is asked for a sign of life. Waits while the cursor
        is being moved; cancel-safe.
        """
        while True:
            async with self._moving:
                if self._closed:
                    return False
                if self._host.closing:
                    raise ServiceNotReady(f"Topic {self._host.name} is being unloaded")
                holder = self._obstacle(consumer)
                if holder is None:
                    self._host.check_room(self)
                    self._attach(consumer)
                    return True
            if holder.outlet is not consumer.outlet and not await holder.outlet.is_alive():
                self.detach(holder)
                continue
            if holder.attached:
                self.refused += 1
                raise self._refusal(holder)

    def _obstacle(self, consumer: Consumer) -> Consumer | None:
        """Who keeps ``consumer`` from attaching (D8)."""
        present = self.consumers
        if not present:
            return None
        first = present[0]
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
        if self._dispatcher is None or (not self.consumers and self._other_type(consumer)):
            self._dispatcher = self._make_dispatcher(consumer)
            self.kind, self._keys = consumer.kind, consumer.keys
        consumer.attach(self._host.touched)
        self.joined += 1
        self._dispatcher.add(consumer)
        self._host.touched()

    def _other_type(self, consumer: Consumer) -> bool:
        """Whether the first consumer that comes changes what the subscription is."""
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
        self._source.read_from(self.cursor)
        return self._make_sharing(consumer.keys)

    def _entries_for(self, consumer: Consumer) -> DispatchCursor:
        """Where the entries for ``consumer``, which is to receive, come from."""
        if not consumer.read_compacted:
            self._compacted = None
            return self.cursor
        if self._compacted is None:
            start = consumer.start if self._sought is None else self._sought
            if self.durable and self._sought is None:
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
            self._host.policies,
            self.disconnect,
        )

    def _chooser(self, keys: KeyPolicy | None) -> Chooser:
        return Turns() if keys is None else Sticky(keys, self._context.settings)

    def detach(self, consumer: Consumer) -> None:
        """It left: what it held goes to others, or back to the cursor. Safe to call twice."""
        if consumer.attached:
            self._detach(consumer)
            if not self.consumers:
                self._host.abandoned(self)

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
        """Send all consumers away; they come back by themselves. ``moving``: to the place the cursor gets now."""
        for consumer in list(self.consumers):
            self._send_away(consumer)
        if not moving:
            self._host.abandoned(self)
        elif not self.durable:
            self._host.abandoned_later(self)

    def disconnect_one(self, consumer: Consumer) -> None:
        """Send an attached consumer away; its client may bring it back. What it holds is delivered again."""
        self._send_away(consumer)
        if not self.consumers and not self.durable:
            self._host.abandoned_later(self)

    def _send_away(self, consumer: Consumer) -> None:
        self._detach(consumer)
        consumer.outlet.drop_consumer(consumer.consumer_id)

    # --- acknowledgements -----------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, positions: list[Position]) -> None:
        """Whole entries, individually."""
        assert self._dispatcher is not None
        self.cursor.acknowledge(positions)
        self._acked(consumer, self._dispatcher.acknowledged(consumer, positions))

    def acknowledge_partly(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        """Part of a batch; bits set are still due."""
        assert self._dispatcher is not None
        if self.cursor.acknowledge_batch(position, ack_set):
            self._acked(consumer, self._dispatcher.acknowledged(consumer, [position]))
        else:
            left = count_bits(list(self.cursor.ack_set(position) or ack_set))
            self._dispatcher.acknowledged_partly(consumer, position, left)

    def acknowledge_cumulative(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        """Everything up to ``position``. Ignored on types without order, as in Pulsar.

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
            self.tell_end()
        if self.cursor.mark != self._mark:
            self._mark = self.cursor.mark
            self.advanced_ms = now_ms

    def redeliver(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        """Send again: ``positions`` still out at ``consumer``, or all; types with order start over."""
        self.given_back += 1
        if epoch is not None:
            consumer.began(epoch)
        if self._dispatcher is not None:
            self._dispatcher.redeliver(consumer, positions)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """``consumer`` takes ``permits`` (>= 1) more messages (D1, D2)."""
        self.flow_ms = self._context.clock.wall_ms()
        consumer.granted(permits, self.flow_ms)
        self.wake()
        if self._host.terminated:
            self.tell_end()

    # --- moving the cursor ----------------------------------------------------------------------

    async def reset(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Disconnect the consumers, then make ``position`` the next entry delivered (D7); durable before it returns.

        ``ack_set``: of the batch at ``position`` only the messages set here are delivered.

        Raises SubscriptionBusy while another move is under way, ServiceNotReady when deleted meanwhile.
        """
        if self._moving.locked():
            raise SubscriptionBusy("another change of the subscription is in progress")
        async with self._moving:
            if self._closed:
                raise ServiceNotReady("Subscription was deleted")
            self.disconnect(moving=True)
            await self._source.settle()
            self._forget()
            self._sought = position
            try:
                await self.cursor.reset(position)
                if any(ack_set):
                    self.cursor.acknowledge_batch(position, ack_set)
                    await self.cursor.persisted()
            finally:
                self._host.touched()

    async def move(self, plan: Callable[[], tuple[Effect, LastChange]]) -> Effect:
        """Make the change that ``plan`` works out, nothing else happening in between; durable before it returns.

        ``plan`` raises when it must not be made, and is asked before anybody is sent away, too. Consumers are
        disconnected only if messages become due again. Raises as ``reset``.
        """
        if self._moving.locked():
            raise SubscriptionBusy("another change of the subscription is in progress")
        async with self._moving:
            if self._closed:
                raise ServiceNotReady("Subscription was deleted")
            effect, change = plan()
            back = bool(effect.again or effect.partly)
            if back:
                self.disconnect(moving=True)
                await self._source.settle()
                self._forget()
                effect, change = plan()
            else:
                self._look_before_sending()
            try:
                await self.cursor.move(effect, change)
            finally:
                if back:
                    self._host.touched()
                else:
                    self._moved()
            return effect

    async def skip(self, entries: int) -> None:
        """Acknowledge the first ``entries`` unacknowledged entries; durable before it returns."""
        self._look_before_sending()
        try:
            await self.cursor.skip(entries)
        finally:
            self._moved()  # acknowledged they are, whoever stopped waiting for it to be durable

    async def clear(self) -> None:
        """Acknowledge everything; durable before it returns."""
        self._look_before_sending()
        try:
            await self.cursor.clear()
        finally:
            self._moved()  # acknowledged they are, whoever stopped waiting for it to be durable

    async def expire(self, before_ms: int) -> int:
        """Acknowledge everything up to the last entry published before ``before_ms``; how many entries that were.

        Publish times are taken as ordered; what came later than ``before_ms`` stays whatever its own says. Raises the
        log's errors; cancel-safe.
        """
        if self._closed or not self.cursor.backlog_entries():
            return 0
        last = await self._host.log.find_older(before_ms, self.cursor.mark_delete)
        return self.expire_to(last)

    def expire_to(self, position: Position) -> int:
        """As ``pass_over``, counted as expired."""
        self.expired_ms = self._context.clock.wall_ms()
        count = self.pass_over(position)
        self.expired.total += count
        return count

    def pass_over(self, position: Position) -> int:
        """Acknowledge everything up to ``position`` for nobody; how many entries that were. Durable in time, or when
        somebody waits for the cursor to be ``persisted``."""
        gone = self._closed or self._host.closing
        if gone or position <= self.cursor.mark_delete:
            return 0
        before = self.cursor.backlog_entries()
        self.cursor.acknowledge_cumulative(position)
        self._moved()
        return before - self.cursor.backlog_entries()

    def _look_before_sending(self) -> None:
        """What was read may be acknowledged from now on, before that is durable: also the batch of which a part is
        confirmed, and what is left of it is not known any more."""
        if self._dispatcher is not None:
            self._dispatcher.acknowledged_up_to(self.cursor.mark_delete)

    def _moved(self) -> None:
        self._host.touched()
        if self._dispatcher is not None:
            self._dispatcher.acknowledged_up_to(self.cursor.mark_delete)
        self.wake()
        self.tell_end()

    def _forget(self) -> None:
        self._counts = RedeliveryCounts()
        self._dispatcher = None
        self._compacted = None
        self.kind = self._keys = None

    def end(self) -> None:
        """Nobody can attach any more; see ``Topic.abandoned``."""
        self._closed = True
        self.stop()

    async def close(self, *, force: bool, check: Callable[[], None] = lambda: None) -> None:
        """End for good, before its cursor is deleted. Raises ConsumerBusy with consumers attached and not ``force``,
        and what ``check`` raises, which is called before anything is changed."""
        async with self._moving:
            check()
            if self.consumers and not force:
                raise ConsumerBusy("Subscription has active connected consumers")
            self._closed = True
            self.disconnect(moving=True)
            self._source.close()
            self._throttle.close()
            await self._scope.close()

    def stop(self) -> None:
        """The topic closes: no more reads."""
        self._source.close()
        self._throttle.close()
        self._scope.cancel()

    def tick(self, elapsed_s: float) -> bool:
        """As of a Rate."""
        moves = self.dropped.tick(elapsed_s)
        moves = self.expired.tick(elapsed_s) or moves
        for consumer in self.consumers:
            moves = consumer.tick(elapsed_s) or moves
        return moves


class UnacknowledgedSubscription(Subscription):
    """What its consumers acknowledge moves nothing."""

    __slots__ = ()

    def acknowledge(self, consumer: Consumer, positions: list[Position]) -> None:
        pass

    def acknowledge_partly(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        pass

    def acknowledge_cumulative(
        self, consumer: Consumer, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        pass


class CompactionSubscription(UnacknowledgedSubscription):
    """The compaction's own: anybody may read by it, but what lies before it is what was kept elsewhere, so that nobody
    else moves it (M11)."""

    __slots__ = ()

    async def reset(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        raise self._refused()

    async def move(self, plan: Callable[[], tuple[Effect, LastChange]]) -> Effect:
        raise self._refused()

    async def skip(self, entries: int) -> None:
        raise self._refused()

    async def clear(self) -> None:
        raise self._refused()

    def pass_over(self, position: Position) -> int:
        return 0

    def _refused(self) -> BrokerError:
        return NotAllowed(f"Subscription {self.name} is moved by compaction alone")
