"""Key_Shared: every key to one consumer, in order also when the key moves (D10)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.base.ids import Position
from engine.base.slices import Pick, Slice, View
from engine.broker.dispatch.choose.keys import (
    NO_SLOT,
    KeyHalves,
    KeyMap,
    KeyPolicy,
    KeyRanges,
    KeyRing,
)
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.facts import facts_of
from engine.broker.dispatch.redelivery import NOWHERE, Lane, ReplayQueue
from engine.broker.settings import DataPathSettings


@dataclass(slots=True)
class Draining:
    """A key's messages at the consumer that had it before: the others wait until it has none of them any more."""

    holder: Consumer
    entries: int = 0
    refused: int = 0


@dataclass(slots=True)
class KeyStats:
    """Of one consumer. ``cleared``: keys that moved away and whose last message here was acknowledged or left."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    draining: dict[int, Draining] = field(default_factory=dict)
    cleared: int = 0


def _key_map(policy: KeyPolicy, settings: DataPathSettings) -> KeyMap[Consumer]:
    if policy.sticky:
        return KeyRanges()
    if settings.subscription_key_shared_use_consistent_hashing:
        return KeyRing(settings.subscription_key_shared_consistent_hashing_replica_points)
    return KeyHalves()


class Sticky:
    """Entries go by the slot of their key."""

    binds = True

    def __init__(self, policy: KeyPolicy, settings: DataPathSettings) -> None:
        self._ordered = not policy.out_of_order
        self._members: list[Consumer] = []
        self._map = _key_map(policy, settings)
        self._slot_of = self._map.slot_of
        self._ahead_each = settings.key_shared_look_ahead_msg_in_replay_threshold_per_consumer
        self._ahead_max = settings.key_shared_look_ahead_msg_in_replay_threshold_per_subscription
        self._draining: dict[int, Draining] = {}
        self._cleared: dict[Consumer, int] = {}
        self.waiting = ReplayQueue(self._lane)

    def slots_of(self, run: Slice) -> list[int]:
        return facts_of(run).slots(run, self._slot_of)

    # --- members --------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        self._members.append(consumer)
        self._map.add(consumer, consumer.name, consumer.keys or KeyPolicy())
        self.recount()

    def remove(self, consumer: Consumer) -> None:
        self._members.remove(consumer)
        self._map.remove(consumer)
        self._cleared.pop(consumer, None)
        self.recount()

    def conflict(self, consumer: Consumer) -> Consumer | None:
        return None if consumer.keys is None else self._map.conflict(consumer.keys)

    def recount(self) -> None:
        """Look through all that is out for keys that are not their holder's: they are drained there first."""
        before, self._draining = self._draining, {}
        if self._ordered:
            for member in self._members:
                pending = member.pending
                for slot in pending.slots() if pending is not None else ():
                    if slot != NO_SLOT and self._map.owner(slot) is not member:
                        self._drain(slot, member, before)
        self.waiting.relane()

    def _drain(self, slot: int, holder: Consumer, before: dict[int, Draining]) -> None:
        known = self._draining.get(slot)
        if known is None:
            old = before.get(slot)
            refused = old.refused if old is not None and old.holder is holder else 0
            known = self._draining[slot] = Draining(holder, refused=refused)
        known.entries += 1

    # --- choosing -------------------------------------------------------------------------------

    @property
    def look_ahead(self) -> int:
        each, most = self._ahead_each * len(self._members), self._ahead_max
        return min(each, most) if each and most else each or most

    @property
    def drains(self) -> bool:
        return bool(self._draining)

    def next(self) -> Consumer | None:
        return next((each for each in self._members if each.can_receive), None)

    def lanes(self) -> Sequence[Lane]:
        return [None, *(each for each in self._members if each.can_receive)]

    def _lane(self, slot: int) -> Lane:
        if slot == NO_SLOT:
            return None
        owner = self._map.owner(slot)
        known = self._draining.get(slot)
        if owner is None or (known is not None and known.holder is not owner):
            return NOWHERE  # nobody has it, or another still holds messages of it
        return owner

    def share(self, view: View, turn: Consumer) -> Iterable[tuple[Consumer | None, View]]:
        run = view.run
        slots, owner_of = self.slots_of(run), self._map.owner
        blocked = [kept for kept in (self._draining, self.waiting.slots) if kept and self._ordered]
        shares: dict[Consumer | None, list[int]] = {}
        for i in view.indexes:
            slot = slots[i]
            owner = owner_of(slot)
            for kept in blocked:
                if slot in kept and owner and self._must_wait(slot, run.position(i), owner):
                    owner = None
            shares.setdefault(owner, []).append(i)
        return [(owner, Pick(run, indexes)) for owner, indexes in shares.items()]

    def must_wait(self, view: View, owner: Consumer) -> bool:
        run, i = view.run, view.start
        slot = self.slots_of(run)[i]
        return self._ordered and self._must_wait(slot, run.position(i), owner)

    def _must_wait(self, slot: int, position: Position, owner: Consumer) -> bool:
        known = self._draining.get(slot)
        if known is not None and known.holder is not owner:
            known.refused += 1
            return True
        first = self.waiting.first(slot)
        return first is not None and first < position

    def wait(self, view: View) -> None:
        run = view.run
        slots = self.slots_of(run)
        for i in view.indexes:
            self.waiting.add((run.position(i),), slots[i])

    def holder(self, slot: int) -> Consumer | None:
        known = self._draining.get(slot)
        return self._map.owner(slot) if known is None else known.holder

    def sent(self, consumer: Consumer, view: View) -> None:
        slot = self.slots_of(view.run)[view.start]
        if self._ordered and self._map.owner(slot) is not consumer:
            self._drain(slot, consumer, {})

    def released(self, consumer: Consumer, slot: int) -> None:
        known = self._draining.get(slot)
        if known is None or known.holder is not consumer:
            return
        known.entries -= 1
        if known.entries:
            return
        del self._draining[slot]
        self._cleared[consumer] = self._cleared.get(consumer, 0) + 1
        self.waiting.freed(slot)

    def stats(self) -> dict[Consumer, KeyStats]:
        found = {each: KeyStats(cleared=self._cleared.get(each, 0)) for each in self._members}
        for member, start, end in self._map.ranges():
            ranges = found[member].ranges
            if ranges and ranges[-1][1] + 1 == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
        for slot, known in self._draining.items():
            found[known.holder].draining[slot] = known
        return found
