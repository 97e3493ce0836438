"""Runs of which the ledger confirms a part at a time."""

from engine.base.slices import Slice
from engine.managed.writing.appends import Appends
from tests.support.ledger_cluster import run_of


class NoSink:
    def appended(self, run: Slice, start: int, stop: int) -> None:
        raise AssertionError

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        raise AssertionError


def test_only_the_confirmed_part_of_a_run_is_reported() -> None:
    appends, sink = Appends(10, 1000), NoSink()
    runs = [run_of(b"a", b"b", b"c"), run_of(b"d"), run_of(b"e", b"f")]
    for run, first in zip(runs, (0, 3, 4), strict=True):
        run.first = first
        appends.sent(run, sink)
    confirmed = []
    for below in range(7):
        confirmed += [
            (below, runs.index(part.run), part.start, part.stop)
            for part in appends.confirmed(below)
        ]
        assert appends.entries == 6 - below
    assert confirmed == [
        (1, 0, 0, 1),
        (2, 0, 1, 2),
        (3, 0, 2, 3),
        (4, 1, 0, 1),
        (5, 2, 0, 1),
        (6, 2, 1, 2),
    ]
    assert appends.take_all() == []


def test_the_remaining_part_of_a_run_begins_behind_its_confirmed_part() -> None:
    appends, sink = Appends(10, 1000), NoSink()
    run = run_of(b"a", b"b", b"c")
    run.first = 0
    appends.sent(run, sink)
    appends.confirmed(2)
    assert appends.take_all() == [(run, sink, 2)]
