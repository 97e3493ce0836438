"""The ack tracker against a model that counts every entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import MisuseError
from engine.ledger.quorum import AckTracker, check_quorums, covered, holds, write_set

SHAPES = [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2), (3, 2, 2), (3, 2, 1), (5, 3, 2), (4, 2, 2)]


def test_write_sets_rotate_over_the_ensemble() -> None:
    assert write_set(0, 3, 2) == [0, 1]
    assert write_set(2, 3, 2) == [2, 0]
    assert write_set((1 << 40) + 1, 3, 3) == [(i + (1 << 40) + 1) % 3 for i in range(3)]


@pytest.mark.parametrize(("e", "w", "a"), SHAPES)
def test_holds_agrees_with_write_set(e: int, w: int, a: int) -> None:
    for entry in range(20):
        assert [p for p in range(e) if holds(p, entry, e, w)] == sorted(write_set(entry, e, w))


def test_quorums_out_of_order_are_refused() -> None:
    for bad in ((2, 3, 1), (3, 1, 2), (1, 1, 0)):
        with pytest.raises(MisuseError):
            check_quorums(*bad)


def test_a_quorum_of_watermarks_confirms() -> None:
    acks = AckTracker(3, 3, 2)
    acks.acked(0, 0, 10)
    assert acks.confirmed(10) == 0
    acks.acked(1, 0, 4)
    assert acks.confirmed(10) == 4
    acks.acked(2, 6, 4)
    assert acks.confirmed(10) == 4
    acks.acked(2, 0, 6)
    assert acks.confirmed(10) == 10


def test_a_replaced_position_counts_from_zero() -> None:
    acks = AckTracker(2, 2, 2)
    acks.acked(0, 0, 5)
    acks.acked(1, 0, 2)
    assert acks.confirmed(5) == 2
    acks.replace(0, 2)
    acks.acked(1, 2, 3)
    assert acks.confirmed(5) == 2
    acks.acked(0, 2, 3)
    assert acks.confirmed(5) == 5


@given(st.sampled_from(SHAPES), st.integers(1, 24), st.data())
def test_confirmed_is_the_first_entry_short_of_its_quorum(
    shape: tuple[int, int, int], total: int, data: st.DataObject
) -> None:
    e, w, a = shape
    acks = AckTracker(e, w, a)
    answers = [(p, x) for p in range(e) for x in range(total) if holds(p, x, e, w)]
    shuffled = data.draw(st.permutations(answers))
    got: set[tuple[int, int]] = set()
    for position, entry in shuffled[: data.draw(st.integers(0, len(shuffled)))]:
        acks.acked(position, entry, 1)
        got.add((position, entry))
    # a position's answers count up to its first gap
    counted = set()
    for p in range(e):
        for x in (x for x in range(total) if holds(p, x, e, w)):
            if (p, x) not in got:
                break
            counted.add((p, x))
    expected = 0
    while expected < total and sum((p, expected) in counted for p in range(e)) >= a:
        expected += 1
    assert acks.confirmed(total) == expected


@given(st.sampled_from(SHAPES), st.integers(1, 24), st.data())
def test_answers_from_all_bookies_confirm_every_entry(
    shape: tuple[int, int, int], total: int, data: st.DataObject
) -> None:
    e, w, a = shape
    acks = AckTracker(e, w, a)
    answers = [(p, x) for p in range(e) for x in range(total) if holds(p, x, e, w)]
    seen = 0
    for position, entry in data.draw(st.permutations(answers)):
        acks.acked(position, entry, 1)
        now = acks.confirmed(total)
        assert now >= seen
        seen = now
    assert seen == total


@given(st.sampled_from(SHAPES), st.data())
def test_coverage_means_every_ack_quorum_was_met(
    shape: tuple[int, int, int], data: st.DataObject
) -> None:
    e, w, a = shape
    answered = data.draw(st.lists(st.booleans(), min_size=e, max_size=e))
    met = all(sum(not answered[p] for p in write_set(entry, e, w)) < a for entry in range(e))
    assert covered(answered, w, a) is met
