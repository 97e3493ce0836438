"""Topic profile: how many messages, how large, how fast, from whom, and what batching and compression save.

Two steps. The scan reads the topic once, straight from the bookies, and leaves one small row per message (no values)
as Parquet; the aggregations then run over that. Progress counts Spark's own tasks of the scan and the finished
aggregations.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row

from spark_jobs.pulsar_source.options import parse
from spark_jobs.pulsar_source.planning import plan_topic
from spark_jobs.transforms import profile

Progress = Callable[[str, int, int], None]
SCAN_COLUMNS = (
    *("ledger_id", "entry_id", "batch_index", "batch_size", "partition", "key", "producer_name"),
    *("publish_ms", "value_bytes", "entry_bytes", "payload_bytes", "packed_bytes", "compression"),
)
AGGREGATIONS = 7


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """The result of docs/formats/analysis-result.md; its Parquet files are left in ``output_dir``.

    Raises OptionError, and Spark's errors; an interrupt of the run's tag ends it with Spark's OPERATION_CANCELED.
    """
    topic, limit = str(parameters["topic"]), int(parameters.get("top", 20))
    given = {"topic": topic, "lastEntries": str(parameters.get("last_entries", 0)), **context}
    progress("planning", 0, 0)
    planned = plan_topic(parse(given))
    total = len(planned) + AGGREGATIONS
    counter = _TaskCounter(progress, "reading the topic", len(planned), total)
    ranges = json.dumps([[r.ledger_id, r.first, r.last, r.partition] for r in planned])
    scan_dir = output_dir / ".scan"
    spark.registerProgressHandler(counter)
    try:
        asked = {**given, "ranges": ranges, "columns": ",".join(SCAN_COLUMNS)}
        source = spark.read.format("pulsar").options(**asked).load()
        source.write.mode("overwrite").parquet(str(scan_dir))
    finally:
        spark.removeProgressHandler(counter)
    messages = spark.read.parquet(str(scan_dir))
    try:
        steps = _Steps(progress, len(planned), total)
        result = _result(topic, planned, messages, limit, steps)
    finally:
        shutil.rmtree(scan_dir, ignore_errors=True)
    _write_files(result, output_dir)
    return result


class _TaskCounter:
    """Spark Connect's progress handler: finished tasks of the running query, never going back."""

    def __init__(self, progress: Progress, stage: str, planned: int, total: int) -> None:
        self._progress = progress
        self._stage = stage
        self._planned = planned
        self._total = total
        self._best = 0

    def __call__(self, *_: Any, stages: Any = None, **__: Any) -> None:
        done = sum(stage.num_completed_tasks for stage in stages or ())
        done = min(done, self._planned)
        if done >= self._best:
            self._best = done
            self._progress(self._stage, done, self._total)


class _Steps:
    """Collects aggregations one after another and counts them."""

    def __init__(self, progress: Progress, done: int, total: int) -> None:
        self._progress = progress
        self._done = done
        self._total = total

    def collect(self, what: str, frame: DataFrame) -> list[Row]:
        self._progress(what, self._done, self._total)
        rows = frame.collect()
        self._done += 1
        self._progress(what, self._done, self._total)
        return rows


def _result(
    topic: str, planned: list[Any], messages: DataFrame, limit: int, steps: _Steps
) -> dict[str, Any]:
    sums = steps.collect("counting", profile.totals(messages))[0]
    first, last = sums["first_publish"], sums["last_publish"]
    step = profile.rate_step_ms(first or 0, last or 0)
    rate = steps.collect("rate over time", profile.rate(messages, step))
    sizes = steps.collect("sizes", profile.sizes(messages))
    batches = steps.collect("batches", profile.batches(messages))
    keys = steps.collect("top keys", profile.top(messages, "key", limit))
    producers = steps.collect("top producers", profile.top(messages, "producer_name", limit))
    codecs = steps.collect("compression", profile.compression(messages))
    return {
        "schema_version": 1,
        "analysis": "topic-profile",
        "input": {
            "topic": topic,
            "ledgers": len({one.ledger_id for one in planned}),
            "entries": sum(one.entries for one in planned),
            "messages": sums["messages"],
            "bytes": sums["stored_bytes"] or 0,
        },
        "summary": _summary(sums),
        "series": _series(rate, step, sizes, batches),
        "tables": [
            _top_table("top_keys", "Top keys", "key", "Key", keys),
            _top_table("top_producers", "Top producers", "producer_name", "Producer", producers),
            _codec_table(codecs),
        ],
    }


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _summary(sums: Row) -> list[dict[str, Any]]:
    first, last = sums["first_publish"], sums["last_publish"]
    span_s = (last - first) / 1000 if first is not None else 0
    p50, p99 = sums["sizes"] or (None, None)
    rows: list[tuple[str, str, Any, str]] = [
        ("messages", "Messages", sums["messages"], ""),
        ("entries", "Entries", sums["entries"] or 0, ""),
        ("stored_bytes", "Stored", sums["stored_bytes"] or 0, "bytes"),
        ("value_bytes", "Values", sums["value_bytes"] or 0, "bytes"),
        ("first_publish", "First published", first, "ms"),
        ("last_publish", "Last published", last, "ms"),
        ("rate_mean", "Mean rate", _ratio(sums["messages"], span_s), "messages/s"),
        ("size_mean", "Mean size", sums["size_mean"], "bytes"),
        ("size_p50", "Median size", p50, "bytes"),
        ("size_p99", "99th percentile of size", p99, "bytes"),
        ("size_max", "Largest", sums["size_max"], "bytes"),
        ("keys", "Different keys", sums["keys"], ""),
        ("producers", "Producers", sums["producers"], ""),
        ("batch_mean", "Messages per entry", _ratio(sums["messages"], sums["entries"]), ""),
        (
            "compression_ratio",
            "Compression",
            _ratio(sums["bytes_before"], sums["bytes_after"]),
            "ratio",
        ),
        (
            "stored_per_message",
            "Stored per message",
            _ratio(sums["stored_bytes"], sums["messages"]),
            "bytes",
        ),
    ]
    return [dict(zip(("key", "label", "value", "unit"), row, strict=True)) for row in rows]


def _series(
    rate: list[Row], step_ms: int, sizes: list[Row], batches: list[Row]
) -> list[dict[str, Any]]:
    per_s = step_ms / 1000
    time_axis = {"label": "Publish time", "type": "time", "unit": "ms"}
    filled = _without_gaps(rate, step_ms)
    return [
        {
            "key": "rate",
            "title": "Rate over time",
            "kind": "line",
            "x": time_axis,
            "y": {"label": "Messages per second", "unit": "messages/s"},
            "points": [[at, messages / per_s] for at, messages, _ in filled],
        },
        {
            "key": "throughput",
            "title": "Throughput over time",
            "kind": "line",
            "x": time_axis,
            "y": {"label": "Bytes per second", "unit": "bytes/s"},
            "points": [[at, size / per_s] for at, _, size in filled],
        },
        {
            "key": "sizes",
            "title": "Sizes of messages",
            "kind": "histogram",
            "x": {"label": "Bytes", "type": "number", "unit": "bytes"},
            "y": {"label": "Messages", "unit": "messages"},
            "points": [[row["bytes"], row["messages"]] for row in sizes],
        },
        {
            "key": "batches",
            "title": "Messages per entry",
            "kind": "histogram",
            "x": {"label": "Messages per entry", "type": "number"},
            "y": {"label": "Entries", "unit": ""},
            "points": [[row["size"], row["entries"]] for row in batches],
        },
    ]


def _without_gaps(rate: list[Row], step_ms: int) -> list[tuple[int, int, int]]:
    """A time without messages is a zero in the plot, not a straight line between its neighbours."""
    known = {row["at"]: (row["messages"], row["bytes"]) for row in rate}
    if not known:
        return []
    times = range(min(known), max(known) + 1, step_ms)
    return [(at, *known.get(at, (0, 0))) for at in times]


def _top_table(key: str, title: str, column: str, label: str, rows: list[Row]) -> dict[str, Any]:
    columns = [
        {"key": column, "label": label, "type": "string"},
        {"key": "messages", "label": "Messages", "type": "integer"},
        {"key": "bytes", "label": "Value bytes", "type": "bytes"},
    ]
    return {"key": key, "title": title, "columns": columns, "rows": [list(row) for row in rows]}


def _codec_table(rows: list[Row]) -> dict[str, Any]:
    columns = [
        {"key": "compression", "label": "Codec", "type": "string"},
        {"key": "entries", "label": "Entries", "type": "integer"},
        {"key": "messages", "label": "Messages", "type": "integer"},
        {"key": "before", "label": "Bytes before", "type": "bytes"},
        {"key": "after", "label": "Bytes after", "type": "bytes"},
    ]
    return {
        "key": "compression",
        "title": "Compression",
        "columns": columns,
        "rows": [list(row) for row in rows],
    }


def _write_files(result: Mapping[str, Any], output_dir: Path) -> None:
    """Every series and table as a Parquet file of its own."""
    for series in result["series"]:
        points = series["points"]
        table = pa.table({"x": [p[0] for p in points], "y": [float(p[1]) for p in points]})
        pq.write_table(table, output_dir / f"{series['key']}.parquet")
    for item in result["tables"]:
        names = [column["key"] for column in item["columns"]]
        columns = {name: [row[i] for row in item["rows"]] for i, name in enumerate(names)}
        pq.write_table(pa.table(columns), output_dir / f"{item['key']}.parquet")
