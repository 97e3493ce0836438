"""Iteration over a topic's entries from a position to the last one that readers may be given, without a cursor."""

from collections.abc import AsyncGenerator

from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries


async def oldest_first(entries: LogEntries, start: int) -> AsyncGenerator[tuple[Slice, int], None]:
    """Iterate over the entries from the ordinal ``start`` on, as a slice and the index in it.

    Begins where the log begins if it was trimmed behind ``start``, also meanwhile. Not cached. Raises LedgerError.
    """
    line, at = entries.line, start
    while (at := max(at, line.base)) < line.readable_to:
        first, run = await entries.run(at, line.readable_to)
        for i in range(at - first, min(line.readable_to - first, run.count)):
            yield run, i
        at = first + run.count
