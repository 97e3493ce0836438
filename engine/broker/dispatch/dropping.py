"""Dispatch of entries that are not stored to several consumers: those that have room now receive them."""

from collections.abc import Mapping, Sequence

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.context import Context
from engine.broker.control.counters import Rate
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.choose.sticky import KeyPlace, KeyStats
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.dispatcher import DispatchState
from engine.broker.dispatch.facts import MARKER
from engine.broker.dispatch.source import EntrySource
from engine.broker.policies import (
    DispatchPolicies,
)


class DroppingDispatcher:
    """Dispatcher of a non-persistent topic: no entry is sent again or acknowledged.

    Entries for which no consumer has room stay in the source, whose owner drops them. Entries for which the consumer of
    their key has no room are dropped here, their messages counted in ``dropped``.
    """

    def __init__(
        self,
        source: EntrySource,
        context: Context,
        chooser: Chooser,
        dropped: Rate,
        consumers: list[Consumer],
    ) -> None:
        self._source = source
        source.wanted = MARKER
        self._clock = context.clock
        self._context = context
        self._turn_max = context.settings.dispatcher_max_round_robin_batch_size
        self._chooser = chooser
        self._dropped = dropped
        self.consumers = consumers

    @property
    def state(self) -> DispatchState:
        reasons = [consumer.paused_for for consumer in self.consumers]
        if not reasons:
            return DispatchState("consumer")
        return DispatchState(reasons[0] if all(reasons) else "append")

    def key_stats(self) -> Mapping[Consumer, KeyStats]:
        return self._chooser.stats()

    def key_place(self, key: bytes) -> KeyPlace | None:
        return self._chooser.key_place(key)

    def parked_for(self, position: Position) -> None:
        return None

    @property
    def delays(self) -> None:
        return None

    def held(self) -> None:
        return None

    def conflict(self, consumer: Consumer) -> Consumer | None:
        return self._chooser.conflict(consumer)

    def apply(self, policies: DispatchPolicies) -> None:
        self._turn_max = self._context.settings.dispatcher_max_round_robin_batch_size

    def hold(self, on: bool) -> None:
        pass

    def wake(self) -> None:
        now_ms = self._clock.wall_ms()
        while (view := self._source.next(UNLIMITED)) is not None:
            turn = self._chooser.next()
            if turn is None:
                self._source.give_back(view)
                return
            for owner, part in self._chooser.share(view, turn):
                self._send(owner, part, now_ms)

    def _send(self, owner: Consumer | None, view: View, now_ms: int) -> None:
        taken = 0
        if owner is not None and owner.can_receive:
            unshared = self._chooser.binds or len(self.consumers) == 1
            taken = owner.take(view, view.count if unshared else self._turn_max, UNLIMITED)
            owner.deliver(view.part(0, taken), None, now_ms)
        if taken < view.count:
            rest = view.part(taken, view.count)
            # Given back, bound entries would be offered to the same full consumer for ever.
            if self._chooser.binds:
                self._dropped.total += rest.messages
            else:
                self._source.give_back(rest)

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._chooser.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self._chooser.remove(consumer)

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        pass

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> int:
        return 0

    def acknowledged_partly(self, consumer: Consumer, position: Position, left: int) -> None:
        pass

    def acknowledged_up_to(self, position: Position) -> None:
        pass

    def released(self, positions: Sequence[Position]) -> None:
        pass
