"""Unconfirmed adds of one writer, run by run. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from engine.base.slices import Slice


class PendingRun(NamedTuple):
    """A run as pushed. ``length_before`` is the payload bytes of the ledger before the run's first entry."""

    run: Slice
    first: int
    length_before: int


class PendingAdds:
    """Runs in entry order, each kept until its last entry is confirmed so that it can be sent again. ``bytes`` is their
    payload bytes."""

    __slots__ = ("_runs", "bytes")

    def __init__(self) -> None:
        # A deque takes 620 bytes, so it is created at the first use.
        self._runs: deque[PendingRun] | None = None
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._runs or ())

    def push(self, run: Slice, first: int, length_before: int) -> None:
        runs = self._runs
        if runs is None:
            runs = self._runs = deque()
        runs.append(PendingRun(run, first, length_before))
        self.bytes += run.size

    def confirmed(self, below: int) -> None:
        """Remove the runs that lie entirely below an entry id."""
        runs = self._runs
        while runs and runs[0].first + runs[0].run.count <= below:
            self.bytes -= runs.popleft().run.size

    def length_below(self, entry_id: int, pushed: int) -> int:
        """Return the ledger's payload bytes before ``entry_id``; ``pushed`` is its length after everything pushed."""
        for run, first, length in self._runs or ():
            if entry_id < first + run.count:
                return length + run.size_of(0, max(entry_id - first, 0))
        return pushed

    def from_entry(self, entry_id: int) -> Iterator[tuple[Slice, int, int, int]]:
        """Yield the runs to send again from ``entry_id`` on: the run, the index and the id of the first entry to send,
        and the ledger's length before that entry."""
        for run, first, length in list(self._runs or ()):
            if first + run.count <= entry_id:
                continue
            start = max(entry_id - first, 0)
            yield run, start, first + start, length + run.size_of(0, start)
