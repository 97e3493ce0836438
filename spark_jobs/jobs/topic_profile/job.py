"""Reading of a topic, and the result of its profile.

One pass over the data. Each task reads a range of a ledger straight from the bookies and returns the cells of its
figures (``counting``), never a row per message. Spark adds the cells up; of keys and producers only those with most
messages in each batch of a shuffle partition are returned. Progress counts Spark's own tasks.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.jobs.kit.cells import of_kind
from spark_jobs.jobs.kit.progress import PLANNING, Progress
from spark_jobs.jobs.kit.reading import added_by_spark, cells_of_range
from spark_jobs.jobs.kit.results import written
from spark_jobs.jobs.kit.series import histogram, over_time, rate_series
from spark_jobs.jobs.kit.tables import table, top_table
from spark_jobs.jobs.topic_profile import TOPIC_PROFILE
from spark_jobs.jobs.topic_profile.counting import (
    COLUMNS,
    Cell,
    cells_of,
    compact,
    ranked_batches,
)
from spark_jobs.jobs.topic_profile.figures import Figures, conclusions_of, summary_of
from spark_jobs.pulsar_source.options import OptionError, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.planning import plan_topics


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
    topic, limit = str(parameters["topic"]), int(parameters["top"])
    options = parse({"topic": topic, "lastEntries": str(parameters["last_entries"]), **context})
    progress(PLANNING, 0, 0)
    planned = plan_topics(options)
    if not planned:
        raise OptionError(f"option topic: {topic} holds no messages")

    def read(ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
        return cells_of_range(options, ledger_range, COLUMNS, cells_of, compact)

    def rank(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return ranked_batches(batches, limit)

    cells = added_by_spark(spark, progress, planned, read, rank)
    return written(result_of(cells, topic, planned, limit), output_dir)


def result_of(
    cells: pa.Table, topic: str, planned: list[LedgerRange], limit: int
) -> dict[str, Any]:
    """Return the result. ``cells`` are complete except for keys and producers that no table shows."""
    figures = Figures(compact([cells]))
    keys, producers = (of_kind(figures.cells, kind) for kind in (Cell.KEY, Cell.PRODUCER))
    return {
        "schema_version": 1,
        "analysis": TOPIC_PROFILE.name,
        "input": {
            "topic": topic,
            "ledgers": len({ledger_range.ledger_id for ledger_range in planned}),
            "entries": sum(ledger_range.entries for ledger_range in planned),
            "messages": figures.messages,
            "bytes": figures.stored_bytes,
        },
        "conclusions": conclusions_of(figures),
        "summary": summary_of(figures),
        "series": _series(figures),
        "tables": [
            top_table("top_keys", "Top keys", ("key", "Key"), keys, limit, figures.messages),
            top_table(
                "top_producers",
                "Top producers",
                ("producer_name", "Producer"),
                producers,
                limit,
                figures.messages,
            ),
            _codec_table(figures),
        ],
    }


def _series(figures: Figures) -> list[dict[str, Any]]:
    rate = over_time(of_kind(figures.cells, Cell.RATE), figures.first or 0, figures.last or 0)
    sizes: dict[int, int] = {}
    for row in figures.sizes:
        floor = 1 << (row["at"].bit_length() - 1) if row["at"] else 0
        sizes[floor] = sizes.get(floor, 0) + row["count"]
    batches = [(row["at"], row["count"]) for row in figures.rows(Cell.BATCH)]
    keys = [(row["at"], row["count"]) for row in figures.rows(Cell.KEYS)]
    return [
        *rate_series(rate),
        histogram(
            "sizes",
            "Sizes of messages",
            sizes.items(),
            x=("Bytes", "bytes"),
            y=("Messages", "messages"),
        ),
        histogram(
            "batches",
            "Messages per entry",
            batches,
            x=("Messages per entry", ""),
            y=("Entries", ""),
        ),
        histogram(
            "key_spread", "Messages per key", keys, x=("Messages per key", ""), y=("Keys", "")
        ),
    ]


def _codec_table(figures: Figures) -> dict[str, Any]:
    columns = [
        ("compression", "Codec", "string"),
        ("entries", "Entries", "integer"),
        ("messages", "Messages", "integer"),
        ("before", "Bytes before", "bytes"),
        ("after", "Bytes after", "bytes"),
    ]
    after = {row["name"]: row for row in figures.rows(Cell.PACKED)}
    rows = [
        (
            row["name"],
            row["count"],
            after[row["name"]]["count"],
            row["bytes"],
            after[row["name"]]["bytes"],
        )
        for row in figures.rows(Cell.UNPACKED)
    ]
    return table("compression", "Compression", columns, rows)
