"""The checker of entries that a cluster received: what it accepts, and each violation that it reports."""

import pytest

from engine.base.ids import Position
from tests.sim.geo.workload import compared

A, B, C = (Position(1, n) for n in range(3))


def test_each_entry_once_and_in_order_is_right() -> None:
    assert compared("us", [A, B], "eu", [("us", A), ("us", B)]) == []


@pytest.mark.parametrize(
    ("received", "wrong"),
    [
        ([("us", A)], "G2: 1:1 of us is 0 times in eu"),
        ([("us", A), ("us", B), ("us", B)], "G2: 1:1 of us is 2 times in eu"),
        ([("us", B), ("us", A)], "G2: entries of us are in another order in eu"),
        ([("us", A), ("us", B), ("us", C)], "G2: 1:2 is in eu and not in us"),
        ([("us", A), ("us", B), ("eu", C)], "G3: an entry of eu came to eu"),
    ],
)
def test_a_violation_is_reported(received: list[tuple[str, Position | None]], wrong: str) -> None:
    assert compared("us", [A, B], "eu", received) == [wrong]
