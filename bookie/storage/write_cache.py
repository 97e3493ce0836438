"""Entries not yet in an entry log: a generation that fills and one that is flushed. Runs on the event loop; no I/O."""

from bisect import bisect_right
from collections.abc import Iterator

from engine.base.slices import AddRun

RUN_OVERHEAD_BYTES = 400
"""Bytes charged for each run in addition to its data: objects and offsets."""


class LedgerRuns:
    """Runs of one ledger in the order of arrival; the later run wins where two hold the same entry (I24)."""

    __slots__ = ("below", "firsts", "ordered", "runs")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.runs: list[AddRun] = []
        self.below = -1
        self.ordered = True

    def add(self, run: AddRun) -> None:
        if run.first < self.below:
            self.ordered = False
        self.firsts.append(run.first)
        self.runs.append(run)
        self.below = max(self.below, run.below)

    def find(self, entry_id: int) -> tuple[AddRun, int] | None:
        """Return the run that holds the entry and the entry's index in it; None when no run does."""
        if self.ordered:
            i = bisect_right(self.firsts, entry_id) - 1
            if i >= 0 and entry_id < self.runs[i].below:
                return self.runs[i], entry_id - self.firsts[i]
            return None
        for run in reversed(self.runs):
            if run.first <= entry_id < run.below:
                return run, entry_id - run.first
        return None

    def resolved(self) -> list[AddRun]:
        """Return runs in the order of entries, each entry once, in its latest copy."""
        if self.ordered:
            return self.runs
        latest: dict[int, tuple[AddRun, int]] = {}
        for run in self.runs:
            for i in range(run.count):
                latest[run.first + i] = (run, i)
        return list(_joined(sorted(latest.items())))


def _joined(places: list[tuple[int, tuple[AddRun, int]]]) -> Iterator[AddRun]:
    """Yield neighbouring entries of the same run as one part of it."""
    i = 0
    while i < len(places):
        run, start = places[i][1]
        j = i + 1
        while j < len(places) and places[j][1] == (run, start + j - i):
            j += 1
        yield run.part(start, start + j - i)
        i = j


class Generation:
    """Entries that arrived between two flushes. ``size``: bytes charged."""

    __slots__ = ("ledgers", "size")

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerRuns] = {}
        self.size = 0


class WriteCache:
    """Two generations of at most ``generation_bytes_max`` each. While it is ``full``, callers stop reading sockets."""

    def __init__(self, generation_bytes_max: int) -> None:
        self.generation_bytes_max = generation_bytes_max
        self.active = Generation()
        self.flushing: Generation | None = None

    def add(self, run: AddRun) -> None:
        runs = self.active.ledgers.get(run.ledger_id)
        if runs is None:
            runs = self.active.ledgers[run.ledger_id] = LedgerRuns()
        runs.add(run)
        self.active.size += run.stop - run.start + RUN_OVERHEAD_BYTES

    @property
    def full(self) -> bool:
        return self.active.size >= self.generation_bytes_max

    @property
    def size(self) -> int:
        return self.active.size + (self.flushing.size if self.flushing is not None else 0)

    def find(self, ledger_id: int, entry_id: int) -> tuple[AddRun, int] | None:
        runs = self.active.ledgers.get(ledger_id)
        if runs is not None and (hit := runs.find(entry_id)) is not None:
            return hit
        if self.flushing is not None and (runs := self.flushing.ledgers.get(ledger_id)) is not None:
            return runs.find(entry_id)
        return None

    def ranges(self, ledger_id: int) -> list[tuple[int, int]]:
        """Return (first, last) entry of each run of a ledger; runs may overlap."""
        ranges = []
        for generation in (self.active, self.flushing):
            runs = generation.ledgers.get(ledger_id) if generation is not None else None
            if runs is not None:
                ranges += [(run.first, run.below - 1) for run in runs.runs]
        return ranges

    def swap(self) -> Generation:
        """Begin a new generation; the old one stays readable until ``flushed``."""
        assert self.flushing is None, "two flushes at once"
        self.flushing, self.active = self.active, Generation()
        return self.flushing

    def flushed(self) -> None:
        """Drop the swapped generation, which the index holds now."""
        self.flushing = None

    def forget(self, ledger_id: int) -> None:
        """Drop a deleted ledger from the generation being filled."""
        self.active.ledgers.pop(ledger_id, None)
