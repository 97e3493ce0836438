"""Messages out at consumers (D3) and messages to send again (D4), for Shared subscriptions. Pure.

Both are kept as plain integers (ledger id → entry id → messages left in the entry), so that a run of entries is added
with one dictionary update, and nothing is allocated per message but the dictionary's slot.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from engine.base.ids import Position
from engine.base.slices import View


class Tally:
    """Messages out at all consumers of a subscription together."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class PendingAcks:
    """Entries that one consumer holds unacknowledged. ``messages`` counts the messages in them, and so does ``tally``
    together with the other consumers'."""

    __slots__ = ("_ledgers", "messages", "tally")

    def __init__(self) -> None:
        self._ledgers: dict[int, dict[int, int]] = {}
        self.messages = 0
        self.tally = Tally()

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position[1] in self._ledgers.get(position[0], ())

    def add(self, view: View) -> None:
        """The entries of ``view`` were sent."""
        entries = self._ledgers.setdefault(view.ledger_id, {})
        before = len(entries)
        ids, counts = range(view.first, view.first + view.count), view.run.counts
        if counts is None:
            entries.update(dict.fromkeys(ids, 1))
            self._count(view.count)
        else:
            part = counts[view.start : view.stop]
            entries.update(zip(ids, part, strict=True))
            self._count(sum(part))
        assert len(entries) - before == view.count, "an entry was sent twice to one consumer"

    def add_entry(self, position: Position, messages: int) -> None:
        """One entry was sent of which only ``messages`` (>= 1) were unacknowledged."""
        entries = self._ledgers.setdefault(position.ledger_id, {})
        assert position.entry_id not in entries, "an entry was sent twice to one consumer"
        entries[position.entry_id] = messages
        self._count(messages)

    def _count(self, messages: int) -> None:
        self.messages += messages
        self.tally.messages += messages

    def discard(self, ledger_id: int, entry_id: int) -> int:
        """Forget one entry; the messages it still counted for, 0 when it was not pending."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return 0
        messages = entries.pop(entry_id, 0)
        if not entries:
            del self._ledgers[ledger_id]
        self.messages -= messages
        self.tally.messages -= messages
        return messages

    def left(self, ledger_id: int, entry_id: int, messages: int) -> int:
        """Only ``messages`` (>= 1) of a pending entry are still unacknowledged; how many that took off."""
        entries = self._ledgers.get(ledger_id, {})
        before = entries.get(entry_id, 0)
        if before <= messages:
            return 0
        entries[entry_id] = messages
        self._count(messages - before)
        return before - messages

    def discard_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged."""
        for one in [each for each in self if each <= position]:
            self.discard(*one)

    def take_all(self) -> list[Position]:
        """All positions, in order; afterwards nothing is pending."""
        out = list(self)
        self._ledgers.clear()
        self._count(-self.messages)
        return out

    def __iter__(self) -> Iterator[Position]:
        for ledger_id in sorted(self._ledgers):
            for entry_id in sorted(self._ledgers[ledger_id]):
                yield Position(ledger_id, entry_id)


class ReplayQueue:
    """Positions to send again, smallest first, each at most once."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[Position] = []
        self._members: set[Position] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, position: Position) -> bool:
        return position in self._members

    def add(self, positions: Iterable[Position]) -> None:
        fresh = [p for p in positions if p not in self._members]
        self._members.update(fresh)
        if len(fresh) > len(self._heap):
            self._heap += fresh
            heapify(self._heap)
        else:
            for position in fresh:
                heappush(self._heap, position)

    def discard(self, position: Position) -> None:
        """It was acknowledged meanwhile."""
        self._members.discard(position)

    def discard_up_to(self, position: Position) -> None:
        """All up to and including ``position`` are acknowledged."""
        self._members = {one for one in self._members if one > position}

    def take(self, count: int) -> list[Position]:
        """Remove and return the first ``count`` positions."""
        out: list[Position] = []
        while self._heap and len(out) < count:
            position = heappop(self._heap)
            if position in self._members:
                self._members.remove(position)
                out.append(position)
        return out

    def clear(self) -> None:
        self._heap.clear()
        self._members.clear()


class RedeliveryCounts:
    """How often each entry was explicitly given back; one sent once counts 0. Never falls while unacknowledged."""

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

    def of(self, view: View) -> list[int] | None:
        """Counts of the entries in ``view``; None when all are 0."""
        counts = self._counts
        if not counts:
            return None
        ledger_id, first = view.ledger_id, view.first
        out = [counts.get(Position(ledger_id, first + i), 0) for i in range(view.count)]
        return out if any(out) else None
