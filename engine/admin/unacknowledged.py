"""Search for the n-th unacknowledged entry of a subscription in snapshots of ledgers and cursor. Pure."""

from collections.abc import Iterator, Sequence

from engine.base.ids import Position
from engine.managed.stats import CursorStats, LedgerInfo


def nth_unacknowledged(
    ledgers: Sequence[LedgerInfo], cursor: CursorStats, nth: int
) -> Position | None:
    """Return the position of the ``nth`` (from 1) unacknowledged entry behind the mark-delete position.

    Returns None beyond the end. The result is exact if the snapshot has all acknowledged ranges of the cursor.
    """
    remaining = nth
    for first, last in _gaps(ledgers, cursor):
        count = last.entry_id - first.entry_id + 1
        if remaining <= count:
            return Position(first.ledger_id, first.entry_id + remaining - 1)
        remaining -= count
    return None


def _gaps(
    ledgers: Sequence[LedgerInfo], cursor: CursorStats
) -> Iterator[tuple[Position, Position]]:
    """Yield runs of unacknowledged entries (both ends included) in order, each within one ledger."""
    mark = cursor.mark_delete
    for ledger in ledgers:
        if ledger.ledger_id < mark.ledger_id:
            continue
        start = mark.entry_id + 1 if ledger.ledger_id == mark.ledger_id else 0
        for first, last in cursor.acknowledged_ranges:
            low = first.entry_id if first.ledger_id == ledger.ledger_id else 0
            high = last.entry_id if last.ledger_id == ledger.ledger_id else ledger.entries - 1
            if not first.ledger_id <= ledger.ledger_id <= last.ledger_id:
                continue
            if low > start:
                yield Position(ledger.ledger_id, start), Position(ledger.ledger_id, low - 1)
            start = max(start, high + 1)
        if start < ledger.entries:
            yield Position(ledger.ledger_id, start), Position(ledger.ledger_id, ledger.entries - 1)
