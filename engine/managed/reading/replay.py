"""Reading chosen entries of a cursor again, neighbours together."""

from collections.abc import Sequence

from engine.base.ids import Position
from engine.base.slices import Slice, View
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.ack_state import AckState
from engine.managed.reading.entries import LogEntries

REPLAY_SPAN = 256
"""Replayed entries of one ledger within so many ids are read at once."""


async def replay(source: LogEntries, acks: AckState, positions: Sequence[Position]) -> list[View]:
    """See ``Cursor.replay``."""
    line = source.line
    wanted = sorted({line.exact(*position) for position in positions})
    views: list[View] = []
    i = 0
    while i < len(wanted):
        ordinal = wanted[i]
        if ordinal < line.base or acks.is_acknowledged(ordinal):
            i += 1
            continue
        found, i = await _from(source, acks, wanted, i)
        views += found
    return views


async def _from(
    source: LogEntries, acks: AckState, wanted: list[int], i: int
) -> tuple[list[View], int]:
    """Entry ``wanted[i]`` with as many of the following as one read gives; views, and the index to go on from."""
    line = source.line
    start = wanted[i]
    ledger, base = line.find(start)
    stop = base + ledger.entries
    if source.tail.covers(start):
        return _cut(acks, wanted, i, source.tail.runs(start, wanted[-1] + 1))
    if source.backlog.covers(start):
        return _cut(acks, wanted, i, source.backlog.runs(start, wanted[-1] + 1))
    last = i
    while last + 1 < len(wanted) and wanted[last + 1] < min(stop, start + REPLAY_SPAN):
        last += 1
    try:
        read = await source.reads.fetch(start, wanted[last] + 1, source.read_bytes)
    except NoSuchLedgerError:
        if line.first_ordinal(ledger.ledger_id) is None:
            return [], i + 1
        raise
    runs = []
    for run in read:
        runs.append((start, run))
        start += run.count
    return _cut(acks, wanted, i, runs)


def _cut(
    acks: AckState, wanted: list[int], i: int, runs: list[tuple[int, Slice]]
) -> tuple[list[View], int]:
    views: list[View] = []
    for base, run in runs:
        while i < len(wanted) and wanted[i] < base + run.count:
            first = wanted[i]
            i += 1
            if acks.is_acknowledged(first):
                continue
            at = first + 1
            while i < len(wanted) and wanted[i] == at < base + run.count:
                if acks.is_acknowledged(at):
                    break
                at += 1
                i += 1
            views.append(View(run, first - base, at - base))
    return views, i
