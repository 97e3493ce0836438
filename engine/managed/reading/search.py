"""The place of a time in a log, by halving. Entries are taken as ordered by their time (D11)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice
from engine.ledger.errors import LedgerError
from engine.managed.errors import StoredRecordError
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.publish_times import publish_time

UNREADABLE_MAX = 1000
"""Entries without readable metadata, one behind the other, that are looked through for one that has some."""


async def find_by_time(
    entries: LogEntries,
    before_ms: int,
    time_of: Callable[[int], Awaitable[int]],
    after: Position = EARLIEST,
) -> Position:
    """Last entry whose ``time_of`` its ordinal is before ``before_ms``; ``(first ledger, -1)`` when there is none.

    Nothing up to ``after`` is read: when nothing behind it is older, it is the answer.
    """
    line = entries.line
    low, high = line.ordinal_after(after), line.end
    middle = low  # nothing is older, most often
    while low < high:
        try:
            time_ms = await time_of(middle)
        except LedgerError:
            if middle >= line.base:
                raise
            low = middle = line.base  # trimmed meanwhile
            continue
        if time_ms < before_ms:
            low = middle + 1
        else:
            high = middle
        low = max(low, line.base)
        middle = (low + high) // 2
    return line.before(low)


async def published_ms(
    entries: LogEntries, ordinal: int, now_ms: int, one: Slice | None = None
) -> int:
    """When the entry at ``ordinal`` was published, epoch milliseconds. ``one``: that entry alone, where it was read
    already. Raises LedgerError.

    One without readable metadata, which a client may have sent, counts as old as the next one that has some; where one
    read behind it finds none, as old as its ledger's end, and as new while that is open.
    """
    with suppress(StoredRecordError):
        return publish_time((one or await entries.one(ordinal)).entry(0))
    line = entries.line
    base, run = await entries.run(ordinal, line.end)
    first = ordinal - base
    for i in range(first, min(first + UNREADABLE_MAX, run.count)):
        with suppress(StoredRecordError):
            return publish_time(run.entry(i))
    return line.find(ordinal)[0].timestamp_ms or now_ms
