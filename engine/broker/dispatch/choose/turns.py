"""Choice of consumers for Shared: in turn, among those of the best priority that can receive."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from engine.base.slices import View
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.redelivery import Lane, ReplayQueue


class Turns:
    """Chooser that gives consumers their turns in order of joining; a new round begins when one joins or leaves."""

    slots_of = None
    binds = False
    drains = False
    look_ahead = 0

    def __init__(self) -> None:
        self.waiting = ReplayQueue()
        self._members: list[Consumer] = []
        self._last = -1
        self._priorities: Counter[int] = Counter()

    def add(self, consumer: Consumer) -> None:
        self._members.append(consumer)
        self._priorities[consumer.priority] += 1
        self._last = -1

    def remove(self, consumer: Consumer) -> None:
        self._members.remove(consumer)
        self._priorities -= Counter({consumer.priority: 1})
        self._last = -1

    def conflict(self, consumer: Consumer) -> None:
        return None

    def next(self) -> Consumer | None:
        members, best = self._members, -1
        one_level = len(self._priorities) < 2
        # Starts behind the consumer of the last turn, which has its next turn after all others of its priority.
        for i in chain(range(self._last + 1, len(members)), range(self._last + 1)):
            member = members[i]
            if member.can_receive and (best < 0 or member.priority < members[best].priority):
                best = i
                if one_level:  # no later consumer can be better
                    break
        if best < 0:
            return None
        self._last = best
        return members[best]

    def lanes(self) -> Sequence[Lane]:
        return (None,)

    def share(self, view: View, turn: Consumer) -> Iterable[tuple[Consumer | None, View]]:
        return ((turn, view),)

    def must_wait(self, view: View, owner: Consumer) -> bool:
        return False

    def wait(self, view: View) -> None:
        self.waiting.add(map(view.run.position, view.indexes))

    def holder(self, slot: int) -> None:
        return None

    def sent(self, consumer: Consumer, view: View) -> None:
        pass

    def released(self, consumer: Consumer, slot: int) -> None:
        pass

    def recount(self) -> None:
        pass

    def key_place(self, key: bytes) -> None:
        return None

    def stats(self) -> dict[Consumer, KeyStats]:
        return {}
