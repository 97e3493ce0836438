"""Counting in a backlog, compared with a count of single entries."""

import random

from engine.admin.unacknowledged import nth_unacknowledged
from engine.base.ids import Position
from engine.managed.stats import CursorStats, LedgerInfo


def cursor(mark: Position, ranges: tuple[tuple[Position, Position], ...]) -> CursorStats:
    return CursorStats(
        name="c", durable=True, mark_delete=mark, read_position=mark, persisted_mark_delete=mark,
        backlog_entries=0, acknowledged_range_count=len(ranges), acknowledged_ranges=ranges,
        cursor_ledger_id=-1, cursor_ledger_last_entry=-1,
        last_ledger_switch_ms=0, last_active_ms=0, state="Open", properties={},
        cursor_properties={},
    )  # fmt: skip


def test_every_backlog_is_counted_as_its_entries_are() -> None:
    rng = random.Random(1)
    for _ in range(200):
        sizes = {3 * i: rng.randrange(6) for i in range(rng.randrange(1, 4))}
        ledgers = [
            LedgerInfo(ledger_id, entries, 0, 0, True) for ledger_id, entries in sizes.items()
        ]
        entries = [
            Position(ledger_id, i) for ledger_id, count in sizes.items() for i in range(count)
        ]
        mark_at = rng.randrange(-1, len(entries))
        mark = entries[mark_at] if mark_at >= 0 else Position(0, -1)
        acked = {p for p in entries[mark_at + 1 :] if rng.random() < 0.5}
        ranges: list[tuple[Position, Position]] = []
        for before, p in zip([mark, *entries[mark_at + 1 :]], entries[mark_at + 1 :], strict=False):
            if p in acked and before in acked and ranges:
                ranges[-1] = (ranges[-1][0], p)
            elif p in acked:
                ranges.append((p, p))
        due = [p for p in entries[mark_at + 1 :] if p not in acked]
        stats = cursor(mark, tuple(ranges))
        positions = [nth_unacknowledged(ledgers, stats, n) for n in range(1, len(due) + 2)]
        assert positions == [*due, None]
