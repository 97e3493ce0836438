"""Conditions under which ledgers roll or may be trimmed."""

from dataclasses import replace

import pytest

from engine.managed.positions import LedgerSpan
from engine.managed.settings import LedgerConfig
from engine.managed.writing.lifecycle import is_full, next_check_s, trimmable

CONFIG = LedgerConfig(
    ledger_entries_max=10, ledger_bytes_max=100, ledger_age_min_s=60, ledger_age_max_s=600
)


@pytest.mark.parametrize(
    ("entries", "size", "age_s", "full"),
    [
        (10, 0, 60, True), (9, 0, 60, False), (0, 100, 60, True), (0, 99, 60, False),
        (10, 100, 59.9, False), (0, 0, 600, True), (0, 0, 599, False),
    ],
)  # fmt: skip
def test_a_ledger_is_full_by_entries_bytes_or_age_but_not_too_young(
    entries: int, size: int, age_s: float, full: bool
) -> None:
    assert is_full(entries, size, age_s, CONFIG) is full


def test_age_is_checked_only_when_it_can_matter() -> None:
    assert [next_check_s(age, CONFIG) for age in (0, 60, 599, 700)] == [60, 540, 1, 0.001]


LEDGERS = [
    LedgerSpan(1, 10, 100, 1_000), LedgerSpan(2, 0, 0, 1_500), LedgerSpan(3, 10, 100, 2_000),
    LedgerSpan(4, 10, 100, 3_000), LedgerSpan(5, 2, 20, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("consumed", "count"), [(100, 0), (109, 0), (110, 2), (119, 2), (120, 3), (131, 4), (132, 4)]
)
def test_only_wholly_consumed_ledgers_are_trimmed_and_never_the_last(
    consumed: int, count: int
) -> None:
    assert trimmable(LEDGERS, 100, consumed, 10_000, CONFIG) == count


@pytest.mark.parametrize(
    ("retention_s", "retention_bytes", "now_ms", "count"),
    [
        (-1, -1, 10**9, 0), (5, -1, 6_000, 0), (5, -1, 6_001, 2), (5, -1, 7_500, 3),
        (-1, 220, 10**9, 2), (-1, 120, 10**9, 3), (-1, 500, 10**9, 0), (0, -1, 5_000, 4),
        (1, 500, 2_600, 2),
    ],
)  # fmt: skip
def test_retention_keeps_young_ledgers_and_a_bounded_size(
    retention_s: float, retention_bytes: int, now_ms: int, count: int
) -> None:
    config = replace(CONFIG, retention_s=retention_s, retention_bytes=retention_bytes)
    assert trimmable(LEDGERS, 100, 132, now_ms, config) == count
