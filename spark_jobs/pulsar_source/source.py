"""The ``pulsar`` data source: ``spark.read.format("pulsar")`` reads a topic straight from the bookies.

Options: spark_jobs.pulsar_source.options, and ``ranges``, JSON ``[[ledger, first, last, partition], …]``, to read a
range planned before. Brokers are not asked and nothing is acknowledged.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_jobs.pulsar_source.options import OptionError, Options, parse
from spark_jobs.pulsar_source.partitions import LedgerRange

SCHEMA = """
    key string, value binary, properties map<string, string>, publish_time timestamp, event_time timestamp,
    ledger_id bigint, entry_id bigint, batch_index int, batch_size int, partition int,
    producer_name string, sequence_id bigint, publish_ms bigint,
    value_bytes bigint, entry_bytes bigint, payload_bytes bigint, packed_bytes bigint, compression string
"""
"""``batch_index`` is -1 in an entry that is no batch. Sizes: ``value_bytes`` of this message; of its entry
``entry_bytes`` as stored, ``payload_bytes`` before and ``packed_bytes`` after compression."""


class PulsarDataSource(DataSource):
    """Registered under the name ``pulsar``."""

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> "PulsarReader":
        return PulsarReader(dict(self.options))


class PulsarReader(DataSourceReader):
    """Plans on the driver, reads in tasks. Equal ranges give equal rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: Options = parse(options)
        given = {name.lower(): value for name, value in options.items()}
        self._ranges = _ranges(given["ranges"]) if "ranges" in given else None

    def partitions(self) -> list[InputPartition]:
        from spark_jobs.pulsar_source.planning import plan_topic

        ranges = plan_topic(self._options) if self._ranges is None else self._ranges
        # Spark runs a source without partitions as one task with None; an empty range says the same honestly
        return list(ranges) or [LedgerRange(-1, 0, -1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from spark_jobs.pulsar_source.batch import read_range

        assert isinstance(partition, LedgerRange)
        if partition.entries == 0:
            return iter(())
        return read_range(self._options, partition)


def _ranges(text: str) -> list[LedgerRange]:
    try:
        return [LedgerRange(*(int(part) for part in row)) for row in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise OptionError(
            "option ranges must be JSON [[ledger, first, last, partition], …]"
        ) from error
