"""Work that is repeated after each change of metadata nodes, and retried while the store is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from engine.base.errors import MagnetarError
from engine.base.log import bound
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore

RETRY_S = 0.5


class MetadataFollower:
    """Runner of ``work`` after ``start``, and after each change of the nodes ``watched``.

    ``work`` reads the nodes it needs; several changes may be one run. After an error, such as an unavailable store or
    an unreadable record, it runs again every RETRY_S seconds. It runs at least every ``every_s`` seconds. ``what``
    names the work in the log. ``start`` must be called inside the running loop; a second call has no effect.
    """

    def __init__(
        self,
        store: MetadataStore,
        what: str,
        watched: Iterable[str],
        work: Callable[[], Awaitable[None]],
        *,
        every_s: float | None = None,
    ) -> None:
        self._store = store
        self._watched = watched
        self._work = work
        self._every_s = every_s
        self._changed = asyncio.Event()
        self._tasks = TaskScope(what)
        self._stops: list[Callable[[], None]] = []
        self._log = bound(__name__, what=what)

    def start(self, *, at_once: bool = True) -> None:
        """Start to run the work; without ``at_once``, only from the next change on, for callers that have run it."""
        if self._stops:
            return
        for path in self._watched:
            self._stops.append(self._store.watch(path, lambda _: self._changed.set()))
        if at_once:
            self._changed.set()
        self._tasks.spawn("follow", self._follow())

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        await self._tasks.close()

    async def _follow(self) -> None:
        failing = False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if failing else self._every_s):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self._work()
                failing = False
            except Exception as error:
                if not failing:  # an outage is logged once
                    expected = isinstance(error, MagnetarError | ValueError)
                    self._log.warning(
                        "not followed yet reason=%s", error, exc_info=None if expected else error
                    )
                failing = True
