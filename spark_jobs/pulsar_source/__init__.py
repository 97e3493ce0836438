"""The data source ``pulsar``: topics as tables and streams of Spark, read straight from the bookies."""

from typing import Any


def register(spark: Any) -> None:
    """Register the format ``pulsar`` with a session, and allow it to apply filters itself. Raises Spark's errors."""
    from spark_jobs.pulsar_source.source import PulsarDataSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PulsarDataSource)
