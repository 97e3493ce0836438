"""Finished tasks of a query as progress that never decreases."""

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.jobs.kit.progress import ADDING_UP, READING, WAITING, counted


class Spark:
    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)


def stages(*finished: int) -> list[Any]:
    return [SimpleNamespace(num_completed_tasks=number) for number in finished]


def test_progress_counts_tasks_and_never_decreases() -> None:
    spark, shown = Spark(), list[tuple[str, int, int]]()
    with counted(spark, lambda *given: shown.append(given), 3):
        [report] = spark.handlers
        report(stages=None, inflight_tasks=0)
        report(stages=stages(0), inflight_tasks=2)
        report(stages=stages(2), inflight_tasks=1)
        report(stages=stages(1), inflight_tasks=1)
        report(stages=stages(3, 4), inflight_tasks=1)
    assert shown == [(WAITING, 0, 4), (READING, 0, 4), (READING, 2, 4), (ADDING_UP, 3, 4)]
    assert spark.handlers == []


def test_the_handler_is_removed_from_a_query_that_fails() -> None:
    spark = Spark()
    with pytest.raises(ValueError, match="the query"), counted(spark, lambda *_: None, 1):
        raise ValueError("the query")
    assert spark.handlers == []
