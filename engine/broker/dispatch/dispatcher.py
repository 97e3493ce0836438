"""Dispatchers: read, choose, send. Level-triggered: ``wake`` looks at what is there and sends what may go out now.

Whoever changes something that dispatch waits for calls ``wake``: an append, FLOW, an acknowledgement that unblocks, a
socket that takes data again, a finished read. No timer stands between an append and its delivery. ``paused_for`` names
the event that resumes a pause.
"""

from dataclasses import dataclass
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.redelivery import RedeliveryCounts
from engine.broker.dispatch.source import EntrySource


@dataclass(frozen=True, slots=True)
class DispatchState:
    """How a subscription's dispatch stands.

    ``paused_for``: None while everything is delivered or on its way; else the event waited for. ``active``: the one
    that receives, where there is only one. ``replaying``: entries queued to be sent again. ``delayed``: entries set
    aside until the time they are to be delivered. ``blocked``: at the limit of unacknowledged messages.
    """

    paused_for: str | None
    active: Consumer | None = None
    replaying: int = 0
    delayed: int = 0
    blocked: bool = False


class Dispatcher(Protocol):
    """Delivers a subscription's entries to its consumers."""

    consumers: list[Consumer]

    @property
    def state(self) -> DispatchState: ...

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

    def acknowledged_partly(self, position: Position, left: int) -> None:
        """``left`` messages of a batch are still unacknowledged."""
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
