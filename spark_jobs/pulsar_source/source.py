"""The ``pulsar`` data source: ``spark.read.format("pulsar")`` reads topics from bookies or brokers.

Options: spark_jobs.pulsar_source.options, and ``ranges``, JSON ``[[ledger, first, last, partition, topic], …]``, to
read ranges that were planned before. Only the columns in ``columns`` are built. Nothing is acknowledged. Values are
decoded by the topic's schemas on request, and typed in one more line: ``spark.read.format("pulsar").options(…,
columns="publish_time,decoded").load()``, then ``.select(from_json("decoded", "id BIGINT, customer STRING, at
TIMESTAMP").alias("order")).select("order.*")``.

Modules that connect are imported where they are used: Spark pickles the source to wherever it plans or reads.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)

from spark_jobs.pulsar_sink.writer import PulsarStreamWriter, PulsarWriter
from spark_jobs.pulsar_source.options import OptionError, Options, column_type, parse
from spark_jobs.pulsar_source.partitions import LedgerRange, RangeGroup
from spark_jobs.pulsar_source.pushdown import (
    RowFilter,
    filtered,
    narrowed,
    published_between,
    understood,
)
from spark_jobs.pulsar_source.tasks import read_group, tasks_of


class PulsarDataSource(DataSource):
    """The data source, registered under the name ``pulsar``."""

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def schema(self) -> str:
        names = parse(dict(self.options)).columns
        return ", ".join(f"{name} {column_type(name)}" for name in names)

    def reader(self, schema: Any) -> "PulsarReader":
        return PulsarReader(dict(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        from spark_jobs.pulsar_source.streams.reader import PulsarStreamReader

        return PulsarStreamReader(dict(self.options))

    def writer(self, schema: Any, overwrite: bool) -> PulsarWriter:
        return PulsarWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> PulsarStreamWriter:
        return PulsarStreamWriter(dict(self.options), schema)


class PulsarReader(DataSourceReader):
    """A reader that plans on the driver and reads in tasks. Equal ranges give equal rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: Options = parse(options)
        by_name = {name.lower(): value for name, value in options.items()}
        self._ranges = _ranges(by_name["ranges"]) if "ranges" in by_name else None
        self._filters: list[RowFilter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._filters = understood(filters)
        self._options = replace(self._options, published_ms=published_between(self._filters))
        return filters  # Spark applies all of them again

    def partitions(self) -> list[InputPartition]:
        from spark_jobs.pulsar_source.planning import plan_topics

        ranges = plan_topics(self._options) if self._ranges is None else self._ranges
        ranges = narrowed(ranges, self._filters)
        # Spark runs a source without partitions as one task with None; an empty one avoids that case.
        return list(tasks_of(self._options, ranges)) or [RangeGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return (filtered(rows, self._filters) for rows in read_group(self._options, partition))


def _ranges(text: str) -> list[LedgerRange]:
    try:
        return [
            LedgerRange(int(ledger_id), int(first), int(last), int(partition), str(topic))
            for ledger_id, first, last, partition, topic in json.loads(text)
        ]
    except (ValueError, TypeError) as error:
        raise OptionError(
            "option ranges must be JSON [[ledger, first, last, partition, topic], …]"
        ) from error
