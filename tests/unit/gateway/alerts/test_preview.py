"""Previews: the number of firings over recorded values."""

from collections.abc import Sequence

import pytest

from gateway.alerts.definitions import Definition
from gateway.alerts.preview import firings, preview
from gateway.services.history.slots import NOT_KNOWN, Point, Subject
from tests.unit.gateway.alerts.conftest import Alerts, T


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
    assert firings(values, lambda value: value > 1, for_slots) == count


class Recorded:
    """A history with given points."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        self.asked: list[Subject] = []

    async def slots(
        self, subjects: Sequence[Subject], minutes: int
    ) -> tuple[int, list[list[Point]]]:
        self.asked = list(subjects)
        return 100_000, [self.points for _ in subjects]


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
