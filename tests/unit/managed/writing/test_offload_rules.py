import uuid
from dataclasses import replace

import pytest

from engine.managed.positions import LedgerSpan
from engine.managed.stored.offloads import Offload, with_offload
from engine.managed.writing.offload_rules import releasable

MOVED = Offload(uuid.UUID(int=1), complete=True, completed_ms=1_000_000)


def ledger(offload: Offload) -> LedgerSpan:
    return LedgerSpan(7, 5, 100, 900_000, with_offload(b"", offload))


@pytest.mark.parametrize(
    ("lag_s", "now_s", "released"),
    [(-1, 9999, False), (0, 1000, True), (60, 1059, False), (60, 1060, True)],
)
def test_a_moved_ledger_stays_on_bookies_for_the_lag(
    lag_s: float, now_s: int, released: bool
) -> None:
    span = ledger(MOVED)
    assert releasable([span], now_s * 1000, lag_s) == ([span] if released else [])


def test_a_clock_that_ran_ahead_holds_no_ledger_for_longer_than_the_lag() -> None:
    span = ledger(MOVED)
    assert releasable([span], 1_000_000 - 3_600_000, 60) == [span]
    assert releasable([span], 999_999, 0) == [span]
    assert releasable([span], 999_999, 60) == []


def test_a_ledger_is_released_once_and_only_after_its_copy() -> None:
    gone = ledger(replace(MOVED, deleted_from_bookies=True))
    begun = ledger(Offload(uuid.UUID(int=1)))
    assert releasable([gone, begun], 9_999_000, 0) == []
