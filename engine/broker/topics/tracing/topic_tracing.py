"""Tracing of single entries of a topic, on request.

A topic that is not being traced has no stage for it, and its consumers and writer have no observer. The number of
traced entries, the time and the memory are bounded.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import View
from engine.broker.context import Context
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.broker.topics.tracing.entry_trace import (
    Delivery,
    EntryTrace,
    TraceContext,
    trace_context,
)
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import metadata_span

KEPT = 20
"""Traces that a topic keeps; the oldest one is dropped."""
SEARCHED_MAX = 64
"""Entries of one run that are searched for a context."""
FOLLOW_S = 600.0
"""Time for which deliveries of a traced entry are observed after the last one was selected."""


class TracedSubscription(Protocol):
    """Parts of a subscription that tracing uses."""

    name: str
    consumers: list[Consumer]

    def acknowledged_whole(self, position: Position, /) -> bool: ...


class TracedHost(Protocol):
    """Parts of a topic that its tracing uses."""

    @property
    def name(self) -> TopicName: ...

    @property
    def context(self) -> Context: ...

    def arrange_stages(self) -> None: ...

    def traced_subscriptions(self) -> Iterable[TracedSubscription]: ...

    def watch_acks(self, observer: Callable[[int, str, int, int], None] | None) -> None: ...


class SubscriptionObserver:
    """Observes deliveries and acknowledgements of one subscription for its topic's tracing."""

    __slots__ = ("_subscription", "_tracing")

    def __init__(self, tracing: "TopicTracing", subscription: TracedSubscription) -> None:
        self._tracing = tracing
        self._subscription = subscription

    def delivered(
        self, consumer_id: int, consumer: str, view: View, redeliveries: list[int] | None
    ) -> None:
        """Note a delivery of the traced entries in ``view``."""
        self._tracing.delivered(self._subscription.name, consumer_id, consumer, view, redeliveries)

    def acknowledged(self) -> None:
        """Note which traced entries the subscription has acknowledged since the last call."""
        self._tracing.acknowledged(self._subscription)


class TopicTracing:
    """The stage that selects entries, and the traces of those that it selected, which end with the topic's unload."""

    place = StagePlace.TRACE

    def __init__(self, host: TracedHost) -> None:
        self._host = host
        self._left = 0
        self._sampled_only = False
        self._traces: deque[EntryTrace] = deque(maxlen=KEPT)
        self._pending: dict[Publish, list[tuple[int, EntryTrace]]] = {}
        self._following = False
        self._timer: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None

    # --- requests -------------------------------------------------------------------------------

    @property
    def wanted(self) -> tuple[Stage, ...]:
        """The stage while entries are to be selected or are not stored yet."""
        return (self,) if self._left or self._pending else ()

    @property
    def left(self) -> int:
        """Number of entries that are still to be selected."""
        return self._left

    def begin(self, entries: int, seconds: float, *, sampled_only: bool) -> None:
        """Select the next ``entries`` entries (at most KEPT) within ``seconds``, in place of an earlier request.

        ``sampled_only``: only entries whose properties have the context of a sampled trace.
        """
        loop = asyncio.get_running_loop()
        self._cancel_timers()
        self._left, self._sampled_only = entries, sampled_only
        self._timer = loop.call_later(seconds, self._stop_selecting)
        self._end = loop.call_later(seconds + FOLLOW_S, self._stop_following)
        self._follow()
        self._host.arrange_stages()

    def documents(self) -> list[dict[str, Any]]:
        """Return the traces, newest first."""
        return [trace.document() for trace in reversed(self._traces)]

    def close(self) -> None:
        """End all observation, with the topic."""
        self._left = 0
        self._cancel_timers()
        self._stop_following()

    def end(self) -> None:
        """End a request and delete the traces."""
        self.close()
        self._traces.clear()
        self._pending.clear()
        self._host.arrange_stages()

    def observer_of(self, subscription: TracedSubscription) -> SubscriptionObserver | None:
        """Return the observer for a consumer of ``subscription``; None while nothing is followed."""
        return SubscriptionObserver(self, subscription) if self._following else None

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._end):
            if timer is not None:
                timer.cancel()
        self._timer = self._end = None

    def _stop_selecting(self) -> None:
        self._left = 0
        self._host.arrange_stages()

    def _follow(self) -> None:
        self._following = True
        self._host.watch_acks(self._bookie_answered)
        for subscription in self._host.traced_subscriptions():
            for consumer in subscription.consumers:
                consumer.observer = SubscriptionObserver(self, subscription)

    def _stop_following(self) -> None:
        self._following = False
        self._host.watch_acks(None)
        for subscription in self._host.traced_subscriptions():
            for consumer in subscription.consumers:
                consumer.observer = None

    # --- the stage ------------------------------------------------------------------------------

    def admit(self, publish: Publish) -> bool:
        """Select entries of the run; it always passes."""
        if not self._left:
            return True
        run, clock = publish.run, self._host.context.clock
        searched = min(run.count, SEARCHED_MAX if self._sampled_only else self._left)
        selected = []
        for i in range(searched):
            context = _context(publish, i)
            if self._sampled_only and (context is None or not context.sampled):
                continue
            entropy = self._host.context.entropy
            now_s = clock.monotonic_s()
            selected.append(
                (
                    i,
                    EntryTrace(
                        context.trace_id if context else entropy.hex(16),
                        entropy.hex(8),
                        context,
                        publish.producer.name if publish.owners is None else publish.owners[i].name,
                        run.messages_of(i, i + 1),
                        run.size_of(i, i + 1),
                        clock.wall_ms() - round((now_s - publish.since_s) * 1000),
                        publish.since_s,
                        now_s,
                    ),
                )
            )
            self._left -= 1
            if not self._left:
                break
        if selected:
            self._traces.extend(trace for _, trace in selected)
            self._pending[publish] = selected
        return True

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        """Note the positions and the time of selected entries that became durable."""
        now_s = self._host.context.clock.monotonic_s()
        for i, trace in self._pending.get(publish, ()):
            if start <= i < stop:
                trace.position = publish.run.position(i)
                trace.stored_s = now_s
        if stop == publish.run.count:
            self._settled(publish)

    def failed(self, publish: Publish, start: int) -> None:
        """Note that selected entries from ``start`` on are not stored, or that it is not known."""
        now_s = self._host.context.clock.monotonic_s()
        for i, trace in self._pending.get(publish, ()):
            if i >= start:
                trace.failed_s = now_s
        self._settled(publish)

    def _settled(self, publish: Publish) -> None:
        if self._pending.pop(publish, None) is not None and not self.wanted:
            self._host.arrange_stages()

    # --- observers ------------------------------------------------------------------------------

    def _bookie_answered(self, ledger_id: int, bookie: str, first: int, count: int) -> None:
        now_s = self._host.context.clock.monotonic_s()
        for publish, selected in self._pending.items():
            run = publish.run
            if run.ledger_id == ledger_id:
                for i, trace in selected:
                    if first <= run.first + i < first + count:
                        trace.bookies.setdefault(bookie, now_s)
        # The write quorum's last bookies answer after the receipt.
        for trace in self._traces:
            position = trace.position
            if (
                position is not None
                and position.ledger_id == ledger_id
                and first <= position.entry_id < first + count
            ):
                trace.bookies.setdefault(bookie, now_s)

    def delivered(
        self,
        subscription: str,
        consumer_id: int,
        consumer: str,
        view: View,
        redeliveries: list[int] | None,
    ) -> None:
        """Note the delivery of ``view`` to a consumer; ``redeliveries`` are those of its entries before."""
        now_s = self._host.context.clock.monotonic_s()
        for trace in self._traces:
            position = trace.position
            if position is None or position.ledger_id != view.ledger_id:
                continue
            index = position.entry_id - view.run.first
            if index not in view.indexes:
                continue
            before = 0 if redeliveries is None else redeliveries[view.indexes.index(index)]
            trace.delivered(Delivery(subscription, consumer, consumer_id, now_s, before))

    def acknowledged(self, subscription: TracedSubscription) -> None:
        """Note which traced entries ``subscription`` has acknowledged now and had not before."""
        now_s = self._host.context.clock.monotonic_s()
        for trace in self._traces:
            if trace.position is None or subscription.name in trace.acknowledged:
                continue
            if subscription.acknowledged_whole(trace.position):
                trace.acknowledged[subscription.name] = now_s
                # Earlier deliveries were taken back: the last one was acknowledged.
                for delivery in reversed(trace.deliveries):
                    if delivery.subscription == subscription.name:
                        delivery.acked_s = now_s
                        break


def _context(publish: Publish, i: int) -> TraceContext | None:
    entry = publish.run.entry(i)
    span = metadata_span(entry, 0, len(entry))
    if span is None:
        return None
    try:
        metadata = pb.MessageMetadata.FromString(entry[span[0] : span[1]])
    except DecodeError:
        return None
    return trace_context({item.key: item.value for item in metadata.properties})
