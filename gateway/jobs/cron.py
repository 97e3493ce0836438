"""Times of schedules: a cron expression, or every so many hours. Times are UTC. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine.base.errors import UnusableField

HOUR_MS = 3_600_000
HOURS_MAX = 8_784
"""A leap year."""
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = ("minute", "hour", "day of the month", "month", "day of the week")
_YEARS = 5
"""A leap day comes within this many years, but for the year 2100."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields of numbers: ``*``, ``5``, ``1-5``, ``*/15``, with commas between. As in cron, the day matches by
    either field where neither is ``*``."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Raise UnusableField for an expression that has another form, or no time at all."""
        fields = text.split()
        if len(fields) != len(_BOUNDS):
            raise UnusableField("cron", f"must be five fields with spaces between, not {text!r}")
        minutes, hours, days, months, weekdays = (
            _numbers(*given) for given in zip(fields, _BOUNDS, _NAMES, strict=True)
        )
        either = "*" not in (fields[2][0], fields[4][0])
        # Sunday is 0 and 7.
        cron = cls(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)
        if cron.after(0) is None:
            raise UnusableField("cron", f"{text!r} has no time")
        return cron

    def after(self, at_ms: int) -> int | None:
        """Return the first time after ``at_ms``; None when there is none."""
        at = datetime.fromtimestamp(at_ms // 60_000 * 60, UTC) + timedelta(minutes=1)
        end = at + timedelta(days=366 * _YEARS)
        while at < end:
            if at.month not in self.months or not self._is_day(at):
                at = (at + timedelta(days=1)).replace(hour=0, minute=0)
            elif at.hour not in self.hours:
                at = (at + timedelta(hours=1)).replace(minute=0)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return int(at.timestamp()) * 1000
        return None

    def _is_day(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return day or weekday if self.either_day else day and weekday


def _numbers(text: str, bounds: tuple[int, int], name: str) -> frozenset[int]:
    low, high = bounds
    numbers: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        try:
            start = int(first)
            end = int(last or (high if step else first))
            by = int(step or 1)
        except ValueError:
            raise UnusableField("cron", f"the {name} {text!r} is not understood") from None
        if not low <= start <= end <= high or by < 1:
            raise UnusableField("cron", f"the {name} must be {low} to {high}, not {text!r}")
        numbers.update(range(start, end + 1, by))
    return frozenset(numbers)


def next_time(*, cron: str, every_hours: int | None, first_ms: int, after_ms: int) -> int | None:
    """Return the first time of a schedule after ``after_ms``: times of an interval are counted from ``first_ms``."""
    if cron:
        return Cron.parse(cron).after(after_ms)
    assert every_hours is not None
    interval_ms = every_hours * HOUR_MS
    return first_ms + ((after_ms - first_ms) // interval_ms + 1) * interval_ms
