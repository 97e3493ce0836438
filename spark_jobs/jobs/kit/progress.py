"""Progress of an analysis: what it does, and how many of its Spark tasks are finished."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

Report = Callable[[str, int, int], None]
"""Called with the stage, the finished steps and all steps; no steps while their number is not known."""


class Progress(Protocol):
    """The progress of a run, which its page shows while it runs."""

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Show the stage, and how many of all steps are finished; no steps while their number is not known."""

    def partial(self, result: Mapping[str, Any], /) -> None:
        """Show an incomplete result of the whole run's format: at most one a second is stored, and none above 1 MB."""


PLANNING = "reading topic metadata"
WAITING = "waiting for Spark to begin the first task"
READING = "reading messages"
ADDING_UP = "aggregating"


class TaskCounter:
    """Progress handler of Spark Connect for one query: its finished tasks, never decreasing.

    ``tasks`` of them read; all further ones aggregate, and are one step together.
    """

    def __init__(self, progress: Report, tasks: int) -> None:
        self._progress = progress
        self._tasks = tasks
        self._best = 0

    def __call__(self, *_: Any, stages: Any = None, inflight_tasks: int = 0, **__: Any) -> None:
        done = min(sum(stage.num_completed_tasks for stage in stages or ()), self._tasks)
        if done < self._best or not (done or inflight_tasks):
            return
        self._best = done
        stage = READING if done < self._tasks else ADDING_UP
        self._progress(stage, done, self._tasks + 1)


@contextmanager
def counted(spark: Any, progress: Report, tasks: int) -> Iterator[None]:
    """Report the progress of the one query within the context, whose first stage has ``tasks`` tasks."""
    progress(WAITING, 0, tasks + 1)
    counter = TaskCounter(progress, tasks)
    spark.registerProgressHandler(counter)
    try:
        yield
    finally:
        spark.removeProgressHandler(counter)
