"""Choice of consumers for Key_Shared: each key has one consumer and stays in order, also when it moves (D10)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
    """Unacknowledged entries of a slot at its former owner; the slot's other entries wait until there are none.

    ``refused`` counts the entries that had to wait.
    """

    holder: Consumer
    entries: int = 0
    refused: int = 0


@dataclass(slots=True)
class KeyStats:
    """Statistics of one consumer. ``cleared``: number of slots that moved away and were drained."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    draining: dict[int, Draining] = field(default_factory=dict)
    cleared: int = 0


class KeyPlace(NamedTuple):
    """Place of a key: its slot, the consumer that owns it and the owner's range, which are None without an owner,
    and the former owner that has unacknowledged entries of the slot, for which the others wait."""

    slot: int
    owner: Consumer | None
    range: tuple[int, int] | None
    draining: Draining | None


def _key_map(policy: KeyPolicy, settings: DataPathSettings) -> KeyMap[Consumer]:
    if policy.sticky:
        return KeyRanges()
    if settings.subscription_key_shared_use_consistent_hashing:
        return KeyRing(settings.subscription_key_shared_consistent_hashing_replica_points)
    return KeyHalves()


class Sticky:
    """Chooser that binds each entry to the owner of its key's slot."""

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
        return facts_of(run, wanted=0).slots(run, self._slot_of)

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
        """Find all unacknowledged entries whose slot their consumer does not own: they are drained there first."""
        previous, self._draining = self._draining, {}
        if self._ordered:
            for member in self._members:
                pending = member.pending
                for slot in pending.slots() if pending is not None else ():
                    if slot != NO_SLOT and self._map.owner(slot) is not member:
                        self._drain(slot, member, previous)
        self.waiting.assign_lanes()

    def _drain(self, slot: int, holder: Consumer, previous: dict[int, Draining]) -> None:
        """Count one entry of a slot that drains at ``holder``. ``previous`` has the counts of refusals to keep."""
        draining = self._draining.get(slot)
        if draining is None:
            old = previous.get(slot)
            refused = old.refused if old is not None and old.holder is holder else 0
            draining = self._draining[slot] = Draining(holder, refused=refused)
        draining.entries += 1

    # --- choosing -------------------------------------------------------------------------------

    @property
    def look_ahead(self) -> int:
        of_consumers, limit = self._ahead_each * len(self._members), self._ahead_max
        return min(of_consumers, limit) if of_consumers and limit else of_consumers or limit

    @property
    def drains(self) -> bool:
        return bool(self._draining)

    def next(self) -> Consumer | None:
        return next((member for member in self._members if member.can_receive), None)

    def lanes(self) -> Sequence[Lane]:
        return [None, *(member for member in self._members if member.can_receive)]

    def _lane(self, slot: int) -> Lane:
        if slot == NO_SLOT:
            return None
        owner = self._map.owner(slot)
        draining = self._draining.get(slot)
        if owner is None or (draining is not None and draining.holder is not owner):
            return NOWHERE  # no consumer owns the slot, or its former owner has unacknowledged entries of it
        return owner

    def share(self, view: View, turn: Consumer) -> Iterable[tuple[Consumer | None, View]]:
        run = view.run
        slots, owner_of = self.slots_of(run), self._map.owner
        # Both are usually empty, so that most entries are not checked one by one.
        blocked = [
            table for table in (self._draining, self.waiting.slots) if table and self._ordered
        ]
        shares: dict[Consumer | None, list[int]] = {}
        for i in view.indexes:
            slot = slots[i]
            owner = owner_of(slot)
            for table in blocked:
                if slot in table and owner and self._must_wait(slot, run.position(i), owner):
                    owner = None
            shares.setdefault(owner, []).append(i)
        return [(owner, Pick(run, indexes)) for owner, indexes in shares.items()]

    def must_wait(self, view: View, owner: Consumer) -> bool:
        run, i = view.run, view.start
        slot = self.slots_of(run)[i]
        return self._ordered and self._must_wait(slot, run.position(i), owner)

    def _must_wait(self, slot: int, position: Position, owner: Consumer) -> bool:
        draining = self._draining.get(slot)
        if draining is not None and draining.holder is not owner:
            draining.refused += 1
            return True
        # An earlier entry of the slot that is to be sent again goes before this one.
        first = self.waiting.first(slot)
        return first is not None and first < position

    def wait(self, view: View) -> None:
        run = view.run
        slots = self.slots_of(run)
        for i in view.indexes:
            self.waiting.add((run.position(i),), slots[i])

    def holder(self, slot: int) -> Consumer | None:
        draining = self._draining.get(slot)
        return self._map.owner(slot) if draining is None else draining.holder

    def sent(self, consumer: Consumer, view: View) -> None:
        slot = self.slots_of(view.run)[view.start]
        if self._ordered and self._map.owner(slot) is not consumer:
            self._drain(slot, consumer, {})

    def released(self, consumer: Consumer, slot: int) -> None:
        draining = self._draining.get(slot)
        if draining is None or draining.holder is not consumer:
            return
        draining.entries -= 1
        if draining.entries:
            return
        del self._draining[slot]
        self._cleared[consumer] = self._cleared.get(consumer, 0) + 1
        self.waiting.restore_lane(slot)

    def key_place(self, key: bytes) -> KeyPlace:
        slot = self._slot_of(key)
        owner, draining = self._map.owner(slot), self._draining.get(slot)
        ranges = [] if owner is None else self.stats()[owner].ranges
        its_range = next((ends for ends in ranges if ends[0] <= slot <= ends[1]), None)
        is_elsewhere = draining is not None and draining.holder is not owner
        return KeyPlace(slot, owner, its_range, draining if is_elsewhere else None)

    def stats(self) -> dict[Consumer, KeyStats]:
        stats = {member: KeyStats(cleared=self._cleared.get(member, 0)) for member in self._members}
        for member, start, end in self._map.ranges():
            ranges = stats[member].ranges
            # Adjacent points of the ring make one range.
            if ranges and ranges[-1][1] + 1 == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
        for slot, draining in self._draining.items():
            stats[draining.holder].draining[slot] = draining
        return stats
