"""Dispatchers: read, choose, send. They are level-triggered: ``wake`` sends all that may be sent in the present state.

Each event that dispatch waits for calls ``wake``: an append, FLOW, an acknowledgement that unblocks, a socket that
accepts data again, a finished read, tokens of a dispatch rate. The timer of a rate is the only one between an append
and its delivery (D2). ``paused_for`` names the event that resumes a pause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.choose.sticky import KeyPlace, KeyStats
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.delays.delayed import DelayIndex
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import (
    DispatchPolicies,
)


@dataclass(frozen=True, slots=True)
class DispatchState:
    """State of a subscription's dispatch.

    ``paused_for``: the event waited for; None while everything is delivered or being delivered. ``active``: the
    consumer that receives, where there is only one. ``replaying``: entries queued to be sent again. ``delayed``:
    entries set aside until their delivery time; ``delayed_bytes``: their size in memory. ``blocked``: whether the limit
    of unacknowledged messages is reached.
    """

    paused_for: str | None
    active: Consumer | None = None
    replaying: int = 0
    delayed: int = 0
    blocked: bool = False
    delayed_bytes: int = 0


class Held(NamedTuple):
    """Number of entries, and of their keys' slots, that wait for ``owner`` because they are bound to it."""

    owner: Consumer
    entries: int
    keys: int


class Dispatcher(Protocol):
    """Delivers a subscription's entries to its consumers."""

    consumers: list[Consumer]
    """Sorted by priority level, where it counts; then in order of joining, for Failover by name."""

    @property
    def state(self) -> DispatchState: ...

    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        """Return statistics by consumer of a Key_Shared subscription; an empty mapping for other types."""
        ...

    def key_place(self, key: bytes) -> KeyPlace | None:
        """Return where a key of a Key_Shared subscription belongs; None for other types."""
        ...

    def parked_for(self, position: Position) -> Consumer | None:
        """Return the consumer that an entry waits for in memory because it is bound to it; None for other entries."""
        ...

    @property
    def delays(self) -> DelayIndex | None:
        """Entries set aside until their delivery time; None for types that deliver at once."""
        ...

    def held(self) -> Held | None:
        """Return the entries bound to the consumer for which most entries wait; None without any."""
        ...

    def conflict(self, consumer: Consumer) -> Consumer | None:
        """Return the consumer of the same type that keeps ``consumer`` from joining; None without one."""
        ...

    def apply(self, policies: DispatchPolicies) -> None:
        """Apply the topic's policies, after they changed."""
        ...

    def hold(self, on: bool) -> None:
        """Stop or resume sending, because of the limit of unacknowledged messages of the whole broker."""
        ...

    def wake(self) -> None: ...

    def add(self, consumer: Consumer) -> None: ...

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; its unacknowledged entries are delivered again."""
        ...

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        """Deliver entries again that ``consumer`` gave back; None: all its unacknowledged entries."""
        ...

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        """Handle the acknowledgement of entries through ``consumer``; return the messages they counted for.

        Where the messages of an entry are not known, it counts for one.
        """
        ...

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        """Handle the acknowledgement of a part of a batch; ``left`` of its messages are still unacknowledged."""
        ...

    def acknowledged_up_to(self, position: Position) -> None: ...

    def released(self, positions: Sequence[Position]) -> None:
        """Deliver entries again whose acknowledgement was undone, wherever they are; Exclusive and Failover deliver
        all that is unacknowledged again."""
        ...


def deliver(
    consumer: Consumer,
    source: EntrySource,
    view: View,
    entries_max: int,
    counts: RedeliveryCounts | None,
    now_ms: int,
    throttle: Throttle,
    messages_max: int = UNLIMITED,
) -> View | None:
    """Send the first entries of ``view``, as many as ``consumer`` has room for, at least one; return the others.

    No further entry is sent once ``messages_max`` messages are, or once ``throttle``, which is open, allows no more.
    """
    count = view.count
    limited = throttle.limits
    if limited:
        entries_max = min(entries_max, throttle.fitting(view))
    partial = source.first_partial(view)
    if partial == 0:
        batch = view.part(0, 1)
        ack_set = source.cursor.ack_set(view.run.position(view.start))
        redelivered = (counts.of(batch) or [0])[0] if counts is not None else 0
        consumer.deliver_partly(batch, list(ack_set or ()), redelivered, now_ms)
        if limited:
            throttle.sent(batch)
        return view.part(1, count) if count > 1 else None
    if partial is not None:  # a partly acknowledged batch is sent by itself, with its set
        entries_max = min(entries_max, partial)
    taken = consumer.take(view, entries_max, messages_max)
    assert taken, "a consumer without room was chosen"
    sent = view.part(0, taken) if taken < count else view
    consumer.deliver(sent, counts.of(sent) if counts is not None else None, now_ms)
    if limited:
        throttle.sent(sent)
    return view.part(taken, count) if taken < count else None
