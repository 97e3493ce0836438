"""Shared subscriptions: every entry to one of the consumers, chunks together, delayed messages when they are due."""

import asyncio
from collections import deque

from engine.base.clock import Clock
from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.choosers import choose_shared
from engine.broker.chunks import ChunkOwners, may_hold_chunk, read_chunk
from engine.broker.consumer import Consumer
from engine.broker.delayed import DELIVER_AT_TAG, DelayQueue, deliver_at_ms, metadata_may_hold
from engine.broker.dispatch import deliver
from engine.broker.limits import DataPathSettings
from engine.broker.redelivery import RedeliveryCounts, ReplayQueue
from engine.broker.source import EntrySource

ALARM_MAX_S = 60.0
"""Longest wait for a delivery time before the clock is looked at again."""
PARKED_MAX = 1000
"""Chunks of a Shared subscription that wait for the consumer of their message; beyond, dispatch waits with them."""


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
        self._delayed = DelayQueue()
        self._alarm: asyncio.TimerHandle | None = None
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
    def delayed(self) -> int:
        """Entries set aside until the time they are to be delivered."""
        return len(self._delayed)

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
        reason = self._source.waiting_for
        return "time" if self._delayed and reason == "append" else reason

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
        if metadata_may_hold(view, DELIVER_AT_TAG):
            if self._delayed.full:
                self._source.give_back(view)
                return False
            due = self._set_aside(view, now_ms)
            if due is None:
                return True
            view = due
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

    def _set_aside(self, view: View, now_ms: int) -> View | None:
        """The first entries of ``view`` that may be delivered now, None when there are none.

        What is before them waits for its time, what is behind them is given back.
        """
        run, start = view.run, view.start
        stop = min(view.stop, start + self._turn_max)
        while start < stop and self._waits(view, start, now_ms):
            start += 1
        after = min(start + 1, stop)
        while after < stop and deliver_at_ms(run.entry(after)) <= now_ms:
            after += 1
        if after < view.stop:
            self._source.give_back(View(run, after, view.stop))
        return View(run, start, after) if start < after else None

    def _waits(self, view: View, i: int, now_ms: int) -> bool:
        at_ms = deliver_at_ms(view.run.entry(i))
        if at_ms <= now_ms:
            return False
        first = self._delayed.next_ms
        self._delayed.add(view.run.position(i), at_ms)
        if first is None or at_ms < first:
            self._set_alarm(now_ms)
        return True

    def _set_alarm(self, now_ms: int) -> None:
        """Wake up when the first entry set aside is due. The wall clock may be set meanwhile: look now and then."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        at_ms = self._delayed.next_ms
        if at_ms is not None:
            wait_s = min(max((at_ms - now_ms) / 1000, 0.001), ALARM_MAX_S)
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._alarmed)

    def _alarmed(self) -> None:
        now_ms = self._clock.wall_ms()
        self.replay.add(self._delayed.take(now_ms))
        self._set_alarm(now_ms)
        self.wake()

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
        self._delayed.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._parked.clear()
        self._parked_entries = 0
        self._chunks.clear()
        self._blocked = False
