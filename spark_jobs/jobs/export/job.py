"""Export of a topic, batch after batch of ranges, each of which is committed before the next begins."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.base.names import TopicName
from spark_jobs.jobs.export import EXPORT
from spark_jobs.jobs.export.folder import (
    ExportState,
    WrittenFiles,
    commit,
    left,
    opened,
    vanished,
)
from spark_jobs.jobs.export.writing import DECODED_COLUMNS, TABLE_COLUMNS, write_range
from spark_jobs.jobs.kit.progress import PLANNING, READING, Progress
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.tables import plural, summary, table
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics

RANGES_AT_ONCE = 16
FOLLOWING = "waiting for new messages"
POLL_S = 2.0
POINTS_MAX = 500
"""Commits that the plot of a run shows, the last ones."""


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Export what is new since the last run of the same table, and return what was added. Raises OptionError."""
    options = options_of(EXPORT, parameters, context)
    [topic] = options.selection.topics
    folder = folder_of(output_dir, topic, parameters["name"])
    columns = TABLE_COLUMNS + (DECODED_COLUMNS if parameters["decode"] else ())
    until_s = time.monotonic() + int(parameters["follow_s"])
    with opened(folder, topic, columns, parameters["format"]) as state:
        before = ExportState(**asdict(state))
        gone: list[str] = []
        grown: list[tuple[int, int]] = []
        done = 0

        def so_far() -> dict[str, Any]:
            return result_of(before, state, folder, parameters, gone, planned, grown)

        while True:
            if not done:
                progress(PLANNING, 0, 0)
            planned = plan_topics(options)
            gone += vanished(planned, state.positions)
            remaining = left(planned, state.positions)
            total = done + len(remaining)
            for start in range(0, len(remaining), RANGES_AT_ONCE):
                part = remaining[start : start + RANGES_AT_ONCE]
                progress(READING, done, total)
                parts = _written(spark, options, part, columns, folder / state.staged)
                reached = {item.topic: (item.ledger_id, item.last) for item in part}
                commit(folder, state, reached, parts)
                done += len(part)
                grown = [*grown[-POINTS_MAX:], (state.committed_ms, state.rows)]
                progress(READING, done, total)
                progress.partial(so_far())
            progress.partial(so_far())
            if time.monotonic() >= until_s:
                break
            _wait(progress, done, min(until_s, time.monotonic() + int(parameters["every_s"])))
        result = so_far()
    return written(result, output_dir)


def _wait(progress: Progress, done: int, until_s: float) -> None:
    """Wait for new messages. The run is ended at a report of progress when it was cancelled."""
    while True:
        progress(FOLLOWING, done, 0)
        if (left_s := until_s - time.monotonic()) <= 0:
            return
        time.sleep(min(POLL_S, left_s))


def folder_of(output_dir: Path, topic: str, name: str) -> Path:
    """Return the folder of a table: ``exports`` beside the folder of all runs' outputs, by topic and name."""
    parsed = TopicName.parse(topic)
    exports = output_dir.resolve().parent.parent / "exports"
    return exports / str(parsed.namespace) / parsed.encoded_local / name


def _written(
    spark: Any,
    options: Options,
    part: Sequence[LedgerRange],
    columns: tuple[str, ...],
    staged: Path,
) -> list[WrittenFiles]:
    """Write the ranges, one task for each; return what each wrote."""

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                text = json.dumps(asdict(write_range(options, part[number], columns, staged)))
                yield pa.RecordBatch.from_pylist([{"task": number, "written": text}])

    tasks = spark.range(0, len(part), 1, len(part))
    rows = tasks.mapInArrow(of_tasks, "task bigint, written string").collect()
    return [
        WrittenFiles(**json.loads(row.written)) for row in sorted(rows, key=lambda row: row.task)
    ]


def result_of(
    before: ExportState,
    state: ExportState,
    folder: Path,
    parameters: Mapping[str, Any],
    gone: Sequence[str],
    planned: Sequence[LedgerRange] = (),
    grown: Sequence[tuple[int, int]] = (),
) -> dict[str, Any]:
    """Return the result: what this run added, and the table as it is, beside the topic's end as ``planned`` has it.

    ``grown``: time and the table's rows at commits of this run.
    """
    added = state.rows - before.rows
    ends = {item.topic: f"{item.ledger_id}:{item.last}" for item in planned}
    behind = dict.fromkeys(ends, 0)
    for item in left(planned, state.positions):
        behind[item.topic] += item.entries
    unread = state.unreadable - before.unreadable, state.trimmed - before.trimmed
    figures = [
        ("added_rows", "Rows added", added, ""),
        ("added_files", "Files added", state.files - before.files, ""),
        ("added_bytes", "Bytes added", state.bytes - before.bytes, "bytes"),
        ("behind", "Entries behind", sum(behind.values()), ""),
        ("committed_at", "Last commit", state.committed_ms or None, "ms"),
        ("rows", "Rows of the table", state.rows, ""),
        ("files", "Files of the table", state.files, ""),
        ("bytes", "Bytes of the table", state.bytes, "bytes"),
        ("folder", "Folder", str(folder), ""),
        *(
            (key, label, count, "")
            for key, label, count in (
                ("unreadable", "Entries that cannot be read", unread[0]),
                ("trimmed", "Entries trimmed while reading", unread[1]),
            )
            if count
        ),
    ]
    sentences = [
        f"{plural(added, 'row')} added; the table in {folder} has {plural(state.rows, 'row')}."
    ]
    if before.positions:
        sentences.append("The export continued where an earlier one ended.")
    if any(unread):
        sentences.append(
            f"Missing from the table, since unreadable or deleted: {plural(sum(unread), 'entry', 'entries')}."
        )
    sentences += [
        f"The ledger of {topic} that was exported last was trimmed since: messages behind it may be missing."
        for topic in dict.fromkeys(gone)
    ]
    columns = [
        ("topic", "Topic", "string"),
        ("position", "Exported up to", "string"),
        ("end", "End of the topic", "string"),
        ("behind", "Entries behind", "integer"),
    ]
    reached = {topic: f"{place[0]}:{place[1]}" for topic, place in state.positions.items()}
    rows = [
        [topic, reached.get(topic), ends.get(topic), behind.get(topic)]
        for topic in sorted(reached.keys() | ends.keys())
    ]
    series = {
        "key": "rows_over_time",
        "title": "Rows of the table",
        "kind": "line",
        "x": {"label": "Commit", "type": "time"},
        "y": {"label": "Rows"},
        "points": [list(point) for point in grown],
    }
    return {
        "schema_version": 1,
        "analysis": EXPORT.name,
        "input": {**input_of(EXPORT, parameters), "messages": added},
        "conclusions": sentences,
        "summary": summary(figures),
        "series": [series] if len(grown) > 1 else [],
        "tables": [table("positions", "Positions", columns, rows)],
    }
