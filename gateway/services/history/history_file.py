"""The file that keeps history: SQLite in the gateway's data folder, written by one process and read by all.

The points of each ten seconds are appended to ``recent``, and every five minutes moved to where those of a subject
stand together: a page of the file is written once in five minutes and not every ten seconds. A subject has at most
``HOUR_SLOTS`` points and those of five minutes, the totals of the cluster ``DAY_SLOTS``; older ones are removed when
points are moved, so idle subjects are not looked at.

A commit survives the end of the process (``synchronous=NORMAL`` of the write-ahead log), not a power failure, after
which the file is whole and lacks some minutes.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.admin.api import OLDEST_UNKNOWN, ROW_COLUMNS
from gateway.services.attention.memory import Kept
from gateway.services.history.slots import (
    COLUMNS,
    DAY_SLOTS,
    HOUR_SLOTS,
    SLOT_MS,
    TOTALS,
    Point,
    Recorded,
    Subject,
    expanded,
)

Values = tuple[int | None, ...]
"""In the order of ROW_COLUMNS, rates in thousandths per second."""

NAME = "history.sqlite3"
DAMAGED = "-damaged"
"""Behind the name: the mark of a reader that found it so, with the inode of the file that it read."""
VERSION = 1
MOVE_SLOTS = 30
"""How many slots are gathered before they are moved."""
WAIT_S = 5.0
TOTALS_ID = 1
_CAUSES = """
CREATE TABLE IF NOT EXISTS causes (topic TEXT NOT NULL, subscription TEXT NOT NULL, cause TEXT NOT NULL,
    since INTEGER NOT NULL, at_least INTEGER NOT NULL, ended INTEGER NOT NULL, backlog INTEGER, seen INTEGER,
    PRIMARY KEY (topic, subscription)) WITHOUT ROWID
"""
"""Beside the schema: files of earlier versions have no such table. ``seen`` is null as long as the problem is there."""
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
_MOVED = f"""
SELECT slot, {_COLUMNS} FROM points WHERE series = :id
    AND slot >= coalesce((SELECT max(slot) FROM points WHERE series = :id AND slot <= :first), 0)
    ORDER BY slot
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
    """The file was written by another version of us."""


class DamagedError(sqlite3.DatabaseError):
    """Pages of the file cannot be read."""


def is_damaged(error: Exception) -> bool:
    """Whether the file itself is what failed, and will again; not a lock, or the disk it lies on."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return isinstance(error, (OtherVersionError, DamagedError)) or code & 0xFF in _DAMAGE


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Primary codes, the lowest byte of those that SQLite gives."""


class HistoryFile:
    """One connection; use it from one thread at a time. All methods raise sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        """Opens the file, and makes it when there is none. Raises sqlite3.Error, OtherVersionError among it."""
        self._db = sqlite3.connect(
            path, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        self._path = path
        self.inode = path.stat().st_ino
        """Of the file that is open: another may come to lie at its path."""
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA journal_size_limit={16 << 20}")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._db.executescript(SCHEMA)
            elif version != VERSION:
                raise OtherVersionError(f"{path} has version {version}, not {VERSION}")
            self._db.execute(_CAUSES)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def mark_damaged(self) -> None:
        """Have whoever writes the file learn that a page of it cannot be read, which he may never look at."""
        self._mark.write_text(str(self.inode))

    def check_marked(self) -> None:
        """Raises DamagedError when a reader found the file damaged."""
        if self._mark.exists() and self._mark.read_text() == str(self.inode):
            raise DamagedError(f"a reader found pages of {self._path} damaged")

    @property
    def _mark(self) -> Path:
        return self._path.with_name(self._path.name + DAMAGED)

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield self._db
        except BaseException:
            with suppress(
                sqlite3.Error
            ):  # in a damaged file it fails, too: the first error says why
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # Writing

    def write(self, slot: int, recorded: Sequence[Recorded], figures: dict[str, Values]) -> None:
        """The points of a slot that differ from those before, in one transaction. ``figures``: all numbers of topics
        among them, as they were at its end. Slots must ascend."""
        with self._transaction() as db:
            db.executemany(
                "INSERT INTO series (topic, subscription) VALUES (?, ?) ON CONFLICT DO NOTHING",
                [each.subject for each in recorded],
            )
            db.executemany(
                f"INSERT INTO recent SELECT ?, id, {_MARKS}, ? FROM series"
                " WHERE topic = ? AND subscription = ?",
                [(slot, *one.point, _text(figures, one.subject), *one.subject) for one in recorded],
            )
            db.executemany(
                "UPDATE series SET gone = NULL"
                " WHERE topic = ? AND subscription = ? AND gone IS NOT NULL",
                [one.subject for one in recorded if not one.gone],
            )
            db.executemany(
                "UPDATE series SET gone = ? WHERE topic = ? AND subscription = ?",
                [(slot, *one.subject) for one in recorded if one.gone],
            )
            if not db.execute(
                "UPDATE known SET last = ? WHERE last = ? - 1", (slot, slot)
            ).rowcount:
                db.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (slot, slot))
            (first,) = db.execute("SELECT min(slot) FROM recent").fetchone()
            if first is not None and slot - first >= MOVE_SLOTS:
                self._move(slot)

    def write_causes(self, changed: Sequence[Kept], gone: Sequence[tuple[str, str]]) -> None:
        """What is known of when problems began, by topic and subscription."""
        if not changed and not gone:
            return
        with self._transaction() as db:
            marks = ", ".join("?" * len(Kept._fields))
            db.executemany(f"INSERT OR REPLACE INTO causes VALUES ({marks})", changed)
            db.executemany("DELETE FROM causes WHERE topic = ? AND subscription = ?", gone)

    def move(self) -> None:
        """Gathered points to where they belong, at once."""
        with self._transaction() as db:
            (last,) = db.execute("SELECT max(last) FROM known").fetchone()
            self._move(last or 0)

    def _move(self, slot: int) -> None:
        db = self._db
        changed = [each for (each,) in db.execute("SELECT DISTINCT series FROM recent")]
        db.execute(
            f"INSERT OR REPLACE INTO points SELECT series, slot, {_COLUMNS} FROM recent"
            " ORDER BY series, slot"
        )
        db.execute(
            "UPDATE series SET figures = newest.figures, figures_at = newest.at FROM"
            " (SELECT series, figures, max(slot) AS at FROM recent WHERE figures IS NOT NULL"
            " GROUP BY series) AS newest WHERE series.id = newest.series"
        )
        db.execute("DELETE FROM recent")
        oldest = {each: slot - (DAY_SLOTS if each == TOTALS_ID else HOUR_SLOTS) for each in changed}
        db.executemany(
            _REMOVE_OLD, [{"id": each, "oldest": limit} for each, limit in oldest.items()]
        )
        gone = db.execute(
            "SELECT id FROM series WHERE gone < iif(subscription = '', ?, ?)",
            (slot - HOUR_SLOTS, slot - DAY_SLOTS),
        ).fetchall()
        db.executemany("DELETE FROM points WHERE series = ?", gone)
        db.executemany("DELETE FROM series WHERE id = ?", gone)
        db.execute("DELETE FROM known WHERE last < ?", (slot - DAY_SLOTS,))

    # Reading

    def newest(self) -> dict[Subject, Point]:
        """The last point of each subject that is not gone; after ``move``."""
        rows = self._db.execute(_NEWEST)
        return {Subject(topic, subscription): tuple(point) for topic, subscription, *point in rows}

    def last_slot(self) -> int | None:
        """The last one recorded; None: none was."""
        (last,) = self._db.execute("SELECT max(last) FROM known").fetchone()
        return None if last is None else int(last)

    def causes(self) -> list[Kept]:
        """As they were written, each with when it was last there: at the end of the last slot if nothing else is
        said."""
        last = self.last_slot()
        seen_ms = 0 if last is None else (last + 1) * SLOT_MS
        found = [Kept(*row) for row in self._db.execute("SELECT * FROM causes")]
        return [
            one._replace(
                at_least=bool(one.at_least),
                seen_ms=seen_ms if one.seen_ms is None else one.seen_ms,
            )
            for one in found
        ]

    def figures(self) -> dict[str, tuple[int, Values]]:
        """The last figures of each topic that is not gone, all of which were known, with the end of their slot, ms."""
        found: dict[str, tuple[int, Values]] = {}
        with self._transaction("DEFERRED") as db:
            for topic, text, slot in db.execute(
                "SELECT topic, figures, figures_at FROM series"
                " WHERE figures IS NOT NULL AND gone IS NULL UNION ALL"
                " SELECT topic, recent.figures, slot FROM recent JOIN series ON series.id = series"
                " WHERE recent.figures IS NOT NULL AND gone IS NULL"
            ):
                values = _completed(tuple(json.loads(text)))
                if len(values) == len(ROW_COLUMNS):
                    found[topic] = ((slot + 1) * SLOT_MS, values)
        return found

    def points(self, subjects: Sequence[Subject], first: int, last: int) -> list[list[Point]]:
        """A point for each slot from ``first`` to ``last``, of each subject, as of one moment."""
        with self._transaction("DEFERRED") as db:
            known = db.execute(
                "SELECT first, last FROM known WHERE last >= ? ORDER BY first", (first,)
            ).fetchall()
            ids = [self._id(subject) for subject in subjects]
            rows: dict[int | None, list[tuple[int, Point]]] = {None: []}
            for each in ids:
                if each is not None:
                    moved = db.execute(_MOVED, {"id": each, "first": first})
                    rows[each] = [(slot, tuple(point)) for slot, *point in moved]
            for each, slot, *point in db.execute(_RECENT, (json.dumps(ids),)):
                rows[each].append((slot, tuple(point)))
            return [expanded(rows[each], known, first, last) for each in ids]

    def _id(self, subject: Subject) -> int | None:
        found = self._db.execute(
            "SELECT id FROM series WHERE topic = ? AND subscription = ?", subject
        ).fetchone()
        return None if found is None else int(found[0])


def _completed(values: Values) -> Values:
    """Figures of a version that counted backlogs in entries alone: the messages in them are not known."""
    if len(values) != ROW_COLUMNS.index("backlog_messages"):
        return values
    backlog = values[ROW_COLUMNS.index("backlog")] or 0
    return (*values, backlog, 0, backlog, OLDEST_UNKNOWN if backlog else 0)


def _text(figures: dict[str, Values], subject: Subject) -> str | None:
    if subject.subscription or subject == TOTALS:
        return None
    values = figures.get(subject.topic)
    return None if values is None or None in values else json.dumps(values, separators=(",", ":"))
