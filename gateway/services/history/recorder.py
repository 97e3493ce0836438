"""Writes history from what the collector hears. Of several gateways one writes: whoever holds the lock on
``history.lock``, which the kernel takes from a process that ends, however it ends. Work is in proportion to what
changes.

A slot in which some broker or the metadata store was not heard is recorded for those that were: what is not known of a
topic is a point without numbers. One that ended without fresh numbers at all, or without us, is not recorded, which all
read as a gap.
"""

import asyncio
import fcntl
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from django.conf import settings

from engine.base.errors import MagnetarError
from gateway.services.attention.memory import Kept
from gateway.services.collector import LATE_MS, Collector, collector, now_ms
from gateway.services.engine_link import link
from gateway.services.history.history_file import DAMAGED, NAME, HistoryFile, Values, is_damaged
from gateway.services.history.readings import last_causes, last_figures
from gateway.services.history.slots import (
    IDLE,
    SLOT_MS,
    TOTALS,
    Point,
    Recorded,
    Slots,
    Subject,
    point_of,
)
from gateway.services.index.topic_index import TopicIndex

log = logging.getLogger(__name__)

LOCK = "history.lock"
TICK_S = 1.0
PAUSE_S = 5.0
"""After a failure."""
TURN = 500
"""Of the points of a slot so many are worked out before others have their turn."""
LIVE_ROUND_MS = 5_000
"""A collector that looked at everything within this time is at work."""
T = TypeVar("T")
_Figures = tuple[int | None, int]


class Recorder:
    """On the link's loop. ``clock``: ms since the epoch."""

    def __init__(
        self, folder: Path, collector: Collector, clock: Callable[[], int] = now_ms
    ) -> None:
        self._folder = folder
        self._collector = collector
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "history")
        self._slots = Slots({}, clock())
        self._waiting: dict[Subject, _Waiting] = {}
        """Subscriptions in which something waits or flows."""
        self._causes: dict[tuple[str, str], Kept] = {}
        """As they were written last."""

    async def run(self) -> None:
        """Write whenever nobody else does, until cancelled."""
        failing = False
        held: IO[str] | None = None
        try:
            while True:
                try:
                    held = held or self._lock()
                    if held is not None:
                        await self._record()
                except Exception as error:  # whatever it is, history goes on when it is over
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
        """None while another process has it."""
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
        """Until something fails. Then what was not written is not known any more, and is a gap."""
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
        """Closes the file."""
        try:
            await self._in_thread(file.move)
            kept = await self._in_thread(file.newest)
            self._slots = Slots(kept, self._clock())
            self._waiting = {}
            stored = await self._in_thread(file.causes)
            self._causes = {one[:2]: one for one in stored}
            topics.heed, self._collector.findings.heed = self._topic, self._subscription
            for shown in topics:
                self._topic(shown.name, None, shown.certain)
            for topic, subscription, figures in self._collector.findings.figures():
                self._subscription(topic, subscription, None, figures)
            totals = None
            while True:
                before, totals = totals, self._totals()
                self._slots.change(TOTALS, before, totals, self._clock())
                if self._clock() // SLOT_MS != self._slots.number:
                    await self._finish(file)
                await asyncio.sleep(TICK_S)
        finally:
            topics.heed = self._collector.findings.heed = None
            await asyncio.shield(self._in_thread(file.close))

    async def _finish(self, file: HistoryFile) -> None:
        slot, now = self._slots.number, self._clock()
        latest = self._collector.latest
        if latest is None or now - latest.taken > LIVE_ROUND_MS or now // SLOT_MS != slot + 1:
            self._slots.skip(now)  # nobody looked, or this process was held up
            return
        recorded: list[Recorded] = []
        figures: dict[str, Values] = {}
        for one in self._slots.finish(now):
            recorded.append(one)
            topic = one.subject.topic
            if topic and not one.subject.subscription and topic in latest.topics:
                figures[topic] = latest.topics.certain(topic)
            if len(recorded) % TURN == 0:
                await asyncio.sleep(0)
        await self._in_thread(lambda: file.write(slot, recorded, figures))
        causes = {one[:2]: one for one in self._collector.attention.kept()}
        changed = [one for key, one in causes.items() if self._causes.get(key) != one]
        gone = [key for key in self._causes if key not in causes]
        await self._in_thread(lambda: file.write_causes(changed, gone))
        self._causes = causes
        await self._in_thread(file.check_marked)

    # What is told

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
        """Partitions add up to their topic's subscription."""
        latest = self._collector.latest
        subject = Subject(topic if latest is None else latest.topics.listed_as(topic), name)
        waiting = self._waiting.get(subject)
        if waiting is None:
            waiting = self._waiting[subject] = _Waiting()
            was: Point | None = None
        else:
            was = waiting.point
        waiting.replace(topic, after)
        if not waiting.parts:
            del self._waiting[subject]
        self._slots.change(subject, was, waiting.point, self._clock())

    def _totals(self) -> Point | None:
        """Nothing is known while some numbers are not those of now."""
        latest, heard = self._collector.latest, self._collector.heard()
        totals = None if latest is None else latest.topics.totals
        if totals is None or heard is None or self._clock() - heard > LATE_MS or totals["last"]:
            return None
        rates = [round(totals[name] * 1000) for name in _RATES]
        return (*rates, None if totals["unknown"] else int(totals["backlog"]))


_RATES = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out")


class _Waiting:
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
    """The file. One that cannot be read is put aside under another name, and a new one begun. Raises sqlite3.Error,
    OSError."""
    try:
        return HistoryFile(path)
    except sqlite3.DatabaseError as error:
        if not is_damaged(error):
            raise
        put_aside(path, error)
        return HistoryFile(path)


def put_aside(path: Path, error: Exception) -> None:
    """Move a damaged file, which nobody has open to write, to another name; what is opened next is a new one."""
    aside = path.with_suffix(".unreadable")
    log.warning("history cannot be read and begins anew, the old file is %s error=%r", aside, error)
    path.replace(aside)
    for suffix in ("-wal", "-shm", DAMAGED):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def start() -> None:
    """Record for the life of this process, whenever no other one does. Before or while the link's loop runs."""
    collector().recall, collector().recall_causes = last_figures, last_causes
    link().start(Recorder(settings.ENVIRONMENT.data_dir, collector()).run)
