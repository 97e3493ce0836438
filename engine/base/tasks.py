"""Owned tasks: a named group whose failures are seen by its owner and whose end is awaited; and what keeps an exception
that nobody expected from ending a background loop, or the end of something half-way."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
RESTART_S = 5.0


class TaskScope:
    """Tasks of one owner (a connection, a topic, a service).

    ``spawn`` starts a named task. A task that fails is reported once to ``on_error`` (default: the log).
    ``close`` cancels what is left and waits for it; safe to call twice. After ``close`` nothing can be spawned.
    """

    __slots__ = ("_on_error", "_tasks", "closed", "name")

    def __init__(
        self, name: str, on_error: Callable[[str, BaseException], None] | None = None
    ) -> None:
        self.name = name
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[Any], None] = {}  # ordered: the simulator needs one order
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
        """Ask all tasks to stop without waiting; spawning is refused from now on."""
        self.closed = True
        for task in list(self._tasks):
            task.cancel()

    async def close(self, deadline_s: float = 5.0) -> None:
        """Cancel all tasks and wait for their end, at most ``deadline_s``; the caller's own task is skipped."""
        self.cancel()
        me = asyncio.current_task()
        rest = [task for task in self._tasks if task is not me]
        if rest:
            await asyncio.wait(rest, timeout=deadline_s)


async def restarting(what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``work``, a loop in the background, and begin it anew RESTART_S after an exception that it does not provide
    for, which is logged: one bad moment must not end it for the life of the process. Ends when ``work`` returns."""
    while True:
        try:
            return await work()
        except Exception:
            log.exception("%s failed, goes on in %g s", what, RESTART_S)
        await asyncio.sleep(RESTART_S)


@contextmanager
def contained(what: str) -> Iterator[None]:
    """Go on behind the block whatever failed in it, with a line in the log: for steps of an end that all must be taken.
    Cancellation passes."""
    try:
        yield
    except Exception as error:
        log.error("%s failed: %s", what, error, exc_info=error)


class UnderWay(Generic[K, T]):
    """Work that is done once however many ask for it meanwhile, by key, as tasks of ``scope``: ``of(key)`` or else
    ``begin``, and await the task behind a shield, so that who gives up leaves it to the others."""

    __slots__ = ("_scope", "tasks")

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope
        self.tasks: dict[K, asyncio.Task[T]] = {}

    def of(self, key: K) -> "asyncio.Task[T] | None":
        """The task, unless it is done: one that the loop has not told of yet must not be waited for again."""
        task = self.tasks.get(key)
        return None if task is None or task.done() else task

    def begin(self, key: K, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start it, as a task of this name. Raises RuntimeError when the scope is closed."""
        task = self.tasks[key] = self._scope.spawn(name, work)
        task.add_done_callback(partial(self._ended, key))
        return task

    def _ended(self, key: K, task: "asyncio.Task[T]") -> None:
        if self.tasks.get(key) is task:
            del self.tasks[key]
