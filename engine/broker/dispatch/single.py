"""Dispatch of Exclusive and Failover: everything in storage order to the one active consumer (D8)."""

import asyncio
from bisect import insort
from collections.abc import Callable, Sequence

from engine.base.ids import Position
from engine.broker.context import Context
from engine.broker.dispatch.choose.active import choose_active, rank
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.dispatcher import DispatchState, deliver
from engine.broker.dispatch.facts import CHUNK_BYTES, MARKER, chunks_of
from engine.broker.dispatch.ports import DispatchCursor
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import (
    DispatchPolicies,
)
from engine.wire import commands

ACTIVE_CHANGE_VERSION = 12
"""Protocol version from which a client understands ACTIVE_CONSUMER_CHANGE."""


class SingleDispatcher:
    """Dispatcher with one active consumer; with Failover the others are on standby. ``consumers`` is sorted by rank."""

    def __init__(
        self,
        kind: SubscriptionType,
        source: EntrySource,
        context: Context,
        throttle: Throttle,
        consumers: list[Consumer],
        *,
        topic: str,
        partition: int,
        entries_for: Callable[[Consumer], DispatchCursor],
    ) -> None:
        """Create a dispatcher without consumers. ``entries_for`` returns the cursor that an active consumer reads."""
        self._entries_for = entries_for
        self._kind = kind
        self._source = source
        source.wanted = MARKER
        self._throttle = throttle
        self._clock = context.clock
        self._topic = topic
        self._partition = partition
        self._delay_s = context.settings.active_consumer_failover_delay_time_millis / 1000
        self._by_ring = context.settings.active_consumer_failover_consistent_hashing
        self.consumers = consumers
        self._active: Consumer | None = None
        self._handover: asyncio.TimerHandle | None = None
        self._waking = False

    @property
    def state(self) -> DispatchState:
        return DispatchState(self._paused_for(), self._active)

    def _paused_for(self) -> str | None:
        if self._active is None:
            return "consumer"
        if self._handover is not None:
            return "handover"
        if self._active.can_receive and self._throttle.stopped:
            return "rate"
        return self._active.paused_for or self._source.waiting_for

    def key_stats(self) -> dict[Consumer, KeyStats]:
        return {}

    def key_place(self, key: bytes) -> None:
        return None

    def parked_for(self, position: Position) -> None:
        return None

    @property
    def delays(self) -> None:
        return None

    def held(self) -> None:
        return None

    def conflict(self, consumer: Consumer) -> Consumer | None:
        exclusive = self._kind == SubscriptionType.EXCLUSIVE
        return self.consumers[0] if exclusive and self.consumers else None

    def apply(self, policies: DispatchPolicies) -> None:
        pass

    def hold(self, on: bool) -> None:
        pass

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
        source, throttle, now_ms = self._source, self._throttle, self._clock.wall_ms()
        while consumer.can_receive and (not throttle.limits or throttle.opens()):
            view = source.next(consumer.permits)
            if view is None:
                return
            rest = deliver(consumer, source, view, view.count, None, now_ms, throttle)
            run = view.run
            if run.size >= CHUNK_BYTES * run.count:
                sent = view if rest is None else view.part(0, view.count - rest.count)
                consumer.chunks.total += chunks_of(sent)
            if rest is not None:
                source.give_back(rest)

    def add(self, consumer: Consumer) -> None:
        insort(self.consumers, consumer, key=lambda member: rank(member.priority, member.name))
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
            by_ring=self._by_ring,
        )
        previous = self._active
        active = None if chosen is None else self.consumers[chosen]
        self._active = active
        if active is None:
            self._end_handover()  # the source may belong to another dispatcher when the timer ends
        elif active is previous:
            if newcomer is not None:
                self._notify(newcomer)
        elif not self._delay_s or (len(self.consumers) == 1 and newcomer is not None):
            self._end_handover()
            self._take_over()
        elif self._handover is None:
            # Many consumers connect or leave together; the delay saves reading the backlog again for each of them.
            loop = asyncio.get_running_loop()
            self._handover = loop.call_later(self._delay_s, self._take_over)

    def _end_handover(self) -> None:
        if self._handover is not None:
            self._handover.cancel()
            self._handover = None

    def _take_over(self) -> None:
        self._handover = None
        assert self._active is not None
        self._source.read_from(self._entries_for(self._active))
        for consumer in self.consumers:
            self._notify(consumer)
        self.wake()

    def _notify(self, consumer: Consumer) -> None:
        """Notify a Failover consumer whether it is active, unless its client is too old."""
        if self._kind == SubscriptionType.FAILOVER and (
            consumer.outlet.protocol_version >= ACTIVE_CHANGE_VERSION
        ):
            is_active = consumer is self._active
            consumer.notify(commands.active_consumer_change(consumer.consumer_id, is_active))

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        if consumer is self._active:
            self._source.rewind()
            self.wake()

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        self._source.acknowledged_ahead()
        return len(positions)

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        pass

    def acknowledged_up_to(self, position: Position) -> None:
        self._source.acknowledged_ahead()

    def released(self, positions: Sequence[Position]) -> None:
        if self._active is not None:
            self._source.rewind()
            self.wake()
