"""Text fields of received messages, and texts of their times. Pure.

The runtime returns a text field that is not UTF-8 as ``bytes``: proto2 does not check it when it parses. A command with
such a field is refused; in stored records the invalid bytes are replaced.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from engine.wire import pulsar_pb2 as pb

ISO_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, in epoch milliseconds: the last moment that has a text here."""


class Texts(NamedTuple):
    """The text fields of a message type: its own (name, repeated), and those of its parts (name, repeated, their
    fields)."""

    fields: tuple[tuple[str, bool], ...]
    parts: tuple[tuple[str, bool, "Texts"], ...]


def _texts(kind: Any, above: tuple[str, ...] = ()) -> Texts:
    fields, parts = [], []
    for field in kind.fields:
        repeated = field.is_repeated
        if field.type == FieldDescriptor.TYPE_STRING:
            fields.append((field.name, repeated))
        elif field.message_type is not None and field.message_type.full_name not in above:
            inner = _texts(field.message_type, (*above, kind.full_name))
            if inner.fields or inner.parts:
                parts.append((field.name, repeated, inner))
    return Texts(tuple(fields), tuple(parts))


_COMMANDS: dict[str, Texts] = {
    name: inner for name, _, inner in _texts(pb.BaseCommand.DESCRIPTOR).parts
}


def invalid_text_field(command: pb.BaseCommand, field: str) -> str | None:
    """Return the name of a text field below ``field`` of the command that is not UTF-8; None when all are."""
    texts = _COMMANDS.get(field)
    return None if texts is None else _invalid_field(getattr(command, field), texts)


def _invalid_field(message: Any, texts: Texts) -> str | None:
    for name, repeated in texts.fields:
        value = getattr(message, name)
        if any(type(item) is bytes for item in value) if repeated else type(value) is bytes:
            return name
    for name, repeated, inner in texts.parts:
        if not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for item in value if repeated else (value,):
            name_of_part = _invalid_field(item, inner)
            if name_of_part is not None:
                return name_of_part
    return None


def readable(value: Any) -> str:
    """Return a text field's value, with bytes that are not UTF-8 replaced."""
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


def iso_time(ms: int) -> str:
    """Return ISO 8601 in UTC of epoch milliseconds, which a client may have set to any value.

    Trailing zeros of the fraction are dropped, as Java prints them. A time after ``ISO_MS_MAX`` becomes that moment,
    one before the epoch becomes the epoch.
    """
    second, millisecond = divmod(min(max(ms, 0), ISO_MS_MAX), 1000)
    moment = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{millisecond:03d}".rstrip("0") if millisecond else ""
    return f"{moment}{fraction}Z"
