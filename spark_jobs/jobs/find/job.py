"""A search over the history of topics, part after part, with the hits so far while it runs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import EqualTo

from spark_jobs.jobs.find import FIND
from spark_jobs.jobs.find.matching import Filters, filters_of
from spark_jobs.jobs.find.scanning import (
    FOUND_SQL,
    Found,
    HitPosition,
    MessageSearch,
    SearchedTopic,
    positions_of,
    scan,
)
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import READING, WAITING, Progress
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.tables import plural, summary, table
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics
from spark_jobs.pulsar_source.pushdown import RowFilter, narrowed


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the hits, what was scanned for them, and where the search stopped. Raises OptionError."""
    filters, limit = filters_of(parameters), int(parameters["limit"])
    newest = parameters["order"] == "newest"
    options = options_of(FIND, parameters, context)
    planned = _planned(options, filters, progress)
    options = replace(options, published_ms=filters.published_ms)
    after = positions_of(parameters["after"], [ledger_range.topic for ledger_range in planned])
    search = MessageSearch.begin(planned, limit, newest, after)
    entries = sum(ledger_range.entries for ledger_range in planned)
    progress(WAITING, 0, entries)
    while not search.finished and not search.full:
        part = search.next_part()
        results = _scan_part(spark, options, part, filters, limit, newest, after)
        search.scanned(part, results)
        progress(READING, entries - search.entries_left, entries)
        progress.partial(result_of(search, parameters, entries))
    return written(result_of(search, parameters, entries), output_dir)


def _planned(options: Options, filters: Filters, progress: Progress) -> list[LedgerRange]:
    """Return the ranges in which messages can match. Raises OptionError when the selection has no messages."""
    planned = planned_of(options, progress)
    if filters.published_ms is not None:
        planned = plan_topics(replace(options, published_ms=filters.published_ms))
    if filters.ledger_id is None:
        return planned
    ids = (("ledger_id", filters.ledger_id), ("entry_id", filters.entry_id))
    return narrowed(planned, [RowFilter(column, EqualTo, value) for column, value in ids])


def _scan_part(
    spark: Any,
    options: Options,
    part: Sequence[tuple[SearchedTopic, LedgerRange]],
    filters: Filters,
    limit: int,
    newest: bool,
    after: Mapping[str, HitPosition],
) -> list[Found]:
    """Return what each range of a part has, one task for each of them."""
    tasks = [(ledger_range, after.get(ledger_range.topic)) for _, ledger_range in part]

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                ledger_range, start = tasks[number]
                results = scan(options, ledger_range, filters, limit, newest, start)
                yield pa.RecordBatch.from_pylist([{"task": number, "found": json.dumps(results)}])

    rows = spark.range(0, len(part), 1, len(part)).mapInArrow(of_tasks, FOUND_SQL).collect()
    found_by = {row.task: json.loads(row.found) for row in rows}
    return [found_by[number] for number in range(len(part))]


def result_of(search: MessageSearch, parameters: Mapping[str, Any], entries: int) -> dict[str, Any]:
    """Return the result of a search as far as it is. ``entries``: those of the selection."""
    counts = search.counts
    columns = [
        ("topic", "Topic", "string"),
        ("position", "Position", "string"),
        ("publish_time", "Published", "time"),
        ("event_time", "Event time", "time"),
        ("key", "Key", "string"),
        ("producer", "Producer", "string"),
        ("properties", "Properties", "string"),
        ("value", "Value", "string"),
        ("value_bytes", "Value bytes", "bytes"),
    ]
    rows = [
        [
            str(HitPosition(*hit["position"])) if key == "position" else hit[key]
            for key, _, _ in columns
        ]
        for hit in search.hits
    ]
    complete = search.finished
    figures = [
        ("hits", "Messages found", len(rows), "messages"),
        ("scanned_messages", "Messages scanned", counts.messages, "messages"),
        ("scanned_entries", "Entries scanned", counts.entries, ""),
        ("scanned_bytes", "Bytes scanned", counts.stored_bytes, "bytes"),
        ("selected_entries", "Entries of the selection", entries, ""),
        ("complete", "Searched to the end", "yes" if complete else "no", ""),
        ("after", "Continue after", None if complete else search.after() or None, ""),
        *(
            row
            for row in (
                ("closed", "Encrypted entries and chunks", counts.closed, ""),
                ("unreadable", "Entries that cannot be read", counts.unreadable, ""),
                ("trimmed", "Entries trimmed while reading", counts.trimmed, ""),
            )
            if row[2]
        ),
    ]
    return {
        "schema_version": 1,
        "analysis": FIND.name,
        "input": {
            **input_of(FIND, parameters),
            "entries": counts.entries,
            "messages": counts.messages,
            "bytes": counts.stored_bytes,
        },
        "conclusions": conclusions_of(search),
        "summary": summary(figures),
        "series": [],
        "tables": [table("hits", "Messages found", columns, rows)],
    }


def conclusions_of(search: MessageSearch) -> list[str]:
    counts, hits = search.counts, len(search.hits)
    scanned = f"{plural(counts.messages, 'message')} scanned in {plural(counts.entries, 'entry', 'entries')}"
    if search.finished:
        sentences = [f"{plural(hits, 'message')} found; {scanned}, which is all of the selection."]
        if not hits:
            sentences = [f"No message matches; {scanned}, which is all of the selection."]
    elif search.full:
        sentences = [
            f"{plural(hits, 'message')} found, as many as were asked for; {scanned}.",
            "There is more to search: run it again with “Continue after” as the summary has it.",
        ]
    else:
        sentences = [f"{plural(hits, 'message')} found so far; {scanned}."]
    if counts.closed:
        sentences.append(
            "Only the metadata was searched of encrypted entries and chunks of large messages:"
            f" {counts.closed:,}."
        )
    missing = counts.unreadable + counts.trimmed
    if missing:
        sentences.append(
            f"Not searched, since unreadable or deleted: {plural(missing, 'entry', 'entries')}."
        )
    return sentences
