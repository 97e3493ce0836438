"""Messages out at consumers (D3) and messages to send again (D4, D10), where consumers share a subscription. Pure.

Both are kept as plain integers (ledger id → entry id → messages left in the entry), so that a run of entries is added
with one dictionary update, and nothing is allocated per message but the dictionary's slot.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, repeat

from engine.base.ids import Position
from engine.base.slices import Slice, View
from engine.broker.dispatch.choose.keys import NO_SLOT

SlotsOf = Callable[[Slice], Sequence[int]]
"""Slots of the keys of a slice's entries."""
Lane = Hashable
"""Whose turn it is: a consumer, or None for anybody."""
NOWHERE = "nowhere"
"""Lane of what nobody may have now."""
_SLOT_SHIFT = 32
_MESSAGES = (1 << _SLOT_SHIFT) - 1


class Tally:
    """Messages out at all consumers of a subscription together."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class PendingAcks:
    """Entries that one consumer holds unacknowledged. ``messages`` counts the messages in them, and so does ``tally``
    together with the other consumers'. With ``slots_of`` the slots of their keys are kept with them, above the
    messages of each.

    An entry that an administrator or a policy passed counts no more, but its client still works on it: ``passed`` keeps
    the last one of each slot, until the client is done with it or leaves.
    """

    __slots__ = ("_ledgers", "messages", "passed", "slots_of", "tally")

    def __init__(self) -> None:
        self._ledgers: dict[int, dict[int, int]] = {}
        self.messages = 0
        self.passed: dict[Position, int] = {}
        """Slots, by position; of each slot one."""
        self.tally = Tally()
        self.slots_of: SlotsOf | None = None

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position[1] in self._ledgers.get(position[0], ())

    def add(self, view: View) -> None:
        """The entries of ``view`` were sent."""
        run, indexes = view.run, view.indexes
        counts = run.counts
        if counts is None:
            self._add(run, indexes, repeat(1), view.count)
        else:
            part = [counts[i] for i in indexes]
            self._add(run, indexes, part, sum(part))

    def add_part(self, view: View, messages: int) -> None:
        """The one entry of ``view`` was sent, of which only ``messages`` (>= 1) were unacknowledged."""
        self._add(view.run, view.indexes, (messages,), messages)

    def _add(self, run: Slice, indexes: Sequence[int], counts: Iterable[int], total: int) -> None:
        entries = self._ledgers.setdefault(run.ledger_id, {})
        before, first = len(entries), run.first
        ids = [first + i for i in indexes]
        if self.slots_of is not None:
            slots = self.slots_of(run)
            counts = [slots[i] << _SLOT_SHIFT | n for i, n in zip(indexes, counts, strict=False)]
        entries.update(zip(ids, counts, strict=False))
        assert len(entries) - before == len(ids), "an entry was sent twice to one consumer"
        self._count(total)

    def _count(self, messages: int) -> None:
        self.messages += messages
        self.tally.messages += messages

    def slot(self, ledger_id: int, entry_id: int) -> int:
        """Of a pending entry's key; NO_SLOT of any other."""
        return self._ledgers.get(ledger_id, {}).get(entry_id, 0) >> _SLOT_SHIFT

    def slots(self) -> Iterator[int]:
        """Of all pending entries, and those passed."""
        pending = (held >> _SLOT_SHIFT for one in self._ledgers.values() for held in one.values())
        return chain(pending, self.passed.values())

    def discard(self, ledger_id: int, entry_id: int) -> int:
        """Forget one entry; the messages it still counted for, 0 when it was not pending."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return 0
        messages = entries.pop(entry_id, 0) & _MESSAGES
        if not entries:
            del self._ledgers[ledger_id]
        self.messages -= messages
        self.tally.messages -= messages
        return messages

    def discard_all(self, positions: Sequence[Position]) -> tuple[int, list[Position]]:
        """Forget entries; the messages they still counted for, and those of them that were not pending."""
        if len(positions) == 1:
            messages = self.discard(*positions[0])
            return messages, [] if messages else [*positions]
        messages, missing = 0, []
        present = -1
        entries: dict[int, int] = {}
        for position in positions:
            ledger_id, entry_id = position
            if ledger_id != present:
                self._drop_if_empty(present)
                present, entries = ledger_id, self._ledgers.get(ledger_id, {})
            held = entries.pop(entry_id, 0) & _MESSAGES
            if held:
                messages += held
            else:
                missing.append(position)
        self._drop_if_empty(present)
        self._count(-messages)
        return messages, missing

    def among(self, wanted: Mapping[int, set[int]]) -> list[Position]:
        """The pending ones of these entry ids by ledger: as much work as the fewer of both are."""
        return [
            Position(ledger_id, entry_id)
            for ledger_id in self._ledgers.keys() & wanted.keys()
            for entry_id in self._ledgers[ledger_id].keys() & wanted[ledger_id]
        ]

    def _drop_if_empty(self, ledger_id: int) -> None:
        if ledger_id in self._ledgers and not self._ledgers[ledger_id]:
            del self._ledgers[ledger_id]

    def left(self, ledger_id: int, entry_id: int, messages: int) -> int:
        """Only ``messages`` (>= 1) of a pending entry are still unacknowledged; how many that took off."""
        entries = self._ledgers.get(ledger_id, {})
        held = entries.get(entry_id, 0)
        before = held & _MESSAGES
        if before <= messages:
            return 0
        entries[entry_id] = held - before + messages
        self._count(messages - before)
        return before - messages

    def pass_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged, not by the client."""
        last = {slot: one for one, slot in self.passed.items()}
        for ledger_id in sorted(each for each in self._ledgers if each <= position.ledger_id):
            entries = self._ledgers[ledger_id]
            gone = [*entries] if ledger_id < position.ledger_id else _up_to(position, entries)
            if self.slots_of is not None:
                last |= {entries[i] >> _SLOT_SHIFT: Position(ledger_id, i) for i in sorted(gone)}
            self._count(-sum([entries.pop(i) & _MESSAGES for i in gone]))
            self._drop_if_empty(ledger_id)
        self.passed = {one: slot for slot, one in last.items()}

    def done(self, position: Position) -> int:
        """The client is done with an entry that was passed: its slot, NO_SLOT when it is none of them."""
        return self.passed.pop(position, NO_SLOT)

    def take_all(self) -> dict[Position, int]:
        """All positions, in order, and their slots; afterwards nothing is pending, or kept as passed."""
        out = {position: self.slot(*position) for position in self}
        self._ledgers.clear()
        self.passed = {}
        self._count(-self.messages)
        return out

    def __iter__(self) -> Iterator[Position]:
        for ledger_id in sorted(self._ledgers):
            for entry_id in sorted(self._ledgers[ledger_id]):
                yield Position(ledger_id, entry_id)


def _up_to(position: Position, entries: Iterable[int]) -> list[int]:
    return [entry_id for entry_id in entries if entry_id <= position.entry_id]


def _everywhere(_: int) -> Lane:
    return None


class ReplayQueue:
    """Positions to send (again), smallest first, each at most once.

    They wait in lanes, by the slot of their key: ``lane_of`` says in which; NOWHERE, nobody is asked for them.
    """

    __slots__ = ("_lane_of", "_lanes", "_members", "slots")

    def __init__(self, lane_of: Callable[[int], Lane] = _everywhere) -> None:
        self._lane_of = lane_of
        self._members: dict[Position, int] = {}
        self.slots: dict[int, list[Position]] = {}
        """By slot what waits, or waited."""
        self._lanes: dict[Lane, list[Position]] = {}
        """Heaps, both; those in them that are no members went meanwhile."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, position: Position) -> bool:
        return position in self._members

    def add(self, positions: Iterable[Position], slot: int = NO_SLOT) -> None:
        fresh = [p for p in positions if p not in self._members]
        self._members.update(dict.fromkeys(fresh, slot))
        if slot != NO_SLOT:
            _push(self.slots.setdefault(slot, []), fresh)
        self._enter(self._lane_of(slot), fresh)

    def _enter(self, lane: Lane, positions: Sequence[Position]) -> None:
        if lane is not NOWHERE:
            _push(self._lanes.setdefault(lane, []), positions)

    def add_keyed(self, positions: Mapping[Position, int]) -> None:
        """Positions with their slots."""
        by_slot: dict[int, list[Position]] = {}
        for position, slot in positions.items():
            by_slot.setdefault(slot, []).append(position)
        for slot, those in by_slot.items():
            self.add(those, slot)

    def discard(self, position: Position) -> None:
        """It was acknowledged meanwhile."""
        self._members.pop(position, None)

    def discard_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged."""
        for one in [one for one in self._members if one <= position]:
            del self._members[one]

    def first(self, slot: int) -> Position | None:
        """The first that waits with this slot."""
        heap = self.slots.get(slot)
        if heap is None:
            return None
        while heap and heap[0] not in self._members:
            heappop(heap)
        if not heap:
            del self.slots[slot]
            return None
        return heap[0]

    def take(self, count: int, lane: Lane = None) -> list[Position]:
        """Remove and return the first ``count`` positions of a lane."""
        out: list[Position] = []
        heap = self._lanes.get(lane, [])
        while heap and len(out) < count:
            position = heappop(heap)
            if self._members.pop(position, None) is not None:
                out.append(position)
        return out

    def relane(self) -> None:
        """Slots changed lanes."""
        members, self._members = self._members, {}
        self.slots.clear()
        self._lanes.clear()
        self.add_keyed(members)

    def freed(self, slot: int) -> None:
        """A slot has a lane now."""
        self._enter(
            self._lane_of(slot), [p for p in self.slots.get(slot, ()) if p in self._members]
        )

    def clear(self) -> None:
        self._members.clear()
        self.slots.clear()
        self._lanes.clear()


def _push(heap: list[Position], positions: Sequence[Position]) -> None:
    if len(positions) > len(heap):
        heap += positions
        heapify(heap)
    else:
        for position in positions:
            heappush(heap, position)


class RedeliveryCounts:
    """How often each entry was explicitly given back since a consumer is there; one sent once counts 0. Never falls
    while unacknowledged."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Position, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def raise_(self, positions: Iterable[Position]) -> None:
        for position in positions:
            self._counts[position] = self._counts.get(position, 0) + 1

    def forget(self, position: Position) -> None:
        self._counts.pop(position, None)

    def forget_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged."""
        for old in [p for p in self._counts if p <= position]:
            del self._counts[old]

    def clear(self) -> None:
        self._counts.clear()

    def of(self, view: View) -> list[int] | None:
        """Counts of the entries in ``view``; None when all are 0."""
        counts = self._counts
        if not counts:
            return None
        ledger_id, first = view.ledger_id, view.run.first
        out = [counts.get(Position(ledger_id, first + i), 0) for i in view.indexes]
        return out if any(out) else None
