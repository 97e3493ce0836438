"""Single entries of a managed ledger: one by position, and the place of a time by halving."""

from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.ledger.errors import LedgerError
from engine.managed.errors import InvalidPositionError
from engine.managed.positions import LedgerLine
from engine.managed.reading.entry_cache import TailCache
from engine.managed.reading.publish_times import publish_time
from engine.managed.reading.reads import LedgerReads


class Readable(Protocol):
    """What is read: a managed ledger."""

    name: str
    line: LedgerLine
    reads: LedgerReads
    tail: TailCache


async def read_entry(ledger: Readable, position: Position) -> Slice:
    """The one entry at ``position``. Raises InvalidPositionError when there is none."""
    ordinal = ledger.line.exact(*position)
    if ordinal < 0:
        raise InvalidPositionError(f"{ledger.name} has no entry {position}")
    return await _entry(ledger, ordinal)


async def _entry(ledger: Readable, ordinal: int) -> Slice:
    if ledger.tail.covers(ordinal):
        ((base, run),) = ledger.tail.runs(ordinal, ordinal + 1)
    else:
        run = (await ledger.reads.fetch(ordinal, ordinal + 1, 1))[0]
        base = ordinal
    i = ordinal - base
    spans = run.spans[2 * i : 2 * i + 2]
    counts = None if run.counts is None else run.counts[i : i + 1]
    return Slice(run.buf, spans, spans[1] - spans[0], counts, run.ledger_id, run.first + i)


async def find_by_time(ledger: Readable, publish_ms: int) -> Position:
    """Last entry published before ``publish_ms``; ``(first ledger, -1)`` when there is none."""
    line = ledger.line
    low, high = line.base, line.end
    while low < high:
        middle = (low + high) // 2
        try:
            run = await _entry(ledger, middle)
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
