"""Entries stored in the last complete minute, by size and by latency."""

from engine.base.slices import Slice
from engine.broker.control.written import LATENCIES_MS, MINUTE_S, SIZES, Written


def run(*sizes: int) -> Slice:
    spans: list[int] = []
    at = 0
    for size in sizes:
        spans += (at, at + size)
        at += size
    return Slice(bytes(at), spans, at)


def add(
    written: Written, at_s: float, latency_s: float, given: Slice, start: int, stop: int
) -> None:
    written.add(at_s, latency_s, given, start, stop, given.size_of(start, stop))


def test_a_minute_is_reported_once_it_is_complete() -> None:
    written = Written(10.0)
    add(written, 11.0, 0.002, run(100, 100), 0, 2)
    assert written.last_minute(59.9) is None, "the first minute is not complete yet"
    minute = written.last_minute(60.0)
    assert minute is not None
    assert (minute.entries, minute.bytes, round(minute.latency_s, 6)) == (2, 200, 0.004)
    again = written.last_minute(2 * MINUTE_S)
    assert again is not None
    assert again.entries == 0, "nothing was stored in the minute after"


def test_a_minute_that_was_not_read_is_dropped() -> None:
    written = Written(0.0)
    add(written, 1.0, 0.002, run(1), 0, 1)
    add(written, 3.5 * MINUTE_S, 0.002, run(1, 1), 0, 2)
    minute = written.last_minute(3.6 * MINUTE_S)
    assert minute is not None
    assert minute.entries == 0
    later = written.last_minute(4.1 * MINUTE_S)
    assert later is not None
    assert later.entries == 2


def test_bounds_belong_to_the_bucket_below_them() -> None:
    written = Written(0.0)
    for index, bound in enumerate(LATENCIES_MS):
        add(written, 1.0, bound / 1000, run(1), 0, 1)
        add(written, 1.0, bound / 1000 * 1.01, run(1), 0, 1)
        assert index >= 0
    minute = written.last_minute(61.0)
    assert minute is not None
    assert minute.latencies == [1, *[2] * 8, 1]


def test_only_the_given_entries_of_a_run_are_counted_each_by_its_size() -> None:
    written = Written(0.0)
    sizes = [size for bound in SIZES for size in (bound, bound + 1)]
    add(written, 1.0, 0.0, run(5, *sizes, 7), 1, len(sizes) + 1)
    minute = written.last_minute(61.0)
    assert minute is not None
    assert minute.sizes == [1, *[2] * 7, 1]
    assert (minute.entries, minute.bytes) == (len(sizes), sum(sizes))
