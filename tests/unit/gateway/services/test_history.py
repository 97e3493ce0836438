"""History: means and gaps, its cost, and its contents after the writer's end."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.base.errors import NotReady
from engine.base.names import TopicName
from engine.tenancy import topics as metadata
from gateway.services.attention.memory import RecordedProblem
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import EngineLink
from gateway.services.feeds.row_list import RowChanges
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.history import readings, recorder
from gateway.services.history import steps as history_steps
from gateway.services.history.history_file import (
    NAME,
    STEP_SLOTS,
    DamagedHistoryError,
    HistoryFile,
    is_damaged,
)
from gateway.services.history.slots import (
    DAY_SLOTS,
    HOUR_SLOTS,
    IDLE,
    NOT_KNOWN,
    SLOT_MS,
    TOTALS,
    Point,
    Recorded,
    Slots,
    Subject,
    expanded,
    joined,
    link_name,
)
from gateway.services.index.rows import LAST, LIVE
from tests.support.admin.gateway_client import engine
from tests.support.waiting import until

__all__ = ["engine"]

TOPIC = Subject("persistent://public/default/t")
QUIET: Point = (0, 0, 0, 0, 0)
SERIES_BYTES_MAX = 32 << 10
DAYS_BYTES_MAX = 144 << 10
"""Bytes that docs/decisions/0016-history.md promises for each topic and each subscription."""


def points(slots: Slots, now_ms: int) -> dict[Subject, Point]:
    return {recorded.subject: recorded.point for recorded in slots.finish(now_ms)}


def test_rates_are_means_by_time_and_a_backlog_is_that_of_the_end() -> None:
    slots = Slots({}, 0)
    slots.change(TOPIC, None, QUIET, 0)
    slots.change(TOPIC, QUIET, (9000, 0, 90, 0, 50), 5000)
    slots.change(TOPIC, (9000, 0, 90, 0, 50), (0, 0, 0, 0, 40), 6000)
    assert points(slots, SLOT_MS) == {TOPIC: (900, 0, 9, 0, 40)}
    assert points(slots, 2 * SLOT_MS) == {TOPIC: (0, 0, 0, 0, 40)}, "what it settled at"
    assert points(slots, 3 * SLOT_MS) == {}, "nothing changes, nothing is recorded"


def test_unknown_series_have_no_numbers_and_deleted_ones_are_marked() -> None:
    slots = Slots({}, 0)
    slots.change(TOPIC, None, QUIET, 0)
    list(slots.finish(SLOT_MS))
    slots.change(TOPIC, QUIET, NOT_KNOWN, SLOT_MS + 1)
    assert points(slots, 2 * SLOT_MS) == {TOPIC: NOT_KNOWN}
    slots.change(TOPIC, NOT_KNOWN, None, 2 * SLOT_MS)
    assert list(slots.finish(3 * SLOT_MS)) == [Recorded(TOPIC, NOT_KNOWN, True)]


def test_after_a_restart_only_differences_are_recorded() -> None:
    other, lost = Subject("other"), Subject("lost")
    slots = Slots({TOPIC: QUIET, other: QUIET, lost: QUIET, Subject("lost", "s"): QUIET}, 0)
    slots.change(TOPIC, None, QUIET, 0)
    slots.change(other, None, (0, 0, 0, 0, 7), 0)
    recorded = {row.subject: row for row in slots.finish(SLOT_MS)}
    assert TOPIC not in recorded
    assert recorded[other].point == (0, 0, 0, 0, 7)
    assert recorded[lost] == Recorded(lost, NOT_KNOWN, True)
    assert recorded[Subject("lost", "s")].point == IDLE


def test_changes_in_a_skipped_slot_count_in_the_next() -> None:
    slots = Slots({}, 0)
    slots.change(TOPIC, None, QUIET, 0)
    slots.skip(SLOT_MS)
    assert points(slots, 2 * SLOT_MS) == {TOPIC: QUIET}


def test_changes_while_a_slot_is_computed_count_in_the_next() -> None:
    other = Subject("other")
    slots = Slots({}, 0)
    for subject in (TOPIC, other):
        slots.change(subject, None, (1000, 0, 0, 0, 1), 0)
    taken = slots.finish(SLOT_MS)
    assert next(taken).subject == TOPIC
    for subject in (TOPIC, other):
        slots.change(subject, (1000, 0, 0, 0, 1), (3000, 0, 0, 0, 2), SLOT_MS + SLOT_MS // 2)
    assert list(taken) == [Recorded(other, (1000, 0, 0, 0, 1), False)]
    assert points(slots, 2 * SLOT_MS) == dict.fromkeys((TOPIC, other), (2000, 0, 0, 0, 2))
    assert points(slots, 3 * SLOT_MS) == dict.fromkeys((TOPIC, other), (3000, 0, 0, 0, 2))
    assert points(slots, 4 * SLOT_MS) == {}


def test_slots_that_were_not_recorded_are_gaps() -> None:
    rows = [(1, QUIET), (6, (5, 5, 5, 5, 5))]
    points = expanded(rows, [(1, 3), (6, 7)], 2, 8)
    assert [point[0] for point in points] == [0, 0, None, None, 5, 5, None]
    for every in (2, 3, 7, 8):
        ends = points[every - 1 :: every]
        assert expanded(rows, [(1, 3), (6, 7), (9, 9)], 2, 8, every) == ends


def test_points_of_minutes_are_means_and_know_what_any_of_theirs_knows() -> None:
    some: list[Point] = [(2, 0, 0, 0, 1), NOT_KNOWN, (4, 0, 0, 0, 3), NOT_KNOWN]
    assert list(joined(some, 3)) == [(3, 0, 0, 0, 3), NOT_KNOWN]


# The file


def values(number: int) -> tuple[int | None, ...]:
    return tuple(number + place for place in range(len(ROW_COLUMNS)))


def figures_of(recorded: list[Recorded], number: int) -> dict[str, tuple[int | None, ...]]:
    return {row.subject.topic: values(number) for row in recorded}


def test_an_hour_of_points_that_all_differ_takes_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    names = [f"persistent://tenant/namespace/{'n' * 100}-{number}" for number in range(10)]
    subjects = [Subject(name, part) for name in names for part in ("", "a-subscription")]
    rng = random.Random(1)
    for slot in range(3 * HOUR_SLOTS):
        recorded = [
            Recorded(subject, tuple(rng.randrange(1 << 40) for _ in QUIET), False)
            for subject in subjects
        ]
        file.write(slot, recorded, figures_of(recorded, 1 << 40))
    file.close()
    used = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name == NAME)
    assert used / len(subjects) < SERIES_BYTES_MAX


def test_the_totals_are_kept_for_a_day_and_topics_for_an_hour(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    end = DAY_SLOTS + HOUR_SLOTS
    for slot in range(0, end, STEP_SLOTS // 2):
        both = [Recorded(TOTALS, (slot, 0, 0, 0, 0), False), Recorded(TOPIC, (slot,) * 5, False)]
        file.write(slot, both, {})
    file.move()
    (count,) = file._db.execute("SELECT count(*) FROM points WHERE series != 1").fetchone()
    assert count <= HOUR_SLOTS / (STEP_SLOTS // 2) + 4
    (count,) = file._db.execute("SELECT count(*) FROM points WHERE series = 1").fetchone()
    assert DAY_SLOTS <= count * (STEP_SLOTS // 2) <= DAY_SLOTS + 3 * STEP_SLOTS
    file.close()


def test_topics_that_are_gone_leave_the_file(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    for slot in range(HOUR_SLOTS + 3 * STEP_SLOTS):
        recorded = [Recorded(TOTALS, (slot, 0, 0, 0, 0), False)]
        if slot == 0:
            recorded.append(Recorded(TOPIC, QUIET, False))
        if slot == 1:
            recorded.append(Recorded(TOPIC, NOT_KNOWN, True))
        file.write(slot, recorded, figures_of(recorded, 1) if slot == 0 else {})
    assert file.figures() == {}
    assert file._db.execute("SELECT count(*) FROM series").fetchone() == (1,)
    file.close()


def test_figures_of_a_version_that_counted_entries_alone_are_read_as_messages_not_known(
    tmp_path: Path,
) -> None:
    file = HistoryFile(tmp_path / NAME)
    old = len(ROW_COLUMNS) - 4
    for topic, backlog in (("t", 7), ("u", 0)):
        values = tuple(backlog if name == "backlog" else 1 for name in ROW_COLUMNS[:old])
        file.write(5 + bool(backlog), [Recorded(Subject(topic), QUIET, False)], {topic: values})
    figures = {
        topic: dict(zip(ROW_COLUMNS[old:], values[old:], strict=True))
        for topic, (_, values) in file.figures().items()
    }
    assert figures["t"] == {
        **{"backlog_messages": 7, "backlog_estimated": 0, "backlog_unmeasured": 7},
        "oldest_at": OLDEST_UNKNOWN,
    }
    assert set(figures["u"].values()) == {0}


def test_an_idle_topic_keeps_its_number_however_long_and_its_last_figures(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    recorded = [Recorded(TOPIC, (0, 0, 0, 0, 42), False)]
    file.write(5, recorded, figures_of(recorded, 1))
    for slot in range(6, 3 * HOUR_SLOTS):
        file.write(slot, [Recorded(TOTALS, (slot, 0, 0, 0, 0), False)], {})
    last = 3 * HOUR_SLOTS - 1
    (series,) = file.points([TOPIC], last - HOUR_SLOTS, last)
    assert {point[-1] for point in series} == {42}
    assert file.figures() == {TOPIC.topic: (6 * SLOT_MS, values(1))}
    file.close()


WRITER = """
import sys
from pathlib import Path
from gateway.services.history.history_file import HistoryFile
from gateway.services.history.slots import HOUR_SLOTS, Recorded, Subject
file = HistoryFile(Path(sys.argv[1]))
for slot in range(1, HOUR_SLOTS):  # of a topic no more are kept
    file.write(slot, [Recorded(Subject("t"), (slot,) * 5, False)], {"t": (slot,) * 9})
    print(slot, flush=True)
sys.stdin.read()
"""


def test_written_points_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / NAME
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        written = 0
        while written < 3 * STEP_SLOTS:
            written = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        written = max([written, *map(int, writer.stdout.read().split())])
    file = HistoryFile(path)
    (series,) = file.points([Subject("t")], 1, written)
    assert [point[0] for point in series] == list(range(1, written + 1))
    assert file.figures()["t"][1][0] >= written
    file.close()


def test_a_file_that_cannot_be_read_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"this is not a database" * 1000)
    file = recorder.opened(path)
    file.write(1, [Recorded(TOPIC, QUIET, False)], {})
    file.close()
    assert path.with_suffix(".unreadable").read_bytes().startswith(b"this is not")


def overwrite_inside(path: Path, table: str) -> None:
    """Damage the pages that hold a table's rows; the file's head stays."""
    file = HistoryFile(path)
    file._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = file._db.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)
    ).fetchone()
    (size,) = file._db.execute("PRAGMA page_size").fetchone()
    file.close()
    with path.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)


# Recording and asking


class Times:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    made = Times()
    monkeypatch.setattr(recorder, "TICK_S", 0.01)
    monkeypatch.setattr(recorder, "LIVE_ROUND_MS", 1 << 60)
    monkeypatch.setattr(readings, "now_ms", made)
    return made


def recorded_slots(folder: Path) -> int:
    if not (folder / NAME).exists():
        return 0
    file = HistoryFile(folder / NAME)
    try:
        return int(
            file._db.execute("SELECT coalesce(sum(last - first + 1), 0) FROM known").fetchone()[0]
        )
    finally:
        file.close()


async def slot(folder: Path, times: Times) -> None:
    before = recorded_slots(folder)
    times.now += SLOT_MS
    await until(lambda: recorded_slots(folder) > before)


def test_of_two_recorders_one_writes_and_the_other_takes_over(
    engine: EngineLink, tmp_path: Path, times: Times
) -> None:
    name = TopicName.parse("persistent://public/default/t")
    engine.run(lambda it: metadata.create_partitioned(it.store, name, 1))

    async def work() -> None:
        made = [Collector(engine), Collector(engine)]
        runs = []
        for collector in made:
            run = recorder.Recorder(tmp_path, collector, times).run()
            runs.append(asyncio.ensure_future(run))
            await until(lambda: any(other._topics.on_change is not None for other in made))
        assert [other._topics.on_change is not None for other in made] == [True, False]
        await slot(tmp_path, times)
        await slot(tmp_path, times)
        runs[0].cancel()
        await until(lambda: made[1]._topics.on_change is not None)
        times.now += 3 * SLOT_MS  # no process wrote for so long
        await asyncio.sleep(0.1)
        await slot(tmp_path, times)
        runs[1].cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        for collector in made:
            await collector._tasks.close()

    engine.run(lambda _: work(), timeout_s=60)
    assert recorded_slots(tmp_path) == 3


KEPT = RecordedProblem("persistent://public/default/t", "s", "slow", 7, True, 0, None, None)


def test_when_problems_began_is_kept_also_by_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    file._db.execute("DROP TABLE causes")
    file.close()
    file = HistoryFile(tmp_path / NAME)
    file.write(41, [], {})
    gone = KEPT._replace(subscription="gone", at_least=False, seen_ms=9)
    file.write_causes([KEPT, gone, KEPT._replace(subscription="forgotten")], [])
    file.write_causes([KEPT._replace(since_ms=6)], [(KEPT.topic, "forgotten")])
    file.close()
    file = HistoryFile(tmp_path / NAME)
    there = KEPT._replace(since_ms=6, seen_ms=42 * SLOT_MS)
    assert file.causes() == [gone, there], "seen at the end of the last slot"
    file.close()


def test_the_recorder_keeps_when_problems_began(
    engine: EngineLink, tmp_path: Path, times: Times
) -> None:
    async def work() -> None:
        made = Collector(engine)
        lag = ["no-consumer", "warning", times.now - 5_000, 0, {"left_ms": times.now - 5_000}]
        rows = [[KEPT.topic, ["s", 500, 0, lag]]]
        changes = RowChanges(1, rows, [])
        run = asyncio.ensure_future(recorder.Recorder(tmp_path, made, times).run())
        await until(lambda: made._topics.on_change is not None)
        made.findings.apply("b:1", changes)
        made.attention.round(made._topics, times.now, whole=True)
        await slot(tmp_path, times)
        file = HistoryFile(tmp_path / NAME)
        await until(file.causes)
        (kept,) = file.causes()
        file.close()
        assert (kept.topic, kept.subscription, kept.at_least) == (KEPT.topic, "s", False)
        assert (kept.since_ms, kept.ended_ms) == (lag[2], lag[2])
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await made._tasks.close()
        again = Collector(engine)
        reader = readings.History(tmp_path)
        again.recall_causes = reader.last_causes
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.services.collection.collector.now_ms", times)
            await again._recall()
            [recalled] = again.attention.recorded()
            assert recalled == kept
        reader._thread.shutdown()

    engine.run(lambda _: work(), timeout_s=60)


def test_a_file_damaged_inside_is_put_aside_and_readers_follow(
    engine: EngineLink, tmp_path: Path, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PAUSE_S", 0.01)
    path, minute = tmp_path / NAME, times.now // 60_000
    reader = readings.History(tmp_path)
    file = HistoryFile(path)
    file.write(minute * 6 - 1, [Recorded(TOPIC, QUIET, False)], {})
    file.close()
    assert reader._read(HistoryFile.last_slot) == minute * 6 - 1
    overwrite_inside(path, "known")
    with pytest.raises(NotReady):
        readings.History(tmp_path)._read(HistoryFile.last_slot)

    async def work() -> None:
        collector = Collector(engine)
        run = asyncio.ensure_future(recorder.Recorder(tmp_path, collector, times).run())
        await until(path.with_suffix(".unreadable").exists)
        await until(lambda: collector._topics.on_change is not None)
        await slot(tmp_path, times)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await collector._tasks.close()

    engine.run(lambda _: work(), timeout_s=60)
    assert reader._read(HistoryFile.last_slot) == times.now // SLOT_MS - 1


def test_damage_seen_by_a_reader_is_reported_to_the_writer(tmp_path: Path) -> None:
    path = tmp_path / NAME
    writer = HistoryFile(path)
    writer.write(1, [Recorded(TOPIC, QUIET, False)], {})
    writer.check_marked()
    reader = readings.History(tmp_path)

    def broken(file: HistoryFile) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(NotReady):
        reader._read(broken)
    with pytest.raises(DamagedHistoryError) as damaged:
        writer.check_marked()
    writer.close()
    recorder.put_aside(path, damaged.value)
    again = HistoryFile(path)
    again.check_marked()
    again.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY])
def test_a_disk_or_lock_that_fails_is_no_damage(code: int) -> None:
    error = sqlite3.OperationalError("not the file's fault")
    error.sqlite_errorcode = code
    assert not is_damaged(error)


def test_trends_are_backlogs_at_the_ends_of_minutes(tmp_path: Path, times: Times) -> None:
    minute = times.now // 60_000
    file = HistoryFile(tmp_path / NAME)
    for slot in range((minute - 3) * 6, minute * 6):
        file.write(slot, [Recorded(TOPIC, (0, 0, 0, 0, slot), False)], {})
    file.close()
    (trend,) = asyncio.run(readings.History(tmp_path).trends([TOPIC.topic])).values()
    minutes = [(minute - back) * 6 - 1 for back in (2, 1, 0)]
    assert trend == (*[None] * (readings.TREND_MINUTES - 3), *minutes)


def test_trends_requested_together_are_read_together(
    tmp_path: Path, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"persistent://public/default/{number}" for number in range(40)]
    slot = times.now // 60_000 * 6 - 1
    file = HistoryFile(tmp_path / NAME)
    file.write(slot, [Recorded(Subject(name), (0, 0, 0, 0, 5), False) for name in names], {})
    file.close()
    reads: list[int] = []
    points = HistoryFile.points

    def counted(file: HistoryFile, subjects: Sequence[Subject], *slots: int) -> list[list[Point]]:
        reads.append(len(subjects))
        return points(file, subjects, *slots)

    monkeypatch.setattr(HistoryFile, "points", counted)

    async def ask() -> list[dict[str, readings.Trend]]:
        history = readings.History(tmp_path)
        return await asyncio.gather(*(history.trends([name]) for name in names))

    assert [trends[name][-1] for name, trends in zip(names, asyncio.run(ask()), strict=True)] == [
        5
    ] * 40
    assert sum(reads) == len(names)
    assert len(reads) < len(names)


def test_links_to_other_clusters_are_recorded_until_no_broker_reports_them(
    engine: EngineLink, tmp_path: Path, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = LinkFigures("eu", 1, 0, 7, 1, 2_000, 20_000, [], 1, 3_000, 30_000, LIVE, [], 1)
    reported = [figures]
    monkeypatch.setattr(Collector, "link_figures", lambda self: reported)
    monkeypatch.setattr(Collector, "has_all_links", True)
    monkeypatch.setattr(readings, "now_ms", times)

    async def recorded() -> list[object]:
        await slot(tmp_path, times)
        reader = readings.History(tmp_path)
        times.now += readings.LATE_MS
        end, [points] = await reader.recent([link_name("eu")], 1)
        times.now -= readings.LATE_MS
        reader._thread.shutdown()
        assert end == times.now // SLOT_MS * SLOT_MS
        return [points[-1], len(points)]

    async def record() -> tuple[Collector, asyncio.Future[None]]:
        made = Collector(engine)
        run = asyncio.ensure_future(recorder.Recorder(tmp_path, made, times).run())
        await until(lambda: made._topics.on_change is not None)
        await asyncio.sleep(0.1)
        return made, run

    async def end(made: Collector, run: asyncio.Future[None]) -> None:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await made._tasks.close()

    async def work() -> None:
        monkeypatch.setattr(recorder, "TICK_S", 0.02)
        running = await record()
        assert await recorded() == [(3_000, 2_000, 30_000, 20_000, 7), 6]
        reported[:] = [figures._replace(known=LAST)]
        await asyncio.sleep(0.1)
        assert (await recorded())[0] == (None,) * 5
        await end(*running)
        monkeypatch.setattr(Collector, "has_all_links", False)
        reported.clear()  # a new process does not know the link yet: it is unknown, and not gone
        running = await record()
        assert (await recorded())[0] == (None,) * 5
        file = HistoryFile(tmp_path / NAME)
        gone = "SELECT gone FROM series WHERE topic = 'link:eu'"
        assert file._db.execute(gone).fetchone() == (None,)
        monkeypatch.setattr(Collector, "has_all_links", True)
        await asyncio.sleep(0.1)
        await recorded()
        assert file._db.execute(gone).fetchone() != (None,)
        file.close()
        await end(*running)

    engine.run(lambda _: work(), timeout_s=60)


# Days


def filled(path: Path, slots: Sequence[int], subject: Subject = TOPIC) -> HistoryFile:
    """Write the number of each slot as its values."""
    file = HistoryFile(path)
    for slot in slots:
        file.write(slot, [Recorded(subject, (slot,) * 5, False)], {})
    return file


def test_a_step_has_the_means_of_its_slots_and_the_backlog_of_its_end(tmp_path: Path) -> None:
    file = filled(tmp_path / NAME, range(3 * STEP_SLOTS))
    ([first, second, third],) = file.rolled_up([TOPIC], 0, 2)
    assert (first[0], first[-1]) == (round((STEP_SLOTS - 1) / 2), STEP_SLOTS - 1)
    assert second[-1] == 2 * STEP_SLOTS - 1
    assert third[-1] == 3 * STEP_SLOTS - 1, "not rolled up yet: computed from its slots"
    assert file._db.execute("SELECT last FROM rolled").fetchone() == (1,)
    file.close()


def test_a_subject_that_settles_keeps_its_value_in_later_steps_and_costs_two_rows(
    tmp_path: Path,
) -> None:
    file = HistoryFile(tmp_path / NAME)
    for slot in range(10 * STEP_SLOTS + 1):
        file.write(slot, [Recorded(TOPIC, (6, 0, 0, 0, 7), False)] if slot == 15 else [], {})
    (steps,) = file.rolled_up([TOPIC], 0, 9)
    assert steps == [(6, 0, 0, 0, 7)] * 10
    for slot in range(10 * STEP_SLOTS + 1, 12 * STEP_SLOTS + 1):
        point = (30 if slot % STEP_SLOTS == 1 else 0, 0, 0, 0, 9)
        file.write(slot, [Recorded(TOPIC, point, False)] if slot < 10 * STEP_SLOTS + 3 else [], {})
    (steps,) = file.rolled_up([TOPIC], 9, 11)
    assert steps == [(6, 0, 0, 0, 7), (1, 0, 0, 0, 9), (0, 0, 0, 0, 9)]
    assert file._db.execute("SELECT count(*) FROM steps WHERE series > 1").fetchone() == (3,)
    file.close()


def test_steps_without_a_recorded_slot_are_gaps_and_never_zero(tmp_path: Path) -> None:
    path = tmp_path / NAME
    recorded = [*range(STEP_SLOTS + 5), *range(4 * STEP_SLOTS + 7, 6 * STEP_SLOTS)]
    file = HistoryFile(path)
    for slot in recorded:
        file.write(slot, [Recorded(TOPIC, QUIET, False)] if slot == 0 else [], {})
    file.write(6 * STEP_SLOTS, [], {})
    (steps,) = file.rolled_up([TOPIC], 0, 5)
    assert steps == [QUIET, QUIET, NOT_KNOWN, NOT_KNOWN, QUIET, QUIET]
    (unknown,) = file.rolled_up([Subject("not recorded")], 0, 5)
    assert unknown == [NOT_KNOWN] * 6
    file.close()


def test_changes_before_a_restart_within_a_step_are_rolled_up(tmp_path: Path) -> None:
    filled(tmp_path / NAME, range(STEP_SLOTS + 10)).close()
    file = HistoryFile(tmp_path / NAME)
    file.move()
    for slot in range(STEP_SLOTS + 10, 2 * STEP_SLOTS + 1):
        file.write(slot, [], {})
    (steps,) = file.rolled_up([TOPIC], 0, 1)
    assert [point[-1] for point in steps] == [STEP_SLOTS - 1, STEP_SLOTS + 9]
    assert file._db.execute("SELECT last FROM rolled").fetchone() == (1,)
    file.close()


def test_a_file_of_an_earlier_version_begins_its_days_with_the_hour_that_it_has(
    tmp_path: Path,
) -> None:
    file = filled(tmp_path / NAME, range(0, HOUR_SLOTS, 5))
    file.move()
    for table in ("steps", "rolled", "unrolled"):
        file._db.execute(f"DROP TABLE {table}")
    file.close()
    file = HistoryFile(tmp_path / NAME)
    file.write(HOUR_SLOTS, [], {})
    (steps,) = file.rolled_up([TOPIC], 0, HOUR_SLOTS // STEP_SLOTS - 1)
    assert [point[-1] for point in steps] == [
        step * STEP_SLOTS + STEP_SLOTS - 5 for step in range(HOUR_SLOTS // STEP_SLOTS)
    ]
    file.close()


@pytest.mark.parametrize("is_large", [False, True])
def test_days_older_than_a_week_are_dropped_and_of_a_large_file_all_but_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(history_steps, "BYTES_MAX", 0)
    file = HistoryFile(tmp_path / NAME)
    for step in range(9 * history_steps.DAY_STEPS):
        recorded = [Recorded(TOPIC, (step,) * 5, False)]
        if step <= history_steps.DAY_STEPS:
            gone = step == history_steps.DAY_STEPS
            recorded.append(Recorded(Subject("t", "subscription"), (step,) * 5, gone))
        file.write(step * STEP_SLOTS, recorded, {})
    (kept,) = file._db.execute("SELECT count(*) FROM steps WHERE series = 2").fetchone()
    most = (2 if is_large else 8) * history_steps.DAY_STEPS
    assert most - history_steps.DAY_STEPS <= kept <= most + 2
    assert kept <= history_steps.WEEK_STEPS + history_steps.DAY_STEPS + 2
    assert file._db.execute("SELECT count(*) FROM series WHERE topic = 't'").fetchone() == (0,)
    assert file._db.execute("SELECT count(*) FROM steps WHERE series = 3").fetchone() == (0,)
    file.close()


def test_a_week_of_steps_that_all_differ_takes_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    subjects = [Subject(f"persistent://tenant/namespace/{number}") for number in range(5)]
    rng = random.Random(1)
    for step in range(9 * history_steps.DAY_STEPS):
        recorded = [
            Recorded(subject, tuple(rng.randrange(1 << 40) for _ in QUIET), False)
            for subject in subjects
        ]
        file.write(step * STEP_SLOTS, recorded, {})
    file._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    assert (tmp_path / NAME).stat().st_size / len(subjects) < DAYS_BYTES_MAX


def test_the_same_hour_of_yesterday_is_read_from_steps(tmp_path: Path, times: Times) -> None:
    now = times.now // SLOT_MS
    day = [now - DAY_SLOTS - slot for slot in range(HOUR_SLOTS, -STEP_SLOTS, -1)]
    filled(tmp_path / NAME, [*day, now - 1]).close()

    async def read() -> readings.Reading:
        return await readings.History(tmp_path).reading(
            TOPIC.topic, "", readings.HOUR_MINUTES, readings.DAY_MINUTES
        )

    past = asyncio.run(read())
    assert past.step_ms == STEP_SLOTS * SLOT_MS
    assert len(past.points) in (11, 12)
    for at, point in past.points:
        assert point[-1] == at // SLOT_MS - 1
        assert times.now - at >= readings.DAY_MINUTES * 60_000 - past.step_ms


def test_brokers_and_bookies_are_recorded_and_unknown_while_they_do_not_answer() -> None:
    broker = {"known": "live", "topics": 3, "msg_rate_in": 1.5, "msg_rate_out": 0.0}
    broker |= {"bytes_rate_in": 2.0, "bytes_rate_out": 0.0}
    assert recorder._of_broker(broker) == (1_500, 0, 2_000, 0, 3)
    assert recorder._of_broker(broker | {"known": "last"}) == NOT_KNOWN
    bookie = {"known": "live", "usage": None, "free_bytes": 40, "total_bytes": 100, "ledgers": None}
    assert recorder._of_bookie(bookie) == (None, 60_000, 100_000, None, None)
    assert recorder._of_bookie(bookie | {"usage": 0.25, "ledgers": 9})[::4] == (250, 9)
    assert recorder._of_bookie(bookie | {"known": "no"}) == NOT_KNOWN
