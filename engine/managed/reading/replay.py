"""Redelivery reads: chosen entries of a cursor are read again, neighbours together."""

from collections.abc import Sequence

from engine.base.ids import Position
from engine.base.slices import Slice, View
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.ack_state import AckState
from engine.managed.reading.entries import LogEntries

REPLAY_SPAN = 256
"""Replayed entries of one ledger whose ids differ by less than this are read at once."""


async def replay(
    source: LogEntries, acks: AckState, positions: Sequence[Position], bytes_max: int
) -> list[View]:
    """Read as ``Cursor.replay``."""
    line = source.line
    wanted = sorted({line.exact(*position) for position in positions})
    views: list[View] = []
    i = held = 0
    while i < len(wanted) and held < bytes_max:
        ordinal = wanted[i]
        if ordinal < line.base or acks.is_acknowledged(ordinal):
            i += 1
            continue
        more_views, i = await _read_from(source, acks, wanted, i, bytes_max - held)
        views += more_views
        held += sum({id(view.run): view.run.held for view in more_views}.values())
    return views


async def _read_from(
    source: LogEntries, acks: AckState, wanted: list[int], i: int, bytes_max: int
) -> tuple[list[View], int]:
    """Return views of entry ``wanted[i]`` and of as many following ones as one read returns and ``bytes_max`` bytes of
    buffers hold, and the index to continue from."""
    line = source.line
    start = wanted[i]
    ledger, base = line.find(start)
    stop = base + ledger.entries
    if source.tail.covers(start):
        return _cut(acks, wanted, i, source.tail.runs(start, wanted[-1] + 1), bytes_max)
    if source.backlog.covers(start):
        return _cut(acks, wanted, i, source.backlog.runs(start, wanted[-1] + 1), bytes_max)
    last = i
    while last + 1 < len(wanted) and wanted[last + 1] < min(stop, start + REPLAY_SPAN):
        last += 1
    try:
        runs_read = await source.reads.fetch(start, wanted[last] + 1, source.read_bytes)
    except NoSuchLedgerError:
        if line.first_ordinal(ledger.ledger_id) is None:
            return [], i + 1  # trimmed meanwhile
        raise
    runs = []
    for run in runs_read:
        runs.append((start, run))
        start += run.count
    return _cut(acks, wanted, i, runs, bytes_max)


def _cut(
    acks: AckState, wanted: list[int], i: int, runs: list[tuple[int, Slice]], bytes_max: int
) -> tuple[list[View], int]:
    views: list[View] = []
    for base, run in runs:
        if bytes_max <= 0:
            break
        present = len(views)
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
        if len(views) > present:
            bytes_max -= run.held
    return views, i
