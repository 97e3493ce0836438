"""Appends of one topic: those written to the present ledger, in order, and those queued for the next one. Pure."""

from collections import deque
from typing import NamedTuple, Protocol

from engine.base.slices import Slice


class AppendSink(Protocol):
    """The receiver of the outcomes of appends. Called on the event loop, in order of the appends of one managed ledger.

    Must not raise; may append again.
    """

    def appended(self, run: Slice, start: int, stop: int) -> None:
        """Report that entries ``start`` (inclusive) to ``stop`` of ``run`` are durable, at ``run.position(i)``."""
        ...

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        """Report that entries from ``start`` on were refused or have an unknown outcome. Terminal for the run.

        Runs queued behind it fail too, in order. To keep a producer's order, refuse what the producer still sends until
        it is created again.
        """
        ...


class Appendable(Protocol):
    """A log, or a part of it, to which runs of entries are appended."""

    def append(self, run: Slice, sink: AppendSink, /) -> None:
        """Append as ``ManagedLedger.append``."""
        ...


class Confirmation(NamedTuple):
    """Entries ``start`` to ``stop`` of ``run`` that became durable."""

    run: Slice
    sink: AppendSink
    start: int
    stop: int


class Appends:
    """Appends without an outcome: runs passed to the ledger writer, and runs that wait for a ledger."""

    __slots__ = (
        "_bytes_max", "_done", "_entries_max", "_sent", "_waiting",
        "sent_entries", "waiting_bytes", "waiting_entries",
    )  # fmt: skip

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        # Created with the first run: a deque has 620 bytes, and most of a broker's topics are idle.
        self._sent: deque[tuple[Slice, AppendSink]] | None = None
        self._done = 0  # confirmed entries of the first sent run
        self._waiting: deque[tuple[Slice, AppendSink]] | tuple[()] = ()
        self.sent_entries = 0
        self.waiting_entries = 0
        self.waiting_bytes = 0

    @property
    def entries(self) -> int:
        """Entries without an outcome."""
        return self.sent_entries + self.waiting_entries

    def sent(self, run: Slice, sink: AppendSink) -> None:
        """Add a run that was passed to the ledger writer."""
        sent = self._sent
        if sent is None:
            sent = self._sent = deque()
        sent.append((run, sink))
        self.sent_entries += run.count

    def wait(self, run: Slice, sink: AppendSink) -> bool:
        """Queue a run until there is a ledger. Return False when the bounds forbid it."""
        entries = self.waiting_entries + run.count
        size = self.waiting_bytes + run.size
        if self._waiting and (entries > self._entries_max or size > self._bytes_max):
            return False
        if isinstance(self._waiting, tuple):
            self._waiting = deque()
        self._waiting.append((run, sink))
        self.waiting_entries = entries
        self.waiting_bytes = size
        return True

    def take_waiting(self) -> tuple[Slice, AppendSink] | None:
        """Remove and return the run that waits longest; None when none waits."""
        if not self._waiting:
            return None
        run, sink = self._waiting.popleft()
        self.waiting_entries -= run.count
        self.waiting_bytes -= run.size
        return run, sink

    def confirmed(self, below: int) -> list[Confirmation]:
        """Remove and return what became durable, now that every entry id < ``below`` of the present ledger is."""
        confirmations: list[Confirmation] = []
        sent = self._sent
        while sent:
            run, sink = sent[0]
            stop = below - run.first
            if stop < run.count:
                if stop > self._done:
                    confirmations.append(Confirmation(run, sink, self._done, stop))
                    self.sent_entries -= stop - self._done
                    self._done = stop
                break
            sent.popleft()
            confirmations.append(Confirmation(run, sink, self._done, run.count))
            self.sent_entries -= run.count - self._done
            self._done = 0
        return confirmations

    def take_all(self) -> list[tuple[Slice, AppendSink, int]]:
        """Remove every run without an outcome and return it with its first entry without one, in order."""
        removed = [(run, sink, 0) for run, sink in (*(self._sent or ()), *self._waiting)]
        if self._sent:
            run, sink, _ = removed[0]
            removed[0] = (run, sink, self._done)
        self._sent, self._waiting = None, ()
        self._done = self.sent_entries = self.waiting_entries = self.waiting_bytes = 0
        return removed
