"""Which bookies hold an entry, and which entries a set of answers confirms. Pure.

Write set of entry e: positions ``(e + i) mod E`` for i in 0..WQ-1. Acknowledgements come as ranges; per position only
the mark below which everything is acknowledged is kept, with ranges that came out of order beside it. So the cost is
per range, not per entry, and an entry counts for a position once all its lower ones do, which can delay but not lose.
"""

from engine.base.errors import MisuseError


def check_quorums(ensemble: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise MisuseError unless E >= WQ >= AQ >= 1."""
    if not ensemble >= write_quorum >= ack_quorum >= 1:
        raise MisuseError(
            "quorums must be ensemble >= write_quorum >= ack_quorum >= 1, "
            f"not {ensemble}/{write_quorum}/{ack_quorum}"
        )


def write_set(entry_id: int, ensemble: int, write_quorum: int) -> list[int]:
    """Positions that hold an entry, the preferred one first."""
    return [(entry_id + i) % ensemble for i in range(write_quorum)]


def holds(position: int, entry_id: int, ensemble: int, write_quorum: int) -> bool:
    """Whether a position is in the write set of an entry."""
    return (position - entry_id) % ensemble < write_quorum


def covered(heard: list[bool], write_quorum: int, ack_quorum: int) -> bool:
    """Whether every possible ack quorum meets a position that was heard from: then no add can be confirmed unseen.

    ``heard[p]`` is True when position p gave an authoritative answer. In each window of WQ consecutive positions fewer
    than AQ may be silent.
    """
    size = len(heard)
    for first in range(size):
        silent = sum(not heard[(first + i) % size] for i in range(write_quorum))
        if silent >= ack_quorum:
            return False
    return True


class AckTracker:
    """Acknowledged ranges by bookie position of the present ensemble.

    ``confirmed(limit)`` is the first entry id that is not yet on an ack quorum. It never falls unless ``replace``
    takes a position's acknowledgements back, so the caller keeps the maximum it announced.
    """

    __slots__ = ("_ack_quorum", "_below", "_ensemble", "_late", "_striped", "_write_quorum")

    def __init__(self, ensemble: int, write_quorum: int, ack_quorum: int, first: int = 0) -> None:
        check_quorums(ensemble, write_quorum, ack_quorum)
        self._ensemble = ensemble
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._striped = ensemble > write_quorum
        self._below = [self._held_from(p, first) for p in range(ensemble)]
        self._late: list[list[tuple[int, int]]] = [[] for _ in range(ensemble)]

    def acked(self, position: int, first: int, count: int) -> None:
        """The bookie at ``position`` holds entries ``first .. first + count - 1``. Repeated answers are harmless."""
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
        """The position has acknowledged everything below this entry that it should hold."""
        return self._below[position]

    def replace(self, position: int, first: int) -> None:
        """Another bookie sits at ``position`` for entries from ``first`` on: it has acknowledged none of them."""
        self._below[position] = self._held_from(position, first)
        self._late[position].clear()

    def confirmed(self, limit: int) -> int:
        """First entry id below or equal ``limit`` (the next id to be written) that is not on an ack quorum."""
        if not self._striped:
            found = sorted(self._below)[self._ensemble - self._ack_quorum]
            return found if found < limit else limit
        size = self._ensemble
        low = min(min(self._below), limit)
        lowest = limit
        for entry in range(low, min(low + size, limit)):
            marks = sorted(self._below[p] for p in write_set(entry, size, self._write_quorum))
            mark = marks[self._write_quorum - self._ack_quorum]
            if mark > entry:  # confirmed; the next one of this residue that is not
                entry += (mark - entry + size - 1) // size * size
            lowest = min(lowest, entry)
        return lowest

    def _held_from(self, position: int, entry_id: int) -> int:
        """First entry id >= ``entry_id`` that the position holds."""
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
