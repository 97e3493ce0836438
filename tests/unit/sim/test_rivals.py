"""The checks of exclusive producers report each violation, and nothing for a correct history."""

import pytest

from engine.wire import pulsar_pb2 as pb
from tests.sim.rivals.workload import Granted, epochs_in_order, grants_in_order


def granted(
    identity: str, epoch: int, *, given: bool = False, before: int = -1, mode: int = pb.Exclusive
) -> Granted:
    return Granted(identity, mode, epoch, given, before)


def test_epochs_of_different_producers_may_be_reported_in_any_order() -> None:
    grants = [
        granted("a", 0),
        granted("b", 2, before=0),
        granted("a", 1),
        granted("b", 2, given=True),
    ]
    assert grants_in_order(grants) == []


@pytest.mark.parametrize(
    ("second", "violation"),
    [
        (granted("b", 3), "rivals: b and a both have epoch 3"),
        (granted("b", 2, before=3), "rivals: b has epoch 2 after 3"),
        (granted("b", 3, before=3, mode=pb.Shared), None),
    ],
)
def test_an_epoch_belongs_to_one_producer_and_exceeds_earlier_ones(
    second: Granted, violation: str | None
) -> None:
    assert grants_in_order([granted("a", 3), second]) == ([violation] if violation else [])


def test_nothing_is_stored_behind_a_greater_epoch() -> None:
    assert epochs_in_order(["a:0:0", "a:1:0", "b:0:1", "a:2:3"]) == []
    assert epochs_in_order(["a:0:0", "b:0:1", "a:1:0"]) == [
        "rivals: a publishes under epoch 0, b under 1 before"
    ]
