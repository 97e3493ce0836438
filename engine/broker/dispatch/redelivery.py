"""Unacknowledged messages of consumers that share a subscription (D3), and messages to send again (D4, D10). Pure.

Pending entries are plain integers (ledger id → entry id → unacknowledged messages of the entry): a run of entries is
added with one dictionary update, and nothing is allocated per message but the dictionary's slot.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, repeat

from engine.base.ids import Position
from engine.base.slices import Slice, View
from engine.broker.dispatch.choose.keys import NO_SLOT

SlotsOf = Callable[[Slice], Sequence[int]]
"""Slots of the keys of a slice's entries."""
Lane = Hashable
"""A queue of positions to replay: a consumer's, or None for positions that any consumer may receive."""
NOWHERE = "nowhere"
"""Lane of positions that no consumer may receive now."""
_SLOT_SHIFT = 32
_MESSAGES = (1 << _SLOT_SHIFT) - 1
"""Mask of the message count in a pending entry's integer; the slot of its key is above it."""


class Tally:
    """Unacknowledged messages of all consumers of a subscription together."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class PendingAcks:
    """Unacknowledged entries of one consumer.

    ``messages`` counts the messages in them; ``tally`` counts them together with those of the other consumers. With
    ``slots_of`` the slot of each entry's key is kept with it.

    An entry that a skip or an expiry acknowledged no longer counts, but its client may still process it: ``passed``
    keeps the last such entry of each slot, until the client acknowledges it, gives it back or leaves (D10).
    """

    __slots__ = ("_ledgers", "messages", "passed", "slots_of", "tally")

    def __init__(self) -> None:
        self._ledgers: dict[int, dict[int, int]] = {}
        self.messages = 0
        self.passed: dict[Position, int] = {}
        """Slots by position, each slot at most once."""
        self.tally = Tally()
        self.slots_of: SlotsOf | None = None

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position[1] in self._ledgers.get(position[0], ())

    def add(self, view: View) -> None:
        """Add the entries of ``view``, which were sent."""
        run, indexes = view.run, view.indexes
        counts = run.counts
        if counts is None:
            self._add(run, indexes, repeat(1), view.count)
        else:
            part = [counts[i] for i in indexes]
            self._add(run, indexes, part, sum(part))

    def add_part(self, view: View, messages: int) -> None:
        """Add the one entry of ``view``, which was sent with only ``messages`` (>= 1) unacknowledged messages."""
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
        """Return the slot of a pending entry's key; NO_SLOT when the entry is not pending."""
        return self._ledgers.get(ledger_id, {}).get(entry_id, 0) >> _SLOT_SHIFT

    def slots(self) -> Iterator[int]:
        """Iterate over the slots of all pending and passed entries, one for each entry."""
        pending = (held >> _SLOT_SHIFT for ids in self._ledgers.values() for held in ids.values())
        return chain(pending, self.passed.values())

    def discard(self, ledger_id: int, entry_id: int) -> int:
        """Remove one entry; return the messages it still counted for, 0 when it was not pending."""
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
        """Remove entries; return the messages they still counted for, and the positions that were not pending."""
        if len(positions) == 1:
            messages = self.discard(*positions[0])
            return messages, [] if messages else [*positions]
        messages, missing = 0, []
        current = -1
        entries: dict[int, int] = {}
        for position in positions:
            ledger_id, entry_id = position
            if ledger_id != current:
                self._drop_if_empty(current)
                current, entries = ledger_id, self._ledgers.get(ledger_id, {})
            held = entries.pop(entry_id, 0) & _MESSAGES
            if held:
                messages += held
            else:
                missing.append(position)
        self._drop_if_empty(current)
        self._count(-messages)
        return messages, missing

    def among(self, wanted: Mapping[int, set[int]]) -> list[Position]:
        """Return which of the entry ids ``wanted`` by ledger are pending. The work is bounded by the smaller set."""
        return [
            Position(ledger_id, entry_id)
            for ledger_id in self._ledgers.keys() & wanted.keys()
            for entry_id in self._ledgers[ledger_id].keys() & wanted[ledger_id]
        ]

    def first(self, count: int) -> list[tuple[Position, int, int]]:
        """Return the first ``count`` pending positions in order, each with its messages and its key's slot."""
        rows: list[tuple[Position, int, int]] = []
        for ledger_id in sorted(self._ledgers):
            entries = self._ledgers[ledger_id]
            for entry_id in nsmallest(count - len(rows), entries):
                held = entries[entry_id]
                position = Position(ledger_id, entry_id)
                rows.append((position, held & _MESSAGES, held >> _SLOT_SHIFT))
            if len(rows) == count:
                break
        return rows

    def _drop_if_empty(self, ledger_id: int) -> None:
        if ledger_id in self._ledgers and not self._ledgers[ledger_id]:
            del self._ledgers[ledger_id]

    def lower(self, ledger_id: int, entry_id: int, messages: int) -> int:
        """Lower a pending entry's unacknowledged messages to ``messages`` (>= 1); return by how many."""
        entries = self._ledgers.get(ledger_id, {})
        held = entries.get(entry_id, 0)
        before = held & _MESSAGES
        if before <= messages:
            return 0
        entries[entry_id] = held - before + messages
        self._count(messages - before)
        return before - messages

    def pass_up_to(self, position: Position) -> None:
        """Remove all entries up to and including ``position``, which were acknowledged, but not by the client."""
        last = {slot: passed for passed, slot in self.passed.items()}
        for ledger_id in sorted(known for known in self._ledgers if known <= position.ledger_id):
            entries = self._ledgers[ledger_id]
            passed = [*entries] if ledger_id < position.ledger_id else _up_to(position, entries)
            if self.slots_of is not None:  # ascending, so that the last entry of each slot remains
                last |= {entries[i] >> _SLOT_SHIFT: Position(ledger_id, i) for i in sorted(passed)}
            self._count(-sum([entries.pop(i) & _MESSAGES for i in passed]))
            self._drop_if_empty(ledger_id)
        self.passed = {passed_at: slot for slot, passed_at in last.items()}

    def pop_passed(self, position: Position) -> int:
        """Remove a passed entry that the client no longer processes; return its slot, NO_SLOT when it is not one."""
        return self.passed.pop(position, NO_SLOT)

    def take_all(self) -> dict[Position, int]:
        """Remove all entries, passed ones too; return the pending positions, in order, with their slots."""
        slots = {position: self.slot(*position) for position in self}
        self._ledgers.clear()
        self.passed = {}
        self._count(-self.messages)
        return slots

    def __iter__(self) -> Iterator[Position]:
        for ledger_id in sorted(self._ledgers):
            for entry_id in sorted(self._ledgers[ledger_id]):
                yield Position(ledger_id, entry_id)


def _up_to(position: Position, entries: Iterable[int]) -> list[int]:
    return [entry_id for entry_id in entries if entry_id <= position.entry_id]


def _shared_lane(_: int) -> Lane:
    return None


class ReplayQueue:
    """Positions to send or send again, smallest first, each at most once.

    They wait in lanes: ``lane_of`` returns the lane of a key's slot. Positions in the lane NOWHERE are not taken.
    """

    __slots__ = ("_lane_of", "_lanes", "_members", "slots")

    def __init__(self, lane_of: Callable[[int], Lane] = _shared_lane) -> None:
        self._lane_of = lane_of
        self._members: dict[Position, int] = {}
        self.slots: dict[int, list[Position]] = {}
        """Heaps of positions by slot; a position that is no longer a member was removed meanwhile."""
        self._lanes: dict[Lane, list[Position]] = {}
        """Heaps of positions by lane; the same holds."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, position: Position) -> bool:
        return position in self._members

    def add(self, positions: Iterable[Position], slot: int = NO_SLOT) -> None:
        """Add positions whose keys have the given slot; those in the queue already stay where they are."""
        added = [p for p in positions if p not in self._members]
        self._members.update(dict.fromkeys(added, slot))
        if slot != NO_SLOT:
            _push(self.slots.setdefault(slot, []), added)
        self._push_to(self._lane_of(slot), added)

    def _push_to(self, lane: Lane, positions: Sequence[Position]) -> None:
        if lane is not NOWHERE:
            _push(self._lanes.setdefault(lane, []), positions)

    def add_keyed(self, positions: Mapping[Position, int]) -> None:
        """Add positions, given with their slots."""
        by_slot: dict[int, list[Position]] = {}
        for position, slot in positions.items():
            by_slot.setdefault(slot, []).append(position)
        for slot, slot_positions in by_slot.items():
            self.add(slot_positions, slot)

    def discard(self, position: Position) -> None:
        """Remove a position that was acknowledged."""
        self._members.pop(position, None)  # it stays in the heaps, which skip what is no member

    def discard_up_to(self, position: Position) -> None:
        """Remove the positions up to and including ``position``, which were acknowledged."""
        for acknowledged in [member for member in self._members if member <= position]:
            del self._members[acknowledged]

    def first(self, slot: int) -> Position | None:
        """Return the first position in the queue with this slot; None without one."""
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
        taken: list[Position] = []
        heap = self._lanes.get(lane, [])
        while heap and len(taken) < count:
            position = heappop(heap)
            if self._members.pop(position, None) is not None:
                taken.append(position)
        return taken

    def assign_lanes(self) -> None:
        """Assign all positions to lanes again, after the lanes of slots changed."""
        members, self._members = self._members, {}
        self.slots.clear()
        self._lanes.clear()
        self.add_keyed(members)

    def restore_lane(self, slot: int) -> None:
        """Add a slot's positions to its lane, which was NOWHERE before."""
        self._push_to(
            self._lane_of(slot), [p for p in self.slots.get(slot, ()) if p in self._members]
        )

    def clear(self) -> None:
        self._members.clear()
        self.slots.clear()
        self._lanes.clear()


def _push(heap: list[Position], positions: Sequence[Position]) -> None:
    if len(positions) > len(heap):  # building the heap is linear, pushing to it logarithmic each
        heap += positions
        heapify(heap)
    else:
        for position in positions:
            heappush(heap, position)


class RedeliveryCounts:
    """Number of times that each entry was explicitly given back while the subscription had consumers.

    0 for an entry sent once. A count does not decrease while its entry is unacknowledged (D4).
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Position, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def increment(self, positions: Iterable[Position]) -> None:
        for position in positions:
            self._counts[position] = self._counts.get(position, 0) + 1

    def count(self, position: Position) -> int:
        return self._counts.get(position, 0)

    def forget(self, position: Position) -> None:
        self._counts.pop(position, None)

    def forget_up_to(self, position: Position) -> None:
        """Remove the counts of entries up to and including ``position``, which were acknowledged."""
        for acknowledged in [p for p in self._counts if p <= position]:
            del self._counts[acknowledged]

    def clear(self) -> None:
        self._counts.clear()

    def of(self, view: View) -> list[int] | None:
        """Return the counts of the entries in ``view``; None when all are 0."""
        counts = self._counts
        if not counts:
            return None
        ledger_id, first = view.ledger_id, view.run.first
        view_counts = [counts.get(Position(ledger_id, first + i), 0) for i in view.indexes]
        return view_counts if any(view_counts) else None
