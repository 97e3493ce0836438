"""A search over the history of topics, part after part, with the hits so far while it runs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

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
from spark_jobs.jobs.kit.files import write_files
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import READING, WAITING, Progress
from spark_jobs.jobs.kit.selection import input_of, options_of
from spark_jobs.jobs.kit.tables import summary, table
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange


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
    planned = planned_of(options, progress)
    if filters.ledger_id is not None:
        planned = [
            ledger_range for ledger_range in planned if ledger_range.ledger_id == filters.ledger_id
        ]
    after = positions_of(parameters["after"], [ledger_range.topic for ledger_range in planned])
    search = MessageSearch.begin(planned, limit, newest, after)
    entries = sum(ledger_range.entries for ledger_range in planned)
    progress(WAITING, 0, entries)
    while not search.finished and not search.full:
        part = search.next_part()
        results = _scan_part(spark, options, part, filters, limit, newest, after)
        search.scanned(part, results)
        progress(READING, min(search.counts.entries + search.counts.trimmed, entries), entries)
        progress.partial(result_of(search, parameters, entries))
    result = result_of(search, parameters, entries)
    write_files(result, output_dir)
    return result


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
    scanned = f"{counts.messages:,} messages in {counts.entries:,} entries were scanned"
    if search.finished:
        sentences = [f"{hits:,} messages match; {scanned}, which is all of the selection."]
        if not hits:
            sentences = [f"No message matches; {scanned}, which is all of the selection."]
    else:
        sentences = [
            f"{hits:,} messages match so far; {scanned}.",
            "There is more to search: start it again with the parameter after as the summary gives it.",
        ]
    if counts.closed:
        sentences.append(
            f"{counts.closed:,} encrypted entries and chunks of large messages were searched by their metadata only."
        )
    missing = counts.unreadable + counts.trimmed
    if missing:
        sentences.append(f"{missing:,} entries could not be searched.")
    return sentences
