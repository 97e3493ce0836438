"""Dispatchers: read, choose, send. Level-triggered: ``wake`` looks at what is there and sends what may go out now.

Whoever changes something that dispatch waits for calls ``wake``: an append, FLOW, an acknowledgement that unblocks, a
socket that takes data again, a finished read. No timer stands between an append and its delivery. ``paused_for`` names
the event that resumes a pause.
"""

import asyncio
from collections import deque
from typing import Protocol

from engine.base.clock import Clock
from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.choosers import choose_active, choose_shared
from engine.broker.chunks import ChunkOwners, may_hold_chunk, read_chunk
from engine.broker.consumer import Consumer, SubscriptionType
from engine.broker.limits import DataPathSettings
from engine.broker.redelivery import RedeliveryCounts, ReplayQueue
from engine.broker.source import EntrySource
from engine.wire import commands

ACTIVE_CHANGE_VERSION = 12
"""Protocol version from which a client understands ACTIVE_CONSUMER_CHANGE."""
PARKED_MAX = 1000
"""Chunks of a Shared subscription that wait for the consumer of their message; beyond, dispatch waits with them."""


class Dispatcher(Protocol):
    """Delivers a subscription's entries to its consumers."""

    consumers: list[Consumer]

    @property
    def active(self) -> Consumer | None:
        """The one that receives, where there is only one."""
        ...

    @property
    def paused_for(self) -> str | None:
        """None while everything is delivered or on its way; else the event waited for."""
        ...

    def wake(self) -> None: ...

    def add(self, consumer: Consumer) -> None: ...

    def remove(self, consumer: Consumer) -> None:
        """Its unacknowledged entries go back to be delivered again."""
        ...

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        """Explicitly given back by ``consumer``; None: all it holds."""
        ...

    def acknowledged(self, consumer: Consumer | None, positions: list[Position]) -> int:
        """Entries were acknowledged through ``consumer``; messages they counted for where that is known."""
        ...

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        """``left`` messages of a batch are still unacknowledged."""
        ...

    def acknowledged_up_to(self, position: Position) -> None: ...

    def reset(self) -> None:
        """The cursor was moved: nothing that is held or queued counts any more."""
        ...


class SingleDispatcher:
    """Exclusive and Failover: everything in storage order to the one active consumer."""

    def __init__(
        self,
        kind: SubscriptionType,
        source: EntrySource,
        settings: DataPathSettings,
        clock: Clock,
        *,
        topic: str,
        partition: int,
    ) -> None:
        self._kind = kind
        self._source = source
        self._clock = clock
        self._topic = topic
        self._partition = partition
        self._delay_s = settings.active_consumer_failover_delay_time_millis / 1000
        self.consumers: list[Consumer] = []
        self._active: Consumer | None = None
        self._handover: asyncio.TimerHandle | None = None
        self._waking = False

    @property
    def active(self) -> Consumer | None:
        return self._active

    @property
    def paused_for(self) -> str | None:
        if self._active is None:
            return "consumer"
        if self._handover is not None:
            return "handover"
        return self._active.paused_for or self._source.waiting_for

    def wake(self) -> None:
        consumer = self._active
        if consumer is None or self._handover is not None or self._waking:
            return
        self._waking = True
        try:
            self._send(consumer)
        finally:
            self._waking = False

    def _send(self, consumer: Consumer) -> None:
        source, now_ms = self._source, self._clock.wall_ms()
        while consumer.can_receive:
            view = source.next(consumer.permits)
            if view is None:
                return
            deliver(consumer, source, view, view.count, None, now_ms)

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._choose(newcomer=consumer)

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if consumer is self._active:
            self._active = None
            self._source.rewind()
        self._choose(newcomer=None)

    def _choose(self, newcomer: Consumer | None) -> None:
        chosen = choose_active(
            [(consumer.priority, consumer.name) for consumer in self.consumers],
            self._partition,
            self._topic,
        )
        before = self._active
        after = None if chosen is None else self.consumers[chosen]
        if after is before:
            if newcomer is not None:
                self._tell(newcomer)
            return
        self._active = after
        alone = len(self.consumers) == 1 and newcomer is not None
        if self._handover is not None:
            self._handover.cancel()
            self._handover = None
        if after is None:
            return
        if alone or self._kind == SubscriptionType.EXCLUSIVE or not self._delay_s:
            self._take_over()
        else:
            # Consumers come and go in flocks; the pause saves rereading the backlog for each of them.
            loop = asyncio.get_running_loop()
            self._handover = loop.call_later(self._delay_s, self._take_over)

    def _take_over(self) -> None:
        self._handover = None
        self._source.rewind()
        for consumer in self.consumers:
            self._tell(consumer)
        self.wake()

    def _tell(self, consumer: Consumer) -> None:
        outlet = consumer.outlet
        if self._kind == SubscriptionType.FAILOVER and (
            outlet.protocol_version >= ACTIVE_CHANGE_VERSION
        ):
            is_active = consumer is self._active
            outlet.send(commands.active_consumer_change(consumer.consumer_id, is_active))

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        if consumer is self._active:
            self._source.rewind()
            self.wake()

    def acknowledged(self, consumer: Consumer | None, positions: list[Position]) -> int:
        self._source.acknowledged_ahead()
        return len(positions)

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        pass

    def acknowledged_up_to(self, position: Position) -> None:
        self._source.acknowledged_ahead()

    def reset(self) -> None:
        pass


class SharedDispatcher:
    """Shared: every entry to one of the consumers, by turns among those of the best priority that can take it."""

    def __init__(
        self,
        source: EntrySource,
        settings: DataPathSettings,
        clock: Clock,
        counts: RedeliveryCounts,
    ) -> None:
        self._source = source
        self._clock = clock
        self._turn_max = settings.dispatcher_max_round_robin_batch_size
        self._batch_max = settings.dispatcher_max_read_batch_size
        self._unacked_max = settings.max_unacked_messages_per_subscription
        self.consumers: list[Consumer] = []
        self.replay = ReplayQueue()
        self._counts = counts
        self._chunks: ChunkOwners[Consumer] = ChunkOwners()
        self._parked: dict[Consumer, deque[View]] = {}
        self._parked_entries = 0
        self._last = -1
        self._blocked = False
        self._waking = False

    @property
    def active(self) -> Consumer | None:
        return None

    @property
    def unacked(self) -> int:
        """Messages out at all consumers together."""
        return sum(consumer.unacked for consumer in self.consumers)

    @property
    def blocked(self) -> bool:
        """Whether the subscription is at its limit of unacknowledged messages."""
        return self._blocked

    @property
    def paused_for(self) -> str | None:
        if not self.consumers:
            return "consumer"
        if self._blocked:
            return "acks"
        reasons = [consumer.paused_for for consumer in self.consumers]
        if all(reasons):
            return reasons[0]
        return self._source.waiting_for

    def wake(self) -> None:
        if self._waking:
            return
        self._waking = True
        try:
            now_ms = self._clock.wall_ms()
            if self._parked:
                self._unpark(now_ms)
            while self._turn(now_ms):
                pass
        finally:
            self._waking = False

    def _turn(self, now_ms: int) -> bool:
        """One consumer's turn; False when nothing more can be sent now."""
        eligible = [consumer.can_receive for consumer in self.consumers]
        able = sum(eligible)
        if not able or self._at_limit():
            return False
        view = self._next(sum(c.permits for c in self.consumers if c.can_receive))
        if view is None:
            return False
        if may_hold_chunk(view):
            return self._send_chunk(view, eligible, now_ms)
        i = choose_shared([consumer.priority for consumer in self.consumers], eligible, self._last)
        assert i is not None
        self._last = i
        entries_max = view.count if able == 1 else self._turn_max
        deliver(self.consumers[i], self._source, view, entries_max, self._counts, now_ms)
        return True

    def _at_limit(self) -> bool:
        if not self._unacked_max:
            return False
        unacked = self.unacked
        if self._blocked:
            self._blocked = unacked > self._unacked_max // 2
        else:
            self._blocked = unacked >= self._unacked_max
        return self._blocked

    def _next(self, permits: int) -> View | None:
        if self.replay and self._source.idle:
            positions = self.replay.take(min(max(permits, 1), self._batch_max))
            if positions:
                self._source.replay(positions)
        return self._source.next(permits)

    def _send_chunk(self, view: View, eligible: list[bool], now_ms: int) -> bool:
        """The first entry of ``view`` alone: all chunks of one message go to one consumer, in order."""
        source, run = self._source, view.run
        if view.count > 1:
            source.give_back(View(run, view.start + 1, view.stop))
            view = View(run, view.start, view.start + 1)
        chunk = read_chunk(run.entry(view.start))
        owner = None if chunk is None else self._chunks.owner(chunk)
        if owner is None:
            i = choose_shared([c.priority for c in self.consumers], eligible, self._last)
            assert i is not None
            self._last = i
            owner = self.consumers[i]
            if chunk is not None:
                self._chunks.keep(chunk, owner)
        elif not owner.can_receive or owner in self._parked:
            return self._park(owner, view)
        if chunk is not None:
            self._chunks.done(chunk)
        deliver(owner, source, view, 1, self._counts, now_ms)
        return True

    def _park(self, owner: Consumer, view: View) -> bool:
        """A later chunk waits for the consumer that has the earlier ones, without holding up the others."""
        if self._parked_entries >= PARKED_MAX:
            self._source.give_back(view)
            return False
        self._parked.setdefault(owner, deque()).append(view)
        self._parked_entries += 1
        return True

    def _unpark(self, now_ms: int) -> None:
        for owner in list(self._parked):
            views = self._parked[owner]
            while views and owner.can_receive:
                view = views.popleft()
                self._parked_entries -= 1
                if not self._source.cursor.is_acknowledged(view.run.position(view.start)):
                    deliver(owner, self._source, view, 1, self._counts, now_ms)
            if not views:
                del self._parked[owner]

    def add(self, consumer: Consumer) -> None:
        assert consumer.pending is not None
        self.consumers.append(consumer)
        self._last = -1
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        assert consumer.pending is not None
        self.consumers.remove(consumer)
        self._last = -1
        parked = self._parked.pop(consumer, ())
        self._parked_entries -= len(parked)
        self._chunks.forget(consumer)
        positions = consumer.pending.take_all()
        if self.consumers:
            self.replay.add(positions)
            self.replay.add(view.run.position(view.start) for view in parked)
            self.wake()
        else:
            self.reset()
            self._source.rewind()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        assert consumer.pending is not None
        if positions is None:
            back = consumer.pending.take_all()
        else:
            discard = consumer.pending.discard
            back = [p for p in positions if discard(p.ledger_id, p.entry_id)]
        self._counts.raise_(back)
        self.replay.add(back)
        consumer.unblock()
        self.wake()

    def acknowledged(self, consumer: Consumer | None, positions: list[Position]) -> int:
        messages = 0
        freed = self._blocked
        for position in positions:
            messages += self._forget(consumer, position)
        for holder in self.consumers:
            freed |= holder.unblock()
        if freed:
            self.wake()
        return messages

    def _forget(self, consumer: Consumer | None, position: Position) -> int:
        if self._counts:
            self._counts.forget(position)
        if consumer is not None and consumer.pending is not None:
            messages = consumer.pending.discard(position.ledger_id, position.entry_id)
            if messages:
                return messages
        for other in self.consumers:
            assert other.pending is not None
            messages = other.pending.discard(position.ledger_id, position.entry_id)
            if messages:
                return messages
        # Not out at anyone: it waits to be sent (again), or was never there.
        self.replay.discard(position)
        self._source.acknowledged_ahead()
        return 1

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        for holder in self.consumers:
            assert holder.pending is not None
            holder.pending.left(position.ledger_id, position.entry_id, left)
        if consumer.unblock():
            self.wake()

    def acknowledged_up_to(self, position: Position) -> None:
        """Only by an administrator (skip, expire): clients cannot acknowledge cumulatively here."""
        for holder in self.consumers:
            assert holder.pending is not None
            done = [p for p in holder.pending if p <= position]
            for p in done:
                holder.pending.discard(p.ledger_id, p.entry_id)
            holder.unblock()
        self._counts.forget_up_to(position)
        self._source.acknowledged_ahead()
        self.wake()

    def reset(self) -> None:
        self.replay.clear()
        self._parked.clear()
        self._parked_entries = 0
        self._chunks.clear()
        self._blocked = False


def deliver(
    consumer: Consumer,
    source: EntrySource,
    view: View,
    entries_max: int,
    counts: RedeliveryCounts | None,
    now_ms: int,
) -> None:
    """Send the first entries of ``view``, as many as ``consumer`` may take (at least one); the rest is given back."""
    run, start = view.run, view.start
    partial = source.first_partial(view)
    if partial is not None:
        if partial == start:
            one = View(run, start, start + 1)
            ack_set = source.cursor.ack_set(run.position(start))
            count = (counts.of(one) or [0])[0] if counts is not None else 0
            if view.count > 1:
                source.give_back(View(run, start + 1, view.stop))
            consumer.deliver_partly(one, list(ack_set or ()), count, now_ms)
            return
        entries_max = min(entries_max, partial - start)
    taken = consumer.take(view, entries_max)
    assert taken, "a consumer without room was chosen"
    if taken < view.count:
        source.give_back(View(run, start + taken, view.stop))
        view = View(run, start, start + taken)
    consumer.deliver(view, counts.of(view) if counts is not None else None, now_ms)
