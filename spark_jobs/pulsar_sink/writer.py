"""Writers of the ``pulsar`` sink: of a batch, and of each batch of a stream.

A batch of a stream that Spark repeats has the same number, under the same id of the query, which is in the checkpoint.
Tasks learn both from Spark's local properties: Spark passes them to no writer in Python.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_jobs.pulsar_sink.numbering import TaskNumbers
from spark_jobs.pulsar_sink.options import SinkOptions, parse
from spark_jobs.pulsar_sink.rows import RowColumns
from spark_jobs.pulsar_source.options import OptionError

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
WARNED_BATCHES = 1000
"""A stream that may repeat messages says so at its first batch, and again after so many."""


def _columns(options: SinkOptions, schema: Any) -> RowColumns:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in options.order_by:
        if name not in types:
            raise OptionError(f"option orderBy names column {name}, which the rows do not have")
    return RowColumns.of(types, topic_given=bool(options.topic))


class PulsarWriter(DataSourceArrowWriter):
    """A writer of one batch, which is made on the driver."""

    def __init__(self, options: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        if overwrite:
            raise OptionError(
                "mode overwrite is not possible: a topic's messages stay. Use mode append"
            )
        parsed = parse(options)
        self._options = replace(parsed, write_id=parsed.write_id or uuid4().hex)
        self._columns = _columns(parsed, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from spark_jobs.pulsar_sink.publishing import publish

        context = TaskContext.get()
        assert context is not None, "a writer writes in a task"
        options = self._options
        numbers = TaskNumbers(options.producer_name, options.write_id, context.partitionId())
        return publish(options, self._columns, numbers, iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        _report(f"write {self._options.write_id}", messages, warn=True)

    def abort(self, messages: Sequence[Any]) -> None:
        _report_abort(f"write {self._options.write_id}", messages)


class PulsarStreamWriter(DataSourceStreamArrowWriter):
    """A writer of a stream's batches. Spark makes one for each batch, and another for its end."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self._options = parse(options)
        if self._options.write_id:
            raise OptionError(
                "option writeId is of batch writes: a stream has the id of its checkpoint"
            )
        self._columns = _columns(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from spark_jobs.pulsar_sink.publishing import publish

        context = TaskContext.get()
        assert context is not None, "a writer writes in a task"
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if not query or batch is None:
            raise RuntimeError(
                f"Spark has set no {QUERY_ID} or no {BATCH_ID}: it is another version"
            )
        options = self._options
        numbers = TaskNumbers(options.producer_name, query, context.partitionId(), int(batch))
        return publish(options, self._columns, numbers, iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        _report(f"batch {batchId}", messages, warn=batchId % WARNED_BATCHES == 0)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        _report_abort(f"batch {batchId}", messages)


def _report(what: str, messages: Sequence[Any], *, warn: bool) -> None:
    rows = sum(written.rows for written in messages)
    repeated = sum(written.repeated for written in messages)
    unprotected = sorted({name for written in messages for name in written.unprotected})
    log.info("%s: %s rows are stored, %s by earlier attempts", what, rows + repeated, repeated)
    if unprotected and warn:
        log.warning(
            "%s is written at least once, not exactly once: deduplication is off in %s, where a task that runs again"
            " repeats messages",
            what,
            ", ".join(unprotected),
        )


def _report_abort(what: str, messages: Sequence[Any]) -> None:
    done = [written for written in messages if written is not None]
    log.warning(
        "%s failed: %s rows of %s finished tasks are stored, and part of those of the other tasks. A task that runs"
        " again leaves out what is stored where deduplication is on",
        what,
        sum(written.rows + written.repeated for written in done),
        len(done),
    )
