"""Values of options: times, durations, sizes, pairs."""

import re
from datetime import UTC, datetime
from typing import Any

import click

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d|w)?", re.ASCII)
_DIGITS = re.compile(r"\d{1,15}", re.ASCII)
TIME_FORMS = "2027-01-31T12:00:00Z, milliseconds since 1970, or a duration ago such as -10m"


def duration_s(text: str) -> float:
    """Return a duration such as ``30s`` or ``5m`` in seconds; a number alone is in seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"must be a duration such as 500ms, 30s, 5m, 2h, 7d, not {text!r}")
    return float(match[1]) * _UNITS_S[match[2] or "s"]


def time_ms(text: str, now_ms: int) -> int:
    """Return a time in milliseconds since 1970: ISO (UTC where it names no zone), a number, or ``-10m`` for ten minutes
    ago. Raises ValueError."""
    text = text.strip()
    if text == "now":
        return now_ms
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        if text.startswith("-"):
            return max(0, now_ms - int(duration_s(text[1:]) * 1000))
        time = datetime.fromisoformat(text)
        ms = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"must be {TIME_FORMS}, not {text!r}") from None
    if ms < 0:
        raise ValueError(f"must be after 1970, not {text!r}")
    return ms


class Duration(click.ParamType):  # type: ignore[type-arg]  # older clicks have none
    """A duration in seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return duration_s(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Pair(click.ParamType):  # type: ignore[type-arg]
    """A pair ``NAME=VALUE``."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"must be NAME=VALUE, not {value!r}", param, ctx)
        return name, text


DURATION, PAIR = Duration(), Pair()
