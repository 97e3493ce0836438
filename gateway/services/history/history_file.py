"""History file: SQLite in the gateway's data folder, written by one process and read by all.

The points of each slot are appended to ``recent``, and every five minutes moved to ``points``, where those of a subject
are adjacent: a page of the file is then written once in five minutes and not every ten seconds. A subject has at most
the points of ``HOUR_SLOTS`` and five minutes, the cluster's totals those of ``DAY_SLOTS``. Older points of a subject
are removed when others of it are moved, so idle subjects cost nothing. What is moved is rolled up for a week
(``steps``).

A commit survives the end of the process (``synchronous=NORMAL`` of the write-ahead log). After a power failure the file
is intact and may lack some minutes.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from gateway.services.attention.memory import RecordedProblem
from gateway.services.history import steps
from gateway.services.history.slots import (
    COLUMNS,
    DAY_SLOTS,
    HOUR_SLOTS,
    SLOT_MS,
    STEP_SLOTS,
    TOTALS,
    WEEK_SLOTS,
    Point,
    Recorded,
    Subject,
    expanded,
    joined,
)

Values = tuple[int | None, ...]
"""Values in the order of ROW_COLUMNS, rates in thousandths per second."""

NAME = "history.sqlite3"
DAMAGED = "-damaged"
"""Suffix of the file by which a reader marks the history file as damaged; it contains the inode of that file."""
VERSION = 1
WAIT_S = 5.0
TOTALS_ID = 1
_LATER_TABLES = f"""
{steps.TABLES};
CREATE TABLE IF NOT EXISTS causes (topic TEXT NOT NULL, subscription TEXT NOT NULL, cause TEXT NOT NULL,
    since INTEGER NOT NULL, at_least INTEGER NOT NULL, ended INTEGER NOT NULL, backlog INTEGER, seen INTEGER,
    PRIMARY KEY (topic, subscription)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS recent_series ON recent (series)
"""
"""Tables that files of earlier versions lack, hence outside the schema. ``causes.seen``: null while it lasts."""
_COLUMNS = ", ".join(COLUMNS)
_NUMBERS = ", ".join(f"{column} INTEGER" for column in COLUMNS)
_MARKS = ", ".join("?" * len(COLUMNS))
SCHEMA = f"""
BEGIN;
CREATE TABLE series (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, subscription TEXT NOT NULL,
    gone INTEGER, figures TEXT, figures_at INTEGER, UNIQUE (topic, subscription));
CREATE INDEX gone ON series (gone) WHERE gone IS NOT NULL;
CREATE TABLE points (series INTEGER NOT NULL, slot INTEGER NOT NULL, {_NUMBERS},
    PRIMARY KEY (series, slot)) WITHOUT ROWID;
CREATE TABLE recent (slot INTEGER NOT NULL, series INTEGER NOT NULL, {_NUMBERS}, figures TEXT);
CREATE TABLE known (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
INSERT INTO series (id, topic, subscription) VALUES ({TOTALS_ID}, '', '');
PRAGMA user_version = {VERSION};
COMMIT;
"""
_NEWEST = f"""
SELECT topic, subscription, {_COLUMNS} FROM series JOIN points ON points.series = series.id
    AND slot = (SELECT max(slot) FROM points WHERE series = series.id) WHERE gone IS NULL
"""
_RECENT = f"""
SELECT series, slot, {_COLUMNS} FROM recent WHERE series IN (SELECT value FROM json_each(?))
    ORDER BY slot
"""
_REMOVE_OLD = """
DELETE FROM points WHERE series = :id
    AND slot < (SELECT max(slot) FROM points WHERE series = :id AND slot <= :oldest)
"""


class OtherVersionError(sqlite3.DatabaseError):
    """The file was written by another version of Magnetar."""


class DamagedHistoryError(sqlite3.DatabaseError):
    """Pages of the file cannot be read."""


def is_damaged(error: Exception) -> bool:
    """Return whether the file itself is unreadable, for good; a lock or a failing disk may recover."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return isinstance(error, (OtherVersionError, DamagedHistoryError)) or code & 0xFF in _DAMAGE


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Primary result codes, which are the lowest byte of SQLite's result codes."""


class HistoryFile:
    """One connection to the file, for one thread at a time. All methods raise sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises sqlite3.Error, among them OtherVersionError."""
        self._db = sqlite3.connect(
            path, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        self._path = path
        self.inode = path.stat().st_ino
        """Inode of the open file: another file may take its path."""
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA journal_size_limit={16 << 20}")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._db.executescript(SCHEMA)
            elif version != VERSION:
                raise OtherVersionError(f"{path} has version {version}, not {VERSION}")
            self._db.executescript(_LATER_TABLES)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def mark_damaged(self) -> None:
        """Leave a mark for the writing process, which may never read the damaged page itself."""
        self._mark.write_text(str(self.inode))

    def check_marked(self) -> None:
        """Raise DamagedHistoryError when a reader marked the file as damaged."""
        if self._mark.exists() and self._mark.read_text() == str(self.inode):
            raise DamagedHistoryError(f"a reader found pages of {self._path} damaged")

    @property
    def _mark(self) -> Path:
        return self._path.with_name(self._path.name + DAMAGED)

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield self._db
        except BaseException:
            # A rollback fails in a damaged file, too: the first error is the one to report.
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # Writing

    def write(self, slot: int, recorded: Sequence[Recorded], figures: dict[str, Values]) -> None:
        """Store the changed points of a slot in one transaction; slots must ascend.

        ``figures``: all numbers of the topics among them at the slot's end.
        """
        with self._transaction() as db:
            (before,) = db.execute("SELECT max(last) FROM known").fetchone()
            if before is not None and before // STEP_SLOTS != slot // STEP_SLOTS:
                self._move(before - before % STEP_SLOTS + STEP_SLOTS - 1)
            db.executemany(
                "INSERT INTO series (topic, subscription) VALUES (?, ?) ON CONFLICT DO NOTHING",
                [point.subject for point in recorded],
            )
            db.executemany(
                f"INSERT INTO recent SELECT ?, id, {_MARKS}, ? FROM series"
                " WHERE topic = ? AND subscription = ?",
                [
                    (slot, *point.point, _text(figures, point.subject), *point.subject)
                    for point in recorded
                ],
            )
            db.executemany(
                "UPDATE series SET gone = NULL"
                " WHERE topic = ? AND subscription = ? AND gone IS NOT NULL",
                [point.subject for point in recorded if not point.gone],
            )
            db.executemany(
                "UPDATE series SET gone = ? WHERE topic = ? AND subscription = ?",
                [(slot, *point.subject) for point in recorded if point.gone],
            )
            if not db.execute(
                "UPDATE known SET last = ? WHERE last = ? - 1", (slot, slot)
            ).rowcount:
                db.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (slot, slot))

    def write_causes(
        self, changed: Sequence[RecordedProblem], gone: Sequence[tuple[str, str]]
    ) -> None:
        """Store ``changed`` problems with their beginnings; delete ``gone`` ones, (topic, subscription)."""
        if not changed and not gone:
            return
        with self._transaction() as db:
            marks = ", ".join("?" * len(RecordedProblem._fields))
            db.executemany(f"INSERT OR REPLACE INTO causes VALUES ({marks})", changed)
            db.executemany("DELETE FROM causes WHERE topic = ? AND subscription = ?", gone)

    def move(self) -> None:
        """Move the appended points to their subjects now."""
        with self._transaction() as db:
            (last,) = db.execute("SELECT max(last) FROM known").fetchone()
            if last is not None:
                self._move(last)

    def _move(self, slot: int) -> None:
        db = self._db
        changed = [series for (series,) in db.execute("SELECT DISTINCT series FROM recent")]
        db.execute(
            f"INSERT OR REPLACE INTO points SELECT series, slot, {_COLUMNS} FROM recent"
            " NOT INDEXED ORDER BY series, slot"
        )
        db.execute(
            "UPDATE series SET figures = newest.figures, figures_at = newest.at FROM"
            " (SELECT series, figures, max(slot) AS at FROM recent NOT INDEXED"
            " WHERE figures IS NOT NULL GROUP BY series) AS newest WHERE series.id = newest.series"
        )
        db.execute("INSERT OR IGNORE INTO unrolled SELECT DISTINCT series FROM recent")
        db.execute("DELETE FROM recent")
        steps.roll_up(db, slot)
        oldest = {
            series: slot - (DAY_SLOTS if series == TOTALS_ID else HOUR_SLOTS) for series in changed
        }
        db.executemany(
            _REMOVE_OLD, [{"id": series, "oldest": limit} for series, limit in oldest.items()]
        )
        gone = db.execute(
            "SELECT id FROM series WHERE gone < iif(subscription = '' AND instr(topic, '://'), ?, ?)",
            (slot - HOUR_SLOTS, slot - WEEK_SLOTS),
        ).fetchall()
        db.executemany("DELETE FROM points WHERE series = ?", gone)
        db.executemany("DELETE FROM steps WHERE series = ?", gone)
        db.executemany("DELETE FROM series WHERE id = ?", gone)
        db.execute("DELETE FROM known WHERE last < ?", (slot - WEEK_SLOTS - DAY_SLOTS,))

    # Reading

    def newest(self) -> dict[Subject, Point]:
        """Return the last point of each subject that is not gone; requires ``move`` before."""
        rows = self._db.execute(_NEWEST)
        return {Subject(topic, subscription): tuple(point) for topic, subscription, *point in rows}

    def last_slot(self) -> int | None:
        """Return the last recorded slot; None: there is none."""
        (last,) = self._db.execute("SELECT max(last) FROM known").fetchone()
        return None if last is None else int(last)

    def causes(self) -> list[RecordedProblem]:
        """Return the stored problems; one without ``seen_ms`` gets the end of the last recorded slot."""
        last = self.last_slot()
        seen_ms = 0 if last is None else (last + 1) * SLOT_MS
        problems = [RecordedProblem(*row) for row in self._db.execute("SELECT * FROM causes")]
        return [
            problem._replace(
                at_least=bool(problem.at_least),
                seen_ms=seen_ms if problem.seen_ms is None else problem.seen_ms,
            )
            for problem in problems
        ]

    def figures(self) -> dict[str, tuple[int, Values]]:
        """Return the last complete figures of each topic that is not gone, with the end of their slot, ms."""
        figures: dict[str, tuple[int, Values]] = {}
        with self._transaction("DEFERRED") as db:
            for topic, text, slot in db.execute(
                "SELECT topic, figures, figures_at FROM series"
                " WHERE figures IS NOT NULL AND gone IS NULL UNION ALL"
                " SELECT topic, recent.figures, slot FROM recent JOIN series ON series.id = series"
                " WHERE recent.figures IS NOT NULL AND gone IS NULL"
            ):
                values = _completed(tuple(json.loads(text)))
                if len(values) == len(ROW_COLUMNS):
                    figures[topic] = ((slot + 1) * SLOT_MS, values)
        return figures

    def points(
        self, subjects: Sequence[Subject], first: int, last: int, every: int = 1
    ) -> list[list[Point]]:
        """Return for each subject a point of each slot from ``first`` to ``last``, or of the last one of ``every`` so
        many of them, from one snapshot of the file."""
        with self._transaction("DEFERRED"):
            return self._points(list(map(self._id, subjects)), first, last, every)

    def _points(
        self, ids: Sequence[int | None], first: int, last: int, every: int = 1
    ) -> list[list[Point]]:
        known = steps.known_from(self._db, first)
        rows: dict[int | None, steps.Rows] = {None: []}
        for series in ids:
            if series is not None:
                rows[series] = steps.moved(self._db, series, first)
        for series, slot, *point in self._db.execute(_RECENT, (json.dumps(ids),)):
            rows[series].append((slot, tuple(point)))
        return [expanded(rows[series], known, first, last, every) for series in ids]

    def rolled_up(self, subjects: Sequence[Subject], first: int, last: int) -> list[list[Point]]:
        """Return for each subject a point of each step from ``first`` to ``last``, which has ended, from one snapshot
        of the file. Steps that are not rolled up yet are computed from their slots."""
        with self._transaction("DEFERRED") as db:
            ids = list(map(self._id, subjects))
            rolled = steps.rolled(db)
            until = first - 1 if rolled is None else max(first - 1, min(rolled, last))
            begin, end = (until + 1) * STEP_SLOTS, (last + 1) * STEP_SLOTS - 1
            newest = self._points(ids, begin, end)
            return [
                [*steps.stored(db, series, first, until), *joined(points, STEP_SLOTS)]
                for series, points in zip(ids, newest, strict=True)
            ]

    def _id(self, subject: Subject) -> int | None:
        row = self._db.execute(
            "SELECT id FROM series WHERE topic = ? AND subscription = ?", subject
        ).fetchone()
        return None if row is None else int(row[0])


def _completed(values: Values) -> Values:
    """Complete figures of a version that counted backlogs in entries only: their messages are unmeasured."""
    if len(values) != ROW_COLUMNS.index("backlog_messages"):
        return values
    backlog = values[ROW_COLUMNS.index("backlog")] or 0
    return (*values, backlog, 0, backlog, OLDEST_UNKNOWN if backlog else 0)


def _text(figures: dict[str, Values], subject: Subject) -> str | None:
    if subject.subscription or subject == TOTALS:
        return None
    values = figures.get(subject.topic)
    return None if values is None or None in values else json.dumps(values, separators=(",", ":"))
