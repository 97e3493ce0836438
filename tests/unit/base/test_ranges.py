"""RangeSet behaves as a plain set of integers does."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import ranges
from engine.base.ranges import RangeSet

spans = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda span: (span[0], sum(span)))
steps = st.lists(st.tuples(st.sampled_from(["add", "discard"]), spans), max_size=40)


@pytest.fixture(params=[2, ranges.BLOCK_MAX], autouse=True, scope="module")
def _block_max(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "BLOCK_MAX", request.param)
        yield


def build(work: list[tuple[str, tuple[int, int]]]) -> tuple[RangeSet, set[int]]:
    held, model = RangeSet(), set[int]()
    for name, (start, stop) in work:
        if name == "add":
            assert held.add(start, stop) == len(set(range(start, stop)) - model)
            model |= set(range(start, stop))
        else:
            held.discard_below(start)
            model = {x for x in model if x >= start}
    return held, model


@given(steps)
def test_holds_what_a_set_holds(work: list[tuple[str, tuple[int, int]]]) -> None:
    held, model = build(work)
    assert {x for start, stop in held for x in range(start, stop)} == model
    assert held.total == len(model)
    assert [x in held for x in range(-2, 80)] == [x in model for x in range(-2, 80)]
    parts = list(held)
    assert all(start < stop for start, stop in parts)
    assert all(low[1] < high[0] for low, high in pairwise(parts))
    assert len(held) == len(parts)


@given(steps, spans)
def test_gaps_and_counts_are_the_complement(
    work: list[tuple[str, tuple[int, int]]], span: tuple[int, int]
) -> None:
    held, model = build(work)
    start, stop = span
    missing = [x for low, high in held.gaps(start, stop) for x in range(low, high)]
    assert missing == [x for x in range(start, stop) if x not in model]
    assert held.count(start, stop) == len(model & set(range(start, stop)))
    assert held.first_missing(start) == next(x for x in range(start, 200) if x not in model)


@given(steps, st.integers(0, 70), st.binary(max_size=12), st.integers(0, 100))
@pytest.mark.parametrize("part", [1, 3, ranges.PART_BYTES])
def test_bits_are_added_as_their_members_are(
    part: int, work: list[tuple[str, tuple[int, int]]], base: int, raw: bytes, size: int
) -> None:
    held, model = build(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "PART_BYTES", part)
        for _ in held.adding_bits(raw, base, size):
            pass
    bits = int.from_bytes(raw, "little")
    model |= {base + bit for bit in range(size) if bits >> bit & 1}
    assert {x for start, stop in held for x in range(start, stop)} == model
    assert held.total == len(model)
    assert all(low[1] < high[0] for low, high in pairwise(held))
    assert [x in held for x in range(-2, 180)] == [x in model for x in range(-2, 180)]


def test_clear_forgets_everything() -> None:
    held = RangeSet([(1, 4), (9, 10)])
    assert held == RangeSet([(9, 10), (1, 2), (2, 4)])
    held.clear()
    assert held == RangeSet()
    assert held.total == 0
