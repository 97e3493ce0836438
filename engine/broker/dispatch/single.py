"""Exclusive and Failover: everything in storage order to the one active consumer (D8)."""

import asyncio

from engine.base.ids import Position
from engine.broker.context import Context
from engine.broker.dispatch.choose.active import choose_active
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.dispatcher import DispatchState, deliver
from engine.broker.dispatch.source import EntrySource
from engine.wire import commands

ACTIVE_CHANGE_VERSION = 12
"""Protocol version from which a client understands ACTIVE_CONSUMER_CHANGE."""


class SingleDispatcher:
    """One consumer is active; with Failover the others stand by."""

    def __init__(
        self,
        kind: SubscriptionType,
        source: EntrySource,
        context: Context,
        *,
        topic: str,
        partition: int,
    ) -> None:
        self._kind = kind
        self._source = source
        self._clock = context.clock
        self._topic = topic
        self._partition = partition
        self._delay_s = context.settings.active_consumer_failover_delay_time_millis / 1000
        self.consumers: list[Consumer] = []
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
        return self._active.paused_for or self._source.waiting_for

    def key_stats(self) -> dict[Consumer, KeyStats]:
        return {}

    def held(self) -> None:
        return None

    def conflict(self, consumer: Consumer) -> Consumer | None:
        exclusive = self._kind == SubscriptionType.EXCLUSIVE
        return self.consumers[0] if exclusive and self.consumers else None

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
            rest = deliver(consumer, source, view, view.count, None, now_ms)
            if rest is not None:
                source.give_back(rest)

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._choose(newcomer=consumer)

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if consumer is self._active:
            self._active = None
            self._end_handover()  # it was to him; the source may be another dispatcher's by then
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
        self._end_handover()
        if after is None:
            return
        if alone or self._kind == SubscriptionType.EXCLUSIVE or not self._delay_s:
            self._take_over()
        else:
            # Consumers come and go in flocks; the pause saves rereading the backlog for each of them.
            loop = asyncio.get_running_loop()
            self._handover = loop.call_later(self._delay_s, self._take_over)

    def _end_handover(self) -> None:
        if self._handover is not None:
            self._handover.cancel()
            self._handover = None

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

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        self._source.acknowledged_ahead()
        return len(positions)

    def acknowledged_partly(self, position: Position, left: int) -> None:
        pass

    def acknowledged_up_to(self, position: Position) -> None:
        self._source.acknowledged_ahead()

    def reset(self) -> None:
        pass
