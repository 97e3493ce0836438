"""The first reason for which each ledger of a topic is kept, by the rules of trimming."""

import pytest

from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.settings import LedgerConfig
from engine.managed.writing.ledger_holders import EXPLANATIONS, NEXT_STEPS, Holder, held_spans

NOW_MS = 1_750_000_000_000
NOTHING_KEPT = LedgerConfig(retention_s=0.0, retention_bytes=0)


def line() -> LedgerLine:
    """Return four ledgers of ten entries, closed 3, 2 and 1 hours ago, and the current one."""
    closed = (LedgerSpan(n, 10, 100, NOW_MS - (4 - n) * 3_600_000) for n in (1, 2, 3))
    return LedgerLine([*closed, LedgerSpan(4, 10, 100)])


FREE, SUB, KEPT, CURRENT = Holder.NOTHING, Holder.SUBSCRIPTION, Holder.RETENTION, Holder.CURRENT


@pytest.mark.parametrize(
    ("marks", "more", "expected"),
    [
        ({}, {}, [FREE, FREE, FREE, CURRENT]),
        ({"a": 10}, {}, [FREE, SUB, SUB, CURRENT]),
        ({"a": 9, "b": 40}, {}, [SUB, SUB, SUB, CURRENT]),
        ({"a": 40}, {"unknown": ["lost"]}, [Holder.UNKNOWN] * 3 + [CURRENT]),
        ({"a": 40}, {"undo_limit": 10}, [FREE, Holder.UNDO, Holder.UNDO, CURRENT]),
        ({"a": 40}, {"undo_limit": 40}, [FREE, FREE, FREE, CURRENT]),
        ({}, {"offloaded": {2}}, [FREE, Holder.OFFLOADED, FREE, CURRENT]),
    ],
)
def test_each_ledger_has_the_first_reason_that_keeps_it(
    marks: dict[str, int], more: dict[str, list[str]], expected: list[Holder]
) -> None:
    held = held_spans(line(), marks, NOTHING_KEPT, NOW_MS, **more)  # type: ignore[arg-type]
    assert [item.holder for item in held] == expected


def test_retention_by_time_has_an_end_and_the_last_subscription_is_first() -> None:
    config = LedgerConfig(retention_s=9000.0, retention_bytes=-1)
    first, second, third, _ = held_spans(line(), {"b": 25, "a": 20}, config, NOW_MS)
    assert (first.holder, second.holder) == (FREE, KEPT)
    assert second.until_ms == second.span.timestamp_ms + 9_000_000
    assert (third.holder, third.subscriptions) == (SUB, ("a", "b"))


def test_every_reason_is_explained_and_has_a_next_step() -> None:
    assert EXPLANATIONS.keys() == NEXT_STEPS.keys() == set(Holder)
