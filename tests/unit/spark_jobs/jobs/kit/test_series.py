"""Points of a series over time: of one width, without gaps, no more than are drawn."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.kit.cells import CELLS, added
from spark_jobs.jobs.kit.series import (
    POINTS_MAX,
    STEPS_MS,
    cells_over_time,
    histogram,
    over_time,
    point_step_ms,
    rate_series,
    widened,
)


@given(st.integers(0, 2**53), st.integers(0, 2**53))
def test_a_step_gives_no_more_points_than_are_drawn(start: int, end: int) -> None:
    first, last = sorted((start, end))
    step = point_step_ms(first, last)
    assert last // step - first // step < POINTS_MAX
    assert all(wide % narrow == 0 for narrow, wide in pairwise(STEPS_MS))


def test_points_of_several_tasks_become_as_wide_as_their_whole_time_needs() -> None:
    early = cells_over_time("r", np.array([0, 100]), count=np.array([1, 2]), size=0)
    late = cells_over_time("r", np.array([90_000]), count=np.array([4]), size=7)
    shown = over_time(widened(added([early, late])), 0, 90_000)
    assert (shown.step_ms, len(shown.points)) == (500, 181)
    assert {at: count for at, count, _ in shown.points if count} == {0: 3, 90_000: 4}
    assert shown.partial == [90_000]
    rate, throughput = rate_series(shown)
    assert (rate["points"][0], throughput["points"][-1]) == ([0, 6.0], [90_000, 14.0])


def test_no_messages_have_no_points() -> None:
    assert over_time(widened(CELLS.empty_table()), 0, 0).points == []


def test_a_histogram_names_its_axes() -> None:
    shown = histogram("k", "K", [(1, 5)], x=("Bytes", "bytes"), y=("Entries", ""))
    assert (shown["kind"], shown["points"]) == ("histogram", [[1, 5]])
    assert shown["x"] == {"label": "Bytes", "type": "number", "unit": "bytes"}
