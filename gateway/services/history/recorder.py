"""Recording of history from the collector's numbers.

Of several gateways one records: the holder of the lock on ``history.lock``, which the kernel releases when the process
ends, however it ends. The work is proportional to what changes.

A slot in which a broker or the metadata store did not report is recorded for the others: a topic whose numbers are
unknown gets a point without numbers. A slot that ended without any fresh numbers, or while no process recorded, is
missing, and readers see a gap.
"""

import asyncio
import fcntl
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from engine.auth.viewer import ALL
from engine.base.errors import MagnetarError
from gateway.services.attention.memory import RecordedProblem
from gateway.services.clock import now_ms
from gateway.services.collection.collector import Collector
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.history.history_file import DAMAGED, NAME, HistoryFile, Values, is_damaged
from gateway.services.history.slots import (
    IDLE,
    LINK,
    NOT_KNOWN,
    PARTS,
    SLOT_MS,
    TOTALS,
    Point,
    Recorded,
    Slots,
    Subject,
    bookie_name,
    broker_name,
    link_name,
    point_of,
)
from gateway.services.index.rows import KNOWN, LIVE
from gateway.services.index.topic_index import TopicIndex

log = logging.getLogger(__name__)

LOCK = "history.lock"
TICK_S = 1.0
PAUSE_S = 5.0
"""Pause after a failure."""
TURN = 500
"""Number of points of a slot that are computed before the loop may run other tasks."""
LIVE_ROUND_MS = 5_000
"""A collector whose last complete round is younger than this is at work."""
T = TypeVar("T")
_Figures = tuple[int | None, int]


class Recorder:
    """Recorder of one process, on the link's loop. ``clock``: ms since the epoch."""

    def __init__(
        self, folder: Path, collector: Collector, clock: Callable[[], int] = now_ms
    ) -> None:
        self._folder = folder
        self._collector = collector
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "history")
        self._slots = Slots({}, clock())
        self._active: dict[Subject, _PartSums] = {}
        """Subscriptions with a backlog or traffic."""
        self._parts: dict[Subject, Point] = {}
        """Brokers, bookies and links to other clusters, with their present points."""
        self._causes: dict[tuple[str, str], RecordedProblem] = {}
        """Problems as they were last written, by topic and subscription."""

    async def run(self) -> None:
        """Record whenever no other process does, until cancelled."""
        failing = False
        held: IO[str] | None = None
        try:
            while True:
                try:
                    held = held or self._lock()
                    if held is not None:
                        await self._record()
                except Exception as error:  # history must resume after any error
                    if not failing:  # once per outage
                        expected = isinstance(error, (sqlite3.Error, OSError, MagnetarError))
                        trace = None if expected else error
                        log.warning("history is not written error=%r", error, exc_info=trace)
                    failing = True
                    await asyncio.sleep(PAUSE_S)
                else:
                    failing = False
                    await asyncio.sleep(TICK_S)
        finally:
            if held is not None:
                held.close()
            self._thread.shutdown(wait=False)

    def _lock(self) -> IO[str] | None:
        """Return the locked file; None while another process holds the lock."""
        file = (self._folder / LOCK).open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _record(self) -> None:
        """Record until an error. Points that are not written then are lost and become a gap."""
        path = self._folder / NAME
        topics = (await self._collector.snapshot()).topics
        file = await self._in_thread(lambda: opened(path))
        try:
            await self._record_in(file, topics)
        except sqlite3.DatabaseError as error:
            if is_damaged(error):
                await self._in_thread(partial(put_aside, path, error))
            raise

    async def _record_in(self, file: HistoryFile, topics: TopicIndex) -> None:
        """Record in this file until an error, and close it."""
        try:
            await self._in_thread(file.move)
            last_points = await self._in_thread(file.newest)
            self._parts = {
                subject: NOT_KNOWN for subject in last_points if subject.topic.startswith(PARTS)
            }
            self._slots = Slots(last_points, self._clock())
            self._active = {}
            stored = await self._in_thread(file.causes)
            self._causes = {problem[:2]: problem for problem in stored}
            # No await until all subjects are reported: one whose change came first would be recorded as gone.
            topics.on_change, self._collector.findings.on_change = self._topic, self._subscription
            for shown in topics:
                self._topic(shown.name, None, shown.certain)
            for topic, subscription, figures in self._collector.findings.figures():
                self._subscription(topic, subscription, None, figures)
            for part, point in self._parts.items():
                self._slots.change(part, None, point, self._clock())
            totals = None
            while True:
                before, totals = totals, self._totals()
                self._slots.change(TOTALS, before, totals, self._clock())
                self._follow_parts()
                if self._clock() // SLOT_MS != self._slots.number:
                    await self._finish(file)
                await asyncio.sleep(TICK_S)
        finally:
            topics.on_change = self._collector.findings.on_change = None
            await asyncio.shield(self._in_thread(file.close))

    async def _finish(self, file: HistoryFile) -> None:
        slot, now = self._slots.number, self._clock()
        latest = self._collector.latest
        if latest is None or now - latest.taken > LIVE_ROUND_MS or now // SLOT_MS != slot + 1:
            self._slots.skip(now)  # the collector was idle, or this process was held up
            return
        recorded: list[Recorded] = []
        figures: dict[str, Values] = {}
        for point in self._slots.finish(now):
            recorded.append(point)
            topic = point.subject.topic
            if topic and not point.subject.subscription and topic in latest.topics:
                figures[topic] = latest.topics.certain(topic)
            if len(recorded) % TURN == 0:
                await asyncio.sleep(0)
        await self._in_thread(lambda: file.write(slot, recorded, figures))
        causes = {problem[:2]: problem for problem in self._collector.attention.recorded()}
        changed = [problem for key, problem in causes.items() if self._causes.get(key) != problem]
        gone = [key for key in self._causes if key not in causes]
        await self._in_thread(lambda: file.write_causes(changed, gone))
        self._causes = causes
        await self._in_thread(file.check_marked)

    # Changes reported by the collector

    def _topic(self, name: str, before: Values | None, after: Values | None) -> None:
        self._slots.change(
            Subject(name),
            None if before is None else point_of(before),
            None if after is None else point_of(after),
            self._clock(),
        )

    def _subscription(
        self, topic: str, name: str, before: _Figures | None, after: _Figures | None
    ) -> None:
        """Record a subscription's change; those of partitions add up to the topic's subscription."""
        latest = self._collector.latest
        subject = Subject(topic if latest is None else latest.topics.listed_as(topic), name)
        sums = self._active.get(subject)
        if sums is None:
            sums = self._active[subject] = _PartSums()
            previous: Point | None = None
        else:
            previous = sums.point
        sums.replace(topic, after)
        if not sums.parts:
            del self._active[subject]
        self._slots.change(subject, previous, sums.point, self._clock())

    def _follow_parts(self) -> None:
        """Record changes of brokers, bookies and links to other clusters. A link is gone once all brokers report
        nothing of it."""
        parts = {
            Subject(link_name(link.remote)): _point_of_link(link)
            for link in self._collector.link_figures()
        }
        if not self._collector.has_all_links:
            links = [subject for subject in self._parts if subject.topic.startswith(LINK)]
            parts = dict.fromkeys(links, NOT_KNOWN) | parts
        latest = self._collector.latest
        if latest is not None:
            parts |= {Subject(broker_name(row["id"])): _of_broker(row) for row in latest.brokers}
            parts |= {Subject(bookie_name(row["id"])): _of_bookie(row) for row in latest.bookies}
        for subject in self._parts.keys() | parts.keys():
            before, after = self._parts.get(subject), parts.get(subject)
            if before != after:
                self._slots.change(subject, before, after, self._clock())
        self._parts = parts

    def _totals(self) -> Point | None:
        """Return the cluster's totals; None while some numbers are not current."""
        latest, reported_ms = self._collector.latest, self._collector.known_until()
        totals = None if latest is None else latest.topics.sums.totals(ALL)
        if totals is None or reported_ms is None or totals["last"]:
            return None
        if self._clock() - reported_ms > self._collector.late_ms:
            return None
        rates = [round(totals[name] * 1000) for name in _RATES]
        return (*rates, None if totals["unknown"] else int(totals["backlog"]))


_RATES = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out")


def _point_of_link(link: LinkFigures) -> Point:
    """Return what is received and sent, and the backlog; unknown while a broker's figures are not current."""
    if link.known != LIVE:
        return NOT_KNOWN
    rates = link.received_messages, link.messages, link.received_bytes, link.bytes
    return (*rates, link.backlog)


def _of_broker(row: dict[str, Any]) -> Point:
    """Return the point of a broker's line, in the order of BROKER_COLUMNS."""
    if row["known"] != KNOWN[LIVE]:
        return NOT_KNOWN
    return (*(round(row[name] * 1000) for name in _RATES), row["topics"])


def _of_bookie(row: dict[str, Any]) -> Point:
    """Return the point of a bookie's line, in the order of BOOKIE_COLUMNS."""
    if row["known"] != KNOWN[LIVE]:
        return NOT_KNOWN
    usage, total = row["usage"], row["total_bytes"]
    used = total - row["free_bytes"]
    share = None if usage is None else round(usage * 1000)
    return (share, used * 1000, total * 1000, None, row["ledgers"])


class _PartSums:
    """A subscription's figures by topic or partition, and their sum."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: dict[str, _Figures] = {}

    def replace(self, part: str, figures: _Figures | None) -> None:
        if figures is None:
            self.parts.pop(part, None)
        else:
            self.parts[part] = figures

    @property
    def point(self) -> Point:
        if not self.parts:
            return IDLE
        backlogs = [backlog for backlog, _ in self.parts.values()]
        rate = sum(rate for _, rate in self.parts.values())
        known = [backlog for backlog in backlogs if backlog is not None]
        return (None, rate, None, None, sum(known) if len(known) == len(backlogs) else None)


def opened(path: Path) -> HistoryFile:
    """Open or create the file; a damaged one is put aside first. Raises sqlite3.Error, OSError."""
    try:
        return HistoryFile(path)
    except sqlite3.DatabaseError as error:
        if not is_damaged(error):
            raise
        put_aside(path, error)
        return HistoryFile(path)


def put_aside(path: Path, error: Exception) -> None:
    """Rename a damaged file, which no process has open for writing, so that the next opening creates a new one."""
    aside = path.with_suffix(".unreadable")
    log.warning("history is damaged and starts empty, the old file is %s error=%r", aside, error)
    path.replace(aside)
    for suffix in ("-wal", "-shm", DAMAGED):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
