"""Positions of bookies after an ensemble change: no bookie has two."""

from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.cluster.placement import own_positions

ENSEMBLE = ["a", "b", "c"]


def test_a_failed_member_returns_to_its_own_position() -> None:
    assert own_positions({0: "b"}, ENSEMBLE) == {1: "b"}


def test_new_members_stay_at_the_positions_the_policy_chose() -> None:
    assert own_positions({0: "x", 2: "y"}, ENSEMBLE) == {0: "x", 2: "y"}


def test_a_new_member_yields_its_position_to_the_returning_member() -> None:
    assert own_positions({0: "b", 1: "x"}, ENSEMBLE) == {1: "b", 0: "x"}


@given(st.sets(st.integers(0, 4), min_size=1), st.randoms(use_true_random=False))
def test_no_bookie_has_two_positions_and_no_new_member_is_lost(
    failed: set[int], rng: object
) -> None:
    ensemble = list("abcde")
    free = [*(ensemble[p] for p in sorted(failed)), "x", "y"]
    rng.shuffle(free)  # type: ignore[attr-defined]
    for count in range(1, len(failed) + 1):
        chosen = dict(zip(sorted(failed), free[:count], strict=False))
        seated = own_positions(chosen, ensemble)
        assert sorted(seated.values()) == sorted(chosen.values())
        assert set(seated) <= failed
        after = [seated.get(p, bookie) for p, bookie in enumerate(ensemble)]
        assert len(set(after)) == len(after)
