"""Aggregations of the topic profile: DataFrame of messages in (columns of pulsar_source.source), small one out."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

RATE_POINTS_MAX = 200
RATE_STEPS_MS = (
    *(100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000),
    *(1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000),
)


def rate_step_ms(first_ms: int, last_ms: int) -> int:
    """Width of a point of the rate series, so that there are at most RATE_POINTS_MAX."""
    for step in RATE_STEPS_MS:
        if (last_ms - first_ms) // step < RATE_POINTS_MAX:
            return step
    return -(-(last_ms - first_ms + 1) // RATE_POINTS_MAX)


def totals(messages: DataFrame) -> DataFrame:
    """One row: counts, bytes, time span, sizes, distinct keys and producers. Entry facts count once per entry."""
    once = f.col("batch_index") <= 0
    packed = once & (f.col("compression") != "NONE")
    return messages.agg(
        f.count("*").alias("messages"),
        f.sum(f.when(once, 1).otherwise(0)).alias("entries"),
        f.sum(f.when(once, f.col("entry_bytes")).otherwise(0)).alias("stored_bytes"),
        f.sum("value_bytes").alias("value_bytes"),
        f.min("publish_ms").alias("first_publish"),
        f.max("publish_ms").alias("last_publish"),
        f.avg("value_bytes").alias("size_mean"),
        f.percentile_approx("value_bytes", [0.5, 0.99], 10_000).alias("sizes"),
        f.max("value_bytes").alias("size_max"),
        f.countDistinct("key").alias("keys"),
        f.countDistinct("producer_name").alias("producers"),
        f.sum(f.when(packed, f.col("payload_bytes"))).alias("bytes_before"),
        f.sum(f.when(packed, f.col("packed_bytes"))).alias("bytes_after"),
    )


def rate(messages: DataFrame, step_ms: int) -> DataFrame:
    """Messages and value bytes per ``step_ms``, by time."""
    at = f.expr(f"publish_ms - pmod(publish_ms, {int(step_ms)})").alias("at")
    grouped = messages.groupBy(at).agg(
        f.count("*").alias("messages"), f.sum("value_bytes").alias("bytes")
    )
    return grouped.orderBy("at")


def sizes(messages: DataFrame) -> DataFrame:
    """Messages by lower power of two of their size; 0 stands for empty ones."""
    bucket = f.expr("if(value_bytes = 0, 0, cast(pow(2, floor(log2(value_bytes))) as bigint))")
    return (
        messages.groupBy(bucket.alias("bytes")).agg(f.count("*").alias("messages")).orderBy("bytes")
    )


def batches(messages: DataFrame) -> DataFrame:
    """Entries by lower power of two of their number of messages."""
    entries = messages.where(f.col("batch_index") <= 0)
    bucket = f.expr("cast(pow(2, floor(log2(greatest(batch_size, 1)))) as bigint)")
    return entries.groupBy(bucket.alias("size")).agg(f.count("*").alias("entries")).orderBy("size")


def top(messages: DataFrame, column: str, limit: int) -> DataFrame:
    """The ``limit`` values of ``column`` with most messages; equal counts by name, so that a rerun gives the same."""
    known = messages.where(f.col(column).isNotNull())
    grouped = known.groupBy(column).agg(
        f.count("*").alias("messages"), f.sum("value_bytes").alias("bytes")
    )
    return grouped.orderBy(f.desc("messages"), column).limit(limit)


def compression(messages: DataFrame) -> DataFrame:
    """By codec: entries, messages, bytes of payload before and after."""
    once = f.col("batch_index") <= 0
    return (
        messages.groupBy("compression")
        .agg(
            f.sum(f.when(once, 1).otherwise(0)).alias("entries"),
            f.count("*").alias("messages"),
            f.sum(f.when(once, f.col("payload_bytes")).otherwise(0)).alias("before"),
            f.sum(f.when(once, f.col("packed_bytes")).otherwise(0)).alias("after"),
        )
        .orderBy("compression")
    )
