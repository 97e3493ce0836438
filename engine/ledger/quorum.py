"""Quorum arithmetic: the bookies that hold an entry, and the entries that a set of answers confirms. Pure.

Write set of entry e: positions ``(e + i) mod E`` for i in 0..WQ-1. Acknowledgements arrive as ranges. Each position
keeps the mark below which everything is acknowledged, and the ranges beyond a gap. So the cost is per range, not per
entry. An entry counts for a position once all lower entries do, which can delay a confirmation but not lose one.
"""

from collections.abc import Sequence

from engine.base.errors import MisuseError


def check_quorums(ensemble: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise MisuseError unless E >= WQ >= AQ >= 1."""
    if not ensemble >= write_quorum >= ack_quorum >= 1:
        raise MisuseError(
            "quorums must be ensemble >= write_quorum >= ack_quorum >= 1, "
            f"not {ensemble}/{write_quorum}/{ack_quorum}"
        )


def write_set(entry_id: int, ensemble: int, write_quorum: int) -> list[int]:
    """Return the positions that hold an entry, the preferred one first."""
    return [(entry_id + i) % ensemble for i in range(write_quorum)]


def holds(position: int, entry_id: int, ensemble: int, write_quorum: int) -> bool:
    """Return whether a position is in the write set of an entry."""
    return (position - entry_id) % ensemble < write_quorum


def covered(answered: list[bool], write_quorum: int, ack_quorum: int) -> bool:
    """Return whether every possible ack quorum contains a position that answered: then no add can be confirmed
    without an answer showing it.

    ``answered[p]`` is True when position p gave an authoritative answer. In each window of WQ consecutive positions,
    fewer than AQ may lack one.
    """
    size = len(answered)
    for first in range(size):
        missing = sum(not answered[(first + i) % size] for i in range(write_quorum))
        if missing >= ack_quorum:
            return False
    return True


class AckTracker:
    """Acknowledged ranges by position of the current ensemble.

    ``confirmed(limit)`` is the first entry id that is not on an ack quorum yet. It falls only when ``replace`` removes
    a position's acknowledgements, so the caller keeps the maximum that it announced.
    """

    __slots__ = (
        *("_ack_quorum", "_below", "_ensemble", "_late"),
        *("_regions", "_regions_min", "_striped", "_write_quorum"),
    )

    def __init__(self, ensemble: int, write_quorum: int, ack_quorum: int, first: int = 0) -> None:
        check_quorums(ensemble, write_quorum, ack_quorum)
        self._ensemble = ensemble
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._striped = ensemble > write_quorum
        self._below = [self._held_from(p, first) for p in range(ensemble)]
        self._late: list[list[tuple[int, int]]] = [[] for _ in range(ensemble)]
        self._regions: Sequence[str] = ()
        self._regions_min = 1

    def require_regions(self, regions: Sequence[str], regions_min: int) -> None:
        """Confirm entries only when bookies of ``regions_min`` regions have them, too (I41).

        ``regions`` has the region of each position, and changes with the members.
        """
        self._regions, self._regions_min = regions, regions_min

    def acked(self, position: int, first: int, count: int) -> None:
        """Record that the bookie at ``position`` holds entries ``first .. first + count - 1``. Repeats are harmless."""
        below = self._below[position]
        stop = first + count
        if first > below:  # a gap (I10)
            self._late[position].append((first, stop))
            return
        if stop <= below:
            return
        self._below[position] = self._held_from(position, stop) if self._striped else stop
        if self._late[position]:
            self._merge(position)

    def below(self, position: int) -> int:
        """Return the entry below which ``position`` has acknowledged everything that it should hold."""
        return self._below[position]

    def replace(self, position: int, first: int) -> None:
        """Record that another bookie is at ``position`` from entry ``first`` on and has acknowledged none of them."""
        self._below[position] = self._held_from(position, first)
        self._late[position].clear()

    def confirmed(self, limit: int) -> int:
        """Return the first entry id up to ``limit`` (the next id to be written) that is not on an ack quorum."""
        if not self._striped:
            mark = sorted(self._below)[self._ensemble - self._ack_quorum]
            if self._regions_min > 1:
                mark = min(mark, self._in_enough_regions(range(self._ensemble)))
            return mark if mark < limit else limit
        size = self._ensemble
        # Write sets without enough regions confirm nothing, whatever all positions have.
        low = 0 if self._regions_min > 1 else min(min(self._below), limit)
        lowest = limit
        for entry in range(low, min(low + size, limit)):
            positions = write_set(entry, size, self._write_quorum)
            marks = sorted(self._below[p] for p in positions)
            mark = marks[self._write_quorum - self._ack_quorum]
            if self._regions_min > 1:
                mark = min(mark, self._in_enough_regions(positions))
            if mark > entry:
                # Entries E apart have the same write set: continue with the first of them that is not confirmed.
                entry += (mark - entry + size - 1) // size * size
            lowest = min(lowest, entry)
        return lowest

    def _in_enough_regions(self, positions: Sequence[int]) -> int:
        """Return the entry below which bookies of enough regions at ``positions`` have acknowledged everything."""
        marks: dict[str, int] = {}
        for position in positions:
            region, below = self._regions[position], self._below[position]
            marks[region] = max(marks.get(region, 0), below)
        if len(marks) < self._regions_min:
            return 0
        return sorted(marks.values())[len(marks) - self._regions_min]

    def _held_from(self, position: int, entry_id: int) -> int:
        """Return the first entry id >= ``entry_id`` that the position holds."""
        if not self._striped:
            return entry_id
        gap = (position - entry_id) % self._ensemble
        return entry_id if gap < self._write_quorum else entry_id + gap - self._write_quorum + 1

    def _merge(self, position: int) -> None:
        late = self._late[position]
        late.sort()
        below = self._below[position]
        used = 0
        for first, stop in late:
            if first > below:
                break
            if stop > below:
                below = self._held_from(position, stop)
            used += 1
        del late[:used]
        self._below[position] = below
