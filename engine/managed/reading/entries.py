"""The sources of a log's entries: the tail cache, the segments that lagging cursors share, the bookies."""

from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.managed.positions import LedgerLine
from engine.managed.reading.backlog import Backlog, BacklogCache
from engine.managed.reading.entry_cache import TailCache
from engine.managed.reading.reads import LedgerReads


class LogEntries:
    """All durable entries of a log by ordinal, also those that readers may not be given yet: cursors respect
    ``line.readable_to``, other callers ``line.durable_to``."""

    __slots__ = ("backlog", "line", "read_bytes", "reads", "tail")

    def __init__(
        self,
        line: LedgerLine,
        tail: TailCache,
        reads: LedgerReads,
        cache: BacklogCache,
        tasks: TaskScope,
        read_bytes: int,
        ranges_ahead: int,
    ) -> None:
        """``read_bytes``: bytes that one read requests from the bookies, at least. ``ranges_ahead``: how many such
        reads of a backlog are ahead of a cursor."""
        self.line = line
        self.tail = tail
        self.reads = reads
        self.read_bytes = read_bytes
        self.backlog = Backlog(line, tail, reads, cache, tasks, read_bytes, ranges_ahead)

    async def run(self, start: int, stop: int) -> tuple[int, Slice]:
        """Return a slice that has the entry ``start``, and the ordinal of the slice's first entry. The following
        entries before ``stop`` are in it as far as the same read returns them. Not cached. Raises LedgerError."""
        if self.tail.covers(start):
            return self.tail.runs(start, stop)[0]
        return start, (await self.reads.fetch(start, stop, self.read_bytes))[0]

    async def entry(self, ordinal: int) -> Slice:
        """Return the entry with this ordinal as a slice of its own. Raises LedgerError."""
        run = self.at_hand(ordinal)
        if run is None:
            run = _single((await self.reads.fetch(ordinal, ordinal + 1, 1))[0], 0)
        return run

    def at_hand(self, ordinal: int) -> Slice | None:
        """Return the entry with this ordinal as a slice of its own; None when it has to be read from storage."""
        if not self.tail.covers(ordinal):
            return None
        ((base, run),) = self.tail.runs(ordinal, ordinal + 1)
        return _single(run, ordinal - base)


def _single(run: Slice, i: int) -> Slice:
    spans = run.spans[2 * i : 2 * i + 2]
    counts = None if run.counts is None else run.counts[i : i + 1]
    return Slice(run.buf, spans, spans[1] - spans[0], counts, run.ledger_id, run.first + i)
