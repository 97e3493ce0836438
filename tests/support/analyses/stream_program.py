"""A program with a streaming query, as a user writes it: it copies a topic's rows to files.

Run: python -m tests.support.analyses.stream_program JSON, with the source's ``options``, the folders ``output`` and
``checkpoint``, and a ``trigger``. It prints ``started``; each line ``restart`` on its input stops the query and starts
it again, and ``finish`` ends it when everything that is there was read.
"""

import json
import os
import sys
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_jobs.pulsar_source import register

BUSY = "Python worker failed to connect back"


def session() -> SparkSession:
    """Return a Spark of this process, whose Python workers are started by the daemon of the analyses."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A process that had a session of Spark Connect passes this on to those that it starts.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.daemon.module", "spark_jobs.daemon")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    )
    spark = builder.getOrCreate()
    register(spark)
    return spark


def started(spark: SparkSession, given: dict[str, Any], **trigger: Any) -> Any:
    rows = spark.readStream.format("pulsar").options(**given["options"]).load()
    return (
        rows.selectExpr("cast(value as string) as value", "topic", "entry_id", "batch_index")
        .writeStream.format("json")
        .option("checkpointLocation", given["checkpoint"])
        .trigger(**trigger)
        .start(given["output"])
    )


def ended(query: Any) -> bool:
    """Wait for the end of a query; return False when it must be started again because the machine was too busy for
    Spark to start its Python in ten seconds. Raises the query's other errors."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if BUSY not in str(error):
            raise
        return False
    return True


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = session()
    query = started(spark, given, processingTime=given["trigger"])
    print("started", flush=True)
    for line in sys.stdin:
        query.stop()
        ended(query)
        if line.strip() == "finish":
            while not ended(started(spark, given, availableNow=True)):
                pass
            rows = spark.read.json(given["output"])
            values = sorted(int(row.value) for row in rows.select("value").collect())
            print(json.dumps({"rows": len(values), "different": len(set(values))}), flush=True)
            break
        query = started(spark, given, processingTime=given["trigger"])
        print("started", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
