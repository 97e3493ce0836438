"""Search for the position of a time in a log, by bisection. Entries are assumed to be ordered by their time (D11)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice
from engine.ledger.errors import LedgerError
from engine.managed.errors import StoredRecordError
from engine.managed.reading.entries import LogEntries
from engine.managed.reading.publish_times import publish_time

UNREADABLE_MAX = 1000
"""Consecutive entries without readable metadata that are searched for one that has some."""


async def find_by_time(
    entries: LogEntries,
    before_ms: int,
    time_of: Callable[[int], Awaitable[int]],
    after: Position = EARLIEST,
) -> Position:
    """Return the last entry whose time is before ``before_ms``; ``(first ledger, -1)`` when there is none. ``time_of``
    returns the time of an ordinal.

    Nothing up to ``after`` is read: when no entry behind it is older, the result is ``after``.
    """
    line = entries.line
    low, high = line.ordinal_after(after), line.durable_to
    middle = low  # the first entry first: most often nothing is older, and one read suffices
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
    entries: LogEntries, ordinal: int, now_ms: int, entry: Slice | None = None
) -> int:
    """Return when the entry at ``ordinal`` was published, epoch milliseconds. ``entry``: that entry alone, where it was
    read already. Raises LedgerError.

    An entry without readable metadata, which a client may have sent, counts as old as the next entry that has some.
    When none of the entries read behind it has any, it counts as old as its ledger's end, and as new while that ledger
    is open.
    """
    with suppress(StoredRecordError):
        return publish_time((entry or await entries.entry(ordinal)).entry(0))
    line = entries.line
    base, following = await entries.run(ordinal, line.durable_to)
    first = ordinal - base
    for i in range(first, min(first + UNREADABLE_MAX, following.count)):
        with suppress(StoredRecordError):
            return publish_time(following.entry(i))
    return line.find(ordinal)[0].timestamp_ms or now_ms
