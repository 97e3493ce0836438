"""A topic's entries from their end backwards, for whoever looks at them without a cursor."""

from collections import deque
from collections.abc import AsyncGenerator

from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries

STEP_ENTRIES = 100
STEP_BYTES = 1 << 20
"""About what is read and held at a time."""


async def newest_first(entries: LogEntries, stop: int) -> AsyncGenerator[tuple[Slice, int], None]:
    """Slice and index in it of each entry before the ordinal ``stop``, the last one first; they end where the log
    begins, or has been trimmed to meanwhile. Kept in no cache. Raises LedgerError."""
    line = entries.line
    while stop > line.base:
        ledger, base = line.find(stop - 1)
        average = max(ledger.size // max(ledger.entries, 1), 1)
        step = min(max(STEP_BYTES // average, 1), STEP_ENTRIES)
        kept: deque[tuple[Slice, int]] = deque()
        size = 0
        at = max(stop - step, base, line.base)
        while at < stop:
            first, run = await entries.run(at, stop)
            for i in range(at - first, min(stop - first, run.count)):
                kept.append((run, i))
                size += run.size_of(i, i + 1)
            while size > STEP_BYTES and len(kept) > 1:  # the next step begins with them
                other, i = kept.popleft()
                size -= other.size_of(i, i + 1)
            at = first + run.count
        while kept:
            yield kept.pop()
            stop -= 1
