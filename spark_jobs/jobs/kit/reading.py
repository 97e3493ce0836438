"""One pass of Spark over ranges of ledgers, which returns the sums of the tasks' cells."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.cells import CELLS, CELLS_SQL, TRIMMED, Gathered, added, cells
from spark_jobs.jobs.kit.progress import Report, counted
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.columns import Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange

T = TypeVar("T")
CELLS_AT_ONCE = 50_000


def cells_of_range(
    options: Options,
    ledger_range: LedgerRange,
    columns: Collection[str],
    cells_of: Callable[[Opened], pa.Table],
    combine: Callable[[Iterable[pa.Table]], pa.Table] = added,
    schemas: TopicSchemas | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a range, each once: the work of one task.

    ``columns`` of messages are what ``cells_of`` needs. ``schemas`` are loaded with the versions of what it
    is called with. Entries that were trimmed meanwhile are a cell of TRIMMED.
    """
    gathered = Gathered(combine)
    try:
        for opened in open_range(options, ledger_range, columns, schemas):
            gathered.add(cells_of(opened))
    except TrimmedError as error:
        gathered.add(cells(TRIMMED, at=np.array([0]), count=error.entries))
    yield from gathered.take().to_batches(CELLS_AT_ONCE)


def added_by_spark(
    spark: Any,
    progress: Report,
    tasks: Sequence[T],
    read: Callable[[T], Iterator[pa.RecordBatch]],
    reduce: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> pa.Table:
    """Return the cells of all tasks, added up.

    ``read`` yields the cells of a task. ``reduce`` is called with the cells of a shuffle partition, which has each cell
    once, and yields those to return: a table that lists only the largest needs no others.
    """

    def of_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from read(tasks[number])

    with counted(spark, progress, len(tasks)):
        parts = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(of_tasks, CELLS_SQL)
        grouped = parts.groupBy("kind", "name", "at")
        sums = grouped.agg({"count": "sum", "bytes": "sum"}).toDF(*CELLS.names)
        return sums.mapInArrow(reduce, CELLS_SQL).toArrow().cast(CELLS)
