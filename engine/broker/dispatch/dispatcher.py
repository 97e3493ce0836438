"""Dispatchers: read, choose, send. Level-triggered: ``wake`` looks at what is there and sends what may go out now.

Whoever changes something that dispatch waits for calls ``wake``: an append, FLOW, an acknowledgement that unblocks, a
socket that takes data again, a finished read, tokens of a dispatch rate. No timer stands between an append and its
delivery but that of a rate. ``paused_for`` names the event that resumes a pause.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.source import EntrySource
from engine.broker.dispatch.throttle import Throttle
from engine.broker.ports import TopicPolicies


@dataclass(frozen=True, slots=True)
class DispatchState:
    """How a subscription's dispatch stands.

    ``paused_for``: None while everything is delivered or on its way; else the event waited for. ``active``: the one
    that receives, where there is only one. ``replaying``: entries queued to be sent again. ``delayed``: entries set
    aside until the time they are to be delivered; ``delayed_bytes``: what that takes in memory. ``blocked``: at the
    limit of unacknowledged messages.
    """

    paused_for: str | None
    active: Consumer | None = None
    replaying: int = 0
    delayed: int = 0
    blocked: bool = False
    delayed_bytes: int = 0


class Held(NamedTuple):
    """Entries, of about so many keys, that wait for ``owner`` because nobody else may have them."""

    owner: Consumer
    entries: int
    keys: int


class Dispatcher(Protocol):
    """Delivers a subscription's entries to its consumers."""

    consumers: list[Consumer]
    """By priority level, where one counts; then in order of joining, of Failover by name."""

    @property
    def state(self) -> DispatchState: ...

    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        """By consumer, of a Key_Shared subscription; empty for all else."""
        ...

    def held(self) -> Held | None:
        """Of the consumer for which most waits, where entries are bound to one."""
        ...

    def conflict(self, consumer: Consumer) -> Consumer | None:
        """Who keeps ``consumer`` from joining, of the same type as itself."""
        ...

    def apply(self, policies: TopicPolicies) -> None:
        """The topic's policies in force are others now."""
        ...

    def hold(self, on: bool) -> None:
        """Whether nothing may be sent because too much is out at all consumers of the broker."""
        ...

    def wake(self) -> None: ...

    def add(self, consumer: Consumer) -> None: ...

    def remove(self, consumer: Consumer) -> None:
        """Its unacknowledged entries go back to be delivered again."""
        ...

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        """Explicitly given back by ``consumer``; None: all it holds."""
        ...

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        """Entries were acknowledged through ``consumer``; messages they counted for where that is known."""
        ...

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        """Through ``consumer``; ``left`` messages of a batch are still unacknowledged."""
        ...

    def acknowledged_up_to(self, position: Position) -> None: ...

    def reset(self) -> None:
        """The cursor was moved: nothing that is held or queued counts any more."""
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
    """Send the first entries of ``view``, as many as ``consumer`` may take (at least one); returns the rest.

    No further one is sent once ``messages_max`` messages are, or ``throttle``, which is open, allows no more.
    """
    count = view.count
    limited = throttle.limits
    if limited:
        entries_max = min(entries_max, throttle.fitting(view))
    partial = source.first_partial(view)
    if partial == 0:
        one = view.part(0, 1)
        ack_set = source.cursor.ack_set(view.run.position(view.start))
        redelivered = (counts.of(one) or [0])[0] if counts is not None else 0
        consumer.deliver_partly(one, list(ack_set or ()), redelivered, now_ms)
        if limited:
            throttle.sent(one)
        return view.part(1, count) if count > 1 else None
    if partial is not None:
        entries_max = min(entries_max, partial)
    taken = consumer.take(view, entries_max, messages_max)
    assert taken, "a consumer without room was chosen"
    sent = view.part(0, taken) if taken < count else view
    consumer.deliver(sent, counts.of(sent) if counts is not None else None, now_ms)
    if limited:
        throttle.sent(sent)
    return view.part(taken, count) if taken < count else None
