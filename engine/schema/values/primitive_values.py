"""Values of the kinds without a definition, in the format of Apache Pulsar's Java client: big-endian numbers. Pure."""

from collections.abc import Callable
from struct import Struct

from engine.schema.kinds import Schema, SchemaKind
from engine.schema.values.shown import (
    DAY_NS,
    JsonValue,
    UndecodableError,
    shown_bytes,
    shown_date,
    shown_double,
    shown_float,
    shown_instant,
    shown_text,
    shown_time,
)

CHARSETS = frozenset({"UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE"})
"""Charsets that every Java has; a STRING's properties may name one."""
_LONG = Struct(">q")


def _fixed(kind: SchemaKind, layout: Struct, show: Callable[..., JsonValue]) -> None:
    def read(payload: bytes) -> JsonValue:
        if len(payload) != layout.size:
            raise UndecodableError(
                "", f"{kind.value}: {len(payload)} bytes, expected {layout.size}"
            )
        return show(*layout.unpack(payload))

    _BY_KIND[kind] = read


def _same(value: int) -> JsonValue:
    return value


def _instant(seconds: int, nanos: int) -> JsonValue:
    return shown_instant(seconds * 10**9 + nanos, 9)


def _date_time(day: int, nanos: int) -> JsonValue:
    return shown_instant(day * DAY_NS + nanos, 9, zone="")


_BY_KIND: dict[SchemaKind, Callable[[bytes], JsonValue]] = {
    SchemaKind.NONE: shown_bytes,
    SchemaKind.STRING: shown_text,
}
_fixed(SchemaKind.BOOLEAN, Struct(">?"), _same)
_fixed(SchemaKind.INT8, Struct(">b"), _same)
_fixed(SchemaKind.INT16, Struct(">h"), _same)
_fixed(SchemaKind.INT32, Struct(">i"), _same)
_fixed(SchemaKind.INT64, _LONG, _same)
_fixed(SchemaKind.FLOAT, Struct(">f"), shown_float)
_fixed(SchemaKind.DOUBLE, Struct(">d"), shown_double)
# Java's Date, Time and Timestamp are milliseconds since 1970; the zone of a Time is known to its writer only.
_fixed(SchemaKind.DATE, _LONG, lambda ms: shown_instant(ms, 3))
_fixed(SchemaKind.TIME, _LONG, lambda ms: shown_instant(ms, 3))
_fixed(SchemaKind.TIMESTAMP, _LONG, lambda ms: shown_instant(ms, 3))
_fixed(SchemaKind.INSTANT, Struct(">qi"), _instant)
_fixed(SchemaKind.LOCAL_DATE, _LONG, shown_date)
_fixed(SchemaKind.LOCAL_TIME, _LONG, lambda ns: shown_time(ns, 9))
_fixed(SchemaKind.LOCAL_DATE_TIME, Struct(">qq"), _date_time)

PRIMITIVE = frozenset(_BY_KIND)


def primitive_reader(schema: Schema) -> Callable[[bytes], JsonValue]:
    """Return the function that reads payloads of a kind in PRIMITIVE."""
    charset = schema.properties.get("__charset", "UTF-8")
    if schema.kind is not SchemaKind.STRING or charset == "UTF-8":
        return _BY_KIND[schema.kind]

    def read(payload: bytes) -> JsonValue:
        if charset not in CHARSETS:
            raise UndecodableError("", f"__charset {charset[:40]!r} is none that is known")
        try:
            return payload.decode(charset)
        except UnicodeDecodeError as error:
            raise UndecodableError("", f"no {charset} at byte {error.start}") from None

    return read
