"""Times of schedules."""

from datetime import UTC, datetime

import pytest

from engine.base.errors import UnusableField
from gateway.jobs.cron import HOUR_MS, Cron, next_time


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("text", "after", "following"),
    [
        ("* * * * *", "2026-01-01T00:00", "2026-01-01T00:01"),
        ("30 2 * * *", "2026-01-01T02:30", "2026-01-02T02:30"),
        ("*/15 * * * *", "2026-01-01T00:46", "2026-01-01T01:00"),
        ("0 8-10/2,20 * * *", "2026-01-01T10:00", "2026-01-01T20:00"),
        ("0 0 * * 1-5", "2026-01-02T12:00", "2026-01-05T00:00"),
        ("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 31 * *", "2026-01-31T00:00", "2026-03-31T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("0 0 13 * 5", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("0 0 */10 * 1", "2026-01-01T00:00", "2026-05-11T00:00"),
    ],
)
def test_the_time_after_another(text: str, after: str, following: str) -> None:
    assert Cron.parse(text).after(ms(after)) == ms(following)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(("", "five fields"), ("* * * *", "five fields"), ("@daily", "five fields")),
        *(("60 * * * *", "minute must be 0 to 59"), ("* * 0 * *", "day of the month must be 1 to 31")),
        *(("5-1 * * * *", "minute must be"), ("*/0 * * * *", "minute must be")),
        *(("x * * * *", "'x' is not understood"), ("* * * JAN *", "is not understood")),
        ("0 0 31 2 *", "has no time"),
    ],
)  # fmt: skip
def test_an_expression_without_a_time_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnusableField, match=reason):
        Cron.parse(text)


def test_times_of_an_interval_are_counted_from_the_creation() -> None:
    for after, following in ((0, 6), (6, 12), (7, 12), (100, 102)):
        at = next_time(cron="", every_hours=6, first_ms=17, after_ms=after * HOUR_MS + 17)
        assert at == following * HOUR_MS + 17
