"""CPU and rate of publishing the rows of one task of the Spark sink, beside the official client.

Run: python -m tests.bench.spark.write_rows [--rows N] [--spark]

The CPU is that of the publishing process, without Spark's own and without the broker's. With ``--spark`` a program of
one core writes the same rows through Spark, with its start taken out by a first, smaller write.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pulsar
import pyarrow as pa

from spark_jobs.pulsar_sink.numbering import TaskNumbers
from spark_jobs.pulsar_sink.options import parse
from spark_jobs.pulsar_sink.publishing import publish
from spark_jobs.pulsar_sink.rows import RowColumns
from tests.support.instance import running_instance

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
CHUNK = 10_000
"""Rows of a batch, as Spark passes them on."""


def batches(rows: int, size: int, keyed: bool) -> Iterator[pa.RecordBatch]:
    columns: dict[str, list[bytes] | list[str]] = {"value": [os.urandom(size)] * CHUNK}
    if keyed:
        columns["key"] = [f"key-{i % 100}" for i in range(CHUNK)]
    batch = pa.RecordBatch.from_pydict(columns)
    for _ in range(rows // CHUNK):
        yield batch


def by_sink(url: str, topic: str, rows: Iterator[pa.RecordBatch], keyed: bool) -> None:
    kinds = {"value": "binary"} | ({"key": "string"} if keyed else {})
    columns = RowColumns.of(kinds, topic_given=True)
    options = parse({"serviceUrl": url, "topic": topic})
    publish(options, columns, TaskNumbers("bench", uuid4().hex, 0), rows)


def by_client(url: str, topic: str, rows: Iterator[pa.RecordBatch], keyed: bool) -> None:
    client = pulsar.Client(url, logger=SILENT)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=1000,
        block_if_queue_full=True,
        max_pending_messages=50_000,
    )
    for batch in rows:
        values = batch["value"].to_pylist()
        keys = batch["key"].to_pylist() if keyed else [None] * len(values)
        for value, key in zip(values, keys, strict=True):
            producer.send_async(value, lambda *_: None, partition_key=key)
    producer.flush()
    client.close()


def by_spark(url: str, topic: str, rows: int, size: int) -> float:
    """Return the seconds of a write by one core of Spark."""
    from tests.support.spark.sink_programs import session

    spark = session("local[1]", **{"spark.sql.execution.arrow.maxRecordsPerBatch": str(CHUNK)})
    seconds = 0.0
    for count in (CHUNK, rows):
        frame = spark.range(0, count, 1, 1).selectExpr(f"repeat('x', {size}) AS value")
        began = time.perf_counter()
        frame.write.format("pulsar").mode("append").options(serviceUrl=url, topic=topic).save()
        seconds = time.perf_counter() - began
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    pa.array([b""]).to_pylist()  # pyarrow loads pandas at its first array
    sides: tuple[tuple[str, Callable[..., None]], ...] = (("sink", by_sink), ("client", by_client))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_instance(Path(folder), brokers=1) as instance,
    ):
        for size in (100, 1000):
            for keyed in (False, True):
                for name, side in sides:
                    topic = f"persistent://public/default/{name}-{size}-{keyed}"
                    began, cpu = time.perf_counter(), time.process_time()
                    side(instance.url, topic, batches(given.rows, size, keyed), keyed)
                    cpu = (time.process_time() - cpu) / given.rows * 1e6
                    rate = given.rows / (time.perf_counter() - began)
                    key = "key" if keyed else "no key"
                    print(f"{size} B, {key}, {name}: {cpu:.2f} us CPU a row, {rate:.0f} rows/s")
            if given.spark:
                topic = f"persistent://public/default/spark-{size}"
                rate = given.rows / by_spark(instance.url, topic, given.rows, size)
                print(f"{size} B, through Spark on one core: {rate:.0f} rows/s")


if __name__ == "__main__":
    main()
