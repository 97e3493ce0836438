"""Tasks with an owner, which reports their failures and awaits their end.

``restarting`` keeps an unexpected exception from ending a background loop, ``contained`` from interrupting a shutdown.
``at_once`` and ``with_pauses`` run work that is written as a generator of short steps.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")
RESTART_S = 5.0


class TaskScope:
    """Tasks of one owner (a connection, a topic, a service).

    ``spawn`` starts a named task. The failure of a task is reported once to ``on_error`` (default: the log).
    ``close`` cancels the remaining tasks and waits for them; it is idempotent. After ``close`` no task can be spawned.
    """

    __slots__ = ("_on_error", "_tasks", "closed", "name")

    def __init__(
        self, name: str, on_error: Callable[[str, BaseException], None] | None = None
    ) -> None:
        self.name = name
        self._on_error = on_error
        # A dict instead of a set, because simulated runs need a reproducible order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.closed = False

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start ``work`` as a task of this scope. Raises RuntimeError when closed (and closes the coroutine)."""
        if self.closed:
            work.close()
            raise RuntimeError(f"task scope {self.name} is closed")
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if self._on_error is not None:
            self._on_error(task.get_name(), error)
        else:
            log.error("task failed name=%s", task.get_name(), exc_info=error)

    def cancel(self) -> None:
        """Cancel all tasks without waiting for them; spawning is refused from now on."""
        self.closed = True
        for task in list(self._tasks):
            task.cancel()

    async def close(self, deadline_s: float = 5.0) -> None:
        """Cancel all tasks and wait for their end, at most ``deadline_s``; the caller's own task is skipped."""
        self.cancel()
        current = asyncio.current_task()
        others = [task for task in self._tasks if task is not current]
        if others:
            await asyncio.wait(others, timeout=deadline_s)


async def restarting(what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a background loop, and restart it RESTART_S seconds after an unexpected exception, which is logged.

    Returns when ``work`` returns.
    """
    while True:
        try:
            return await work()
        except Exception:
            log.exception("%s failed, restarts in %g s", what, RESTART_S)
        await asyncio.sleep(RESTART_S)


@contextmanager
def contained(what: str) -> Iterator[None]:
    """Log any exception of the block and continue behind it, for the steps of a shutdown that must all run.

    Cancellation is not suppressed.
    """
    try:
        yield
    except Exception as error:
        log.error("%s failed: %s", what, error, exc_info=error)


def at_once(steps: Generator[None, None, R]) -> R:
    """Run all steps and return the generator's result. For small work, or a loop that serves no clients yet."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


async def with_pauses(steps: Generator[None, None, R]) -> R:
    """Run all steps, each in its own turn of the event loop, and return the generator's result. Cancel-safe."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        await asyncio.sleep(0)


class UnderWay(Generic[K, T]):
    """Work that concurrent callers share, by key, as tasks of ``scope``.

    A caller awaits ``of(key)``, else ``begin``, behind a shield, so that its cancellation does not end the task.
    """

    __slots__ = ("_scope", "tasks")

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope
        self.tasks: dict[K, asyncio.Task[T]] = {}

    def of(self, key: K) -> "asyncio.Task[T] | None":
        """Return the pending task of ``key``, None without one.

        A task that is done is not returned, although its callback may not have run yet.
        """
        task = self.tasks.get(key)
        return None if task is None or task.done() else task

    def begin(self, key: K, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start ``work`` as a task with this name. Raises RuntimeError when the scope is closed."""
        task = self.tasks[key] = self._scope.spawn(name, work)
        task.add_done_callback(partial(self._ended, key))
        return task

    def _ended(self, key: K, task: "asyncio.Task[T]") -> None:
        if self.tasks.get(key) is task:
            del self.tasks[key]
