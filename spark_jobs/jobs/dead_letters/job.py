"""Reading of dead letters, and their groups as a result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base.names import NamespaceName
from spark_jobs.jobs.dead_letters import DEAD_LETTERS
from spark_jobs.jobs.dead_letters.letters import (
    COLUMNS,
    GroupKey,
    LetterGroup,
    combined,
    encoded,
    groups_of,
    position_rows,
    ranked,
)
from spark_jobs.jobs.kit.messages import planned_of, rows_of_range
from spark_jobs.jobs.kit.progress import Progress, counted
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.tables import plural, summary, table
from spark_jobs.pulsar_source.options import OptionError, TopicChoice

POSITIONS_SHOWN = 2000
_POSITION_COLUMNS = [
    ("group", "Group", "integer"),
    ("topic", "Topic", "string"),
    ("ledger", "Ledger", "integer"),
    ("first", "First entry", "integer"),
    ("last", "Last entry", "integer"),
    ("indexes", "Indexes in the batch", "string"),
]


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the groups of dead letters; ``positions.parquet`` has all their positions. Raises OptionError."""
    options = options_of(DEAD_LETTERS, parameters, context)
    if options.selection.namespace:
        namespace = NamespaceName.parse(options.selection.namespace)
        pattern = rf"persistent://{namespace}/.*-(DLQ|RETRY)"
        options = replace(options, selection=TopicChoice(pattern=pattern))
    planned = planned_of(options, progress)
    if not planned:
        raise OptionError("no topic of dead letters holds a message")

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                groups, unread = groups_of(rows_of_range(options, planned[number], COLUMNS))
                text = encoded(groups, unread)
                yield pa.RecordBatch.from_pylist([{"task": number, "groups": text}])

    with counted(spark, progress, len(planned)):
        tasks = spark.range(0, len(planned), 1, len(planned))
        rows = tasks.mapInArrow(of_tasks, "task bigint, groups string").collect()
    groups, unread = combined(row.groups for row in sorted(rows, key=lambda row: row.task))
    result = result_of(groups, unread, parameters)
    names = [name for name, _, _ in _POSITION_COLUMNS]
    positions = [dict(zip(names, row, strict=True)) for row in position_rows(ranked(groups))]
    everything = {name: [row[name] for row in positions] for name in names}
    pq.write_table(pa.table(everything), output_dir / "positions.parquet")
    return written(result, output_dir)


def result_of(
    groups: Mapping[GroupKey, LetterGroup], unread: Mapping[str, int], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result."""
    order = ranked(groups)
    listed = order[: int(parameters["top"])]
    letters = sum(group.count for _, group in order)
    known = sum(group.count for key, group in order if key.origin)
    figures = [
        ("letters", "Messages", letters, "messages"),
        ("value_bytes", "Value bytes", sum(group.size for _, group in order), "bytes"),
        ("groups", "Groups", len(order), ""),
        ("reasons", "Different reasons", len({key.reason for key in groups if key.reason}), ""),
        ("origins", "Origins", len({key[1:3] for key in groups if key.origin}), ""),
        ("without_origin", "Messages without an origin", letters - known, "messages"),
        *(
            (reason, f"Entries {text}", unread[reason], "")
            for reason, text in (
                ("unreadable", "that cannot be read"),
                ("trimmed", "trimmed while reading"),
            )
            if unread.get(reason)
        ),
    ]
    return {
        "schema_version": 1,
        "analysis": DEAD_LETTERS.name,
        "input": {**input_of(DEAD_LETTERS, parameters), "messages": letters},
        "conclusions": conclusions_of(order, letters, known),
        "summary": summary(figures),
        "series": [
            {
                "key": "groups_by_size",
                "title": "Messages by group",
                "kind": "bar",
                "x": {"label": "Group", "type": "category"},
                "y": {"label": "Messages", "unit": "messages"},
                "points": [[str(i), g.count] for i, (_, g) in enumerate(listed[:30], start=1)],
            }
        ],
        "tables": [_groups(listed, letters), _samples(listed), _positions(listed)],
    }


def conclusions_of(
    order: Sequence[tuple[GroupKey, LetterGroup]], letters: int, known: int
) -> list[str]:
    if not letters:
        return ["There are no messages."]
    sentences = []
    if not known:
        sentences.append(
            "No message names its origin: this is no topic of dead letters, or not one of Pulsar's clients."
        )
    for number, (key, group) in enumerate(order[:3], start=1):
        share = 100 * group.count / letters
        sentence = (
            f"Group {number}: {group.count:,} of {plural(letters, 'message')} ({share:.0f} %)"
        )
        if key.origin:
            sentence += f" come from {key.origin}"
            sentence += f", subscription {key.subscription}" if key.subscription else ""
        reason = f"the reason “{key.reason}”" if key.reason else "no reason in their properties"
        sentences.append(f"{sentence}; they have {reason}.")
    broken = sum(group.count for key, group in order if key.shape == "broken JSON")
    if broken:
        sentences.append(f"{plural(broken, 'message')} with broken JSON, which cannot be parsed.")
    return sentences


def _groups(listed: Sequence[tuple[GroupKey, LetterGroup]], letters: int) -> dict[str, Any]:
    columns = [
        ("group", "Group", "integer"),
        ("topic", "Topic", "string"),
        ("origin", "Origin", "string"),
        ("subscription", "Subscription", "string"),
        ("reason", "Reason", "string"),
        ("shape", "Shape of the value", "string"),
        ("messages", "Messages", "integer"),
        ("share", "Share", "percent"),
        ("bytes", "Value bytes", "bytes"),
        ("first", "First published", "time"),
        ("last", "Last published", "time"),
        ("ranges", "Ranges of positions", "integer"),
    ]
    rows = [
        [
            number,
            *(text or None for text in key),
            group.count,
            100 * group.count / letters if letters else None,
            group.size,
            group.first_ms,
            group.last_ms,
            len(group.positions),
        ]
        for number, (key, group) in enumerate(listed, start=1)
    ]
    return table("groups", "Groups", columns, rows)


def _samples(listed: Sequence[tuple[GroupKey, LetterGroup]]) -> dict[str, Any]:
    columns = [
        ("group", "Group", "integer"),
        ("topic", "Topic", "string"),
        ("position", "Position", "string"),
        ("publish_time", "Published", "time"),
        ("key", "Key", "string"),
        ("origin_id", "Id at its origin", "string"),
        ("reason", "Reason", "string"),
        ("value", "Value", "string"),
    ]
    rows = [
        [number, key.topic, *(sample[name] for name, _, _ in columns[2:])]
        for number, (key, group) in enumerate(listed, start=1)
        for sample in group.samples
    ]
    return table("samples", "Samples", columns, rows)


def _positions(listed: Sequence[tuple[GroupKey, LetterGroup]]) -> dict[str, Any]:
    rows = [*position_rows(listed)]
    title = "Positions"
    if len(rows) > POSITIONS_SHOWN:
        title = f"Positions, the first {POSITIONS_SHOWN:,} of {len(rows):,} ranges"
    return table("shown_positions", title, _POSITION_COLUMNS, rows[:POSITIONS_SHOWN])
