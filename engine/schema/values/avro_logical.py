"""Presentation of Avro's logical types: their meaning in place of the underlying number or bytes. Pure."""

from collections.abc import Callable
from struct import Struct
from typing import Any

from engine.schema.avro_types import AvroType
from engine.schema.values.shown import (
    JsonValue,
    shown_bytes,
    shown_date,
    shown_instant,
    shown_time,
)

Show = Callable[[Any], JsonValue]
DECIMAL_BYTES_MAX = 1000
_DURATION = Struct("<III")


def _instant(digits: int, zone: str) -> Show:
    return lambda count: shown_instant(count, digits, zone)


_OF_NUMBERS: dict[tuple[str, str], Show] = {
    ("int", "date"): shown_date,
    ("int", "time-millis"): lambda count: shown_time(count, 3),
    ("long", "time-micros"): lambda count: shown_time(count, 6),
    **{
        ("long", f"{local}timestamp-{unit}"): _instant(digits, zone)
        for local, zone in (("", "Z"), ("local-", ""))
        for unit, digits in (("millis", 3), ("micros", 6), ("nanos", 9))
    },
}


def plain(value: Any) -> JsonValue:
    return value  # type: ignore[no-any-return]


def number_show(avro_type: AvroType) -> Show:
    """Return the presentation for values of ``int`` or ``long``."""
    logical = avro_type.extra.get("logicalType")
    return _OF_NUMBERS.get((avro_type.kind, logical), plain) if isinstance(logical, str) else plain


def bytes_show(avro_type: AvroType) -> Callable[[bytes], JsonValue]:
    """Return the presentation for values of ``bytes`` or ``fixed``."""
    match avro_type.extra.get("logicalType"):
        case "decimal":
            scale = avro_type.extra.get("scale", 0)
            if isinstance(scale, int) and 0 <= scale <= DECIMAL_BYTES_MAX:
                return lambda data: _decimal(data, scale)
        case "uuid" if avro_type.size == 16:
            return _uuid
        case "duration" if avro_type.size == _DURATION.size:
            return _duration
    return shown_bytes


def _decimal(data: bytes, scale: int) -> JsonValue:
    if not 0 < len(data) <= DECIMAL_BYTES_MAX:
        return shown_bytes(data)
    number = int.from_bytes(data, signed=True)
    sign, digits = "-" if number < 0 else "", str(abs(number)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _uuid(data: bytes) -> JsonValue:
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _duration(data: bytes) -> JsonValue:
    return dict(zip(("months", "days", "milliseconds"), _DURATION.unpack(data), strict=True))
