"""Iteration over a topic's entries from the last to the first, without a cursor."""

from collections import deque
from collections.abc import AsyncGenerator

from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries

STEP_ENTRIES = 100
"""Entries read and held at a time, at most."""
STEP_BYTES = 1 << 20
"""Bytes read and held at a time, approximately."""


async def newest_first(entries: LogEntries, stop: int) -> AsyncGenerator[tuple[Slice, int], None]:
    """Iterate over the entries before the ordinal ``stop``, the last one first, as a slice and the index in it.

    Ends where the log begins, or has been trimmed to meanwhile. Not cached. Raises LedgerError.
    """
    line = entries.line
    while stop > line.base:
        ledger, base = line.find(stop - 1)
        average = max(ledger.size // max(ledger.entries, 1), 1)
        step = min(max(STEP_BYTES // average, 1), STEP_ENTRIES)
        pending: deque[tuple[Slice, int]] = deque()
        size = 0
        at = max(stop - step, base, line.base)
        while at < stop:
            first, run = await entries.run(at, stop)
            for i in range(at - first, min(stop - first, run.count)):
                pending.append((run, i))
                size += run.size_of(i, i + 1)
            # Entries that are dropped here are read again by the next step.
            while size > STEP_BYTES and len(pending) > 1:
                other, i = pending.popleft()
                size -= other.size_of(i, i + 1)
            at = first + run.count
        while pending:
            yield pending.pop()
            stop -= 1
