"""Acknowledgements of a cursor, over ordinals (``positions``). Pure.

``mark``: every entry below it is acknowledged; the entry at it is not. ``holes``: acknowledged entries behind ``mark``,
never touching it. ``batches``: ordinal -> bits of the messages of a batch that are *not* acknowledged (Pulsar's ack
set), for entries at or behind ``mark`` that are in no hole. State is never dropped to save room.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from engine.base.ranges import RangeSet

STEP = 1024
"""Entries or ranges processed in one step where there may be many; a step takes less than a millisecond."""


class AckState:
    """Acknowledgements of one cursor. The caller must not pass ordinals of entries that do not exist."""

    __slots__ = ("batches", "holes", "mark")

    def __init__(
        self,
        mark: int = 0,
        holes: Iterable[tuple[int, int]] = (),
        batches: dict[int, int] | None = None,
    ) -> None:
        self.mark = mark
        self.holes = RangeSet(holes)
        self.batches: dict[int, int] = {}
        for _ in self.filling(batches or {}):
            pass

    def filling(self, batches: dict[int, int]) -> Generator[None, None, None]:
        """Complete a state whose ``mark`` and ``holes`` were just set; yields between short steps."""
        self.holes.discard_below(self.mark)
        items = iter(batches.items())
        while rows := [*islice(items, STEP)]:
            for ordinal, bits in rows:
                if not self.is_acknowledged(ordinal):
                    self.batches[ordinal] = bits
            yield
        self._advance()

    def acknowledge(self, start: int, stop: int) -> bool:
        """Acknowledge entries ``start <= x < stop``. Return True when that changed anything."""
        start = max(start, self.mark)
        if stop <= start:
            return False
        if start == self.mark:
            self.mark = stop
            if self.holes.total:
                self.holes.discard_below(stop)
                self._advance()
        elif not self.holes.add(start, stop):
            return False
        if self.batches:
            self._forget_batches(start, stop)
        return True

    def acknowledge_batch(self, ordinal: int, bits: int) -> bool:
        """Keep as unacknowledged only the messages of ``bits``. Return True when that changed anything."""
        if self.is_acknowledged(ordinal):
            return False
        if ordinal in self.batches:
            before = self.batches[ordinal]
            bits &= before
            if bits == before:
                return False
        if not bits:
            return self.acknowledge(ordinal, ordinal + 1)
        self.batches[ordinal] = bits
        return True

    def reset(self, mark: int) -> None:
        """Acknowledge everything below ``mark`` and nothing from it on."""
        self.mark = mark
        self.holes.clear()
        self.batches.clear()

    def replace(self, other: "AckState") -> None:
        """Take over the state of ``other``, whose containers are shared from now on: it must not be used any more."""
        self.mark, self.holes, self.batches = other.mark, other.holes, other.batches

    def bits(self, ordinal: int) -> int:
        """Return bits of the entry's unacknowledged messages: 0 for none, -1 for all of them, however many there
        are."""
        return 0 if self.is_acknowledged(ordinal) else self.batches.get(ordinal, -1)

    def is_acknowledged(self, ordinal: int) -> bool:
        return ordinal < self.mark or ordinal in self.holes

    def pending(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Iterate over the intervals of entries in ``[start, stop)`` that are not or only partly acknowledged."""
        return self.holes.gaps(max(start, self.mark), stop)

    def backlog(self, end: int) -> int:
        """Return the number of unacknowledged entries below ``end``, the ordinal behind the last entry."""
        return max(end - self.mark - self.holes.total, 0)

    @property
    def top(self) -> int:
        """Ordinal behind the last entry of which anything is acknowledged. The gaps that cost room lie below it."""
        return max(self.mark, self.holes.top, max(self.batches, default=-1) + 1)

    def nth_pending(self, count: int, end: int) -> int:
        """Return the ordinal behind the first ``count`` unacknowledged entries; ``end`` when there are fewer."""
        for start, stop in self.holes.gaps(self.mark, end):
            if stop - start >= count:
                return start + count
            count -= stop - start
        return end

    def _advance(self) -> None:
        mark = self.holes.first_missing(self.mark)
        if mark != self.mark:
            self.mark = mark
            self.holes.discard_below(mark)

    def _forget_batches(self, start: int, stop: int) -> None:
        batches = self.batches
        # Many acknowledgements cover one entry, a cumulative one may cover millions: the shorter walk is chosen.
        if stop - start <= len(batches):
            for ordinal in range(start, stop):
                batches.pop(ordinal, None)
        else:
            for ordinal in [ordinal for ordinal in batches if start <= ordinal < stop]:
                del batches[ordinal]
