"""Reading of documents, and the result: what drifted, since which message."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.jobs.field_drift import FIELD_DRIFT
from spark_jobs.jobs.field_drift.drift import Drift, Place, places, types_in_words
from spark_jobs.jobs.field_drift.shapes import (
    COLUMNS,
    OTHER,
    SHAPES,
    SHAPES_SQL,
    Counting,
    shapes_added,
)
from spark_jobs.jobs.kit.documents import NOT_JSON
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress, counted
from spark_jobs.jobs.kit.results import result, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.tables import plural, short, table
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

SENTENCES_MAX = 8
PLOTTED_MAX = 8


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(FIELD_DRIFT, parameters, context)
    planned = planned_of(options, progress)

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from shapes_of_range(options, planned[number]).to_batches()

    with counted(spark, progress, len(planned)):
        tasks = spark.range(0, len(planned), 1, len(planned))
        shapes = shapes_added(tasks.mapInArrow(of_tasks, SHAPES_SQL)).toArrow()
    return written(result_of(shapes.cast(SHAPES), parameters, planned), output_dir)


def shapes_of_range(options: Options, ledger_range: LedgerRange) -> pa.Table:
    """Return the shapes of a range: the work of one task. Entries that were trimmed meanwhile are left out."""
    schemas = TopicSchemas(ledger_range.topic)
    counting = Counting(ledger_range.topic, ledger_range.ledger_id)
    with suppress(TrimmedError):  # their fields no longer matter
        for opened in open_range(options, ledger_range, COLUMNS, schemas):
            counting.add(opened, schemas)
    return counting.table()


def place_in(planned: Sequence[LedgerRange]) -> Place:
    """Return the places of messages in the ranges that were read."""
    entries: dict[tuple[str, int], tuple[int, int]] = {}
    before: dict[str, int] = {}
    for part in planned:
        entries.setdefault((part.topic, part.ledger_id), (part.first, before.get(part.topic, 0)))
        before[part.topic] = before.get(part.topic, 0) + part.entries
    return places(entries, before)


def result_of(
    shapes: pa.Table, parameters: Mapping[str, Any], planned: Sequence[LedgerRange]
) -> dict[str, Any]:
    """Return the result of SHAPES."""
    drift = Drift(shapes, place_in(planned))
    changes = drift.changes()
    messages = drift.documents + sum(count for count, _ in drift.problems.values())
    other = drift.problems.get(OTHER.removeprefix("!"), (0, None))[0]
    change_columns = [
        ("field", "Field", "string"),
        ("change", "Change", "string"),
        ("first", "First message", "time"),
        ("position", "Position", "string"),
        ("topic", "Topic", "string"),
        ("producer", "Producer", "string"),
        ("messages", "Messages", "integer"),
    ]
    changed = [
        (
            change.field or "(the value)",
            change.change,
            change.first.ms,
            change.first.position,
            change.first.topic,
            change.first.producer,
            change.messages,
        )
        for change in changes
    ]
    field_columns = [
        ("field", "Field", "string"),
        ("presence", "In", "percent"),
        ("types", "Types", "string"),
    ]
    fields = [
        (
            path,
            100 * drift.with_field(path) / drift.documents,
            types_in_words(drift.types(path)),
        )
        for path in drift.paths
    ]
    version_columns = [
        ("version", "Schema version", "string"),
        ("messages", "Messages", "integer"),
        ("first", "First message", "time"),
        ("position", "Position", "string"),
        ("producer", "Producer", "string"),
    ]
    versions = [
        ("none" if version < 0 else str(version), count, first.ms, first.position, first.producer)
        for version, (count, first) in sorted(drift.versions.items())
    ]
    plotted = list(dict.fromkeys(change.field for change in changes if change.field))[:PLOTTED_MAX]
    return result(
        FIELD_DRIFT,
        parameters,
        planned,
        messages=messages,
        size=None,
        conclusions=_conclusions(drift, messages),
        figures=[
            ("messages", "Messages", messages, ""),
            ("documents", "Messages with fields", drift.documents, ""),
            ("fields", "Different fields", len(drift.paths), ""),
            ("changes", "Changes", len(changes), ""),
            ("not_json", "Not JSON", drift.problems.get(NOT_JSON, (0, None))[0], ""),
            *([("other_shapes", "Of too many different shapes", other, "")] if other else []),
        ],
        series=[_presence(drift, path, number) for number, path in enumerate(plotted, 1)],
        tables=[
            table("changes", "Changes of fields", change_columns, changed),
            table("fields", "Fields", field_columns, fields),
            table("schema_versions", "Schema versions", version_columns, versions),
        ],
    )


def _conclusions(drift: Drift, messages: int) -> list[str]:
    if not drift.documents:
        return [
            f"None of {plural(messages, 'message')} is JSON or has a schema by which it can be decoded."
        ]
    changes = drift.changes()
    texts = []
    for change in changes[:SENTENCES_MAX]:
        share = short(100 * change.messages / messages)
        texts.append(
            f"{change.field or 'The value'} {change.change}, first in message {change.first.position} of producer"
            f" {change.first.producer}; so in {plural(change.messages, 'message')}, {share} % of all."
        )
    if len(changes) > SENTENCES_MAX:
        texts.append(f"{len(changes) - SENTENCES_MAX} more in the table of changes.")
    if not changes:
        fields = plural(len(drift.paths), "field")
        texts.append(f"All documents, {drift.documents:,}, have the same {fields}.")
    return texts


def _presence(drift: Drift, path: str, number: int) -> dict[str, Any]:
    return {
        "key": f"presence_{number}",
        "title": f"Messages with {path}",
        "kind": "line",
        "x": {"label": "Publish time", "type": "time", "unit": "ms"},
        "y": {"label": "Share of messages", "unit": "percent"},
        "points": drift.presence(path),
    }
