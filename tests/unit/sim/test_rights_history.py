"""A simulated broker must have acted on what it was notified of a second before, without a stop, and nothing else."""

import pytest

from tests.sim.rights.history import Notices, Right, Sample

LINK = ("broker-1#1", 1)


def sampled(until: float, *, away: float | None = None, proofs_end: float | None = None) -> Notices:
    """Return the samples of every quarter of a second; the store was away at one, or is silent from ``proofs_end``."""
    notices = Notices()
    for quarter in range(int(until * 4) + 1):
        at = quarter / 4
        proof = at if proofs_end is None else min(at, proofs_end)
        notices.add(Sample(at, proof, None if at == away else LINK))
    return notices


def test_a_broker_has_acted_on_what_reached_it_a_second_ago() -> None:
    assert sampled(5.0).acted_by(5.0, LINK) == 3.75
    assert sampled(5.0, proofs_end=2.0).acted_by(5.0, LINK) == 2.0


@pytest.mark.parametrize("away", [4.0, 4.75, 5.0])
def test_a_broker_whose_store_was_away_within_the_second_need_not_have_acted(away: float) -> None:
    assert sampled(5.0, away=away).acted_by(5.0, LINK) is None
    assert sampled(5.0).acted_by(5.0, None) is None
    assert sampled(5.0).acted_by(5.0, ("broker-1#1", 2)) is None
    assert sampled(1.0).acted_by(1.0, LINK) is None


def test_a_right_is_sure_once_it_is_confirmed_and_until_the_next_change_begins() -> None:
    right = Right()
    assert right.is_surely(True, 1.0)
    right.begin(False)
    assert not right.is_surely(True, 1.0)
    assert not right.is_surely(False, 9.0)
    right.confirm(2.0)
    assert right.is_surely(False, 2.0)
    assert not right.is_surely(False, 1.9)
    assert not right.is_surely(False, None)
