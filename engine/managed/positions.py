"""The ledgers of a topic as one line of entries. Pure.

Every entry has an *ordinal*: its place in the line, counted from 0 at the first ledger that existed when the line was
created. Ordinals continue across ledgers, so that "next", "how many between" and "acknowledged without a gap" are
arithmetic; empty ledgers have no ordinals. Ordinals are valid as long as this object; what is stored are positions.
Ordinals of trimmed ledgers are never reused: ``base`` is the first ordinal that still exists.

``durable_to`` is the ordinal behind the last durable entry, ``readable_to`` the one behind the last entry that readers
may be given, never behind the former (I40). The latter is the same unless reads are held.
"""

from bisect import bisect_right
from dataclasses import dataclass

from engine.base.errors import MisuseError
from engine.base.ids import Position


@dataclass(slots=True)
class LedgerSpan:
    """One ledger of the list: confirmed ``entries``, their ``size`` in bytes, wall time of the close (0: open).

    ``extra`` holds the stored record's other fields (offload context, properties), byte for byte.
    """

    ledger_id: int
    entries: int = 0
    size: int = 0
    timestamp_ms: int = 0
    extra: bytes = b""


class LedgerLine:
    """Ledgers in order of writing, by strictly rising ids. Only the last one may grow."""

    __slots__ = ("_bases", "_held", "_ids", "_index", "durable_to", "ledgers", "readable_to")

    def __init__(self, ledgers: list[LedgerSpan] | None = None) -> None:
        self.ledgers: list[LedgerSpan] = []
        self.durable_to = self.readable_to = 0
        self._held = False
        self._ids: list[int] = []
        self._bases: list[int] = []
        self._index: dict[int, int] = {}  # ledger id -> ordinal of its entry 0
        for ledger in ledgers or ():
            self.push(ledger)

    @property
    def base(self) -> int:
        """Ordinal of the first entry that still exists; of the next one when there is none."""
        return self._bases[0] if self._bases else self.durable_to

    @property
    def last(self) -> LedgerSpan:
        """The ledger written last. Raises IndexError when there is none."""
        return self.ledgers[-1]

    def push(self, ledger: LedgerSpan) -> None:
        """Append a ledger behind the others. Raises MisuseError for an id that is not above theirs."""
        if self._ids and ledger.ledger_id <= self._ids[-1]:
            raise MisuseError(f"ledger {ledger.ledger_id} cannot follow ledger {self._ids[-1]}")
        self.ledgers.append(ledger)
        self._ids.append(ledger.ledger_id)
        self._bases.append(self.durable_to)
        self._index[ledger.ledger_id] = self.durable_to
        self.durable_to += ledger.entries
        if not self._held:
            self.readable_to = self.durable_to

    def grow(self, entries: int, size: int) -> None:
        """Add ``entries`` entries with ``size`` bytes to the last ledger."""
        last = self.ledgers[-1]
        last.entries += entries
        last.size += size
        self.durable_to += entries
        if not self._held:
            self.readable_to = self.durable_to

    def hold_reads(self, before: Position | None) -> bool:
        """Keep ``readable_to`` at ``before``, or at the last durable entry if that is ahead, until the next call; None
        ends the hold. Return whether more entries can be read now."""
        self._held = before is not None
        readable_before = self.readable_to
        self.readable_to = self.durable_to if before is None else self.ordinal(before)
        return self.readable_to > readable_before

    def drop_last(self) -> LedgerSpan:
        """Remove the last ledger, which must be empty, and return it. Raises MisuseError when it holds entries."""
        if self.ledgers[-1].entries:
            raise MisuseError(f"ledger {self._ids[-1]} holds entries")
        ledger = self.ledgers.pop()
        del self._index[self._ids.pop()]
        self._bases.pop()
        return ledger

    def drop_first(self, count: int) -> list[LedgerSpan]:
        """Remove the first ``count`` ledgers, which are trimmed, and return them."""
        dropped = self.ledgers[:count]
        for ledger in dropped:
            del self._index[ledger.ledger_id]
        del self.ledgers[:count], self._ids[:count], self._bases[:count]
        return dropped

    def first_ordinal(self, ledger_id: int) -> int | None:
        """Return the ordinal of a ledger's entry 0; None when the ledger is not in the line."""
        return self._index.get(ledger_id)

    def extent(self, ledger_id: int) -> tuple[int, int]:
        """Return the ordinal of a ledger's entry 0 and its number of entries; (0, 0) when it is not in the line."""
        base = self._index.get(ledger_id)
        if base is None:
            return 0, 0
        return base, self.ledgers[bisect_right(self._ids, ledger_id) - 1].entries

    def find(self, ordinal: int) -> tuple[LedgerSpan, int]:
        """Return the ledger of an ordinal in ``base <= ordinal <= durable_to``, and the ordinal of its entry 0.

        ``durable_to`` belongs to the last ledger. Raises IndexError when there is no ledger.
        """
        i = max(bisect_right(self._bases, ordinal) - 1, 0)
        return self.ledgers[i], self._bases[i]

    def ordinal(self, position: Position) -> int:
        """Return the ordinal of the first entry at or behind ``position``; between ``base`` and ``durable_to``."""
        ledger_id, entry_id = position
        base = self._index.get(ledger_id)
        if base is not None:
            if entry_id <= 0:
                return base
            i = bisect_right(self._ids, ledger_id) - 1
            return base + min(entry_id, self.ledgers[i].entries)
        i = bisect_right(self._ids, ledger_id)
        return self._bases[i] if i < len(self._bases) else self.durable_to

    def ordinal_after(self, position: Position) -> int:
        """Return the ordinal of the first entry behind ``position``."""
        return self.ordinal(Position(position[0], position[1] + 1))

    def exact(self, ledger_id: int, entry_id: int) -> int:
        """Return the ordinal of the entry at a position; -1 when no entry exists there."""
        base = self._index.get(ledger_id)
        if base is None or entry_id < 0:
            return -1
        if ledger_id == self._ids[-1]:  # the common case, without a search
            return base + entry_id if base + entry_id < self.durable_to else -1
        i = bisect_right(self._ids, ledger_id) - 1
        return base + entry_id if entry_id < self.ledgers[i].entries else -1

    def position(self, ordinal: int) -> Position:
        """Return the position of an ordinal; for ``durable_to`` the position of the last ledger's next entry."""
        if not self.ledgers:
            return Position(-1, -1)
        ledger, base = self.find(min(max(ordinal, self.base), self.durable_to))
        return Position(ledger.ledger_id, min(max(ordinal, base), self.durable_to) - base)

    def bytes_behind(self, position: Position) -> int:
        """Return the stored bytes of the entries behind ``position``; all entries of a ledger count as equally
        large."""
        total = 0
        for ledger in reversed(self.ledgers):
            if ledger.ledger_id > position[0]:
                total += ledger.size
                continue
            if ledger.ledger_id == position[0] and ledger.entries:
                passed = min(position[1] + 1, ledger.entries)
                total += ledger.size - ledger.size * passed // ledger.entries
            break
        return total

    def last_before(self, size: int) -> Position:
        """Return the last entry with at most ``size`` bytes behind it; ``(first ledger, -1)`` when all entries together
        have no more than that."""
        for ledger, base in zip(reversed(self.ledgers), reversed(self._bases), strict=True):
            if ledger.size > size:
                return self.before(base + ledger.entries - size * ledger.entries // ledger.size)
            size -= ledger.size
        return self.before(self.base)

    def before(self, ordinal: int) -> Position:
        """Return the position of the entry before an ordinal, which is the mark-delete position when the ordinal is the
        first unacknowledged one.

        ``(first ledger, -1)`` when no entry lies before it.
        """
        if not self.ledgers:
            return Position(-1, -1)
        if ordinal <= self.base:
            return Position(self._ids[0], -1)
        return self.position(ordinal - 1)
