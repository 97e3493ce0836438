"""Owned tasks: a named group whose failures are seen by its owner and whose end is awaited."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


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
