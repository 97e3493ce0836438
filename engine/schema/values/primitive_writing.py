"""Values of the kinds without a definition, written from text, in the format of Apache Pulsar's Java client. Pure.

Times are in ISO 8601; Java's Date, Time and Timestamp may also be given as milliseconds since 1970.
"""

import math
import re
from collections.abc import Callable
from datetime import date
from struct import Struct, error

from engine.schema.kinds import Schema, SchemaKind
from engine.schema.values.primitive_values import CHARSETS
from engine.schema.values.shown import DAY_NS, UnencodableError

_UNIX_DAY = date(1970, 1, 1).toordinal()
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS = {"true": b"\1", "false": b"\0"}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_ZONE = re.compile(r"Z|[+-]\d\d:\d\d", re.ASCII)
_SECOND_NS = 10**9


def primitive_writer(schema: Schema) -> Callable[[str], bytes]:
    """Return the function that writes payloads of a kind in ``primitive_values.PRIMITIVE``; it raises
    UnencodableError."""
    if schema.kind is SchemaKind.NONE:
        return lambda text: _encoded(text, "UTF-8")
    if schema.kind is SchemaKind.STRING:
        charset = schema.properties.get("__charset", "UTF-8")
        return lambda text: _encoded(text, charset)
    write = _BY_KIND[schema.kind]

    def checked(text: str) -> bytes:
        try:
            return write(text)
        except (ValueError, OverflowError, error):
            raise UnencodableError("", f"{text[:80]!r} is no {schema.kind.value}") from None

    return checked


def _encoded(text: str, charset: str) -> bytes:
    if charset not in CHARSETS:
        raise UnencodableError("", f"__charset {charset[:40]!r} is none that is known")
    try:
        return text.encode(charset)
    except UnicodeEncodeError as error:
        raise UnencodableError("", f"no {charset}: {text[error.start]!r}") from None


def _boolean(text: str) -> bytes:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _number(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _fraction(text: str) -> float:
    if text in _WORDS:
        return _WORDS[text]
    if _FRACTION.fullmatch(text) is None or not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _day(text: str) -> int:
    """Return the day since 1970."""
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return date.fromisoformat(text).toordinal() - _UNIX_DAY


def _nanos(text: str) -> int:
    """Return the nanoseconds of the day."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds = (int(match[group] or 0) for group in (1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(text)
    seconds_of_day = hours * 3600 + minutes * 60 + seconds
    return seconds_of_day * _SECOND_NS + int((match[4] or "").ljust(9, "0"))


def _date_time(text: str) -> tuple[int, int]:
    day, _, time = text.partition("T")
    return _day(day), _nanos(time)


def _instant(text: str) -> int:
    """Return nanoseconds since 1970."""
    zone = next((text[-size:] for size in (1, 6) if _ZONE.fullmatch(text[-size:])), None)
    if zone is None:
        raise ValueError(text)
    day, nanos = _date_time(text.removesuffix(zone))
    offset = 0 if zone == "Z" else _nanos(zone[1:]) * (-1 if zone[0] == "+" else 1)
    return day * DAY_NS + nanos + offset


def _milliseconds(text: str) -> int:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DATE.fullmatch(text):
        return _day(text) * (DAY_NS // 10**6)
    return _instant(text) // 10**6


def _as(layout: str, read: Callable[[str], float]) -> Callable[[str], bytes]:
    pack = Struct(layout).pack
    return lambda text: pack(read(text))


_BY_KIND: dict[SchemaKind, Callable[[str], bytes]] = {
    SchemaKind.BOOLEAN: _boolean,
    SchemaKind.INT8: _as(">b", _number),
    SchemaKind.INT16: _as(">h", _number),
    SchemaKind.INT32: _as(">i", _number),
    SchemaKind.INT64: _as(">q", _number),
    SchemaKind.FLOAT: _as(">f", _fraction),
    SchemaKind.DOUBLE: _as(">d", _fraction),
    SchemaKind.DATE: _as(">q", _milliseconds),
    SchemaKind.TIME: _as(">q", _milliseconds),
    SchemaKind.TIMESTAMP: _as(">q", _milliseconds),
    SchemaKind.INSTANT: lambda text: Struct(">qi").pack(*divmod(_instant(text), _SECOND_NS)),
    SchemaKind.LOCAL_DATE: _as(">q", _day),
    SchemaKind.LOCAL_TIME: _as(">q", _nanos),
    SchemaKind.LOCAL_DATE_TIME: lambda text: Struct(">qq").pack(*_date_time(text)),
}
