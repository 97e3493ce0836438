"""Choice of the consumer that receives the next messages."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.dispatch.choose.active import choose_active, rank
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


def choose(members: list[tuple[int, str]], partition: int = -1, **options: bool) -> tuple[int, str]:
    """Return the active member of members in any order."""
    ranked = sorted(members, key=lambda member: rank(*member))
    chosen = choose_active(ranked, partition, "persistent://t/n/x", **options)
    assert chosen is not None
    return ranked[chosen]


def test_failover_counts_only_the_best_priority_level() -> None:
    members = [(1, "a"), (0, "b"), (1, "c"), (0, "d")]
    assert {choose(members, partition)[1] for partition in range(-1, 5)} == {"b", "d"}


def test_failover_spreads_partitions_over_consumers_sorted_by_name() -> None:
    members = [(0, "c"), (0, "a"), (0, "b")]
    assert [choose(members, partition)[1] for partition in range(4)] == ["a", "b", "c", "a"]


def test_names_are_sorted_as_java_does() -> None:
    members = [(0, "\uffff"), (0, "\U00010000"), (0, "a")]
    assert [choose(members, partition)[1] for partition in range(3)] == [
        "a",
        "\U00010000",
        "\uffff",
    ]


def test_the_ring_chooses_for_topics_and_optionally_for_partitions() -> None:
    members = [(0, f"consumer-{i}") for i in range(5)]
    chosen = choose(members)
    assert choose(members[::-1]) == chosen
    assert {choose(members, partition, by_ring=True) for partition in range(5)} == {chosen}


def test_the_ring_chooses_the_owner_of_the_first_point_behind_the_topic() -> None:
    at = murmur3_32(b"persistent://t/n/x")
    members = [(0, f"consumer-{i}") for i in range(20)]
    points = {murmur3_32(f"{name}{j}".encode()): name for _, name in members for j in range(100)}
    behind = [point for point in sorted(points) if point >= at]
    assert choose(members)[1] == points[behind[0] if behind else min(points)]


def test_of_equal_names_the_last_member_is_active_on_a_topic_without_partitions() -> None:
    assert choose_active([(0, "a"), (0, "a"), (0, "a")], -1, "t") == 2


def test_no_member_is_active_without_members() -> None:
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
    assert all(turns.next() is member for member in (a, b, c, a, b))
    turns.remove(a)
    assert all(turns.next() is member for member in (b, c, b))


def test_shared_chooses_a_lower_level_only_when_the_higher_cannot_receive() -> None:
    low, high = Member(1), Member(0)
    turns = turns_of(low, high)
    assert turns.next() is high
    high.can_receive = False
    assert turns.next() is low


@given(members=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), data=st.data())
def test_the_shared_choice_can_receive_and_is_of_the_best_such_level(
    members: list[tuple[int, bool]], data: st.DataObject
) -> None:
    everyone = [Member(priority) for priority, _ in members]
    turns = turns_of(*everyone)
    for _ in range(data.draw(st.integers(0, len(members)))):
        turns.next()
    for member, (_, able) in zip(everyone, members, strict=True):
        member.can_receive = able
    chosen = turns.next()
    best = min((other.priority for other in everyone if other.can_receive), default=None)
    assert (None if chosen is None else chosen.priority) == best
    assert chosen is None or chosen.can_receive
