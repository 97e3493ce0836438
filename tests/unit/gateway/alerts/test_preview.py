"""Previews: the number of firings over recorded values."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.alerts.definitions import Definition
from gateway.alerts.preview import firings, preview
from gateway.services.history import readings
from gateway.services.history.history_file import NAME, HistoryFile
from gateway.services.history.readings import History, PastWeek
from gateway.services.history.slots import (
    DAY_SLOTS,
    NOT_KNOWN,
    SLOT_MS,
    STEP_SLOTS,
    WEEK_SLOTS,
    Point,
    Subject,
)
from gateway.services.history.slots import (
    Recorded as RecordedPoint,
)
from tests.unit.gateway.alerts.conftest import Alerts, T

STEP_MS = STEP_SLOTS * SLOT_MS


@pytest.mark.parametrize(
    ("values", "for_slots", "count"),
    [
        ([0, 5, 5, 0, 5, 0], 0, 2),
        ([0, 5, 5, 0, 5, 0], 1, 1),
        ([5, None, None, 5], 2, 1),
        ([5, None, 0, 5], 0, 2),
        ([5, None, 5], 0, 1),
        ([None, None], 0, 0),
        ([], 0, 0),
    ],
)
def test_firings_are_counted_over_gaps(
    values: Sequence[float | None], for_slots: int, count: int
) -> None:
    ends = [(index + 1) * SLOT_MS for index in range(len(values))]
    spans = [SLOT_MS] * len(values)
    assert firings(values, ends, spans, lambda value: value > 1, for_slots * SLOT_MS) == count


@pytest.mark.parametrize(("for_s", "count"), [(0, 2), (290, 2), (300, 1), (610, 1), (620, 0)])
def test_a_step_of_days_counts_for_its_five_minutes(for_s: int, count: int) -> None:
    values = [5, 0, 5, 5, 5, 5]
    spans = [STEP_MS, STEP_MS, STEP_MS, STEP_MS, SLOT_MS, SLOT_MS]
    ends = [sum(spans[: index + 1]) for index in range(len(spans))]
    assert firings(values, ends, spans, lambda value: value > 1, for_s * 1_000) == count


class Recorded:
    """A history with given points."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        self.asked: list[Subject] = []

    async def week(self, subjects: Sequence[Subject], fine_minutes: int) -> PastWeek:
        self.asked = list(subjects)
        begin = 100_000 - len(self.points) * SLOT_MS
        ends = [begin + (index + 1) * SLOT_MS for index in range(len(self.points))]
        return PastWeek(ends, [SLOT_MS] * len(ends), [self.points for _ in subjects])


async def test_a_preview_says_what_is_recorded(alerts: Alerts) -> None:
    alerts.topic("a", backlog=500, backlog_messages=500)
    rule = Definition.checked({"kind": "topic", "figure": "backlog", "threshold": 100}, "")
    known = (0, 0, 0, 0, 500)
    history = Recorded([NOT_KNOWN, NOT_KNOWN, known, known])
    answer = await preview(rule, 0, alerts.seen(), history)  # type: ignore[arg-type]
    assert history.asked == [Subject(T + "a")]
    assert (answer.now, answer.times, answer.recorded_s, answer.since) == (1, 1, 20, 80_000)
    assert answer.note == "History has backlogs in entries of one or more messages."


async def test_without_a_record_a_preview_has_no_number(alerts: Alerts) -> None:
    alerts.topic("a", producers=3)
    rule = Definition.checked({"kind": "topic", "figure": "producers", "threshold": 1}, "")
    answer = await preview(rule, 0, alerts.seen(), Recorded([]))  # type: ignore[arg-type]
    assert (answer.now, answer.times) == (1, None)
    assert "No history of this figure" in answer.note
    empty = Recorded([NOT_KNOWN])
    rule = Definition.checked({"kind": "totals", "figure": "backlog", "threshold": 1}, "")
    answer = await preview(rule, 0, alerts.seen(), empty)  # type: ignore[arg-type]
    assert (answer.times, answer.recorded_s) == (None, 0)
    assert answer.note.startswith("Nothing is recorded yet.")
    attention = Definition.checked({"kind": "attention"}, "")
    answer = await preview(attention, 0, alerts.seen(), empty)  # type: ignore[arg-type]
    assert answer.times is None


async def test_a_firing_of_days_ago_is_counted_from_the_stored_history(
    alerts: Alerts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts.topic("a", backlog=1, backlog_messages=1)
    subject = Subject(T + "a")
    file = HistoryFile(tmp_path / NAME)
    begin = 4 * WEEK_SLOTS  # a slot since the epoch
    backlogs = {0: 1, 10: 900, 60: 1, 3 * DAY_SLOTS: 900, 3 * DAY_SLOTS + 90: 1}
    # Every slot is recorded, and the last one has a week before it.
    recorded_until = begin + 5 * DAY_SLOTS
    for slot in range(begin, recorded_until):
        value = backlogs.get(slot - begin)
        changed = [] if value is None else [RecordedPoint(subject, (0, 0, 0, 0, value), False)]
        file.write(slot, changed, {})
    file.close()
    end_ms = recorded_until * SLOT_MS
    monkeypatch.setattr(readings, "now_ms", lambda: end_ms + readings.LATE_MS)
    rule = Definition.checked({"kind": "topic", "figure": "backlog", "threshold": 100}, "")
    answer = await preview(rule, 60, alerts.seen(), History(tmp_path))
    assert (answer.now, answer.times) == (0, 2)
    assert answer.recorded_s == 5 * 86_400
    assert answer.since == begin * SLOT_MS
    assert "Of times before the last hour, five minutes are one value" in answer.note
    longer = await preview(rule, 600, alerts.seen(), History(tmp_path))
    assert longer.times == 1


@pytest.mark.parametrize(
    ("kind", "figure", "threshold", "point"),
    [
        ("bookie", "usage", 85, (920, 0, 0, None, 5)),
        ("bookie", "used_bytes", 75, (0, 92_000, 100_000, None, 5)),
        ("bookie", "ledgers", 4, (0, 0, 0, None, 5)),
        ("broker", "topics", 2, (0, 0, 0, 0, 3)),
        ("broker", "msg_rate_in", 2.5, (3_000, 0, 0, 0, 0)),
    ],
)
async def test_the_history_of_brokers_and_bookies_is_in_the_units_of_the_rule(
    alerts: Alerts, kind: str, figure: str, threshold: float, point: Point
) -> None:
    alerts.bookies = alerts.brokers = [{"id": "p", "known": "last", "at": 1, "since": 1}]
    rule = Definition.checked({"kind": kind, "figure": figure, "threshold": threshold}, "")
    history = Recorded([NOT_KNOWN, point, point])
    answer = await preview(rule, 0, alerts.seen(), history)  # type: ignore[arg-type]
    assert history.asked == [Subject(f"{kind}:p")]
    assert (answer.now, answer.times, answer.recorded_s) == (0, 1, 20)
    above = Definition.checked({"kind": kind, "figure": figure, "threshold": threshold * 1.5}, "")
    assert (await preview(above, 0, alerts.seen(), history)).times == 0  # type: ignore[arg-type]


async def test_a_figure_of_a_part_that_is_not_recorded_says_so(alerts: Alerts) -> None:
    rule = Definition.checked({"kind": "bookie", "figure": "read_only", "threshold": 0}, "")
    alerts.bookies = [{"id": "p", "known": "live", "at": 1, "since": 1, "state": "read-only"}]
    answer = await preview(rule, 0, alerts.seen(), Recorded([]))  # type: ignore[arg-type]
    assert (answer.now, answer.times, answer.of) == (1, None, 1)
    assert "No history of this figure" in answer.note
