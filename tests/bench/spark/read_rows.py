"""CPU and time of reading a topic into Spark, beside the same rows from Parquet and the official reader in a loop.

Run: python -m tests.bench.spark.read_rows [--rows N] [--stream SECONDS]

CPU is that of all processes of the reader (for Spark Java and Python), by which a busy machine changes the numbers
least; then with that of the instance, where bookies and broker send what is read. Each query runs twice and the second
run counts. Values differ and do not compress. The boundary is the same amount of values that a task has ready, so that
Spark only receives them. With ``--stream`` a producer publishes 10,000 messages a second, and the time from
publication to the row in a micro-batch is measured instead.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tests.support.analyses.stream_program import session
from tests.support.instance import Instance, running_instance

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
CASES = ((100, 1000), (100, 1), (1000, 1000), (1000, 1))
"""Bytes of a message, and messages of a batch."""
BOUNDARY_TASKS, BOUNDARY_ROWS = 4, 2000
POOL_BYTES = 32 << 20
"""Random bytes of which values are parts."""


def cpu_of_tree(root: int, without: int = 0) -> float:
    """Return the CPU seconds of a process, its descendants, and those of them that ended; ``without`` one of them and
    its descendants."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    tree = {root}
    parents.pop(without, None)
    while new := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= new
    return sum(used.get(pid, 0.0) for pid in tree)


def published(instance: Instance, topic: str, rows: int, size: int, batch: int) -> None:
    client = pulsar.Client(instance.url, logger=SILENT)
    producer = client.create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),  # the client refuses 1 also where it does not batch
        batching_max_allowed_size_in_bytes=batch * (size + 64),
        batching_max_publish_delay_ms=1000,
        block_if_queue_full=True,
        max_pending_messages=2 * batch + 1000,
    )
    pool = random.Random(1).randbytes(POOL_BYTES)
    for i in range(rows):
        at = i * 7919 % (POOL_BYTES - size)
        producer.send_async(pool[at : at + size], lambda *_: None)
    producer.flush()
    client.close()


def measured(what: str, rows: int, read: Callable[[], Any], instance: Instance) -> None:
    assert instance.process is not None
    served = instance.process.pid

    def used() -> tuple[float, float]:
        return cpu_of_tree(os.getpid(), without=served), cpu_of_tree(os.getpid())

    read()
    (cpu, whole), began = used(), time.monotonic()
    read()
    took = time.monotonic() - began
    cpu, whole = (after - before for after, before in zip(used(), (cpu, whole), strict=True))
    print(
        f"{what:34} {rows / cpu:10,.0f} rows/s a core  {cpu / rows * 1e6:5.2f} us a row"
        f"  {whole / rows * 1e6:5.2f} with the instance  {took:6.2f} s",
        flush=True,
    )


class Ready(DataSource):
    """Values that need neither reading nor opening: for each task ``batches`` of BOUNDARY_ROWS with ``size`` bytes."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: Any) -> "ReadyReader":
        return ReadyReader(dict(self.options))


class ReadyReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._size, self._batches = int(options["size"]), int(options["batches"])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(i) for i in range(BOUNDARY_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        values = [os.urandom(self._size) for _ in range(BOUNDARY_ROWS)]
        rows = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])
        for _ in range(self._batches):
            yield rows


def read_by_client(url: str, topic: str, rows: int) -> Callable[[], None]:
    def read() -> None:
        client = pulsar.Client(url, logger=SILENT)
        reader = client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=10_000)
        for _ in range(rows):
            reader.read_next(10_000).data()
        client.close()

    return read


def batch_reads(spark: Any, instance: Instance, folder: Path, rows: int) -> None:
    for size, batch in CASES:
        count = rows if size == 100 and batch > 1 else rows // 5
        topic = f"persistent://public/default/of-{size}-by-{batch}"
        published(instance, topic, count, size, batch)
        options = {
            "topic": topic,
            "metadataUrl": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}",
        }
        few = spark.read.format("pulsar").options(**options, columns="value").load()
        more = spark.read.format("pulsar")
        more = more.options(**options, columns="key,value,publish_time,ledger_id,entry_id").load()
        table = str(folder / f"{size}-{batch}")
        more.write.parquet(table)
        name = f"{size} B by {batch}:"

        def noop(frame: Any) -> Callable[[], None]:
            return lambda: frame.write.format("noop").mode("overwrite").save()

        measured(f"{name} value", count, noop(few), instance)
        measured(f"{name} key, value, time, id", count, noop(more), instance)
        measured(
            f"{name} Parquet, value",
            count,
            noop(spark.read.parquet(table).select("value")),
            instance,
        )
        measured(f"{name} Parquet, all", count, noop(spark.read.parquet(table)), instance)
        batches = -(-count // (BOUNDARY_TASKS * BOUNDARY_ROWS))
        ready = spark.read.format("ready").options(size=size, batches=batches).load()
        measured(
            f"{name} boundary",
            batches * BOUNDARY_TASKS * BOUNDARY_ROWS,
            noop(ready),
            instance,
        )
        measured(
            f"{name} official reader",
            count,
            read_by_client(instance.url, topic, count),
            instance,
        )


@contextmanager
def loaded(instance: Instance, topic: str, rate: int) -> Iterator[None]:
    """Publish ``rate`` messages of 100 B a second; each has the time of its publication as its event time."""
    ended = threading.Event()

    def publish() -> None:
        client = pulsar.Client(instance.url, logger=SILENT)
        producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
        while not ended.is_set():
            began = time.monotonic()
            for _ in range(rate // 20):
                producer.send_async(b"x" * 100, lambda *_: None)
            time.sleep(max(0.0, 0.05 - (time.monotonic() - began)))
        client.close()

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stream(spark: Any, instance: Instance, folder: Path, seconds: float) -> None:
    """Print the age of the rows of micro-batches when they are in the sink."""
    topic = "persistent://public/default/streamed"
    client = pulsar.Client(instance.url, logger=SILENT)
    client.create_producer(topic).close()
    client.close()
    ages: list[tuple[float, float, int]] = []

    def sink(frame: Any, number: int) -> None:
        row = frame.selectExpr("min(publish_ms)", "max(publish_ms)", "count(*)").first()
        now = time.time() * 1000
        if row[2]:
            ages.append((now - row[0], now - row[1], row[2]))

    rows = (
        spark.readStream.format("pulsar")
        .option("topic", topic)
        .option("metadataUrl", f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}")
        .option("columns", "publish_ms,value")
        .load()
    )
    query = (
        rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "c")).start()
    )
    with loaded(instance, topic, 10_000):
        time.sleep(seconds)
        progress = query.lastProgress
    query.stop()
    settled = ages[len(ages) // 3 :]
    oldest = sorted(age for age, _, _ in settled)
    total = sum(count for *_, count in settled)
    print(
        f"{len(settled)} batches of {total / len(settled):,.0f} rows; the oldest row is in the sink after"
        f" {oldest[len(oldest) // 2]:,.0f} ms (median), {oldest[-1]:,.0f} ms (worst)"
    )
    print(progress.durationMs if progress else "no progress")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--stream", type=float, default=0.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        retained = {
            "MAGNETAR_DEFAULT_RETENTION_TIME_IN_MINUTES": "-1",
            "MAGNETAR_DEFAULT_RETENTION_SIZE_IN_MB": "-1",
        }
        with running_instance(folder / "instance", **retained) as instance:
            spark = session()
            spark.dataSource.register(Ready)
            if given.stream:
                stream(spark, instance, folder, given.stream)
            else:
                batch_reads(spark, instance, folder, given.rows)
            spark.stop()


if __name__ == "__main__":
    main()
