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


def test_who_takes_from_a_parent_above_its_mark_waits_until_it_is_low() -> None:
    told: list[str] = []

    def child(name: str) -> Budget:
        return Budget(
            60,
            on_high=lambda: told.append(f"{name} high"),
            on_low=lambda: told.append(f"{name} low"),
            parent=parent,
        )

    parent = Budget(100)
    one, two, idle = child("one"), child("two"), child("idle")
    one.take(60)
    two.take(39)
    assert told == ["one high"]
    two.take(1)
    assert (two.high, idle.high) == (True, False)
    one.give(40, 0)  # its own count is low, and it took nothing while the parent was high
    assert told == ["one high", "two high", "one low"]
    two.give(5, 0)
    assert two.high
    two.give(5, 0)
    assert told[-1] == "two low"
    one.give(20, 1)
    two.give(30, 2)
    assert (parent.bytes, parent.items) == (0, 0)


def test_its_own_mark_and_its_parents_are_both_to_be_low() -> None:
    parent = Budget(10)
    child = Budget(10, low=0.2, parent=parent)
    child.take(10)
    child.give(5, 0)
    assert not parent.high
    assert child.high
    child.give(3, 0)
    assert not child.high


def test_within_its_share_nobody_waits_for_a_parent_that_stays_full() -> None:
    parent = Budget(100)
    stuck = Budget(1000, parent=parent, share=10)
    stuck.take(110)
    assert (parent.bytes, stuck.high) == (100, True)
    told: list[str] = []
    other = Budget(
        1000,
        on_high=lambda: told.append("high"),
        on_low=lambda: told.append("low"),
        parent=parent,
        share=10,
    )
    other.take(10)
    assert not other.high
    other.take(5)
    assert (parent.bytes, told) == (105, ["high"])
    other.give(4, 0)
    assert other.high
    other.give(1)
    assert (parent.bytes, told) == (100, ["high", "low"])
    other.take(30)
    stuck.give(110)  # the parent is low again before the other one is
    assert told == ["high", "low", "high", "low"]
    other.give(20)
    other.give(20)
    assert (parent.bytes, parent.items, other.high) == (0, 0, False)


def test_giving_back_too_much_is_a_bug() -> None:
    with pytest.raises(MisuseError):
        Budget(10).give(1)
    with pytest.raises(MisuseError, match="maxima"):
        Budget(0)
