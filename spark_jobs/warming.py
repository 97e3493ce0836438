"""Start of Spark's Python before it is needed."""

from collections.abc import Iterable, Iterator
from typing import Any


def warm(spark: Any) -> None:
    """Run an empty read in Spark's Python once. Raises Spark's errors."""
    spark.range(1).mapInArrow(unchanged, "id bigint").toArrow()


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches unchanged. Spark's Python imports this module to call it, as any function passed to Spark by
    name."""
    yield from batches
