"""Adds of one writer that are not confirmed yet, run by run. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from engine.base.slices import Slice


class PendingRun(NamedTuple):
    """A run as pushed. ``length_before`` is the payload bytes of the ledger before its first entry."""

    run: Slice
    first: int
    length_before: int


class PendingAdds:
    """Runs in entry order; kept whole until their last entry is confirmed, so that they can be sent again."""

    __slots__ = ("_runs", "bytes")

    def __init__(self) -> None:
        self._runs: deque[PendingRun] | None = None  # a deque is 620 bytes: made when it is used
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
        """Forget the runs that lie wholly below an entry id."""
        runs = self._runs
        while runs and runs[0].first + runs[0].run.count <= below:
            self.bytes -= runs.popleft().run.size

    def length_below(self, entry_id: int, pushed: int) -> int:
        """Payload bytes of the ledger before ``entry_id``; ``pushed`` is the length after everything pushed."""
        for run, first, length in self._runs or ():
            if entry_id < first + run.count:
                return length + run.size_of(0, max(entry_id - first, 0))
        return pushed

    def from_entry(self, entry_id: int) -> Iterator[tuple[Slice, int, int, int]]:
        """Runs to send again from an entry on: run, index of its first due entry, that entry's id, length before it."""
        for run, first, length in list(self._runs or ()):
            if first + run.count <= entry_id:
                continue
            start = max(entry_id - first, 0)
            yield run, start, first + start, length + run.size_of(0, start)
