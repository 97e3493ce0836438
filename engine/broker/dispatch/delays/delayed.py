"""Entries of one subscription that wait for their delivery time (D5). Pure.

The newest are in a heap. When there are many, they become a ``Run``: sorted by time and stored in parts, of which one
or two at a time are in memory. A delivery time never changes, so that stored runs are not updated.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge, nsmallest
from itertools import islice, takewhile

from engine.base.ids import Position

UNSAVED_MAX = 16
"""Number of runs not stored yet, and therefore in memory as a whole, at which no new entries are read."""
_CHUNK = 256
"""Entries taken from one run before the order of the runs is checked again."""
HEAP_ENTRY_BYTES = 320
"""Size in memory of an entry in the heap: its integers and its places in the heap and the dictionary."""


class Run:
    """Entries sorted by time, of which ``left`` were not taken. ``last``: the greatest position among them.

    ``ledger_id`` is -1 while the run is not stored and in memory as a whole.
    """

    __slots__ = (
        "_at", "_entries", "_ledgers", "_next", "_over_ms", "_times",
        "ends", "firsts", "last", "ledger_id", "left", "taken_ms",
    )  # fmt: skip

    def __init__(self, firsts: Sequence[int], ends: Sequence[int], last: Position) -> None:
        """Create a stored run of which no part is in memory.

        ``firsts``: time of each part's first entry, in ms. ``ends``: number of entries up to each part's end.
        """
        self.ledger_id = -1
        self.firsts = firsts
        self.ends = ends
        self.left = ends[-1]
        self.last = last
        self.taken_ms = -1
        """Time of the last entry that was taken; -1 before any."""
        self._next = 0
        """Index of the next part to load."""
        self._over_ms = -1
        """Entries of parts loaded later are skipped up to this time."""
        self._times, self._ledgers, self._entries = array("q"), array("q"), array("q")
        self._at = 0
        """Index in the columns of the first entry that was not taken."""

    @classmethod
    def of(cls, rows: Sequence[tuple[int, Position]], part_max: int) -> "Run":
        """Create a run of entries sorted by time, in memory as a whole, with ``part_max`` entries to a part."""
        count = len(rows)
        times = array("q", [at_ms for at_ms, _ in rows])
        ends = array("q", [min(i + part_max, count) for i in range(0, count, part_max)])
        run = cls(times[::part_max], ends, max(position for _, position in rows))
        run._times = times
        run._ledgers = array("q", [position.ledger_id for _, position in rows])
        run._entries = array("q", [position.entry_id for _, position in rows])
        run._next = len(ends)
        return run

    @property
    def entries(self) -> int:
        """Number of entries, taken ones included."""
        return self.ends[-1]

    @property
    def loaded_entries(self) -> int:
        """Number of entries in memory, taken ones included."""
        return len(self._times)

    @property
    def part(self) -> int:
        """Index of the next part to load."""
        return self._next

    @property
    def next_ms(self) -> int | None:
        """Time of the first entry that was not taken, in memory or not; None when all were."""
        if self._at < len(self._times):
            return self._times[self._at]
        return self.firsts[self._next] if self._next < len(self.firsts) else None

    @property
    def wants(self) -> bool:
        """True when the next part should be loaded: at most half a part is in memory."""
        if self._next == len(self.ends):
            return False
        return 2 * (len(self._times) - self._at) <= self.ends[0]

    def loaded(self, times: "array[int]", ledgers: "array[int]", entries: "array[int]") -> None:
        """Add the next part, which was read."""
        start = bisect_right(times, self._over_ms)
        self.left -= start
        self._forget_taken()
        self._times += times[start:]
        self._ledgers += ledgers[start:]
        self._entries += entries[start:]
        self._next += 1

    def in_memory(self, start: int = -1) -> "tuple[array[int], array[int], array[int]]":
        """Return times, ledger ids and entry ids of the entries not taken, or of all from index ``start`` on."""
        at = self._at if start < 0 else start
        return self._times[at:], self._ledgers[at:], self._entries[at:]

    def stored(self, ledger_id: int) -> None:
        """Note that the run is stored in a ledger, and keep only the present part in memory."""
        self.ledger_id = ledger_id
        part = bisect_right(self.ends, self._at)
        stop = self.ends[part]
        del self._times[stop:], self._ledgers[stop:], self._entries[stop:]
        self._next = part + 1
        self._forget_taken()

    def begin_behind(self, over_ms: int) -> None:
        """Skip the entries due up to ``over_ms``, which were taken from the runs that this one replaces."""
        self._over_ms = self.taken_ms = over_ms
        self._next = max(bisect_right(self.firsts, over_ms) - 1, 0)
        self.left -= self.ends[self._next - 1] if self._next else 0

    @property
    def end_ms(self) -> tuple[int, bool]:
        """Time of the last entry, and whether it is exact: otherwise that entry is in a stored part, at or after it."""
        if self._next == len(self.ends) and self._times:
            return self._times[-1], True
        return self.firsts[-1], False

    def rows(self) -> Iterator[tuple[int, Position]]:
        """Iterate over the entries in memory that were not taken, with their times, in order."""
        for i in range(self._at, len(self._times)):
            yield self._times[i], Position(self._ledgers[i], self._entries[i])

    def take(self, now_ms: int, count: int) -> list[Position]:
        """Take and return at most ``count`` entries that are due and in memory."""
        start = self._at
        stop = bisect_right(self._times, now_ms, start, min(start + count, len(self._times)))
        if stop == start:
            return []
        self._at = stop
        self.left -= stop - start
        self.taken_ms = self._times[stop - 1]
        return list(map(Position, self._ledgers[start:stop], self._entries[start:stop]))

    def _forget_taken(self) -> None:
        at, self._at = self._at, 0
        del self._times[:at], self._ledgers[:at], self._entries[:at]


class DelayIndex:
    """Delayed entries by delivery time, each at most once."""

    __slots__ = ("_heap", "_heap_max", "_times", "part_max", "runs")

    def __init__(self, heap_max: int, part_max: int) -> None:
        """Create an empty index, in which more than ``heap_max`` entries become a run, in parts of ``part_max``."""
        self.part_max = part_max
        self._heap_max = heap_max
        self._heap: list[tuple[int, Position]] = []
        """Times and entries, also entries that are no longer in ``_times``."""
        self._times: dict[Position, int] = {}
        self.runs: list[Run] = []

    def __len__(self) -> int:
        """Return the number of entries, in which those in runs count also when they are acknowledged."""
        return len(self._times) + sum(run.left for run in self.runs)

    def __bool__(self) -> bool:
        return bool(self._times or self.runs)

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        runs = sum(3 * 8 * run.loaded_entries for run in self.runs)
        return HEAP_ENTRY_BYTES * len(self._times) + runs

    @property
    def crowded(self) -> bool:
        """True when so many runs are not stored that nothing may be added."""
        runs = self.runs
        return len(runs) >= UNSAVED_MAX and sum(r.ledger_id < 0 for r in runs) >= UNSAVED_MAX

    @property
    def next_ms(self) -> int | None:
        """Time of the first entry, in ms; None without entries."""
        first = self._heap_ms
        for run in self.runs:
            at_ms = run.next_ms
            if at_ms is not None and (first is None or at_ms < first):
                first = at_ms
        return first

    @property
    def known_ms(self) -> int | None:
        """Time before which all entries are in memory; None when that is so for all times."""
        stored = [run.firsts[run.part] for run in self.runs if run.part < len(run.firsts)]
        return min(stored, default=None)

    @property
    def last_ms(self) -> tuple[int, bool] | None:
        """Time of the last entry, and whether it is exact or the least it can be; None without entries."""
        ends = [run.end_ms for run in self.runs]
        if self._times:
            ends.append((max(self._times.values()), True))
        return max(ends, default=None)

    def first(self, count: int, left_out: Callable[[Position], bool]) -> list[tuple[int, Position]]:
        """Return the first ``count`` entries with their times, in order, of those before ``known_ms``.

        Entries for which ``left_out`` is true, such as acknowledged ones, are not returned.
        """
        known_ms = self.known_ms
        waiting = ((at_ms, position) for position, at_ms in self._times.items())
        in_order = merge(nsmallest(count, waiting), *(run.rows() for run in self.runs))
        before = takewhile(lambda row: known_ms is None or row[0] < known_ms, in_order)
        return list(islice((row for row in before if not left_out(row[1])), count))

    def add(self, position: Position, at_ms: int) -> None:
        """Add an entry that is not in the index."""
        assert position not in self._times, "an entry was set aside twice"
        self._times[position] = at_ms
        heappush(self._heap, (at_ms, position))
        if len(self._times) > self._heap_max:
            rows = [row for row in self._heap if self._times.get(row[1]) == row[0]]
            rows.sort()
            self.runs.append(Run.of(rows, self.part_max))
            self._times.clear()
            self._heap.clear()

    def take(self, now_ms: int, count: int) -> list[Position]:
        """Take and return at most ``count`` entries that are due and in memory, roughly in order of time."""
        due: list[Position] = []
        while len(due) < count:
            positions = self._take_some(now_ms, min(count - len(due), _CHUNK))
            if not positions:
                break
            due += positions
        self._drop_finished()
        return due

    def _take_some(self, now_ms: int, count: int) -> list[Position]:
        """Take due entries of the run or heap that has the earliest one in memory."""
        heap_ms = self._heap_ms
        sources = [(at_ms, run) for run in self.runs if (at_ms := run.next_ms) is not None]
        for at_ms, run in sorted(sources, key=lambda source: source[0]):
            if heap_ms is not None and heap_ms < at_ms:
                break
            if taken := run.take(now_ms, count):
                return taken
        due: list[Position] = []
        while self._heap_ms is not None and self._heap_ms <= now_ms and len(due) < count:
            _, position = heappop(self._heap)
            del self._times[position]
            due.append(position)
        return due

    @property
    def _heap_ms(self) -> int | None:
        """Time of the first entry in the heap, from which removed entries are popped; None without one."""
        heap, times = self._heap, self._times
        while heap and times.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def _drop_finished(self) -> None:
        if any(run.next_ms is None for run in self.runs):
            self.runs = [run for run in self.runs if run.next_ms is not None]

    def discard(self, position: Position) -> None:
        """Remove an acknowledged entry, unless it is in a run: the caller of ``take`` skips it there."""
        self._times.pop(position, None)

    def discard_up_to(self, position: Position) -> None:
        """Remove the entries up to and including ``position``, which were acknowledged.

        A run is removed when all of its entries are; others keep theirs, as ``discard`` does.
        """
        self._times = {later: at_ms for later, at_ms in self._times.items() if later > position}
        self._heap = [(at_ms, later) for later, at_ms in self._times.items()]
        heapify(self._heap)
        self.runs = [run for run in self.runs if run.last > position]

    def clear(self) -> None:
        self._heap.clear()
        self._times.clear()
        self.runs = []
