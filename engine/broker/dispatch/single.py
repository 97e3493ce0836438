"""Dispatchers: read, choose, send. Level-triggered: ``wake`` looks at what is there and sends what may go out now.

Whoever changes something that dispatch waits for calls ``wake``: an append, FLOW, an acknowledgement that unblocks, a
socket that takes data again, a finished read. No timer stands between an append and its delivery. ``paused_for`` names
the event that resumes a pause.
"""

import asyncio
from typing import Protocol

from engine.base.clock import Clock
from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.choosers import choose_active
from engine.broker.dispatch.consumer import UNLIMITED, Consumer, SubscriptionType
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.source import EntrySource
from engine.broker.settings import DataPathSettings
from engine.wire import commands

ACTIVE_CHANGE_VERSION = 12
"""Protocol version from which a client understands ACTIVE_CONSUMER_CHANGE."""


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
    """Exclusive and Failover: everything in storage order to the one active consumer (D8)."""

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

    def acknowledged(self, consumer: Consumer | None, positions: list[Position]) -> int:
        self._source.acknowledged_ahead()
        return len(positions)

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        pass

    def acknowledged_up_to(self, position: Position) -> None:
        self._source.acknowledged_ahead()

    def reset(self) -> None:
        pass


def deliver(
    consumer: Consumer,
    source: EntrySource,
    view: View,
    entries_max: int,
    counts: RedeliveryCounts | None,
    now_ms: int,
    messages_max: int = UNLIMITED,
) -> None:
    """Send the first entries of ``view``, as many as ``consumer`` may take (at least one); the rest is given back.

    No further one is sent once ``messages_max`` messages are.
    """
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
    taken = consumer.take(view, entries_max, messages_max)
    assert taken, "a consumer without room was chosen"
    if taken < view.count:
        source.give_back(View(run, start + taken, view.stop))
        view = View(run, start, start + taken)
    consumer.deliver(view, counts.of(view) if counts is not None else None, now_ms)
