"""Iteration over a topic's entries in order, without a cursor."""

from collections.abc import AsyncGenerator, AsyncIterator

from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries


async def oldest_first(entries: LogEntries, start: int) -> AsyncGenerator[tuple[Slice, int], None]:
    """Iterate over the entries from the ordinal ``start`` to the last one that readers may be given, as a slice and the
    index in it.

    Begins where the log begins if it was trimmed behind ``start``, also meanwhile. Not cached. Raises LedgerError.
    """
    line, at = entries.line, start
    while (at := max(at, line.base)) < line.readable_to:
        first, run = await entries.run(at, line.readable_to)
        for i in range(at - first, min(line.readable_to - first, run.count)):
            yield run, i
        at = first + run.count


async def runs_between(
    entries: LogEntries, start: int, stop: int
) -> AsyncIterator[tuple[Slice, range]]:
    """Iterate over the durable entries from the ordinal ``start`` (inclusive) to ``stop``, as slices and the indexes in
    them. Begins as ``oldest_first``. Not cached. Raises LedgerError."""
    line, at = entries.line, start
    while (at := max(at, line.base)) < stop:
        first, run = await entries.run(at, stop)
        yield run, range(at - first, min(stop - first, run.count))
        at = first + run.count
