"""The tail cache keeps its byte budget in whole buffers, oldest out first, and stays contiguous."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.managed.reading.entry_cache import EntryCache, TailCache


def run_in(buf: bytes, at: int, sizes: list[int]) -> Slice:
    spans: list[int] = []
    for size in sizes:
        spans += (at, at + size)
        at += size
    return Slice(buf, spans, sum(sizes))


def held(cache: EntryCache, tails: list[TailCache], end: int) -> int:
    """Bytes of the distinct buffers that can be reached."""
    buffers = {id(run.buf): len(run.buf) for tail in tails for run in reachable(tail, end)}
    assert cache.bytes == sum(buffers.values())
    return cache.bytes


def reachable(tail: TailCache, end: int) -> list[Slice]:
    start = next((x for x in range(end) if tail.covers(x)), end)
    return [run for _, run in tail.runs(start, end)] if start < end else []


def test_shared_buffers_are_charged_once() -> None:
    cache = EntryCache(1000)
    tail = cache.tail()
    buf = bytes(300)
    tail.append(0, run_in(buf, 0, [10, 10]))
    tail.append(2, run_in(buf, 100, [10]))
    assert cache.bytes == 300
    assert [(base, run.count) for base, run in tail.runs(1, 3)] == [(0, 2), (2, 1)]
    tail.clear()
    assert cache.bytes == 0


def test_the_oldest_entries_are_evicted_first_across_topics() -> None:
    cache = EntryCache(1000)
    first, second = cache.tail(), cache.tail()
    first.append(0, run_in(bytes(400), 0, [400]))
    second.append(0, run_in(bytes(400), 0, [400]))
    first.append(1, run_in(bytes(400), 0, [400]))
    assert not first.covers(0)
    assert first.covers(1)
    assert second.covers(0)
    assert cache.bytes == 800
    assert cache.entries == cache.inserted - cache.evicted
    assert cache.evictions == 1


def test_a_lone_small_entry_does_not_keep_a_large_buffer() -> None:
    cache = EntryCache(1000)
    small, large = cache.tail(), cache.tail()
    small.append(0, run_in(b"x" * 800, 5, [8, 2]))
    large.append(0, run_in(bytes(500), 0, [500]))
    assert cache.bytes == 510
    ((base, run),) = small.runs(0, 2)
    assert (base, run.entry(0), run.entry(1), run.held) == (0, b"x" * 8, b"xx", 10)
    large.append(1, run_in(bytes(495), 0, [495]))
    assert not small.covers(0)  # a copy is as old as what it was copied from
    assert large.covers(1)


def test_an_entry_larger_than_everything_is_not_kept() -> None:
    cache = EntryCache(100)
    tail = cache.tail()
    tail.append(0, run_in(bytes(500), 0, [500]))
    assert cache.bytes == 0
    assert not tail.covers(0)


def test_a_cleared_tail_holds_nothing_and_can_be_filled_again() -> None:
    cache = EntryCache(1000)
    cleared, other = cache.tail(), cache.tail()
    for i in range(3):
        cleared.append(i, run_in(bytes(200), 0, [200]))
    cleared.clear()
    assert cache.bytes == 0
    cleared.append(3, run_in(bytes(200), 0, [200]))
    for i in range(4):
        other.append(i, run_in(bytes(200), 0, [200]))
    assert cleared.covers(3)  # as old as it is, not as those before it
    other.append(4, run_in(bytes(200), 0, [200]))
    assert not cleared.covers(3)
    assert other.covers(4)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 300), st.booleans(), st.integers(1, 3)),
        max_size=60,
    )
)
def test_budget_and_contiguity_hold_for_any_sequence(
    work: list[tuple[int, int, bool, int]],
) -> None:
    cache = EntryCache(1000)
    tails = [cache.tail() for _ in range(3)]
    ends = [0, 0, 0]
    buf = bytes(400)
    for index, size, shared, count in work:
        if not size:
            tails[index].clear()
            held(cache, tails, max(ends))
            continue
        if not shared:
            buf = bytes(400)
        sizes = [max(size // count, 1)] * count
        tails[index].append(ends[index], run_in(buf, 0, sizes))
        ends[index] += count
        assert cache.bytes <= 1000
        held(cache, tails, max(ends))
        for tail, end in zip(tails, ends, strict=True):
            start = next((x for x in range(end) if tail.covers(x)), end)
            at = None
            for base, run in tail.runs(start, end) if start < end else []:
                assert at is None or base == at
                at = base + run.count
            assert at in (None, end)
    for tail in tails:
        tail.clear()
    assert cache.bytes == 0


def test_a_smaller_cache_holds_less_at_once() -> None:
    cache = EntryCache(1000)
    tail = cache.tail()
    for n in range(9):
        tail.append(n, run_in(bytes(100), 0, [100]))
    assert cache.bytes == 900
    cache.resize(500)
    assert held(cache, [tail], 9) <= 500
    assert tail.covers(8)
    cache.resize(1000)
    for n in range(9, 14):
        tail.append(n, run_in(bytes(100), 0, [100]))
    assert 500 < held(cache, [tail], 14) <= 1000
