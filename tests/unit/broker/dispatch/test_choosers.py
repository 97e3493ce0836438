"""Who gets the next messages."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.dispatch.choose.active import choose_active
from engine.broker.dispatch.choose.keys import murmur3_32
from engine.broker.dispatch.choose.turns import Turns


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


@dataclass(eq=False)
class Member:
    priority: int
    can_receive: bool = True


def turns_of(*members: Member) -> Any:
    turns: Any = Turns()
    for member in members:
        turns.add(member)
    return turns


def test_shared_takes_turns_among_equals() -> None:
    a, b, c = members = [Member(0) for _ in range(3)]
    turns = turns_of(*members)
    assert all(turns.next() is each for each in (a, b, c, a, b))
    turns.remove(a)
    assert all(turns.next() is each for each in (b, c, b))


def test_shared_goes_to_a_lower_level_only_when_the_higher_cannot_take_it() -> None:
    low, high = Member(1), Member(0)
    turns = turns_of(low, high)
    assert turns.next() is high
    high.can_receive = False
    assert turns.next() is low


@given(members=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), data=st.data())
def test_shared_choice_is_eligible_and_of_the_best_level_there_is(
    members: list[tuple[int, bool]], data: st.DataObject
) -> None:
    everyone = [Member(priority) for priority, _ in members]
    turns = turns_of(*everyone)
    for _ in range(data.draw(st.integers(0, len(members)))):
        turns.next()
    for member, (_, able) in zip(everyone, members, strict=True):
        member.can_receive = able
    chosen = turns.next()
    best = min((each.priority for each in everyone if each.can_receive), default=None)
    assert (None if chosen is None else chosen.priority) == best
    assert chosen is None or chosen.can_receive
