"""Days of history: the points of each subject rolled up to steps of five minutes, in the history file.

A step has the means of the known rates and the last known values of its slots. As with slots, a step is stored when it
differs from the previous one. A subject that changed in a step is also stored with the value that it settled at, in the
step after: that step replaces it if the subject changes again. Steps after ``rolled`` are therefore not read.

Subjects with points that are not rolled up yet are in ``unrolled``: points may be moved before their step has ended.

At each roll-up one part of all subjects in ``DAY_STEPS`` loses what is older than a week, so that each subject is
visited once a day. While the file is larger than ``BYTES_MAX``, it loses what is older than a day.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from gateway.services.history.slots import (
    COLUMNS,
    DAY_SLOTS,
    HOUR_SLOTS,
    STEP_SLOTS,
    WEEK_SLOTS,
    Point,
    expanded,
    joined,
)

DAY_STEPS = DAY_SLOTS // STEP_SLOTS
WEEK_STEPS = WEEK_SLOTS // STEP_SLOTS
BYTES_MAX = 1 << 30
"""Size of the history file above which days are dropped early."""
_COLUMNS = ", ".join(COLUMNS)
_NUMBERS = ", ".join(f"{column} INTEGER" for column in COLUMNS)
_MARKS = ", ".join("?" * len(COLUMNS))
TABLES = f"""
CREATE TABLE IF NOT EXISTS steps (series INTEGER NOT NULL, step INTEGER NOT NULL, {_NUMBERS},
    PRIMARY KEY (series, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rolled (only INTEGER PRIMARY KEY CHECK (only = 1), last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS unrolled (series INTEGER PRIMARY KEY)
"""
"""Tables that files of earlier versions lack, hence outside the schema."""
MOVED = f"""
SELECT slot, {_COLUMNS} FROM points WHERE series = :id
    AND slot >= coalesce((SELECT max(slot) FROM points WHERE series = :id AND slot <= :first), 0)
    ORDER BY slot
"""
"""The points of a subject from ``first`` on, beginning with the one that applies at ``first``."""
_STEPS = f"""
SELECT step, {_COLUMNS} FROM steps WHERE series = :id AND step <= :last
    AND step >= coalesce((SELECT max(step) FROM steps WHERE series = :id AND step <= :first), 0)
    ORDER BY step
"""
_ALL = "SELECT DISTINCT series FROM points"
_UNROLLED = "SELECT series FROM unrolled"
_REMOVE_OLD = """
DELETE FROM steps WHERE series = :id
    AND step < (SELECT max(step) FROM steps WHERE series = :id AND step <= :oldest)
"""

Rows = list[tuple[int, Point]]
Runs = Iterable[tuple[int, int]]


def rolled(db: sqlite3.Connection) -> int | None:
    """Return the last step that is rolled up; None: none is."""
    row = db.execute("SELECT last FROM rolled").fetchone()
    return None if row is None else int(row[0])


def roll_up(db: sqlite3.Connection, slot: int) -> None:
    """Roll up the steps that ended with ``slot`` or before; all points up to it are in the table ``points``."""
    last = (slot + 1) // STEP_SLOTS - 1
    before = rolled(db)
    first = (slot - HOUR_SLOTS) // STEP_SLOTS if before is None else before + 1
    if last < first:
        return
    known = known_from(db, first * STEP_SLOTS)
    steps = [step for step in range(first, last + 1) if _is_known(step, known)]
    if steps:
        changed = db.execute(_ALL) if before is None else db.execute(_UNROLLED)
        for (series,) in changed.fetchall():
            points = moved(db, series, steps[0] * STEP_SLOTS)
            db.executemany(
                f"INSERT OR REPLACE INTO steps VALUES (?, ?, {_MARKS})",
                [(series, step, *point) for step, point in _steps_of(points, known, steps)],
            )
    db.execute("INSERT OR REPLACE INTO rolled VALUES (1, ?)", (last,))
    if (slot + 1) % STEP_SLOTS == 0:  # else some changed in a step that has not ended
        db.execute("DELETE FROM unrolled")
    _drop_old(db, last)


def _steps_of(rows: Rows, known: Sequence[tuple[int, int]], steps: Sequence[int]) -> Rows:
    """Return the changes among the steps, and the value that the subject settled at."""
    kept: Rows = []
    for step in steps:
        begin, end = step * STEP_SLOTS, (step + 1) * STEP_SLOTS - 1
        applying = [row for row in rows if row[0] <= begin][-1:]
        later = [row for row in rows if begin < row[0] <= end]
        if not applying and not later:
            continue
        (point,) = joined(expanded(applying + later, known, begin, end), STEP_SLOTS)
        kept.append((step, point))
    settled = [row for row in rows if row[0] < (steps[-1] + 1) * STEP_SLOTS][-1:]
    kept += [(steps[-1] + 1, point) for _, point in settled]
    return [
        (step, point)
        for index, (step, point) in enumerate(kept)
        if index == 0 or point != kept[index - 1][1]
    ]


def _drop_old(db: sqlite3.Connection, step: int) -> None:
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    kept = WEEK_STEPS if (pages - free) * size <= BYTES_MAX else DAY_STEPS
    db.executemany(
        _REMOVE_OLD,
        [
            {"id": series, "oldest": step - kept}
            for (series,) in db.execute(
                "SELECT id FROM series WHERE id % ? = ?", (DAY_STEPS, step % DAY_STEPS)
            ).fetchall()
        ],
    )


def known_from(db: sqlite3.Connection, first: int) -> list[tuple[int, int]]:
    """Return the first and last slot of each run of recorded slots that ends with ``first`` or later."""
    return db.execute(
        "SELECT first, last FROM known WHERE last >= ? ORDER BY first", (first,)
    ).fetchall()


def _is_known(step: int, known: Runs) -> bool:
    return any(begin < (step + 1) * STEP_SLOTS and end >= step * STEP_SLOTS for begin, end in known)


def moved(db: sqlite3.Connection, series: int, first: int) -> Rows:
    """Return a subject's points of the table ``points`` from ``first`` on, with the one that applies at ``first``."""
    points = db.execute(MOVED, {"id": series, "first": first})
    return [(slot, tuple(point)) for slot, *point in points]


def stored(db: sqlite3.Connection, series: int | None, first: int, last: int) -> list[Point]:
    """Return a point for each step from ``first`` to ``last``, which must be rolled up; None: no such subject."""
    rows: Rows = []
    if series is not None:
        points = db.execute(_STEPS, {"id": series, "first": first, "last": last})
        rows = [(step, tuple(point)) for step, *point in points]
    known = known_from(db, first * STEP_SLOTS)
    runs = [(begin // STEP_SLOTS, end // STEP_SLOTS) for begin, end in known]
    return expanded(rows, runs, first, last)
