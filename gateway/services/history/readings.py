"""Queries of a cluster's history, for any process. The points of a slot are available about a second after its end."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from engine.base.errors import NotReady
from gateway.services.attention.memory import RecordedProblem
from gateway.services.clock import now_ms
from gateway.services.history.history_file import NAME, HistoryFile, Values, is_damaged
from gateway.services.history.slots import (
    COLUMNS,
    MINUTE_SLOTS,
    NOT_KNOWN,
    SLOT_MS,
    STEP_SLOTS,
    WEEK_SLOTS,
    Point,
    Subject,
    joined,
)

log = logging.getLogger(__name__)

HOUR_MINUTES = 60
DAY_MINUTES = 1_440
WEEK_MINUTES = 7 * DAY_MINUTES
TREND_MINUTES = 15
TRENDS_MAX = 16_384
"""Bound on the cached trends, about 10 MB."""
TRENDS_PAUSE_S = 0.5
"""Time between two readings of trends that no caller waits for."""
LATE_MS = 3_000
"""Time after a slot's end within which it may not be written yet."""
T = TypeVar("T")
Trend = tuple[int | None, ...]
_BACKLOG = COLUMNS.index("backlog")
_RATE_OUT = COLUMNS.index("msg_rate_out")


class Reading(NamedTuple):
    """Points of one subject.

    ``points``: (ms, point), oldest first, ``step_ms`` apart, each at the end of its step. ``at``: end of the last
    recorded slot, ms; None: there is none.
    """

    at: int | None
    step_ms: int
    points: list[tuple[int, Point]]


class PastWeek(NamedTuple):
    """Points of several subjects over a week, oldest first: of five minutes each, and of a slot each at its end.

    ``ends``: the ends of the points, ms; ``spans``: their lengths, ms. ``points``: by subject, ``NOT_KNOWN`` where
    nothing was recorded.
    """

    ends: list[int]
    spans: list[int]
    points: list[list[Point]]


class History:
    """The thread and the SQLite connection by which this process reads the history file of a cluster.

    The file is opened again after an error, and when its inode changes: the writer puts a damaged file aside.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._thread = ThreadPoolExecutor(1, "history-reads")
        self._file: HistoryFile | None = None
        self._trends: dict[str, tuple[int, Trend]] = {}
        self._lock = threading.Lock()
        self._wanted: dict[str, None] = {}
        """Topics whose trends are to be read, of all concurrent callers."""
        self.trends_version = 0
        """A number that grows when ``trends_at_once`` may return more."""
        self._behind: dict[str, None] = {}
        """Topics whose trends are to be read for no waiting caller, by ``_renewal``."""
        self._renewal: asyncio.Task[None] | None = None

    async def _query(self, query: Callable[[HistoryFile], T]) -> T | None:
        """Return the query's result; None while there is no file. Raises NotReady when the file cannot be read."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read, query)

    def _read(self, query: Callable[[HistoryFile], T]) -> T | None:
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            inode = 0
        if self._file is not None and self._file.inode != inode:
            self._close()
        try:
            if self._file is None:
                if not inode:
                    return None
                self._file = HistoryFile(self._path)
            return query(self._file)
        except sqlite3.Error as error:
            if self._file is not None and is_damaged(error):
                self._file.mark_damaged()
            self._close()
            raise NotReady(f"History cannot be read: {error}") from error

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    async def trends(self, names: Sequence[str]) -> dict[str, Trend]:
        """Return the backlogs of topics at the ends of the last ``TREND_MINUTES`` minutes, oldest first.

        None stands for an unknown backlog. The file is read at most once a minute per topic. Raises NotReady.
        """
        minute = _last_minute()
        if wanted := self._outdated(names, minute):
            await self._renew(wanted, minute)
        return self._kept(names)

    def trends_at_once(self, names: Sequence[str]) -> dict[str, Trend]:
        """Return the trends that were read before, also those of an earlier minute; ``trends_version`` grows once the
        others are read, those of all callers together. On one event loop."""
        if outdated := self._outdated(names, _last_minute()):
            self._behind |= dict.fromkeys(outdated)
            if self._renewal is None:
                loop = asyncio.get_running_loop()
                self._renewal = loop.create_task(self._renew_behind(), name="trends")
        return self._kept(names)

    def _outdated(self, names: Sequence[str], minute: int) -> list[str]:
        kept = self._trends
        return [name for name in names if name not in kept or kept[name][0] != minute]

    def _kept(self, names: Sequence[str]) -> dict[str, Trend]:
        kept = self._trends
        return {name: kept[name][1] for name in names if name in kept}

    async def _renew(self, wanted: Sequence[str], minute: int) -> bool:
        """Read the trends; return whether there were any to read."""
        with self._lock:
            self._wanted |= dict.fromkeys(wanted)
        trends = await self._query(partial(self._read_wanted, minute)) or {}
        for name, trend in trends.items():
            # Insertion order is the age of the entries, by which the oldest are dropped.
            self._trends.pop(name, None)
            self._trends[name] = (minute, trend)
        while len(self._trends) > TRENDS_MAX:
            del self._trends[next(iter(self._trends))]
        return bool(trends)

    async def _renew_behind(self) -> None:
        while self._behind:
            # Where more topics are watched than trends are kept, each reading makes others outdated.
            await asyncio.sleep(TRENDS_PAUSE_S)
            wanted, self._behind = list(self._behind), {}
            try:
                self.trends_version += await self._renew(wanted, _last_minute())
            except NotReady as error:
                log.warning("rows are shown without trends error=%r", error)
        self._renewal = None

    def _read_wanted(self, minute: int, file: HistoryFile) -> dict[str, Trend]:
        """Read the trends of all callers; empty when an earlier call has read them."""
        with self._lock:
            wanted, self._wanted = list(self._wanted), {}
        if not wanted:
            return {}
        last = minute * MINUTE_SLOTS - 1
        first = last - TREND_MINUTES * MINUTE_SLOTS + 1
        points = file.points([Subject(name) for name in wanted], first, last, MINUTE_SLOTS)
        return {
            name: tuple(point[_BACKLOG] for point in minutes)
            for name, minutes in zip(wanted, points, strict=True)
        }

    async def reading(self, topic: str, subscription: str, minutes: int, ago: int = 0) -> Reading:
        """Read ``minutes`` of the totals (no topic), a topic by its full name, or one of its subscriptions.

        They end ``ago`` minutes before now. A step is a slot up to the last hour, a minute up to the last day of the
        totals, else five minutes. Raises NotReady when the file cannot be read.
        """
        now = now_ms()
        last = now // SLOT_MS - 1 - ago * MINUTE_SLOTS
        first = last - minutes * MINUTE_SLOTS + 1
        count = _slots_of_a_step(minutes + ago, of_totals=not topic)
        subjects = [Subject(topic)]
        if subscription:
            subjects.append(Subject(topic, subscription))
        if count == STEP_SLOTS:
            first = -(-first // count) * count
            last = (last + 1) // count * count - 1

        def query(file: HistoryFile) -> tuple[int | None, list[list[Point]]]:
            if count == STEP_SLOTS:
                steps = file.rolled_up(subjects, first // count, last // count)
                return file.last_slot(), steps
            return file.last_slot(), file.points(subjects, first, last)

        recorded, by_subject = await self._query(query) or (None, [])
        step_ms = count * SLOT_MS
        if recorded is None:
            return Reading(None, step_ms, [])
        points = by_subject[0] if not subscription else list(map(_of_subscription, *by_subject))
        if count < STEP_SLOTS:
            if recorded < last and now - (last + 1) * SLOT_MS < LATE_MS:
                points.pop()
            skipped = -first % count  # steps are minutes of the clock
            first, points = first + skipped, list(joined(points[skipped:], count))
        begin = _first_known(points)
        return Reading(
            (recorded + 1) * SLOT_MS,
            step_ms,
            [
                ((first + index * count + count) * SLOT_MS, points[index])
                for index in range(begin, len(points))
            ],
        )

    async def recent(self, names: Sequence[str], minutes: int) -> tuple[int, list[list[Point]]]:
        """Return the slots of the last ``minutes`` of several topics or links: the end of the last slot, ms, and a
        point for each slot, oldest first, ``NOT_KNOWN`` where nothing was recorded.

        Raises NotReady when the file cannot be read.
        """
        return await self.slots([Subject(name) for name in names], minutes)

    async def slots(
        self, subjects: Sequence[Subject], minutes: int
    ) -> tuple[int, list[list[Point]]]:
        """Return the slots of any subjects, as ``recent`` does."""
        last = (now_ms() - LATE_MS) // SLOT_MS - 1
        first = last - minutes * MINUTE_SLOTS + 1
        points = await self._query(lambda file: file.points(subjects, first, last))
        nothing = [NOT_KNOWN] * (last - first + 1)
        return (last + 1) * SLOT_MS, points or [nothing for _ in subjects]

    async def week(self, subjects: Sequence[Subject], fine_minutes: int) -> PastWeek:
        """Return a week of any subjects, of which at least nearly the last ``fine_minutes`` in slots, and the rest in
        steps of five minutes. Raises NotReady when the file cannot be read."""
        last = (now_ms() - LATE_MS) // SLOT_MS - 1
        fine = -(-(last - fine_minutes * MINUTE_SLOTS + 1) // STEP_SLOTS) * STEP_SLOTS
        first = fine - WEEK_SLOTS + fine_minutes * MINUTE_SLOTS
        first -= first % STEP_SLOTS
        steps = range(first // STEP_SLOTS, fine // STEP_SLOTS)
        slots = range(fine, last + 1)

        def query(file: HistoryFile) -> list[list[Point]]:
            older = file.rolled_up(subjects, steps.start, steps.stop - 1)
            newer = file.points(subjects, slots.start, slots.stop - 1)
            return [[*days, *hours] for days, hours in zip(older, newer, strict=True)]

        points = await self._query(query)
        step_ms = STEP_SLOTS * SLOT_MS
        return PastWeek(
            [(step + 1) * step_ms for step in steps] + [(slot + 1) * SLOT_MS for slot in slots],
            [step_ms] * len(steps) + [SLOT_MS] * len(slots),
            points or [[NOT_KNOWN] * (len(steps) + len(slots)) for _ in subjects],
        )

    async def last_figures(self) -> dict[str, tuple[int, Values]]:
        """Return by full topic name the last complete recorded figures, with their time in ms."""
        return await self._query(HistoryFile.figures) or {}

    async def last_causes(self) -> list[RecordedProblem]:
        """Return the problems with their beginnings as they were last recorded."""
        return await self._query(HistoryFile.causes) or []


def _slots_of_a_step(minutes: int, *, of_totals: bool) -> int:
    if minutes <= HOUR_MINUTES:
        return 1
    return MINUTE_SLOTS if of_totals and minutes <= DAY_MINUTES else STEP_SLOTS


def _first_known(points: Sequence[Point]) -> int:
    """Return the index of the first known point: unknown points before it are no gap."""
    return next((index for index, point in enumerate(points) if point != NOT_KNOWN), len(points))


def _of_subscription(topic: Point, own: Point) -> Point:
    """Return a subscription's point with its topic's arrivals; unknown where the topic's rates are."""
    if topic[_RATE_OUT] is None:
        return NOT_KNOWN
    return (topic[0], own[_RATE_OUT], topic[2], None, own[_BACKLOG])


def _last_minute() -> int:
    """Return the number of minutes whose points are written, counted from the epoch."""
    return (now_ms() - LATE_MS) // 60_000
