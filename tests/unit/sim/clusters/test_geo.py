"""The checkers of entries that a cluster received: what they accept, and each violation that they report."""

import pytest

from engine.base.ids import Position
from tests.sim.geo.checkers import Gap, Own, Received, compared, strangers

A, B, C, D = (Position(1, n) for n in range(4))
OWN = [Own(A), Own(B, ("eu",)), Own(C, ("ap",))]


def received(*positions: Position) -> list[Received]:
    return [Received("us", position) for position in positions]


def test_each_entry_once_and_in_order_is_right() -> None:
    assert compared("us", OWN, "eu", received(A, B)) == []
    assert compared("us", OWN, "ap", received(A, C)) == []


def test_entries_of_other_clusters_do_not_count() -> None:
    assert compared("us", OWN, "eu", [Received("ap", D), *received(A, B)]) == []


@pytest.mark.parametrize(
    ("positions", "wrong"),
    [
        ([A], "G2: 1:1 of us is 0 times in eu"),
        ([A, B, B], "G2: 1:1 of us is 2 times in eu"),
        ([B, A], "G2: entries of us are in another order in eu"),
        ([A, B, D], "G2: 1:3 is in eu and not in us"),
        ([A, B, C], "G3: 1:2 of us is in eu, for which it was not meant"),
    ],
)
def test_a_violation_is_reported(positions: list[Position], wrong: str) -> None:
    assert compared("us", OWN, "eu", received(*positions)) == [wrong]


@pytest.mark.parametrize(
    ("gap", "missing"),
    [(Gap(A), []), (Gap(A, B), []), (Gap(Position(0, 5), A), [B]), (Gap(B, C), [B])],
)
def test_entries_may_be_missing_in_a_gap_alone(gap: Gap, missing: list[Position]) -> None:
    wrong = [f"G2: {position} of us is 0 times in eu" for position in missing]
    assert compared("us", OWN, "eu", received(A), [gap]) == wrong


def test_entries_in_a_gap_arrive_in_order_and_once_if_at_all() -> None:
    gaps = [Gap(Position(0, 0))]
    assert compared("us", OWN, "eu", received(B, A), gaps) != []
    assert compared("us", OWN, "eu", received(A, A), gaps) != []


def test_schemas_are_those_of_the_origin() -> None:
    own = [Own(A, schema=b"x"), Own(B)]
    assert compared("us", own, "eu", [Received("us", A, b"x"), Received("us", B)]) == []
    assert compared("us", own, "eu", [Received("us", A, b"y"), Received("us", B)]) == [
        "G6: 1:0 of us has another schema in eu: b'y'"
    ]


def test_entries_come_from_clusters_that_send_to_this_one() -> None:
    assert strangers("eu", ["us"], received(A)) == []
    assert strangers("eu", ["ap"], received(A)) == ["G3: an entry of us came to eu"]
