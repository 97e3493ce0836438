"""The place of a time in a log, by halving. Entries are taken as ordered by their publish time (D11)."""

from engine.base.ids import EARLIEST, Position
from engine.ledger.errors import LedgerError
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.publish_times import publish_time


async def find_by_time(
    entries: LogEntries, publish_ms: int, after: Position = EARLIEST
) -> Position:
    """Last entry published before ``publish_ms``; ``(first ledger, -1)`` when there is none.

    Nothing up to ``after`` is read: when nothing behind it is older, it is the answer.
    """
    line = entries.line
    low, high = line.ordinal_after(after), line.end
    middle = low  # nothing is older, most often
    while low < high:
        try:
            run = await entries.one(middle)
        except LedgerError:
            if middle >= line.base:
                raise
            low = middle = line.base  # trimmed meanwhile
            continue
        if publish_time(run.entry(0)) < publish_ms:
            low = middle + 1
        else:
            high = middle
        low = max(low, line.base)
        middle = (low + high) // 2
    return line.before(low)
