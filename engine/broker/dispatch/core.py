"""Dispatch to several consumers at once: permits, limits, replay, delivery times and chunks. Who gets what is up to a
chooser.
"""

import asyncio
from collections import deque

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.context import Context
from engine.broker.dispatch.choose.turns import Turns
from engine.broker.dispatch.chunks import ChunkOwners
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.delayed import DelayQueue
from engine.broker.dispatch.dispatcher import DispatchState, deliver
from engine.broker.dispatch.facts import Chunk, EntryFacts, facts_of
from engine.broker.dispatch.redelivery import PendingAcks, RedeliveryCounts, ReplayQueue, Tally
from engine.broker.dispatch.source import EntrySource

ALARM_MAX_S = 60.0
"""Longest wait for a delivery time before the clock is looked at again."""
PARKED_MAX = 1000
"""Chunks of a Shared subscription that wait for the consumer of their message; beyond, dispatch waits with them."""


class SharingDispatcher:
    """Every entry to one of the consumers that can take it, by turns among those of the best priority.

    Holds D3, D4, D5 and D6.
    """

    def __init__(self, source: EntrySource, context: Context, counts: RedeliveryCounts) -> None:
        settings = context.settings
        self._source = source
        self._clock = context.clock
        self._turn_max = settings.dispatcher_max_round_robin_batch_size
        self._batch_max = settings.dispatcher_max_read_batch_size
        self._unacked_max = settings.max_unacked_messages_per_subscription
        self.consumers: list[Consumer] = []
        self._turns: Turns[Consumer] = Turns()
        self._out = Tally()
        self._stopped: dict[Consumer, None] = {}
        """Consumers at their limit of unacknowledged messages."""
        self._replay = ReplayQueue()
        self._counts = counts
        self._chunks: ChunkOwners[Consumer] = ChunkOwners()
        self._parked: dict[Consumer, deque[View]] = {}
        self._parked_entries = 0
        self._delayed = DelayQueue()
        self._looked_back = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
        self._blocked = False
        self._waking = False

    @property
    def state(self) -> DispatchState:
        return DispatchState(
            self._paused_for(),
            replaying=len(self._replay),
            delayed=len(self._delayed),
            blocked=self._blocked,
        )

    def _paused_for(self) -> str | None:
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
        room = self._room()
        consumer = self._turns.next() if room else None
        if consumer is None:
            return False
        view = self._next()
        if view is None:
            return False
        special = facts_of(view.run).special
        if special:
            due = self._due(view, special, now_ms)
            if due is None:
                return True
            view = due
            facts = special.get(view.start)
            if facts is not None and facts.chunk is not None:
                return self._send_chunk(view, facts.chunk, consumer, now_ms)
        self._send(consumer, view, room, now_ms)
        return True

    def _send(self, consumer: Consumer, view: View, room: int, now_ms: int) -> None:
        alone = len(self.consumers) == 1
        entries_max = view.count if alone else self._turn_max
        deliver(consumer, self._source, view, entries_max, self._counts, now_ms, room)
        if consumer.blocked:
            self._stopped[consumer] = None

    def _room(self) -> int:
        """Messages that may go out before the limit is reached; 0 from then on until ``_unblock``."""
        if not self._unacked_max:
            return UNLIMITED
        room = self._unacked_max - self._out.messages
        if room <= 0:
            self._blocked = True
        return 0 if self._blocked else room

    def _unblock(self) -> bool:
        """Less is out: whoever was stopped at a limit goes on from half of it. Whether anyone does."""
        freed = False
        for consumer in list(self._stopped):
            if consumer.unblock():
                del self._stopped[consumer]
                freed = True
        if self._blocked and self._out.messages <= self._unacked_max // 2:
            self._blocked = False
            freed = True
        return freed

    def _next(self) -> View | None:
        """The next entries to be sent, and what is behind them; reads no more than the consumers would take."""
        source = self._source
        if not source.idle or (source.holds and not self._replay):
            return source.next(1)
        permits = sum(consumer.permits for consumer in self.consumers if consumer.can_receive)
        if self._replay:
            source.replay(self._replay.take(min(permits, self._batch_max)))
        elif self._delayed.look_back():
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
        pending = [_pending(each) for each in self.consumers]
        return [
            p
            for p in positions
            if p not in self._delayed and p not in self._replay and p not in parked
            if not any(p in one for one in pending)
        ]

    def _due(self, view: View, special: dict[int, EntryFacts], now_ms: int) -> View | None:
        """The first entries of ``view`` that may go out together, a chunk by itself; None when there are none.

        What is before them is set aside until its time; what is behind them is given back.
        """
        run, start = view.run, view.start
        stop = min(view.stop, start + self._turn_max)
        while start < stop and self._waits(view, start, special, now_ms):
            start += 1
        after = min(start + 1, stop)
        first = special.get(start)
        if first is None or first.chunk is None:
            while after < stop and _may_join(special.get(after), now_ms):
                after += 1
        if after < view.stop:
            self._source.give_back(View(run, after, view.stop))
        return View(run, start, after) if start < after else None

    def _waits(self, view: View, i: int, special: dict[int, EntryFacts], now_ms: int) -> bool:
        facts = special.get(i)
        if facts is None or facts.deliver_at_ms <= now_ms:
            return False
        self._delayed.add(view.run.position(i), facts.deliver_at_ms)
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
        self._replay.add(self._delayed.take(now_ms))
        self._alarm = self._alarm_ms = None
        self._set_alarm(now_ms)
        self.wake()

    def _send_chunk(self, view: View, chunk: Chunk, consumer: Consumer, now_ms: int) -> bool:
        """The one entry of ``view``: all chunks of one message go to one consumer, in order."""
        owner = self._chunks.owner(chunk)
        if owner is None:
            owner = consumer
            self._chunks.keep(chunk, owner)
        elif not owner.can_receive or owner in self._parked:
            return self._park(owner, view)
        self._chunks.done(chunk)
        self._send(owner, view, UNLIMITED, now_ms)
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
                    self._send(owner, view, UNLIMITED, now_ms)
            if not views:
                del self._parked[owner]

    def add(self, consumer: Consumer) -> None:
        _pending(consumer).tally = self._out
        self.consumers.append(consumer)
        self._turns.add(consumer)
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self._turns.remove(consumer)
        self._stopped.pop(consumer, None)
        parked = self._parked.pop(consumer, ())
        self._parked_entries -= len(parked)
        self._chunks.forget(consumer)
        positions = _pending(consumer).take_all()
        if self.consumers:
            self._replay.add(positions)
            self._replay.add(view.run.position(view.start) for view in parked)
            self._unblock()
            self.wake()
        else:
            self.reset()
            self._source.rewind()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        pending = _pending(consumer)
        if positions is None:
            back = pending.take_all()
        else:
            back = [p for p in positions if pending.discard(p.ledger_id, p.entry_id)]
        self._counts.raise_(back)
        self._replay.add(back)
        self._unblock()
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        messages = 0
        waiting = False
        discard = _pending(consumer).discard
        for position in positions:
            if self._counts:
                self._counts.forget(position)
            out = discard(*position) or self._discard_elsewhere(consumer, position)
            if not out:
                waiting, out = True, 1
            messages += out
        if waiting:
            self._acknowledged_waiting()
        if self._unblock() or waiting:
            self.wake()
        return messages

    def _discard_elsewhere(self, consumer: Consumer, position: Position) -> int:
        """The messages for which an entry was out at others; 0 when it waited to be sent (again), if anything."""
        for other in self.consumers:
            if other is not consumer:
                messages = _pending(other).discard(*position)
                if messages:
                    return messages
        self._replay.discard(position)
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

    def acknowledged_partly(self, position: Position, left: int) -> None:
        for holder in self.consumers:
            _pending(holder).left(*position, left)
        if self._unblock():
            self.wake()

    def acknowledged_up_to(self, position: Position) -> None:
        """Only by an administrator (skip, expire): clients cannot acknowledge cumulatively here."""
        for holder in self.consumers:
            _pending(holder).discard_up_to(position)
        self._counts.forget_up_to(position)
        self._replay.discard_up_to(position)
        self._delayed.discard_up_to(position)
        self._acknowledged_waiting()
        self._unblock()
        self.wake()

    def reset(self) -> None:
        self._replay.clear()
        self._delayed.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_ms = None
        self._parked.clear()
        self._parked_entries = 0
        self._chunks.clear()
        self._blocked = False


def _pending(consumer: Consumer) -> PendingAcks:
    assert consumer.pending is not None, (
        "an ordered consumer was attached to a sharing subscription"
    )
    return consumer.pending


def _may_join(facts: EntryFacts | None, now_ms: int) -> bool:
    """Whether an entry may go out together with those before it."""
    return facts is None or (facts.chunk is None and facts.deliver_at_ms <= now_ms)
