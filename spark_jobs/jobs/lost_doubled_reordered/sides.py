"""Reading of the messages that are compared, on Spark."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.jobs.kit.progress import Progress, counted
from spark_jobs.jobs.lost_doubled_reordered.comparing import (
    COLUMNS,
    SIDES_SQL,
    MessageIdentity,
    counts_of,
    pairs_of,
    samples_of,
    sides_of,
)
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange


class ComparedSide(NamedTuple):
    """Messages to compare, published from ``from_ms`` until before ``to_ms``; 0 sets no bound."""

    options: Options
    planned: Sequence[LedgerRange]
    from_ms: int = 0
    to_ms: int = 0


class CopyComparison(NamedTuple):
    """Differences by home, and samples of them, as rows of ``counts_of`` and ``samples_of``."""

    counts: list[dict[str, Any]]
    samples: list[dict[str, Any]]


def compared(
    spark: Any,
    progress: Progress,
    first: ComparedSide,
    second: ComparedSide,
    identity: MessageIdentity,
    samples: int,
) -> CopyComparison:
    """Return the differences of the second side. Raises Spark's errors."""
    tasks = [
        (number, side, ledger_range, before)
        for number, side in enumerate((first, second))
        for ledger_range, before in _placed(side.planned)
    ]

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _messages(identity, *tasks[number])

    with counted(spark, progress, len(tasks)):
        rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(of_tasks, SIDES_SQL)
        pairs = pairs_of(rows, identity).persist()
        try:
            counts = counts_of(pairs).toArrow().to_pylist()
            differences = samples_of(pairs, samples).toArrow().to_pylist()
        finally:
            pairs.unpersist()
    return CopyComparison(counts, differences)


def _placed(planned: Sequence[LedgerRange]) -> Iterator[tuple[LedgerRange, int]]:
    """Yield the ranges, each with the place of its ledger's entry 0 among the entries of its partition."""
    read: dict[str, int] = {}
    for ledger_range in planned:
        before = read.get(ledger_range.topic, 0)
        read[ledger_range.topic] = before + ledger_range.entries
        yield ledger_range, before - ledger_range.first


def _messages(
    identity: MessageIdentity,
    number: int,
    side: ComparedSide,
    ledger_range: LedgerRange,
    before: int,
) -> Iterator[pa.RecordBatch]:
    try:
        for opened in open_range(side.options, ledger_range, COLUMNS[identity]):
            yield from sides_of(
                opened,
                side=number,
                identity=identity,
                partition=ledger_range.topic,
                ledger_id=ledger_range.ledger_id,
                before=before,
                from_ms=side.from_ms,
                to_ms=side.to_ms,
            ).to_batches()
    except TrimmedError:
        if side.options.fail_on_data_loss:  # what was trimmed would look like lost
            raise
