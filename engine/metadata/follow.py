"""Work that is done again whenever something in the metadata changed, however long the store takes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from engine.base.errors import MagnetarError
from engine.base.log import bound
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore

RETRY_S = 0.5


class MetadataFollower:
    """``work`` reads what it needs and acts by it: after ``start``, and after each change of the nodes
    ``watched``; several changes may be one turn. It is tried again while the store does not answer, or what is stored
    cannot be read (ValueError). ``every_s``: at least so often. ``what``: for the log.

    ``start`` inside the running loop; starting again does nothing.
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
        """Not ``at_once``: only from the next change on, since whoever starts it does the first turn."""
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
                if not failing:  # an outage is told once
                    expected = isinstance(error, MagnetarError | ValueError)
                    self._log.warning(
                        "not followed yet reason=%s", error, exc_info=None if expected else error
                    )
                failing = True
