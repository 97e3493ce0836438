"""Forms of a bundle of messages: lines, JSON lines, Parquet; and back."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from engine.base.errors import refuse_constant
from engine.functions.connectors.spi import ConnectorError, Record

LINES, JSON_LINES, PARQUET, COLUMNS = "lines", "json", "parquet", "parquet-columns"


def lines_row(record: Record) -> bytes:
    """Return a value as a line. Raises ConnectorError for one of several lines."""
    if b"\n" in record.payload:
        raise ConnectorError("the value has a line feed, which the format lines cannot hold")
    return record.payload + b"\n"


def json_row(record: Record) -> bytes:
    """Return a message as a line of JSON. A value that is no JSON is its text, or ``value_base64`` when no UTF-8."""
    head = json.dumps(about(record), separators=(",", ":"))[:-1]
    payload = record.payload
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return f'{head},"value_base64":"{base64.b64encode(payload).decode()}"}}\n'.encode()
    return f'{head},"value":{_as_json(text)}}}\n'.encode()


def _as_json(text: str) -> str:
    """Return JSON as it is, on one line; another text as one of JSON."""
    try:
        value = json.loads(text, parse_constant=refuse_constant)
        # A text is kept as it is, so that no number loses digits.
        return text.strip() if "\n" not in text and "\r" not in text else json.dumps(value)
    except (ValueError, RecursionError):
        return json.dumps(text)


def parquet_row(record: Record) -> dict[str, Any]:
    """Return a message as a row with its value as bytes."""
    return {**about(record), "value": record.payload}


def columns_row(record: Record) -> dict[str, Any]:
    """Return a message as a row with a column for each field of its value. Raises ConnectorError."""
    try:
        value = json.loads(record.payload)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConnectorError("the value is no JSON object, which the format parquet-columns needs")
    return {**value, **{f"_{name}": given for name, given in about(record).items()}}


def about(record: Record) -> dict[str, Any]:
    """Return all of a message but its value."""
    return {
        "topic": record.topic,
        "message_id": record.message_id,
        "key": record.key,
        "event_time_ms": record.event_time_ms,
        "properties": dict(record.properties),
    }


def joined(rows: Sequence[bytes]) -> bytes:
    """Return lines as the content of one object."""
    return b"".join(rows)


def as_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file. Raises ConnectorError when a column would have values of two types."""
    arrow, parquet = _libraries()
    columns = dict.fromkeys(name for row in rows for name in row)
    known = {
        **{"topic": arrow.string(), "message_id": arrow.string(), "key": arrow.string()},
        **{"event_time_ms": arrow.int64(), "value": arrow.binary()},
        "properties": arrow.map_(arrow.string(), arrow.string()),
    }
    types = known if "value" in columns else {f"_{name}": kind for name, kind in known.items()}
    arrays = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        if name.removeprefix("_") == "properties" and name in types:
            values = [list((value or {}).items()) for value in values]
        try:
            arrays[name] = arrow.array(values, type=types.get(name))
        except (arrow.ArrowException, OverflowError, UnicodeError, RecursionError) as error:
            raise ConnectorError(f"column {name}: {str(error)[:200]}") from error
    target = io.BytesIO()
    parquet.write_table(arrow.table(arrays), target, compression="zstd")
    return target.getvalue()


def _libraries() -> tuple[Any, Any]:
    """Import what writes Parquet. Raises ConnectorError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConnectorError(
            "the package pyarrow is not installed: pip install 'magnetar[connectors]'"
        ) from error
    return pyarrow, parquet


class BundleForm(NamedTuple):
    """A form of bundles: of one message, of a bundle, and the ending of its name."""

    row: Callable[[Record], Any]
    bundle: Callable[[Any], bytes]
    ending: str


FORMS: Mapping[str, BundleForm] = {
    LINES: BundleForm(lines_row, joined, "txt"),
    JSON_LINES: BundleForm(json_row, joined, "jsonl"),
    PARQUET: BundleForm(parquet_row, as_parquet, "parquet"),
    COLUMNS: BundleForm(columns_row, as_parquet, "parquet"),
}


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of an object as values."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def split_parquet(data: bytes) -> list[bytes]:
    """Return the rows of a Parquet file as JSON objects. Raises ConnectorError."""
    arrow, parquet = _libraries()
    try:
        rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise ConnectorError(f"no Parquet file: {str(error)[:200]}") from error
    return [json.dumps(row, separators=(",", ":"), default=_plain).encode() for row in rows]


def _plain(value: Any) -> str:
    """Return a value that JSON has no form for as a text: bytes in UTF-8, else in base64."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


READERS: Mapping[str, Callable[[bytes], list[bytes]]] = {
    LINES: split_lines,
    PARQUET: split_parquet,
    "whole": lambda data: [data],
}
