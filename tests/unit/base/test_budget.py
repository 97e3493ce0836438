"""Budgets say high once and low once, and notice misuse."""

import pytest

from engine.base.budget import Budget
from engine.base.errors import MisuseError


def test_marks_are_told_once_per_crossing() -> None:
    told: list[str] = []
    budget = Budget(100, 10, on_high=lambda: told.append("high"), on_low=lambda: told.append("low"))
    budget.take(99)
    assert told == []
    budget.take(1)
    budget.take(50)
    assert told == ["high"]
    assert budget.high
    budget.give(99)
    assert told == ["high"]
    budget.give(1)
    assert told == ["high", "low"]
    budget.give(50)
    assert (budget.bytes, budget.items) == (0, 0)


def test_items_alone_reach_the_mark_too() -> None:
    budget = Budget(100, 2)
    budget.take(1)
    assert budget.fits(1)
    budget.take(1)
    assert budget.high
    assert not budget.fits(1)


def test_something_always_fits_an_empty_budget() -> None:
    budget = Budget(10)
    assert budget.fits(1000)
    budget.take(1)
    assert not budget.fits(10)


def test_giving_back_too_much_is_a_bug() -> None:
    with pytest.raises(MisuseError):
        Budget(10).give(1)
    with pytest.raises(MisuseError, match="maxima"):
        Budget(0)
