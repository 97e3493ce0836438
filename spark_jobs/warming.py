"""Have Spark start its Python before it is needed."""

from collections.abc import Iterable, Iterator
from typing import Any


def warm(spark: Any) -> None:
    """Read nothing with Spark's Python once. Raises Spark's errors."""
    spark.range(1).mapInArrow(unchanged, "id bigint").toArrow()


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    """Spark's Python imports this module to call it, as it does for whatever is handed to Spark by name."""
    yield from batches
