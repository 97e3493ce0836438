"""Start of Spark's Python before it is needed.

``python -m spark_jobs.warming sc://HOST:PORT`` does what analyses do, so that Java's classes for it can be archived.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any


def warm(spark: Any) -> None:
    """Run an empty read in Spark's Python once. Raises Spark's errors."""
    spark.range(1).mapInArrow(unchanged, "id bigint").toArrow()


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches unchanged. Spark's Python imports this module to call it, as any function passed to Spark by
    name."""
    yield from batches


def work(remote: str) -> None:
    """Warm a server, and let it group and sort rows."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).create()
    warm(spark)
    spark.range(100).selectExpr("id % 7 AS k", "string(id) AS v").createOrReplaceTempView("t")
    spark.sql("SELECT k, count(*), max(v) FROM t GROUP BY k ORDER BY 2 DESC LIMIT 5").toArrow()
    spark.stop()


if __name__ == "__main__":
    work(sys.argv[1])
