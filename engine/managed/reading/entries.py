"""Where the entries of a log come from: the tail cache, what lagging cursors share of the backlog, the bookies."""

from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.managed.positions import LedgerLine
from engine.managed.reading.backlog import Backlog, BacklogCache
from engine.managed.reading.entry_cache import TailCache
from engine.managed.reading.reads import LedgerReads


class LogEntries:
    """All of them by ordinal. Entries at or behind ``line.end`` are nobody's to read."""

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
        """``read_bytes``: what one read asks the bookies for, at least; ``ranges_ahead``: how many such reads of a
        backlog are ahead of a cursor."""
        self.line = line
        self.tail = tail
        self.reads = reads
        self.read_bytes = read_bytes
        self.backlog = Backlog(line, tail, reads, cache, tasks, read_bytes, ranges_ahead)

    async def run(self, start: int, stop: int) -> tuple[int, Slice]:
        """A slice with the entry ``start`` in it, what follows before ``stop`` as far as it comes along, and the
        ordinal of its first entry. Kept in no cache. Raises LedgerError."""
        if self.tail.covers(start):
            return self.tail.runs(start, stop)[0]
        return start, (await self.reads.fetch(start, stop, self.read_bytes))[0]

    async def one(self, ordinal: int) -> Slice:
        """The entry with this ordinal, alone. Raises LedgerError."""
        found = self.at_hand(ordinal)
        if found is None:
            found = _alone((await self.reads.fetch(ordinal, ordinal + 1, 1))[0], 0)
        return found

    def at_hand(self, ordinal: int) -> Slice | None:
        """The entry with this ordinal, alone; None when it has to be read."""
        if not self.tail.covers(ordinal):
            return None
        ((base, run),) = self.tail.runs(ordinal, ordinal + 1)
        return _alone(run, ordinal - base)


def _alone(run: Slice, i: int) -> Slice:
    spans = run.spans[2 * i : 2 * i + 2]
    counts = None if run.counts is None else run.counts[i : i + 1]
    return Slice(run.buf, spans, spans[1] - spans[0], counts, run.ledger_id, run.first + i)
