"""The place of a time in a log, by halving."""

from engine.base.ids import Position
from engine.ledger.errors import LedgerError
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.publish_times import publish_time


async def find_by_time(entries: LogEntries, publish_ms: int) -> Position:
    """Last entry published before ``publish_ms``; ``(first ledger, -1)`` when there is none."""
    line = entries.line
    low, high = line.base, line.end
    while low < high:
        middle = (low + high) // 2
        try:
            run = await entries.one(middle)
        except LedgerError:
            if middle >= line.base:
                raise
            low = line.base  # trimmed meanwhile
            continue
        if publish_time(run.entry(0)) < publish_ms:
            low = middle + 1
        else:
            high = middle
        low = max(low, line.base)
    return line.before(low)
