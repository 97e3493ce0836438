"""Trends of rows: windows that are pushed do not wait for them, and none is read from points of other topics."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.services.history import history_file, readings
from gateway.services.history.history_file import NAME, HistoryFile
from gateway.services.history.slots import Point, Recorded, Subject
from tests.support.waiting import until

NAMES = [f"persistent://public/default/{number}" for number in range(40)]
NOW_MS = 1_700_000_000_000 // 60_000 * 60_000 + readings.LATE_MS


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> readings.History:
    """Return a history that has a backlog of each topic in the last minute."""
    monkeypatch.setattr(readings, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(readings, "TRENDS_PAUSE_S", 0.01)
    file = HistoryFile(tmp_path / NAME)
    points = [Recorded(Subject(name), (0, 0, 0, 0, 5), False) for name in NAMES]
    file.write(NOW_MS // 60_000 * readings.MINUTE_SLOTS - 1, points, {})
    file.close()
    return readings.History(tmp_path)


async def test_trends_of_many_windows_are_read_together_behind_the_callers(
    history: readings.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    points = HistoryFile.points

    def counted(file: HistoryFile, subjects: Sequence[Subject], *slots: int) -> list[list[Point]]:
        reads.append(len(subjects))
        return points(file, subjects, *slots)

    monkeypatch.setattr(HistoryFile, "points", counted)
    windows = [NAMES[start : start + 10] for start in range(0, 40, 10)]
    assert [history.trends_at_once(window) for window in windows] == [{}] * 4
    await until(lambda: history.trends_version == 1)
    assert reads == [40]
    for window in windows:
        trends = history.trends_at_once(window)
        assert [trends[name][-1] for name in window] == [5] * 10
    assert await history.trends(NAMES) == history.trends_at_once(NAMES)
    assert reads == [40], "they are known for this minute"


async def test_trends_of_an_earlier_minute_are_shown_until_newer_ones_are_read(
    history: readings.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await history.trends(NAMES)
    monkeypatch.setattr(readings, "now_ms", lambda: NOW_MS + 60_000)
    assert history.trends_at_once(NAMES) == before
    await until(lambda: history.trends_version == 1)
    assert history.trends_at_once(NAMES) != before


async def test_without_a_history_nothing_is_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "TRENDS_PAUSE_S", 0.0)
    history = readings.History(tmp_path)
    assert history.trends_at_once(NAMES) == {}
    await until(lambda: history._renewal is None)
    assert history.trends_version == 0


def test_no_point_of_another_topic_is_read(history: readings.History, tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / NAME)
    try:
        plan = file._db.execute(f"EXPLAIN QUERY PLAN {history_file._RECENT}", ("[1]",)).fetchall()
    finally:
        file.close()
    steps = [step[-1] for step in plan]
    assert any(step.startswith("SEARCH recent USING INDEX") for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN recent")], steps
    assert asyncio.run(history.trends(NAMES[:1])).keys() == set(NAMES[:1])
