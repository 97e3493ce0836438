"""Shared subscriptions: every entry to one of the consumers, chunks together, delayed messages when they are due."""

import asyncio
from collections import deque

from engine.base.clock import Clock
from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.choosers import choose_shared
from engine.broker.dispatch.chunks import ChunkOwners, may_hold_chunk, read_chunk
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.delayed import (
    DELIVER_AT_TAG,
    DelayQueue,
    deliver_at_ms,
    metadata_may_hold,
)
from engine.broker.dispatch.redelivery import RedeliveryCounts, ReplayQueue
from engine.broker.dispatch.single import deliver
from engine.broker.dispatch.source import EntrySource
from engine.broker.settings import DataPathSettings

ALARM_MAX_S = 60.0
"""Longest wait for a delivery time before the clock is looked at again."""
PARKED_MAX = 1000
"""Chunks of a Shared subscription that wait for the consumer of their message; beyond, dispatch waits with them."""


class SharedDispatcher:
    """Shared: every entry to one of the consumers, by turns among those of the best priority that can take it
    (D3, D4, D5, D6)."""

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
        self._looked_back = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
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
        """Entries that wait for the time they are to be delivered."""
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
        room = self._room()
        if not room or not able:
            return False
        view = self._next(sum(c.permits for c in self.consumers if c.can_receive))
        if view is None:
            return False
        if metadata_may_hold(view, DELIVER_AT_TAG):
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
        deliver(self.consumers[i], self._source, view, entries_max, self._counts, now_ms, room)
        return True

    def _room(self) -> int:
        """Messages that may go out before the limit is reached; 0 from then on until ``_unblock``."""
        if not self._unacked_max:
            return UNLIMITED
        room = self._unacked_max - self.unacked
        if room <= 0:
            self._blocked = True
        return 0 if self._blocked else room

    def _unblock(self) -> bool:
        """Less is out: whoever was stopped at a limit goes on from half of it. Whether anyone does."""
        freed = False
        for consumer in self.consumers:
            freed |= consumer.unblock()
        if self._blocked and self.unacked <= self._unacked_max // 2:
            self._blocked = False
            freed = True
        return freed

    def _next(self, permits: int) -> View | None:
        source = self._source
        if self.replay and source.idle:
            source.replay(self.replay.take(min(max(permits, 1), self._batch_max)))
        elif source.idle and self._delayed.look_back() and not source.held_entries:
            # By turns with what is new, so that neither waits for the other.
            self._looked_back = not self._looked_back and self._look_back()
            view = source.next(permits)
            if view is None and source.idle:
                self._look_back()
            return view
        return source.next(permits)

    def _look_back(self) -> bool:
        """Have some of what was left out read again; False when there is nothing of it."""
        source, delayed = self._source, self._delayed
        while (span := delayed.look_back()) is not None:
            positions = source.cursor.unacknowledged(*span, self._batch_max)
            found = self._nowhere_else(positions)
            more = len(positions) == self._batch_max
            delayed.looked(positions[-1] if more else span[1], len(found))
            if found:
                return source.replay(found)
        return False

    def _nowhere_else(self, positions: list[Position]) -> list[Position]:
        """Those that are neither out nor waiting here one by one."""
        parked = {v.run.position(v.start) for views in self._parked.values() for v in views}
        pending = [each.pending for each in self.consumers if each.pending is not None]
        return [
            p
            for p in positions
            if p not in self._delayed and p not in self.replay and p not in parked
            if not any(p in one for one in pending)
        ]

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
        self._delayed.add(view.run.position(i), at_ms)
        self._set_alarm(now_ms)
        return True

    def _set_alarm(self, now_ms: int) -> None:
        """Wake up when the first entry set aside is due. The wall clock may be set meanwhile: look now and then."""
        at_ms = self._delayed.next_ms
        if at_ms == self._alarm_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = at_ms
        if at_ms is not None:
            wait_s = min(max((at_ms - now_ms) / 1000, 0.001), ALARM_MAX_S)
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._alarmed)

    def _alarmed(self) -> None:
        now_ms = self._clock.wall_ms()
        self.replay.add(self._delayed.take(now_ms))
        self._alarm = self._alarm_ms = None
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
            while views and owner.can_receive and self._room():
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
            self._unblock()
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
        self._unblock()
        self.wake()

    def acknowledged(self, consumer: Consumer | None, positions: list[Position]) -> int:
        messages = 0
        waiting = False
        for position in positions:
            out = self._forget(consumer, position)
            if not out:
                waiting, out = True, 1
            messages += out
        if waiting:
            self._acknowledged_waiting()
        if self._unblock() or waiting:
            self.wake()
        return messages

    def _forget(self, consumer: Consumer | None, position: Position) -> int:
        """The messages for which an acknowledged entry was out; 0 when it waited to be sent (again), if anything."""
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
        self.replay.discard(position)
        self._delayed.discard(position)
        return 0

    def _acknowledged_waiting(self) -> None:
        """Something that was not out was acknowledged."""
        is_acknowledged = self._source.cursor.is_acknowledged
        for owner, views in list(self._parked.items()):
            left = deque(v for v in views if not is_acknowledged(v.run.position(v.start)))
            self._parked_entries -= len(views) - len(left)
            if left:
                self._parked[owner] = left
            else:
                del self._parked[owner]
        self._set_alarm(self._clock.wall_ms())
        self._source.acknowledged_ahead()

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        for holder in self.consumers:
            assert holder.pending is not None
            holder.pending.left(position.ledger_id, position.entry_id, left)
        if self._unblock():
            self.wake()

    def acknowledged_up_to(self, position: Position) -> None:
        """Only by an administrator (skip, expire): clients cannot acknowledge cumulatively here."""
        for holder in self.consumers:
            assert holder.pending is not None
            done = [p for p in holder.pending if p <= position]
            for p in done:
                holder.pending.discard(p.ledger_id, p.entry_id)
        self._counts.forget_up_to(position)
        self.replay.discard_up_to(position)
        self._delayed.discard_up_to(position)
        self._acknowledged_waiting()
        self._unblock()
        self.wake()

    def reset(self) -> None:
        self.replay.clear()
        self._delayed.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_ms = None
        self._parked.clear()
        self._parked_entries = 0
        self._chunks.clear()
        self._blocked = False
