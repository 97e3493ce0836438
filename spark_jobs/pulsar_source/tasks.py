"""The tasks of a read: ranges grouped on the driver, and read as rows where Spark runs them."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange, RangeGroup, grouped


def tasks_of(options: Options, ranges: list[LedgerRange]) -> list[RangeGroup]:
    """Return ranges as tasks of the size that the options ask for."""
    return grouped(
        ranges,
        options.entries_per_partition,
        options.bytes_per_partition,
        options.partitions_min,
    )


def read_group(options: Options, group: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ranges of a task."""
    from spark_jobs.pulsar_source.batch import read_range

    assert isinstance(group, RangeGroup)
    for ledger_range in group.ranges:
        yield from read_range(options, ledger_range)
