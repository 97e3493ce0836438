"""Series of a result: counts over time, whose points widen with their time span, and histograms. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.cells import added, cells, of_kind, outermost, without_kinds

POINTS_MAX = 200
STEPS_MS = (
    *(100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000),
    *(21_600_000, 86_400_000, 604_800_000),
)
"""Widths of points. Each divides the next, so that narrow points can be added up to wide ones; beyond the last it
doubles."""


class OverTime(NamedTuple):
    """Counts over time, without gaps: a time without messages is a zero in the plot, not a straight line between its
    neighbours.

    ``points``: start (ms), count and bytes of each. ``partial``: starts of the points that messages cover in part only,
    mostly the first and the last.
    """

    step_ms: int
    points: list[tuple[int, int, int]]
    partial: list[int]


def point_step_ms(first_ms: int, last_ms: int, least_ms: int = STEPS_MS[0]) -> int:
    """Return the width of a point: the least one with at most POINTS_MAX points."""
    steps = (step for step in STEPS_MS if step >= least_ms)
    step = next(steps, least_ms)
    while last_ms // step - first_ms // step >= POINTS_MAX:
        step = next(steps, 2 * step)
    return step


def cells_over_time(kind: str, times: Any, *, count: Any, size: Any) -> pa.Table:
    """Return cells of a kind with the points' width in ms as ``name`` and their start as ``at``.

    ``times``: numpy array of at least one time, ms.
    """
    step = point_step_ms(int(times.min()), int(times.max()))
    return cells(kind, name=str(step), at=times - times % step, count=count, size=size)


def widened(table: pa.Table) -> pa.Table:
    """Return the cells of ``cells_over_time`` with points of one width, which fits the time span of all of them."""
    if not table.num_rows:
        return table
    at = table["at"].to_numpy()
    least = max(map(int, table["name"].unique().to_pylist()))
    step = point_step_ms(int(at.min()), int(at.max()), least)
    start = at - at % step
    kind = table["kind"][0].as_py()
    return cells(kind, name=str(step), at=start, count=table["count"], size=table["bytes"])


def combined(tables: Iterable[pa.Table], outermost_of: Mapping[str, str], rate: str) -> pa.Table:
    """Return the tables' cells added up.

    ``outermost_of``: kinds of which only the cell with the smallest ("min") or largest ("max") ``at`` is kept.
    ``rate``: the kind of ``cells_over_time``, widened to the time span of all.
    """
    table = added(tables)
    return added(
        [
            without_kinds(table, (*outermost_of, rate)),
            *(outermost(table, kind, extreme) for kind, extreme in outermost_of.items()),
            widened(of_kind(table, rate)),
        ]
    )


def over_time(table: pa.Table, first_ms: int, last_ms: int) -> OverTime:
    """Return the points of widened cells whose messages were published from ``first_ms`` to ``last_ms``."""
    rows = table.to_pylist()
    if not rows:
        return OverTime(1000, [], [])
    step = int(rows[0]["name"])
    known = {row["at"]: (row["count"], row["bytes"]) for row in rows}
    starts = range(min(known), max(known) + 1, step)
    partial = [at for at in starts if at < first_ms or at + step - 1 > last_ms]
    return OverTime(step, [(at, *known.get(at, (0, 0))) for at in starts], partial)


def rate_series(given: OverTime) -> list[dict[str, Any]]:
    """Return the series ``rate`` and ``throughput``: messages and bytes per second of publish time."""
    per_s = given.step_ms / 1000
    x = {"label": "Publish time", "type": "time", "unit": "ms"}
    return [
        {
            "key": "rate",
            "title": "Rate over time",
            "kind": "line",
            "x": x,
            "y": {"label": "Messages per second", "unit": "messages/s"},
            "points": [[at, messages / per_s] for at, messages, _ in given.points],
            "partial": given.partial,
        },
        {
            "key": "throughput",
            "title": "Throughput over time",
            "kind": "line",
            "x": x,
            "y": {"label": "Bytes per second", "unit": "bytes/s"},
            "points": [[at, size / per_s] for at, _, size in given.points],
            "partial": given.partial,
        },
    ]


def histogram(
    key: str,
    title: str,
    points: Iterable[tuple[int, int]],
    *,
    x: tuple[str, str],
    y: tuple[str, str],
) -> dict[str, Any]:
    """Return a histogram of (lower bound, count); ``x`` and ``y`` are label and unit of an axis, the latter empty if
    there is none."""
    return {
        "key": key,
        "title": title,
        "kind": "histogram",
        "x": {"label": x[0], "type": "number", "unit": x[1]},
        "y": {"label": y[0], "unit": y[1]},
        "points": [list(point) for point in points],
    }


def powers_of_two(numbers: Any) -> Any:
    """Return the powers of two at or below numbers of at least 1: lower bounds of a histogram's buckets."""
    return np.int64(1) << (np.frexp(numbers)[1].astype(np.int64) - 1)
