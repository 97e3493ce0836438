"""What a decoded message is, how its parts are shown, and how much of it there may be. Pure."""

import base64
import json
import math
from datetime import date
from struct import Struct
from typing import Self

from engine.base.errors import MagnetarError
from engine.schema.kinds import shown

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What ``json.dumps`` takes. Whole numbers are numbers whatever their size; bytes are ``{"base64": …}``; NaN and the
infinities are text, as times are (ISO 8601; what is beyond the year 9999 stays the number that it is)."""

DEPTH_MAX = 100
"""Values within values."""
COST_MAX = 1_000_000
COST_FREE = 100_000
COST_PER_BYTE = 10
"""A message may cost so much for each of its bytes and COST_FREE beside, but never more than COST_MAX: values in it,
the names of their fields weighed by their length. Data of no bytes can stand for any number of empty values."""

_PLACE_CHARS_MAX = 80
_FLOAT = Struct(">f")
_UNIX_DAY = date(1970, 1, 1).toordinal()
_DAYS = range(1 - _UNIX_DAY, date.max.toordinal() + 1 - _UNIX_DAY)
DAY_NS = 86_400_000_000_000


class PlacedError(MagnetarError):
    """``path`` names the field of the message, as ``order.items[3].price``, empty for the message itself."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = shown(path)
        self.reason = shown(reason)
        super().__init__(f"{self.path}: {self.reason}" if path else self.reason)

    def within(self, outer: str) -> Self:
        """The same, of a value that is in the field or item ``outer``."""
        joined = f"{outer}.{self.path}" if self.path and self.path[0] != "[" else outer + self.path
        return type(self)(joined, self.reason)


class UndecodableError(PlacedError):
    """A payload that is none of its schema's."""


class UnencodableError(PlacedError):
    """A text that is no value of its schema's."""


class Allowance:
    """How much more there may be of one message."""

    __slots__ = ("depth", "left")

    def __init__(self, payload_bytes: int) -> None:
        self.left = min(COST_MAX, COST_FREE + COST_PER_BYTE * payload_bytes)
        self.depth = 0

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise UndecodableError("", "more values than a message of its size may hold")

    def enter(self) -> None:
        """Around what holds further values; give it back by ``depth -= 1``."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise UndecodableError("", f"values within values beyond {DEPTH_MAX}")


def cost(text: str) -> int:
    """Of a value under this name."""
    return 1 + len(text) // 100


def place(key: str) -> str:
    """Of a map's value, for ``within``."""
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
    """Of 32 bits: the shortest decimal number that is it."""
    if not math.isfinite(value):
        return shown_double(value)
    stored = _FLOAT.pack(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if abs(short) < 3.4e38 and _FLOAT.pack(short) == stored:
            return short
    return float(f"{value:.9g}")


def shown_date(day: int) -> JsonValue:
    """``day``: since 1970."""
    return date.fromordinal(_UNIX_DAY + day).isoformat() if day in _DAYS else day


def shown_time(count: int, digits: int) -> JsonValue:
    """Time of day; ``count`` in units of ``digits`` decimals of a second."""
    seconds, part = divmod(count, 10**digits)
    if not 0 <= seconds < 86_400:
        return count
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:0{digits}}"


def shown_instant(count: int, digits: int, zone: str = "Z") -> JsonValue:
    """``count`` since 1970 in units of ``digits`` decimals of a second."""
    day, rest = divmod(count, 86_400 * 10**digits)
    if day not in _DAYS:
        return count
    return f"{shown_date(day)}T{shown_time(rest, digits)}{zone}"
