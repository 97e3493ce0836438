"""Decoded messages: how their parts are shown, and the bounds of one message. Pure."""

import base64
import json
import math
from datetime import date
from struct import Struct
from typing import Self

from engine.base.errors import MagnetarError
from engine.schema.kinds import shown

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""A value that ``json.dumps`` accepts.

Integers are numbers of any size; bytes are ``{"base64": …}``; NaN, the infinities and times are text. Times are in ISO
8601; those beyond the year 9999 stay numbers.
"""

DEPTH_MAX = 100
"""Levels of nested values."""
COST_MAX = 1_000_000
COST_FREE = 100_000
COST_PER_BYTE = 10
"""Cost allowed for each byte of a message, in addition to COST_FREE and at most COST_MAX in total.

Each value in a message has a cost, which grows with the length of its field's name. Without the bound, data of no bytes
could stand for any number of empty values.
"""

_PLACE_CHARS_MAX = 80
_FLOAT = Struct(">f")
_UNIX_DAY = date(1970, 1, 1).toordinal()
_DAYS = range(1 - _UNIX_DAY, date.max.toordinal() + 1 - _UNIX_DAY)
DAY_NS = 86_400_000_000_000


class PlacedError(MagnetarError):
    """An error in a message. ``path`` names the field, as ``order.items[3].price``; empty for the message itself."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = shown(path)
        self.reason = shown(reason)
        super().__init__(f"{self.path}: {self.reason}" if path else self.reason)

    def within(self, outer: str) -> Self:
        """Return the same error for a value inside the field or item ``outer``."""
        joined = f"{outer}.{self.path}" if self.path and self.path[0] != "[" else outer + self.path
        return type(self)(joined, self.reason)


class UndecodableError(PlacedError):
    """A payload that cannot be decoded by its schema."""


class UnencodableError(PlacedError):
    """A text that cannot be encoded by its schema."""


class Allowance:
    """The remaining cost and depth of one message."""

    __slots__ = ("depth", "left")

    def __init__(self, payload_bytes: int) -> None:
        self.left = min(COST_MAX, COST_FREE + COST_PER_BYTE * payload_bytes)
        self.depth = 0

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise UndecodableError("", "more values than a message of its size may hold")

    def enter(self) -> None:
        """Enter a value that holds further values; the caller leaves it by ``depth -= 1``."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise UndecodableError("", f"values within values beyond {DEPTH_MAX}")


def cost(text: str) -> int:
    """Return the cost of a value under this name."""
    return 1 + len(text) // 100


def place(key: str) -> str:
    """Return the path of a map's value, for ``within``."""
    return f"[{json.dumps(key[:_PLACE_CHARS_MAX])}]"


def shown_bytes(data: bytes) -> JsonValue:
    return {"base64": base64.b64encode(data).decode()}


def shown_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError("", f"no UTF-8 at byte {error.start}") from None


def shown_double(value: float) -> JsonValue:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown_float(value: float) -> JsonValue:
    """Return a float of 32 bits as the shortest decimal number that is equal to it."""
    if not math.isfinite(value):
        return shown_double(value)
    stored = _FLOAT.pack(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if abs(short) < 3.4e38 and _FLOAT.pack(short) == stored:
            return short
    return float(f"{value:.9g}")


def shown_date(day: int) -> JsonValue:
    """Return the date; ``day`` counts from 1970."""
    return date.fromordinal(_UNIX_DAY + day).isoformat() if day in _DAYS else day


def shown_time(count: int, digits: int) -> JsonValue:
    """Return a time of day; ``count`` in units of ``digits`` decimals of a second."""
    seconds, part = divmod(count, 10**digits)
    if not 0 <= seconds < 86_400:
        return count
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:0{digits}}"


def shown_instant(count: int, digits: int, zone: str = "Z") -> JsonValue:
    """Return a time; ``count`` since 1970 in units of ``digits`` decimals of a second."""
    day, time_of_day = divmod(count, 86_400 * 10**digits)
    if day not in _DAYS:
        return count
    return f"{shown_date(day)}T{shown_time(time_of_day, digits)}{zone}"
