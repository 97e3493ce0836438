"""Frames of a run distributed over a striped ensemble: each entry to its write set, in order."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.ledger.quorum import holds
from engine.ledger.striping import StripedAdds
from engine.wire.kernels import build_adds

KEY = b"k" * 20


def a_run(sizes: list[int]) -> Slice:
    buf = b"".join(bytes([i % 256]) * size for i, size in enumerate(sizes))
    spans: list[int] = []
    at = 0
    for size in sizes:
        spans += (at, at + size)
        at += size
    return Slice(buf, spans, at)


@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 50), st.integers(20_000, 40_000)), min_size=1, max_size=12
    ),
    first=st.integers(0, 1 << 40),
    shape=st.integers(2, 6).flatmap(lambda e: st.tuples(st.just(e), st.integers(1, e))),
    skipped=st.integers(0, 11),
)
def test_every_position_receives_the_frames_of_its_entries(
    sizes: list[int], first: int, shape: tuple[int, int], skipped: int
) -> None:
    run = a_run(sizes)
    start = skipped % run.count
    parts, _ = build_adds(run, start, run.count, 9, first, first - 1, 1000, KEY, 0)
    adds = StripedAdds(parts, run.spans[2 * start :], first, *shape)
    for position in range(shape[0]):
        expected = b""
        length = 1000
        for i in range(start, run.count):
            entry = first + i - start
            frame, length = build_adds(run, i, i + 1, 9, entry, first - 1, length, KEY, 0)
            if holds(position, entry, *shape):
                expected += b"".join(frame)
        assert b"".join(adds.of(position)) == expected
