"""A table that is gathered from servers while it is looked at. All requests share it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from engine.base.tasks import TaskScope
from engine.metadata import account
from gateway.services.engine_link import Engine

log = logging.getLogger(__name__)

FRESH_S = 2.0
"""Age from which on a request has the table gathered again."""
WORK_SHARE = 10
"""Share of the time, one in so many parts, that gathering takes at most."""
FRESH_MAX_S = 10.0
"""Longest time for which a table is not gathered again, however long gathering takes."""
USABLE_S = 30.0
"""Age up to which a request is answered with the table while the next one is gathered."""
WAIT_S = 0.1
"""Time that such a request waits for the next table."""

T = TypeVar("T")


class GatheredTable(Generic[T]):
    """The last table of ``gather``, for one event loop.

    A request waits for a new table only where there is none that is usable; otherwise it is answered with the last one
    after WAIT_S at the latest. So a table that takes seconds to gather delays the first request alone. A failure within
    that time is raised in any case.
    """

    def __init__(self, name: str, gather: Callable[[Engine], Awaitable[T]]) -> None:
        self._gather = gather
        self._tasks = TaskScope(f"gathered-{name}")
        self._table: T | None = None
        self._gathered_at = 0.0
        self._fresh_s = FRESH_S
        self._work: asyncio.Task[Exception | None] | None = None

    async def table(self, engine: Engine) -> T:
        """Return the table. Raises what ``gather`` raises where there is no usable one. Cancel-safe: others wait for
        the same gathering."""
        age_s = asyncio.get_running_loop().time() - self._gathered_at
        if self._table is not None and age_s <= self._fresh_s:
            return self._table
        work = self._work
        if work is None:
            work = self._work = self._tasks.spawn("gather", self._renew(engine))
        if self._table is not None and age_s <= max(USABLE_S, self._fresh_s):
            last = self._table
            await asyncio.wait((work,), timeout=WAIT_S)
            if not work.done():
                return last if self._table is None else self._table
        error = await asyncio.shield(work)
        if error is not None:
            # A copy for each caller: one exception raised by several would collect all their tracebacks.
            raise type(error)(*error.args) from error
        if self._table is None:  # it was forgotten meanwhile
            return await self.table(engine)
        return self._table

    def forget(self) -> None:
        """Have the next request wait for a new table, because its content was changed. One that is being gathered may
        be from before the change and is not used."""
        self._table = self._work = None

    async def _renew(self, engine: Engine) -> Exception | None:
        """Gather the next table; return the error, which every request that waits for it raises."""
        account.leave()  # it works for all callers, not for the request that was first
        loop, work = asyncio.get_running_loop(), asyncio.current_task()
        began = loop.time()
        try:
            table = await self._gather(engine)
        except Exception as error:
            log.info("a table cannot be gathered name=%s error=%r", self._tasks.name, error)
            if self._work is work:
                self._work = None
            return error
        if self._work is work:
            self._table, self._gathered_at, self._work = table, loop.time(), None
            self._fresh_s = min(max(FRESH_S, WORK_SHARE * (loop.time() - began)), FRESH_MAX_S)
        return None
