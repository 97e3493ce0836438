"""Messages of a query as a file: JSON lines, which can be published again, CSV or Parquet.

The file is complete before its first byte is sent, with its length: a transfer that ends early is seen to be one. When
a partition does not answer there is no file.
"""

import asyncio
import json
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from admin_ui.csv_text import csv_line
from admin_ui.messages import selectors
from admin_ui.params import Params, number
from engine.admin.api.arguments import LONG_MAX
from engine.base.errors import InvalidField, NotReady, Unprocessable, Unsupported, refuse_constant
from engine.base.names import TopicName
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.latest_values import KEYS_MAX, LatestValues, latest_values
from gateway.services.browsing.opening import BrowsedMessage
from gateway.services.browsing.scan import MessageScan, scan
from gateway.services.browsing.values import TopicValues
from gateway.services.engine_link import Engine, Work

FORMATS = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
MESSAGES_DEFAULT = 10_000
MESSAGES_MAX = 100_000
FILE_BYTES_MAX = 256 << 20
PAGE = 1_000
PIECE_BYTES = 1 << 16
TEXTS = (
    "id",
    "topic",
    "kind",
    "producer",
    "key",
    "ordering_key",
    "value",
    "value_base64",
    "problem",
)
COLUMNS = (
    *("id", "topic", "kind", "published", "event_time", "producer", "key", "key_is_base64"),
    *("ordering_key", "properties", "schema_version", "value", "value_base64", "problem"),
)
Row = dict[str, Any]
P = TypeVar("P")
_Counts = tuple[int, int, str]


class ExportedFile(NamedTuple):
    """A complete file. ``stopped``: limit, end or bytes, as of a scan; ``scanned``: messages that were looked at."""

    file: IO[bytes]
    size: int
    messages: int
    scanned: int
    stopped: str


class ReadRunner(Protocol):
    """Performs a read of the engine."""

    def __call__(self, work: Work[P]) -> Awaitable[P]: ...


class _Writer(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...
    def close(self) -> None: ...


async def export(
    run: ReadRunner, name: TopicName, params: Params, properties: Sequence[str] = ()
) -> ExportedFile:
    """Return the file of a query. ``run`` performs a read of the engine; there is one for each page.

    Raises InvalidField, Unsupported, NotFound, NotReady when a partition does not answer, and for the latest value of
    each key Conflict and Unprocessable.
    """
    kind = params.get("format", "jsonl")
    if kind not in FORMATS:
        raise InvalidField("format", f"must be one of {', '.join(FORMATS)}")
    limit = number(params, "limit", MESSAGES_DEFAULT, 1, MESSAGES_MAX)
    wanted = selectors.filter_of(params, properties)
    file = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        writer = await asyncio.to_thread(_writer, kind, file)
        if selectors.is_compacted(params):
            counts = await _write_latest(run, name, wanted, limit, writer)
        else:
            counts = await _write_scan(run, name, params, wanted, limit, writer, file)
        await asyncio.to_thread(writer.close)
        size = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return ExportedFile(file, size, *counts)


async def _write_scan(
    run: ReadRunner,
    name: TopicName,
    params: Params,
    wanted: MessageFilter,
    limit: int,
    writer: _Writer,
    file: IO[bytes],
) -> _Counts:
    """Write the messages of a scan; return how many they are, how many were looked at, and why it ended."""
    start, direction = selectors.start_of(params)
    values = TopicValues(name)
    messages = scanned = 0
    after, stopped = params.get("after", ""), "limit"
    while messages < limit:

        def read(
            engine: Engine, after: str = after, most: int = min(PAGE, limit - messages)
        ) -> Awaitable[MessageScan]:
            return scan(
                engine,
                name,
                direction=direction,
                start=start,
                after=after,
                wanted=wanted,
                limit=most,
                values=values,
            )

        page = await run(read)
        _check_whole(page.missing)
        # In a thread: a page may hold megabytes of values.
        await asyncio.to_thread(_write, writer, name, page.messages, values)
        messages, scanned = messages + len(page.messages), scanned + page.scanned
        after = page.after
        if page.stopped == "end":
            stopped = "end"
            break
        if file.tell() > FILE_BYTES_MAX:
            stopped = "bytes"
            break
    return messages, scanned, stopped


async def _write_latest(
    run: ReadRunner, name: TopicName, wanted: MessageFilter, limit: int, writer: _Writer
) -> _Counts:
    """Write the latest value of each key of the whole topic. Raises Unprocessable beyond a bound: a part of the topic
    does not have them."""
    values = TopicValues(name)
    latest: dict[tuple[int, str], BrowsedMessage] = {}
    scanned = size = 0
    after = ""
    while True:

        def read(engine: Engine, after: str = after) -> Awaitable[LatestValues]:
            return latest_values(
                engine, name, after=after, wanted=wanted, limit=KEYS_MAX, values=values
            )

        page = await run(read)
        _check_whole(page.missing)
        for key in page.removed:
            size -= _value_bytes(latest.pop(key, None))
        for partition, browsed in page.rows:
            key = partition, (browsed.message and browsed.message.key) or ""
            size += _value_bytes(browsed) - _value_bytes(latest.pop(key, None))
            latest[key] = browsed
        scanned, after = scanned + page.fold.scanned, page.after
        if len(latest) > limit or size > FILE_BYTES_MAX:
            raise Unprocessable(
                f"The topic has more than {limit:,} keys or {FILE_BYTES_MAX:,} bytes of latest values: "
                "no file is made of a part of them. Raise the limit, name a key, or export all messages"
            )
        if page.stopped == "end":
            break
    rows = [(partition, browsed) for (partition, _), browsed in latest.items()]
    for start in range(0, len(rows), PAGE):
        await asyncio.to_thread(_write, writer, name, rows[start : start + PAGE], values)
    return len(rows), scanned, "end"


def _value_bytes(browsed: BrowsedMessage | None) -> int:
    return 0 if browsed is None or browsed.message is None else len(browsed.message.value or b"")


def _check_whole(missing: Sequence[int]) -> None:
    if missing:
        names = ", ".join(str(part) for part in missing)
        raise NotReady(f"partitions {names} do not answer: no file is made without them")


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield a complete file, and delete it."""
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


def _write(
    writer: _Writer,
    name: TopicName,
    messages: Sequence[tuple[int, BrowsedMessage]],
    values: TopicValues,
) -> None:
    writer.write([row_of(name, part, message, values) for part, message in messages])


def row_of(topic: TopicName, part: int, browsed: BrowsedMessage, values: TopicValues) -> Row:
    """Return a message by column, with its complete value. ``value``: a text, that of JSON with
    ``is_json``; bytes are ``value_base64``; without a value both are None."""
    message = browsed.message
    shown = values.shown(browsed, 1 << 30)
    is_text = shown["form"] in ("json", "text")
    octets = message.value if message is not None and shown["form"] == "bytes" else None
    return {
        "id": browsed.id,
        "topic": str(topic.partition_at(part) if part >= 0 else topic),
        "kind": str(browsed.kind),
        "published": browsed.publish_ms,
        "event_time": (message.event_ms or None) if message else None,
        "producer": browsed.producer,
        "key": message.key if message else None,
        "key_is_base64": message.key_is_base64 if message else False,
        "ordering_key": _base64(message.ordering_key) if message else None,
        "properties": dict(message.properties) if message else {},
        "schema_version": shown["schema_version"],
        "value": shown["text"] if is_text else None,
        "value_base64": _base64(octets),
        "problem": browsed.problem or None,
        "is_json": shown["form"] == "json",
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


class _Lines:
    """Lines of JSON. JSON within a value is written as it is, with all digits; a value of several lines is a text."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write("".join(map(json_line, rows)).encode())

    def close(self) -> None:
        self._file.flush()


def json_line(row: Row) -> str:
    """Return a message as a line, without members that are not set."""
    value, octets = row["value"], row["value_base64"]
    kept = {
        name: row[name]
        for name in COLUMNS
        if name not in ("value", "value_base64") and row[name] not in (None, False, {})
    }
    head = json.dumps(kept)[:-1]
    if octets is not None:
        return f'{head}, "value_base64": {json.dumps(octets)}}}\n'
    is_line = row["is_json"] and "\n" not in value and "\r" not in value
    is_written = is_line and _is_portable(value)
    return f'{head}, "value": {value if is_written else json.dumps(value)}}}\n'


def _is_portable(text: str) -> bool:
    """Return whether a JSON text is read alike by all programs. NaN and Infinity are no JSON, and of members of one
    name each program takes another: an import refuses both."""
    try:
        json.loads(text, parse_constant=refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("members of one name")


class _Csv:
    """Lines of CSV, the first with the names of the columns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.write(csv_line(COLUMNS).encode())

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            cells = row | {"properties": json.dumps(row["properties"])}
            self._file.write(csv_line(cells[name] for name in COLUMNS).encode(errors="replace"))

    def close(self) -> None:
        self._file.flush()


class _Parquet:
    """A Parquet file, with a row group for each page; times are UTC."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise Unsupported("Parquet needs pyarrow, which this gateway does not have") from error
        self._arrow = pyarrow
        kinds = {name: pyarrow.string() for name in TEXTS}
        kinds |= {name: pyarrow.timestamp("ms", tz="UTC") for name in ("published", "event_time")}
        kinds["schema_version"] = pyarrow.int64()
        kinds["key_is_base64"] = pyarrow.bool_()
        kinds["properties"] = pyarrow.map_(pyarrow.string(), pyarrow.string())
        self._schema = pyarrow.schema([(name, kinds[name]) for name in COLUMNS])
        self._writer = pyarrow.parquet.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        rows = [_with_moments(row) for row in rows]
        columns = {name: [row[name] for row in rows] for name in COLUMNS}
        columns["properties"] = [list(row["properties"].items()) for row in rows]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _with_moments(row: Row) -> Row:
    """Return a row whose times Parquet can hold: producers state them, any 64 bits. A time that is none is a problem of
    the row."""
    wrong = [name for name in ("published", "event_time") if (row[name] or 0) > LONG_MAX]
    if not wrong:
        return row
    reasons = [f"{name} is {row[name]}, which is no time" for name in wrong]
    problem = "; ".join(filter(None, (row["problem"], *reasons)))
    return row | dict.fromkeys(wrong) | {"problem": problem}


def _writer(kind: str, file: IO[bytes]) -> _Writer:
    writers: dict[str, Callable[[IO[bytes]], _Writer]] = {
        "jsonl": _Lines,
        "csv": _Csv,
        "parquet": _Parquet,
    }
    return writers[kind](file)
