"""Programs that write topics with Spark: ``python -m tests.support.spark.sink_programs NAME SERVICE_URL TOPIC …``."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CHUNK_ROWS = 100


def session(master: str, **settings: str) -> Any:
    """Return a session whose parts use loopback only, in little memory."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from spark_jobs.pulsar_source import register

    builder = SparkSession.builder.master(master)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "spark_jobs.daemon",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(CHUNK_ROWS),
    }
    for name, value in (defaults | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def failing_once(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches; the first attempt of each task fails within them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for number, batch in enumerate(batches):
        if number == 7 and context.attemptNumber() == 0:
            time.sleep(0.5)  # until what was passed on is published
            raise RuntimeError("planted failure")
        yield batch


def batch(url: str, topic: str, rows: str) -> None:
    """Write numbers whose tasks fail once each, in two writes; print what the second write with one id adds."""
    spark = session("local[2,4]")
    frame = (
        spark.range(0, int(rows), 1, 2)
        .mapInArrow(failing_once, "id bigint")
        .selectExpr("CAST(id AS STRING) AS value", "CAST(id % 10 AS STRING) AS key")
    )
    options = {"serviceUrl": url, "topic": topic, "writeId": "nightly"}
    frame.write.format("pulsar").mode("append").options(**options).save()
    frame.write.format("pulsar").mode("append").options(**options).save()
    print(json.dumps({"done": True}), flush=True)


def cluster(master: str, url: str, topic: str, metadata: str, secret: str, events: str) -> None:
    """Write and read a topic on a cluster, with credentials in a file; print the number of rows."""
    Path(events).mkdir()
    spark = session(
        master,
        **{
            "spark.executor.memory": "450m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",  # so that the test can search it
            "spark.eventLog.dir": f"file://{events}",
        },
    )
    frame = spark.range(0, 10_000, 1, 4).selectExpr("CAST(id AS STRING) AS value")
    options = {"serviceUrl": url, "topic": topic, "authentication.file": secret}
    frame.write.format("pulsar").mode("append").options(**options).save()
    rows = spark.read.format("pulsar").options(topic=topic, metadataUrl=metadata).load()
    print(f"rows {rows.count()}", flush=True)
    spark.stop()


if __name__ == "__main__":
    {"batch": batch, "cluster": cluster}[sys.argv[1]](*sys.argv[2:])
