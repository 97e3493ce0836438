"""Reading of the topics that the metadata store lists, for the collector's rounds."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from engine.base.tasks import TaskScope
from gateway.services.catalog import Changed, TopicCatalog
from gateway.services.engine_link import Engine
from gateway.services.feeds.turns import batches
from gateway.services.index.topic_index import TopicIndex

T = TypeVar("T")


class StoredTopics:
    """The topics of all namespaces, which ``read`` puts into the index."""

    def __init__(self, topics: TopicIndex, tasks: TaskScope) -> None:
        self.complete = False
        """True once the topics of all namespaces were read."""
        self._topics = topics
        self._tasks = tasks
        self._catalog: TopicCatalog | None = None
        self._reading: asyncio.Task[Changed | Exception] | None = None

    async def read(self, engine: Engine, timeout_s: float) -> None:
        """Read the topics that changed in the store. Raises TimeoutError when that takes longer, as the first reading
        may: it then continues, and the next call waits for it."""
        if self._catalog is None:
            self._catalog = TopicCatalog(engine.store)
        if self._reading is None:
            if self.complete and self._catalog.is_current:
                return
            self._reading = self._tasks.spawn("catalog", _caught(self._catalog.refresh()))
        done, _ = await asyncio.wait([self._reading], timeout=timeout_s)
        if not done:
            raise TimeoutError
        topics = self._reading.result()
        self._reading = None  # before the raise: after a failure too the next round reads again
        if isinstance(topics, Exception):
            raise topics
        self._topics.catalog({}, topics.gone)
        for known in batches(topics.known.items()):
            self._topics.catalog(dict(known), ())
            await asyncio.sleep(0)
        self.complete = True


async def _caught(work: Awaitable[T]) -> T | Exception:
    """Return the result of ``work``, or the exception that it raises: its task must not fail while no round waits for
    it."""
    try:
        return await work
    except Exception as error:
        return error
