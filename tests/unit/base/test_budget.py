"""Budgets report each crossing of a mark once and raise on misuse."""

import pytest

from engine.base.budget import Budget
from engine.base.errors import MisuseError


def test_each_crossing_of_a_mark_is_reported_once() -> None:
    events: list[str] = []
    budget = Budget(
        100, 10, on_high=lambda: events.append("high"), on_low=lambda: events.append("low")
    )
    budget.take(99)
    assert events == []
    budget.take(1)
    budget.take(50)
    assert events == ["high"]
    assert budget.high
    budget.give(99)
    assert events == ["high"]
    budget.give(1)
    assert events == ["high", "low"]
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


def test_a_child_of_a_full_parent_stays_high_until_the_parent_is_low() -> None:
    events: list[str] = []

    def child(name: str) -> Budget:
        return Budget(
            60,
            on_high=lambda: events.append(f"{name} high"),
            on_low=lambda: events.append(f"{name} low"),
            parent=parent,
        )

    parent = Budget(100)
    first, second, idle = child("first"), child("second"), child("idle")
    first.take(60)
    second.take(39)
    assert events == ["first high"]
    second.take(1)
    assert (second.high, idle.high) == (True, False)
    first.give(40, 0)  # its own count is low, and it took nothing while the parent was high
    assert events == ["first high", "second high", "first low"]
    second.give(5, 0)
    assert second.high
    second.give(5, 0)
    assert events[-1] == "second low"
    first.give(20, 1)
    second.give(30, 2)
    assert (parent.bytes, parent.items) == (0, 0)


def test_a_child_is_low_once_its_own_mark_and_its_parents_are() -> None:
    parent = Budget(10)
    child = Budget(10, low=0.2, parent=parent)
    child.take(10)
    child.give(5, 0)
    assert not parent.high
    assert child.high
    child.give(3, 0)
    assert not child.high


def test_a_child_within_its_share_does_not_wait_for_a_full_parent() -> None:
    parent = Budget(100)
    stuck = Budget(1000, parent=parent, share=10)
    stuck.take(110)
    assert (parent.bytes, stuck.high) == (100, True)
    events: list[str] = []
    other = Budget(
        1000,
        on_high=lambda: events.append("high"),
        on_low=lambda: events.append("low"),
        parent=parent,
        share=10,
    )
    other.take(10)
    assert not other.high
    other.take(5)
    assert (parent.bytes, events) == (105, ["high"])
    other.give(4, 0)
    assert other.high
    other.give(1)
    assert (parent.bytes, events) == (100, ["high", "low"])
    other.take(30)
    stuck.give(110)  # the parent is low again before the other child is
    assert events == ["high", "low", "high", "low"]
    other.give(20)
    other.give(20)
    assert (parent.bytes, parent.items, other.high) == (0, 0, False)


def test_giving_back_too_much_is_a_bug() -> None:
    with pytest.raises(MisuseError):
        Budget(10).give(1)
    with pytest.raises(MisuseError, match="maxima"):
        Budget(0)
