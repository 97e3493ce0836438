"""The checker of what a replicated subscription passed: what it accepts, and the violation that it reports."""

from engine.base.ids import Position
from tests.sim.moving.workload import ahead, early

STORED = {Position(1, n): ("p", n) for n in range(3)}


def test_an_update_that_follows_the_acknowledgements_is_right() -> None:
    acknowledged = {("p", 0): 0, ("p", 1): 1}
    updates = [(Position(1, 0), 1), (Position(1, 1), 2), (Position(0, 5), 0)]
    assert early("eu", updates, STORED, acknowledged) == []


def test_an_update_before_an_acknowledgement_is_reported() -> None:
    acknowledged = {("p", 1): 0, ("p", 0): 1}
    wrong = ["G4: the update to 1:1 came to eu before all was acknowledged"]
    assert early("eu", [(Position(1, 1), 1)], STORED, acknowledged) == wrong
    assert early("eu", [(Position(1, 2), 9)], STORED, acknowledged) == [
        "G4: the update to 1:2 came to eu before all was acknowledged"
    ]


def test_entries_that_were_acknowledged_somewhere_may_be_passed() -> None:
    assert ahead("eu", {("p", 1)}, {("p", 1), ("p", 2)}, "at the end") == []


def test_passed_entries_that_nothing_acknowledged_are_reported() -> None:
    wrong = ahead("eu", {("p", 1), ("p", 2), ("p", 3)}, {("p", 1)}, "at the end")
    assert wrong == [
        "G4: 2 entries are passed in eu and were acknowledged nowhere, at the end, the first: p 2"
    ]
