"""The checks of producers that have a topic to themselves see what is wrong and stay silent about what is right."""

import pytest

from engine.wire import pulsar_pb2 as pb
from tests.sim.rivals.workload import Granted, epochs_in_order, grants_in_order


def told(
    identity: str, epoch: int, *, given: bool = False, before: int = -1, mode: int = pb.Exclusive
) -> Granted:
    return Granted(identity, mode, epoch, given, before)


def test_epochs_of_their_own_are_right_in_whatever_order_they_are_told() -> None:
    granted = [told("a", 0), told("b", 2, before=0), told("a", 1), told("b", 2, given=True)]
    assert grants_in_order(granted) == []


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (told("b", 3), "rivals: b and a both have epoch 3"),
        (told("b", 2, before=3), "rivals: b has epoch 2 after 3"),
        (told("b", 3, before=3, mode=pb.Shared), None),
    ],
)
def test_an_epoch_is_one_producers_and_greater_than_those_before(
    second: Granted, said: str | None
) -> None:
    assert grants_in_order([told("a", 3), second]) == ([said] if said else [])


def test_nothing_is_stored_behind_a_greater_epoch() -> None:
    assert epochs_in_order(["a:0:0", "a:1:0", "b:0:1", "a:2:3"]) == []
    assert epochs_in_order(["a:0:0", "b:0:1", "a:1:0"]) == [
        "rivals: a publishes under epoch 0, b under 1 before"
    ]
