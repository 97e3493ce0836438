"""Dispatch to several consumers at once: permits, limits, replay, delivery times and chunks.

A chooser decides which consumer receives which entries.
"""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.context import Context
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.choose.sticky import KeyPlace, KeyStats
from engine.broker.dispatch.consumer import Consumer, pending_of
from engine.broker.dispatch.delays.delayed import DelayIndex
from engine.broker.dispatch.delays.delayed_delivery import DelayedDelivery
from engine.broker.dispatch.dispatcher import DispatchState, Held, deliver
from engine.broker.dispatch.facts import DISPATCH, Chunk, facts_of
from engine.broker.dispatch.ports import DelayCursor
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.sharing.chunks import ChunkOwners
from engine.broker.dispatch.sharing.parked import Parked
from engine.broker.dispatch.sharing.parking import Parking
from engine.broker.dispatch.sharing.send_limits import SendLimits
from engine.broker.dispatch.sharing.unacked_entries import UnackedEntries
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import (
    DispatchPolicies,
)


class SharingDispatcher:
    """Dispatcher of Shared and Key_Shared: each entry is sent to one of the consumers (D3, D4, D5, D6, D10)."""

    def __init__(
        self,
        source: EntrySource,
        context: Context,
        cursor: DelayCursor,
        throttle: Throttle,
        counts: RedeliveryCounts,
        chooser: Chooser,
        policies: DispatchPolicies,
        start_over: Callable[[], None],
        consumers: list[Consumer],
    ) -> None:
        """Create a dispatcher without consumers. ``cursor`` is the one that ``source`` reads.

        ``start_over`` disconnects all consumers; they reconnect, and everything unacknowledged is read again.
        ``consumers``, which is empty, is kept sorted.
        """
        self._source = source
        source.wanted = DISPATCH
        self._throttle = throttle
        self._clock = context.clock
        self._context = context
        self.consumers = consumers
        self._chooser = chooser
        self._waiting = chooser.waiting
        self._limits = SendLimits(throttle)
        self._unacked = UnackedEntries(consumers, chooser, counts)
        self._chunks: ChunkOwners[Consumer] = ChunkOwners()
        self._parked = Parked()
        self._parking = Parking(self._parked, source, chooser, self._limits.room, self._send)
        self._delays = DelayedDelivery(source, cursor, context, self.wake, start_over)
        self._cursor = cursor
        self._released: dict[Position, None] = {}
        """Entries to deliver again as soon as no read is under way, which may bring them too."""
        self._waking = False
        self._apply(policies)

    def apply(self, policies: DispatchPolicies) -> None:
        self._apply(policies)
        self.wake()

    def _apply(self, policies: DispatchPolicies) -> None:
        settings = self._context.settings
        self._turn_max = settings.dispatcher_max_round_robin_batch_size
        self._batch_max = settings.dispatcher_max_read_batch_size
        self._limits.apply(policies, self.consumers)
        self._delays.alarm.apply(policies)

    def hold(self, on: bool) -> None:
        if self._limits.hold(on):
            self.wake()

    @property
    def state(self) -> DispatchState:
        return DispatchState(
            self._paused_for(),
            replaying=len(self._waiting),
            delayed=self._delays.entries,
            blocked=self._limits.reached,
            delayed_bytes=self._delays.index.size,
        )

    def _paused_for(self) -> str | None:
        if not self.consumers:
            return "consumer"
        if self._limits.reached:
            return "acks"
        reasons = [consumer.paused_for for consumer in self.consumers]
        if all(reasons):
            return reasons[0]
        if self._delays.keeper.loading:  # before the rate: tokens alone would not resume dispatch
            return "read"
        if self._throttle.stopped:
            return "rate"
        reason = self._source.waiting_for
        if reason == "append" and self._chooser.binds and (self._waiting or self._parked):
            return "key"
        return "time" if reason == "append" and self._delays.entries else reason

    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        return self._chooser.stats()

    def key_place(self, key: bytes) -> KeyPlace | None:
        return self._chooser.key_place(key)

    def parked_for(self, position: Position) -> Consumer | None:
        for owner, view in self._parked:
            if view.ledger_id == position.ledger_id and (
                position.entry_id - view.run.first in view.indexes
            ):
                return owner
        return None

    @property
    def delays(self) -> DelayIndex:
        return self._delays.index

    def held(self) -> Held | None:
        slots_of = self._chooser.slots_of
        if slots_of is None:
            return None
        waiting: dict[Consumer, int] = {}
        keys: dict[Consumer, set[int]] = {}

        def add(holder: Consumer, slot: int, count: int) -> None:
            waiting[holder] = waiting.get(holder, 0) + count
            keys.setdefault(holder, set()).add(slot)

        for parked_for, view in self._parked:
            slots = slots_of(view.run)
            for i in view.indexes:
                add(parked_for, slots[i], 1)
        for slot, heap in self._waiting.slots.items():
            holder = self._chooser.holder(slot)
            if holder is not None:
                add(holder, slot, len(heap))
        if not waiting:
            return None
        owner = max(waiting, key=waiting.__getitem__)
        return Held(owner, waiting[owner], len(keys[owner]))

    def conflict(self, consumer: Consumer) -> Consumer | None:
        return self._chooser.conflict(consumer)

    def wake(self) -> None:
        if self._waking or self._delays.keeper.loading:
            return
        self._waking = True
        try:
            if self._released and self._source.idle:
                self._queue_released()
            now_ms = self._clock.wall_ms()
            self._delays.alarm.limit(now_ms)
            if self._parked:
                self._parking.unpark(now_ms)
            while self._turn(now_ms):
                pass
            if self._delays.index or self._delays.keeper.keeps:
                self._delays.keeper.tend()
                self._delays.alarm.set(now_ms)
        finally:
            self._waking = False

    def _turn(self, now_ms: int) -> bool:
        """Send one view, to one consumer or shared among them; return False when nothing more can be sent now."""
        turn = self._chooser.next() if self._limits.room() else None
        if turn is None:
            return False  # FLOW, an acknowledgement or the end of a limit wakes dispatch again (D2, D3)
        view = self._next()
        if view is None:
            return False  # the end of a read or an append wakes dispatch again (D2)
        special = facts_of(view.run).special
        if special:  # rare: a run of plain entries costs only this check
            due = self._delays.due(view, special, self._turn_max, now_ms)
            if due is None:
                return True  # all of it was set aside (D5): entries behind it may be due
            view = due
            facts = special.get(view.start)
            if facts is not None and facts.chunk is not None:
                return self._send_chunk(view, facts.chunk, turn, now_ms)
        for owner, part in self._chooser.share(view, turn):
            if owner is None:
                self._chooser.wait(part)
            elif self._chooser.binds:  # another consumer would receive the keys out of order (D10)
                self._send_bound(owner, part, now_ms)
            else:  # a turn is short so that all consumers receive some; a sole consumer needs no turns
                alone = len(self.consumers) == 1
                rest = self._send(owner, part, part.count if alone else self._turn_max, now_ms)
                if rest is not None:
                    self._source.give_back(rest)
        return True

    def _send_bound(self, owner: Consumer, view: View, now_ms: int) -> None:
        """Send the entries of ``view`` to ``owner``; park those that it cannot receive now."""
        rest: View | None = view
        while rest is not None:
            # Entries parked for the owner are older: these must stay behind them (D10).
            if owner in self._parked or not owner.can_receive or not self._limits.room():
                self._parking.park(owner, rest)
                return
            rest = self._send(owner, rest, rest.count, now_ms)

    def _send(self, consumer: Consumer, view: View, entries_max: int, now_ms: int) -> View | None:
        """Send to a consumer that can receive, within the limits; return the remaining entries."""
        room = self._limits.room()
        rest = deliver(
            consumer,
            self._source,
            view,
            entries_max,
            self._unacked.counts,
            now_ms,
            self._throttle,
            room,
        )
        if consumer.blocked:
            self._limits.stop(consumer)
        return rest

    # --- reading --------------------------------------------------------------------------------

    @property
    def _full(self) -> bool:
        """True when so many entries wait for their consumer or key that no new ones are read."""
        limit = self._chooser.look_ahead
        return 0 < limit <= len(self._waiting) + self._parked.entries

    def _next(self) -> View | None:
        """Return the next entries to send; start a read of no more than the consumers have permits for."""
        source = self._source
        if self._chooser.binds:
            if source.replaying:
                return None  # new entries must not overtake redelivered ones (D10)
            if source.holds and (view := source.next(1, new=False)) is not None:
                return view  # entries already replayed go before positions that are still to be replayed (D10)
        new = not (self._full or self._delays.index.crowded)
        # Entries given back go first; new ones read ahead precede a replay only when no position waits for one.
        if not source.idle or source.holds_first or (source.holds and not self._waiting):
            return source.next(1, new=new)
        permits = self._permits()
        if self._replay(permits):
            # Entries that are bound to a consumer wait for the replay (D10).
            return None if self._chooser.binds else source.next(permits)
        return source.next(permits, new=new)

    def _permits(self) -> int:
        """Return the permits of the consumers that can receive, counted until they suffice for one read."""
        permits = 0  # there may be thousands of consumers
        for consumer in self.consumers:
            if consumer.can_receive:
                permits += consumer.permits
                if permits >= self._batch_max:
                    break
        return permits

    def _replay(self, permits: int) -> bool:
        """Start reading waiting positions that can be sent now; return whether a read was started."""
        if self._delays.index:
            room = max(self._batch_max, self._chooser.look_ahead)  # about as many as are read soon
            self._delays.take_due(self._waiting, room, self._batch_max)
        if not self._waiting:
            return False
        lanes, left = self._chooser.lanes(), min(permits, self._batch_max)
        positions: list[Position] = []
        for i, lane in enumerate(lanes):
            # Every lane has a share: the positions of all are near each other, so one read has them.
            share = left // (len(lanes) - i) or 1
            taken = self._waiting.take(share, lane)
            left -= len(taken)
            positions += taken
        return bool(positions) and self._source.replay(positions)

    # --- chunks ---------------------------------------------------------------------------------

    def _send_chunk(self, view: View, chunk: Chunk, turn: Consumer, now_ms: int) -> bool:
        """Send, park or queue the one entry of ``view``, a chunk; return False when dispatch has to stop.

        All chunks of a message are sent to one consumer, in order (D6).
        """
        earlier_owner = self._chunks.owner(chunk)
        if earlier_owner is None:
            ((owner, _),) = self._chooser.share(view, turn)
        else:
            owner = earlier_owner
        if owner is None or (
            earlier_owner is not None and self._chooser.must_wait(view, earlier_owner)
        ):
            self._chooser.wait(view)
            return True
        if earlier_owner is None:
            self._chunks.keep(chunk, owner)
        if not owner.can_receive or owner in self._parked:
            return self._parking.park(owner, view)
        self._chunks.done(chunk)
        owner.chunks.total += 1
        self._send(owner, view, 1, now_ms)
        self._chooser.sent(owner, view)
        return True

    # --- consumers ------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        pending = pending_of(consumer)
        pending.tally, pending.slots_of = self._limits.out, self._chooser.slots_of
        consumer.limit(self._limits.each)
        if not self.consumers:
            self._delays.keeper.open()
        insort(self.consumers, consumer, key=lambda member: member.priority)
        self._chooser.add(consumer)
        if self._chooser.binds:
            self._parking.unpark_all()
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self._chooser.remove(consumer)
        self._limits.forget(consumer)
        self._chunks.forget(consumer)
        held = pending_of(consumer).take_all()
        if not self.consumers:
            # Nothing is kept: the next consumer starts at the first unacknowledged entry.
            self._reset()
            self._unacked.counts.clear()
            self._source.rewind()
            return
        self._waiting.add_keyed(held)
        if self._chooser.binds:
            self._parking.unpark_all()
        while (view := self._parked.take(consumer)) is not None:
            self._chooser.wait(view)
        self._limits.unblock()
        self.wake()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        back, passed = self._unacked.give_back(consumer, positions)
        self._waiting.add_keyed(back)
        if self._chooser.drains:
            for slot in (*back.values(), *passed):
                self._chooser.released(consumer, slot)
        self._limits.unblock()
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        # Read before the releases: they may end the last drain, and then dispatch has to be woken.
        drains = self._chooser.drains
        messages, missing = self._unacked.acknowledge(consumer, positions, drains=drains)
        if missing:
            elsewhere, missing = self._unacked.acknowledge_elsewhere(consumer, missing)
            messages += elsewhere + len(missing)
        if missing:
            for position in missing:
                self._waiting.discard(position)
                self._delays.index.discard(position)
            self._drop_acknowledged()
        if self._limits.unblock() or missing or drains:
            self.wake()
        return messages

    def _drop_acknowledged(self) -> None:
        """Drop acknowledged entries that are parked or read ahead. Called when unsent entries were acknowledged."""
        if self._parked:
            self._parked.narrow(self._source.unacknowledged)
        self._delays.alarm.set(self._clock.wall_ms())
        self._source.acknowledged_ahead()

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        self._unacked.acknowledge_partly(consumer, position, left)
        if self._limits.unblock():
            self.wake()

    def acknowledged_up_to(self, position: Position) -> None:
        """Handle a skip or an expiry; clients cannot acknowledge cumulatively on these subscriptions."""
        self._unacked.pass_up_to(position)
        self._waiting.discard_up_to(position)
        self._delays.index.discard_up_to(position)
        if self._chooser.drains:
            self._chooser.recount()  # only one passed entry of each draining key remains to wait for (D10)
        self._drop_acknowledged()
        self._limits.unblock()
        self.wake()

    def released(self, positions: Sequence[Position]) -> None:
        if self.consumers:  # the next consumer starts at the first unacknowledged entry
            self._released.update(dict.fromkeys(positions))
            self.wake()

    def _queue_released(self) -> None:
        """Queue the released entries with all that was read and not sent, because some may be among both."""
        views, positions = self._source.take_unsent()
        for view in views:
            self._chooser.wait(view)
        self._waiting.add(positions)
        self._parking.unpark_all()
        end = self._cursor.read_position  # those from there on are still to be read
        released = [position for position in self._released if position < end]
        self._released.clear()
        for position in released:
            self._delays.index.discard(position)
        self._waiting.add_keyed(self._unacked.take_back(released))
        self._limits.unblock()

    def _reset(self) -> None:
        """Drop all queued entries."""
        self._released.clear()
        self._waiting.clear()
        self._delays.close()
        self._parked.clear()
        self._chunks.clear()
        self._chooser.recount()
        self._limits.reset()
