"""Owners of keys: slots equal to those of clients and Apache, few of them moved by a change of members."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.dispatch.choose.keys import (
    SLOTS,
    KeyHalves,
    KeyMap,
    KeyPolicy,
    KeyRanges,
    KeyRing,
    ring_slot_of,
    slot_of,
)

POINTS = 100
ALL = range(1, SLOTS)


def ring_of(*names: str) -> KeyRing[str]:
    ring: KeyRing[str] = KeyRing(POINTS)
    for name in names:
        ring.add(f"{name} {id(name)}" if names.count(name) > 1 else name, name, KeyPolicy())
    return ring


@pytest.mark.parametrize(
    ("key", "slot", "on_ring"),
    [("", 1, 1), ("a", 27058, 42456), ("key1", 293, 7357), ("héllo", 41064, 56584)],
)
def test_slots_agree_with_published_vectors(key: str, slot: int, on_ring: int) -> None:
    assert (slot_of(key.encode()), ring_slot_of(key.encode())) == (slot, on_ring)


def test_the_ring_equals_that_of_apaches_broker() -> None:
    """Compare with the statistics of Apache's broker for consumers alpha, beta, alpha, gamma."""
    ring: KeyRing[int] = KeyRing(POINTS)
    for member, name in enumerate(("alpha", "beta", "alpha", "gamma")):
        ring.add(member, name, KeyPolicy())
    owned = dict.fromkeys(range(4), 0)
    for member, start, end in ring.ranges():
        owned[member] += end - start + 1
    assert owned == {0: 17621, 1: 17887, 2: 12011, 3: 18016}
    assert [ring.owner(slot) for slot in (1, 122, 1065, 1066, 1107, 1122, 65535)] == [
        *(3, 0, 0, 2, 0, 1, 3)
    ]


def test_all_slots_have_an_owner_and_shares_are_of_like_size() -> None:
    ring = ring_of("a", "b", "c", "d")
    shares = Counter(ring.owner(slot) for slot in ALL)
    assert set(shares) == {"a", "b", "c", "d"}
    assert max(shares.values()) < 2 * min(shares.values())


def test_a_change_moves_no_key_between_remaining_members() -> None:
    ring = ring_of("a", "b", "c")
    before = [ring.owner(slot) for slot in ALL]
    ring.add("d", "d", KeyPolicy())
    joined = [ring.owner(slot) for slot in ALL]
    assert all(new in (old, "d") for old, new in zip(before, joined, strict=True))
    ring.remove("d")
    assert [ring.owner(slot) for slot in ALL] == before


def test_members_of_one_name_share_the_keys() -> None:
    ring: KeyRing[int] = KeyRing(POINTS)
    for member in range(3):
        ring.add(member, "same", KeyPolicy())
    assert min(Counter(ring.owner(slot) for slot in ALL).values()) > SLOTS // 10
    kept = [ring.owner(slot) for slot in ALL]
    ring.remove(0)
    ring.add(9, "same", KeyPolicy())  # it replaces the removed member
    assert [9 if owner == 0 else owner for owner in kept] == [ring.owner(slot) for slot in ALL]


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c")])
def test_ranges_agree_with_the_owners_of_slots(names: tuple[str, ...]) -> None:
    ring = ring_of(*names)
    ranges = list(ring.ranges())
    assert [ranges[0][1], ranges[-1][2]] == [1, SLOTS - 1]
    for owner, start, end in ranges:
        assert (ring.owner(start), ring.owner(end)) == (owner, owner)


def shares(halves: KeyHalves[int]) -> list[tuple[int, int]]:
    return [(member, end) for member, _, end in halves.ranges()]


def test_a_new_member_takes_the_lower_half_of_the_widest_range() -> None:
    """Compare with the statistics of Apache's broker."""
    halves: KeyHalves[int] = KeyHalves()
    assert halves.owner(1) is None
    for member in range(7):
        halves.add(member, "", KeyPolicy())
    ends = [(4, 8192), (2, 16384), (5, 24576), (1, 32768), (6, 40960), (3, 49152), (0, SLOTS)]
    assert shares(halves) == ends
    assert [halves.owner(slot) for slot in (1, 8192, 8193, 49152, 65535)] == [4, 4, 2, 3, 0]


def test_a_freed_range_goes_to_the_member_above_and_the_topmost_to_the_one_below() -> None:
    halves: KeyHalves[int] = KeyHalves()
    for member in range(7):
        halves.add(member, "", KeyPolicy())
    for member in (0, 3, 6, 1):
        halves.remove(member)
    assert shares(halves) == [(4, 8192), (2, 16384), (5, SLOTS)]
    halves.add(10, "", KeyPolicy())
    assert shares(halves) == [(4, 8192), (2, 16384), (10, 40960), (5, SLOTS)]
    halves.remove(4)
    assert shares(halves)[0] == (2, 16384)
    for member in (2, 10, 5):
        halves.remove(member)
    assert halves.owner(1) is None


def test_a_member_is_refused_where_no_range_can_be_halved() -> None:
    halves: KeyHalves[int] = KeyHalves(4)
    for member in range(4):
        assert halves.conflict(KeyPolicy()) is None
        halves.add(member, "", KeyPolicy())
    assert halves.conflict(KeyPolicy()) is not None


def test_slots_outside_all_ranges_have_no_owner() -> None:
    assert KeyRing(POINTS).owner(7) is None
    ranges: KeyMap[str] = KeyRanges()
    ranges.add("a", "a", KeyPolicy(True, False, ((100, 200), (300, 300))))
    owned = {slot: ranges.owner(slot) for slot in (99, 100, 200, 201, 300, 301)}
    assert [slot for slot, owner in owned.items() if owner == "a"] == [100, 200, 300]
    ranges.remove("a")
    assert ranges.owner(100) is None


@pytest.mark.parametrize(
    ("wanted", "free"),
    [((0, 99), True), ((0, 100), False), ((150, 160), False), ((50, 250), False), ((201, 9), True)],
)
def test_ranges_do_not_overlap(wanted: tuple[int, int], free: bool) -> None:
    ranges: KeyRanges[str] = KeyRanges()
    ranges.add("a", "a", KeyPolicy(True, False, ((100, 200),)))
    assert (ranges.conflict(KeyPolicy(True, False, (wanted,))) is None) == free


RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=8)


def disjoint(drawn: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    kept: list[tuple[int, int]] = []
    for start, width in drawn:
        if all(start > high or start + width < low for low, high in kept):
            kept.append((start, start + width))
    return tuple(kept)


@given(RANGES, RANGES)
def test_any_overlap_is_a_conflict(
    present: list[tuple[int, int]], drawn: list[tuple[int, int]]
) -> None:
    ranges: KeyRanges[str] = KeyRanges()
    ranges.add("a", "a", KeyPolicy(True, False, disjoint(present)))
    wanted = disjoint(drawn)
    overlap = any(s <= b and a <= e for a, b in disjoint(present) for s, e in wanted)
    assert ranges.conflict(KeyPolicy(True, False, wanted)) == ("a" if overlap else None)


class Counted(dict[int, tuple[int, str]]):
    reads = 0

    def __getitem__(self, start: int) -> tuple[int, str]:
        self.reads += 1
        return super().__getitem__(start)


def test_a_conflict_is_searched_with_one_lookup_per_requested_range() -> None:
    ranges: KeyRanges[str] = KeyRanges()
    ranges.add("a", "a", KeyPolicy(True, False, tuple((4 * i, 4 * i + 1) for i in range(1000))))
    ranges._ranges = counted = Counted(ranges._ranges)
    wanted = tuple((4 * i + 2, 4 * i + 3) for i in range(1000))
    assert ranges.conflict(KeyPolicy(True, False, wanted)) is None
    assert counted.reads <= len(wanted)
