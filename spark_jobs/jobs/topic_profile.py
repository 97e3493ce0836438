"""Topic profile: number, size, rate and origin of messages, and the effect of batching and compression.

One pass over the data. Each task reads a range of a ledger straight from the bookies and returns the cells of its
figures (``transforms.profile``), never a row per message. Spark adds the cells up; of keys and producers only those
with most messages in each batch of a shuffle partition are returned. Progress counts Spark's own tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.columns import EntryKind
from spark_jobs.pulsar_source.options import OptionError, Options, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topic
from spark_jobs.transforms import profile
from spark_jobs.transforms.profile import CELLS, CELLS_SQL, Cell, Gathered

Progress = Callable[[str, int, int], None]
CELLS_AT_ONCE = 50_000
EVEN_SKEW_MAX = 1.5
"""Ratio of the busiest key to the average below which keys are called even."""
BATCHED_MIN = 1.05
"""Messages per entry from which a topic is called batched."""
PLANNING = "reading topic metadata"
WAITING = "waiting for Spark to begin the first task"
READING = "reading the topic"
ADDING_UP = "aggregating"


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result of docs/formats/analysis-result.md; its Parquet files are left in ``output_dir``.

    Raises OptionError, and Spark's errors. An interrupt of the run's tag ends it with Spark's OPERATION_CANCELED.
    """
    topic, limit = str(parameters["topic"]), int(parameters.get("top", 20))
    option_texts = {
        "topic": topic,
        "lastEntries": str(parameters.get("last_entries", 0)),
        **context,
    }
    options = parse(option_texts)
    progress(PLANNING, 0, 0)
    planned = plan_topic(options)
    if not planned:
        raise OptionError(f"option topic: {topic} holds no messages")
    progress(WAITING, 0, len(planned) + 1)
    counter = _TaskCounter(progress, len(planned))
    spark.registerProgressHandler(counter)
    try:
        cells = _cells(spark, options, planned, limit)
    finally:
        spark.removeProgressHandler(counter)
    result = result_of(cells, topic, planned, limit)
    _write_files(result, output_dir)
    return result


def _cells(spark: Any, options: Options, planned: list[LedgerRange], limit: int) -> pa.Table:
    """Return the cells of all ranges; of keys and producers the first ``limit`` of each shuffle partition."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from cells_of_range(options, planned[number])

    def rank(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from ranked_cells(batches, limit)

    parts = spark.range(0, len(planned), 1, len(planned)).mapInArrow(read, CELLS_SQL)
    grouped = parts.groupBy("kind", "name", "at")
    sums = grouped.agg({"count": "sum", "bytes": "sum"}).toDF(
        "kind", "name", "at", "count", "bytes"
    )
    return sums.mapInArrow(rank, CELLS_SQL).toArrow().cast(CELLS)


def cells_of_range(options: Options, ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a range, each once: the work of one task."""
    gathered = Gathered()
    try:
        for opened in open_range(options, ledger_range, profile.COLUMNS):
            gathered.add(profile.cells_of(opened))
    except TrimmedError as error:
        gathered.add(profile.trimmed_cells(error.entries))
    yield from gathered.take().to_batches(CELLS_AT_ONCE)


def ranked_cells(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the cells of one shuffle partition, which has each cell once, with only the first keys and producers."""
    ranked = Gathered()
    for batch in batches:
        ranked.add(profile.ranked(pa.Table.from_batches([batch]).cast(CELLS), limit))
    yield from ranked.take().to_batches()


class _TaskCounter:
    """Progress handler of Spark Connect: finished tasks of the one query, never decreasing."""

    def __init__(self, progress: Progress, planned: int) -> None:
        self._progress = progress
        self._planned = planned
        self._best = 0

    def __call__(self, *_: Any, stages: Any = None, inflight_tasks: int = 0, **__: Any) -> None:
        done = min(sum(stage.num_completed_tasks for stage in stages or ()), self._planned)
        if done < self._best or not (done or inflight_tasks):
            return
        self._best = done
        stage = READING if done < self._planned else ADDING_UP
        self._progress(stage, done, self._planned + 1)


def result_of(
    cells: pa.Table, topic: str, planned: list[LedgerRange], limit: int
) -> dict[str, Any]:
    """Return the result. ``cells`` are complete except for keys and producers that no table shows."""
    cells = profile.compact([cells])
    figures = Figures(cells)
    return {
        "schema_version": 1,
        "analysis": "topic-profile",
        "input": {
            "topic": topic,
            "ledgers": len({ledger_range.ledger_id for ledger_range in planned}),
            "entries": sum(ledger_range.entries for ledger_range in planned),
            "messages": figures.messages,
            "bytes": figures.stored_bytes,
        },
        "conclusions": _conclusions(figures),
        "summary": _summary(figures),
        "series": _series(figures),
        "tables": [
            _top_table("top_keys", "Top keys", "key", "Key", figures, Cell.KEY, limit),
            _top_table(
                "top_producers",
                "Top producers",
                "producer_name",
                "Producer",
                figures,
                Cell.PRODUCER,
                limit,
            ),
            _codec_table(figures),
        ],
    }


class Figures:
    """The values of compacted cells, by name."""

    def __init__(self, cells: pa.Table) -> None:
        self.cells = cells
        entries = self.rows(Cell.ENTRIES)
        messages = self.rows(Cell.MESSAGES)
        self.entries = sum(row["count"] for row in entries)
        self.entries_of = {row["at"]: row["count"] for row in entries}
        self.stored_bytes = sum(row["bytes"] for row in entries)
        self.messages = sum(row["count"] for row in messages)
        self.messages_of = {row["at"]: row["count"] for row in messages}
        self.value_bytes = sum(row["bytes"] for row in messages)
        self.first, self.last = self._at(Cell.FIRST), self._at(Cell.LAST)
        self.size_max = self._at(Cell.LARGEST)
        self.sizes = self.rows(Cell.SIZE)
        self.sized = sum(row["count"] for row in self.sizes)
        keys = self.rows(Cell.KEYS)
        self.keys, self._keyed = sum(r["count"] for r in keys), sum(r["bytes"] for r in keys)
        self.busiest_key = max((row["count"] for row in self.rows(Cell.KEY)), default=None)
        self.trimmed = sum(row["count"] for row in self.rows(Cell.TRIMMED))
        self.before = self._packed(Cell.UNPACKED)
        self.after = self._packed(Cell.PACKED)

    def rows(self, kind: Cell) -> list[dict[str, Any]]:
        """Return the cells of a kind by ``at``, then by name."""
        rows: list[dict[str, Any]] = profile.of_kind(self.cells, kind).to_pylist()
        return sorted(rows, key=lambda row: (row["at"], row["name"]))

    @property
    def key_skew(self) -> float | None:
        """Messages of the busiest key divided by those of the average key: 1 when all have as many."""
        return None if self.busiest_key is None else self.busiest_key * self.keys / self._keyed

    def _at(self, kind: Cell) -> int | None:
        rows = self.rows(kind)
        return rows[0]["at"] if rows else None

    def _packed(self, kind: Cell) -> int | None:
        """Return the bytes of compressed entries; None when there are none."""
        sizes = [row["bytes"] for row in self.rows(kind) if row["name"] != "NONE"]
        return sum(sizes) if sizes else None

    def size_at(self, share: float) -> int | None:
        """Return the size that ``share`` of the messages do not exceed: exact below 1,024 bytes, at most 0.2 %
        above."""
        remaining = ceil(share * self.sized)
        for row in self.sizes:
            remaining -= row["count"]
            if remaining <= 0:
                return min(profile.size_ceiling(row["at"]), self.size_max or 0)
        return None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _summary(figures: Figures) -> list[dict[str, Any]]:
    messages, entries = figures.messages, figures.entries
    span_s = 0.0
    if figures.first is not None and figures.last is not None:
        span_s = (figures.last - figures.first) / 1000
    producers = figures.rows(Cell.PRODUCERS)
    share = _ratio(figures.busiest_key, messages)
    rows: list[tuple[str, str, Any, str]] = [
        ("messages", "Messages", messages, ""),
        ("entries", "Entries", entries, ""),
        ("stored_bytes", "Stored", figures.stored_bytes, "bytes"),
        ("value_bytes", "Values", figures.value_bytes, "bytes"),
        ("first_publish", "First published", figures.first, "ms"),
        ("last_publish", "Last published", figures.last, "ms"),
        ("rate_mean", "Mean rate", _ratio(messages, span_s), "messages/s"),
        ("size_mean", "Mean size", _ratio(figures.value_bytes, figures.sized), "bytes"),
        ("size_p50", "Median size", figures.size_at(0.5), "bytes"),
        ("size_p99", "99th percentile of size", figures.size_at(0.99), "bytes"),
        ("size_max", "Largest", figures.size_max, "bytes"),
        ("keys", "Different keys", figures.keys, ""),
        ("key_share", "Busiest key's share", None if share is None else 100 * share, "percent"),
        ("key_skew", "Busiest key vs average", figures.key_skew, "ratio"),
        ("producers", "Producers", sum(row["count"] for row in producers), ""),
        ("batch_mean", "Messages per entry", _ratio(messages, entries), ""),
        ("compression_ratio", "Compression", _ratio(figures.before, figures.after), "ratio"),
        (
            "stored_per_message",
            "Stored per message",
            _ratio(figures.stored_bytes, messages),
            "bytes",
        ),
    ]
    special = [
        ("encrypted", "Encrypted messages", figures.messages_of.get(EntryKind.ENCRYPTED), ""),
        ("chunked", "Messages in chunks", figures.messages_of.get(EntryKind.CHUNK), ""),
        ("markers", "Markers", figures.entries_of.get(EntryKind.MARKER), ""),
        (
            "unreadable",
            "Entries that cannot be read",
            figures.entries_of.get(EntryKind.UNREADABLE),
            "",
        ),
        ("trimmed", "Entries trimmed while reading", figures.trimmed, ""),
    ]
    rows += [row for row in special if row[2]]
    return [dict(zip(("key", "label", "value", "unit"), row, strict=True)) for row in rows]


def _conclusions(figures: Figures) -> list[str]:
    """Return a sentence each on keys, batching and compression; none without a message."""
    if not figures.messages or not figures.entries:
        return []
    return [_on_keys(figures), _on_batches(figures), _on_compression(figures)]


def _on_keys(figures: Figures) -> str:
    skew, busiest = figures.key_skew, figures.busiest_key
    if skew is None or busiest is None:
        return "No message has a key."
    if figures.keys == 1:
        return "All keyed messages have the same key."
    share = f"{_short(100 * busiest / figures.messages)} % of the messages"
    if skew < EVEN_SKEW_MAX:
        return f"Keys are even: the busiest of {figures.keys:,} has {share}."
    return f"Keys are uneven: the busiest of {figures.keys:,} has {share}, {_short(skew)} times the average."


def _on_batches(figures: Figures) -> str:
    per_entry = figures.messages / figures.entries
    batching = (
        f"Batched: {_short(per_entry)} messages per entry"
        if per_entry >= BATCHED_MIN
        else "Not batched: 1 message per entry"
    )
    overhead = (figures.stored_bytes - figures.value_bytes) / figures.messages
    if figures.after is not None or overhead <= 0 or figures.sized < figures.messages:
        return f"{batching}."
    stored = figures.stored_bytes / figures.messages
    return (
        f"{batching}; {_short(overhead)} of {_short(stored)} stored bytes per message are overhead."
    )


def _on_compression(figures: Figures) -> str:
    ratio = _ratio(figures.before, figures.after)
    if ratio is None:
        return "Not compressed."
    return f"Compressed: {_short(ratio)} bytes become 1."


def _short(value: float) -> str:
    """Return two significant digits, or all before the decimal point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _series(figures: Figures) -> list[dict[str, Any]]:
    rate, step_ms = _rate(figures)
    partial = _partial(figures, rate, step_ms)
    per_s = step_ms / 1000
    time_axis = {"label": "Publish time", "type": "time", "unit": "ms"}
    sizes: dict[int, int] = {}
    for row in figures.sizes:
        floor = 1 << (row["at"].bit_length() - 1) if row["at"] else 0
        sizes[floor] = sizes.get(floor, 0) + row["count"]
    return [
        {
            "key": "rate",
            "title": "Rate over time",
            "kind": "line",
            "x": time_axis,
            "y": {"label": "Messages per second", "unit": "messages/s"},
            "points": [[at, messages / per_s] for at, messages, _ in rate],
            "partial": partial,
        },
        {
            "key": "throughput",
            "title": "Throughput over time",
            "kind": "line",
            "x": time_axis,
            "y": {"label": "Bytes per second", "unit": "bytes/s"},
            "points": [[at, size / per_s] for at, _, size in rate],
            "partial": partial,
        },
        {
            "key": "sizes",
            "title": "Sizes of messages",
            "kind": "histogram",
            "x": {"label": "Bytes", "type": "number", "unit": "bytes"},
            "y": {"label": "Messages", "unit": "messages"},
            "points": [list(point) for point in sizes.items()],
        },
        {
            "key": "batches",
            "title": "Messages per entry",
            "kind": "histogram",
            "x": {"label": "Messages per entry", "type": "number"},
            "y": {"label": "Entries", "unit": ""},
            "points": [[row["at"], row["count"]] for row in figures.rows(Cell.BATCH)],
        },
        {
            "key": "key_spread",
            "title": "Messages per key",
            "kind": "histogram",
            "x": {"label": "Messages per key", "type": "number"},
            "y": {"label": "Keys", "unit": ""},
            "points": [[row["at"], row["count"]] for row in figures.rows(Cell.KEYS)],
        },
    ]


def _rate(figures: Figures) -> tuple[list[tuple[int, int, int]], int]:
    """Return start, messages and value bytes of each point, and the points' width in ms.

    A time without messages is a zero in the plot, not a straight line between its neighbours.
    """
    rows = figures.rows(Cell.RATE)
    if not rows:
        return [], 1000
    step = int(rows[0]["name"])
    known = {row["at"]: (row["count"], row["bytes"]) for row in rows}
    times = range(min(known), max(known) + 1, step)
    return [(at, *known.get(at, (0, 0))) for at in times], step


def _partial(figures: Figures, rate: list[tuple[int, int, int]], step_ms: int) -> list[int]:
    """Return starts of the points that messages cover in part only: mostly the first and the last."""
    first, last = figures.first or 0, figures.last or 0
    return [at for at, *_ in rate if at < first or at + step_ms - 1 > last]


def _top_table(
    key: str, title: str, column: str, label: str, figures: Figures, kind: Cell, limit: int
) -> dict[str, Any]:
    columns = [
        {"key": column, "label": label, "type": "string"},
        {"key": "messages", "label": "Messages", "type": "integer"},
        {"key": "share", "label": "Share of all messages", "type": "percent"},
        {"key": "bytes", "label": "Value bytes", "type": "bytes"},
    ]
    named = profile.top(profile.of_kind(figures.cells, kind), limit).to_pylist()
    rows = [
        [row["name"], row["count"], 100 * row["count"] / figures.messages, row["bytes"]]
        for row in named
    ]
    return {"key": key, "title": title, "columns": columns, "rows": rows}


def _codec_table(figures: Figures) -> dict[str, Any]:
    columns = [
        {"key": "compression", "label": "Codec", "type": "string"},
        {"key": "entries", "label": "Entries", "type": "integer"},
        {"key": "messages", "label": "Messages", "type": "integer"},
        {"key": "before", "label": "Bytes before", "type": "bytes"},
        {"key": "after", "label": "Bytes after", "type": "bytes"},
    ]
    after = {row["name"]: row for row in figures.rows(Cell.PACKED)}
    rows = [
        [
            row["name"],
            row["count"],
            after[row["name"]]["count"],
            row["bytes"],
            after[row["name"]]["bytes"],
        ]
        for row in figures.rows(Cell.UNPACKED)
    ]
    return {"key": "compression", "title": "Compression", "columns": columns, "rows": rows}


def _write_files(result: Mapping[str, Any], output_dir: Path) -> None:
    """Write every series and table to its own Parquet file."""
    for series in result["series"]:
        points = series["points"]
        table = pa.table({"x": [p[0] for p in points], "y": [float(p[1]) for p in points]})
        pq.write_table(table, output_dir / f"{series['key']}.parquet")
    for item in result["tables"]:
        names = [column["key"] for column in item["columns"]]
        columns = {name: [row[i] for row in item["rows"]] for i, name in enumerate(names)}
        pq.write_table(pa.table(columns), output_dir / f"{item['key']}.parquet")
