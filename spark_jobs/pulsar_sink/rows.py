"""Rows of Spark as messages. Pure."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.client.producing.outgoing import OutgoingMessage
from spark_jobs.pulsar_sink.options import full_name
from spark_jobs.pulsar_source.options import COLUMNS, SCHEMA_COLUMNS, OptionError

TYPES = {
    "value": ("binary", "string"),
    "key": ("string", "binary"),
    "properties": ("map<string,string>",),
    "event_time": ("timestamp", "bigint"),
    "deliver_at": ("timestamp", "bigint"),
    "topic": ("string",),
}
"""Columns of a message, with their types in SQL. A bigint is a time in milliseconds since 1970."""
ALIASES = {
    "__key": "key",
    "__topic": "topic",
    "__eventTime": "event_time",
    "__messageProperties": "properties",
}
"""Names of columns in the pulsar-spark connector."""
_OF_SOURCE = {*COLUMNS, *SCHEMA_COLUMNS}
TIME_MS_MAX = (1 << 63) // 1000 - 1
_NULL_VALUE = b"\xc8\x01\x01"
"""The field null_value of MessageMetadata, true."""


class RowError(ValueError):
    """A row that is no message; the text names row and column."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Columns of rows as parts of messages. ``parts``: name in TYPES -> column. ``as_json``: the columns
    of the value where no column is the value."""

    parts: Mapping[str, str]
    as_json: tuple[str, ...]

    @classmethod
    def of(cls, types: Mapping[str, str], *, topic_given: bool) -> "RowColumns":
        """Choose from columns with their types in SQL. ``topic_given``: an option names the topic.

        Raises OptionError for a column of a wrong type, for one that would be lost, and when no topic is named.
        """
        parts: dict[str, str] = {}
        others: list[str] = []
        for name, kind in types.items():
            part = ALIASES.get(name, name)
            if part not in TYPES:
                others.append(name)
                continue
            if part in parts:
                raise OptionError(
                    f"columns {parts[part]} and {name} are both the {part} of a message"
                )
            if kind.replace(" ", "") not in TYPES[part]:
                hint = f", such as CAST({name} AS STRING)" if "string" in TYPES[part] else ""
                raise OptionError(
                    f"column {name} must be {' or '.join(TYPES[part])}, not {kind}: cast it{hint}, or rename it"
                )
            parts[part] = name
        if topic_given:
            parts.pop("topic", None)
        elif "topic" not in parts:
            raise OptionError("option topic is missing, and the rows have no column topic")
        if "value" in parts:
            lost = [name for name in others if name not in _OF_SOURCE and not name.startswith("__")]
            if lost:
                raise OptionError(
                    f"column {lost[0]} is no part of a message ({', '.join(TYPES)}): leave it out, or leave out value"
                    " to have the other columns as a JSON value"
                )
            others = []
        elif not others:
            raise OptionError(
                "column value is missing, and there are no other columns to be a JSON value"
            )
        return cls(parts, tuple(others))


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows as messages, with their topics; ``topics`` is None where an option names the topic."""

    messages: Sequence[OutgoingMessage]
    topics: Sequence[str] | None


def messages_of(columns: RowColumns, batch: pa.RecordBatch, first_row: int) -> MessageRows:
    """Return the rows of ``batch`` as messages, whose tokens are their numbers from ``first_row`` on. Raises
    RowError."""
    parts, count = columns.parts, batch.num_rows
    if "value" in parts:
        values = batch[parts["value"]].cast(pa.binary()).to_pylist()
    else:
        values = _json_values(batch.select(columns.as_json), first_row)
    messages = [
        OutgoingMessage(value, row) if value is not None else _empty(row)
        for row, value in enumerate(values, first_row)
    ]
    if "key" in parts:
        for message, key in zip(messages, _keys(batch, parts["key"], first_row), strict=True):
            message.key = key
    if "properties" in parts:
        for message, pairs in zip(messages, batch[parts["properties"]].to_pylist(), strict=True):
            if pairs:
                message.properties = _properties(pairs, parts["properties"], message.token)
    if "event_time" in parts:
        for message, ms in zip(
            messages, _times(batch, parts["event_time"], first_row), strict=True
        ):
            message.event_ms = ms
    if "deliver_at" in parts:
        for message, ms in zip(
            messages, _times(batch, parts["deliver_at"], first_row), strict=True
        ):
            message.deliver_at_ms = ms
    topics = _topics(batch, parts["topic"], first_row) if "topic" in parts else None
    assert len(messages) == count
    return MessageRows(messages, topics)


def _empty(row: int) -> OutgoingMessage:
    """Return a message without a value, by which compaction removes its key."""
    return OutgoingMessage(b"", row, extra_metadata=_NULL_VALUE)


def _fail(row: int, column: str, reason: str) -> RowError:
    return RowError(f"row {row} of the task, column {column}: {reason}")


def _keys(batch: pa.RecordBatch, name: str, first_row: int) -> list[str | None]:
    values = batch[name]
    if not pa.types.is_binary(values.type):
        return list(values.to_pylist())
    keys: list[str | None] = []
    for row, value in enumerate(values.to_pylist(), first_row):
        try:
            keys.append(value if value is None else value.decode())
        except UnicodeDecodeError:
            raise _fail(row, name, f"a key is text in UTF-8, not {value[:40]!r}") from None
    return keys


def _properties(pairs: Sequence[tuple[str, str | None]], name: str, row: int) -> dict[str, str]:
    properties = dict(pairs)
    for key, value in properties.items():
        if value is None:
            raise _fail(row, name, f"property {key} has no value")
    return properties  # type: ignore[return-value]


def _times(batch: pa.RecordBatch, name: str, first_row: int) -> list[int]:
    """Return milliseconds since 1970, 0 where there is no time."""
    values = batch[name]
    if pa.types.is_timestamp(values.type):
        values = pc.divide(values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()), 1000)
    times: list[int] = values.fill_null(0).to_pylist()
    for row, ms in enumerate(times, first_row):
        if not 0 <= ms <= TIME_MS_MAX:
            raise _fail(row, name, f"a time is from 1970 on, not {ms} ms")
    return times


def _topics(batch: pa.RecordBatch, name: str, first_row: int) -> list[str]:
    full: dict[str, str] = {}
    topics: list[str] = []
    for row, topic in enumerate(batch[name].to_pylist(), first_row):
        if topic is None:
            raise _fail(row, name, "it has no topic")
        if topic not in full:
            try:
                full[topic] = full_name(topic, "topic")
            except OptionError as error:
                raise _fail(row, name, str(error)) from error
        topics.append(full[topic])
    return topics


def _json_values(batch: pa.RecordBatch, first_row: int) -> list[bytes]:
    """Return each row as a JSON object with all columns. Numbers that JSON has not are text."""
    encode = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_form
    ).encode
    values = []
    for row, fields in enumerate(batch.to_pylist(maps_as_pydicts="strict"), first_row):
        try:
            try:
                text = encode(fields)
            except ValueError:  # NaN or infinity
                text = encode(_finite(fields))
            values.append(text.encode())
        except (TypeError, ValueError) as error:
            raise _fail(row, _culprit(fields, encode), str(error)) from error
    return values


def _json_form(value: Any) -> Any:
    if isinstance(value, date):  # a datetime as well
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _finite(value: Any) -> Any:
    """Return the value with numbers that JSON has not as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _culprit(fields: Mapping[str, Any], encode: Any) -> str:
    """Return the name of the first field that cannot be encoded."""
    for name, value in fields.items():
        try:
            encode(_finite(value))
        except (TypeError, ValueError):
            return name
    return "value"
