"""Who gets the next messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.dispatch.choosers import choose_active, choose_shared, murmur3_32


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 1009084850),
        ("key1", 462881061),
        ("key-0", 1664612543),
        ("order-12345", 1785094598),
        ("héllo", 1017094248),
        ("NONE_KEY", 504741539),
        ("k1", 2110152746),
        ("key02", 751761803),
    ],
)
def test_murmur_agrees_with_published_vectors(text: str, hashed: int) -> None:
    assert murmur3_32(text.encode()) == hashed


def test_failover_counts_only_the_best_priority_level() -> None:
    assert choose_active([(1, "a"), (0, "b"), (1, "c")], -1, "t") == 1


def test_failover_spreads_partitions_over_consumers_sorted_by_name() -> None:
    members = [(0, "c"), (0, "a"), (0, "b")]
    assert [choose_active(members, partition, "t") for partition in range(4)] == [1, 2, 0, 1]


def test_failover_of_a_plain_topic_depends_on_members_not_on_their_order() -> None:
    names = [f"consumer-{i}" for i in range(5)]
    topic = "persistent://t/n/x"
    chosen = choose_active([(0, name) for name in names], -1, topic)
    turned = choose_active([(0, name) for name in reversed(names)], -1, topic)
    assert chosen is not None
    assert turned is not None
    assert names[chosen] == names[4 - turned]


def test_nobody_is_active_without_members() -> None:
    assert choose_active([], 0, "t") is None


def test_shared_takes_turns_among_equals() -> None:
    turns, last = [], -1
    for _ in range(5):
        chosen = choose_shared([0, 0, 0], [True, True, True], last)
        assert chosen is not None
        turns.append(chosen)
        last = chosen
    assert turns == [0, 1, 2, 0, 1]


def test_shared_goes_to_a_lower_level_only_when_the_higher_cannot_take_it() -> None:
    assert choose_shared([1, 0], [True, True], -1) == 1
    assert choose_shared([1, 0], [True, False], -1) == 0


@given(members=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), data=st.data())
def test_shared_choice_is_eligible_and_of_the_best_level_there_is(
    members: list[tuple[int, bool]], data: st.DataObject
) -> None:
    last = data.draw(st.integers(-1, len(members) - 1))
    chosen = choose_shared([p for p, _ in members], [e for _, e in members], last)
    eligible = [priority for priority, able in members if able]
    if not eligible:
        assert chosen is None
    else:
        assert chosen is not None
        assert members[chosen] == (min(eligible), True)
