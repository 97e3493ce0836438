"""The feed of a kind of rows: the rows that changed, at every count of the broker, which counts once a second.

Only topics that can have changed are read, and only rows that differ are sent. Gateways request changes repeatedly,
each from the revision that it has; the broker keeps no state for them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import RowsSince
from engine.base.clock import Clock
from engine.base.errors import NotReady
from engine.broker.control.row_log import RowLog
from engine.broker.topics.topic import Topic

WAIT_MAX_S = 1.5
"""Time after which an answer is sent without a new count; it has the time of the last one."""


class ChangeFeed:
    """The changes in ``log``, at every count of the broker. ``incarnation``: a text that is unique to this process."""

    def __init__(self, log: RowLog, clock: Clock, incarnation: str) -> None:
        self._log = log
        self._clock = clock
        self._incarnation = incarnation
        self._at = 0
        self._counted = asyncio.Event()

    def _notify(self) -> None:
        """Answer waiting requests: the rows are those of this moment."""
        self._at = self._clock.wall_ms()
        counted, self._counted = self._counted, asyncio.Event()
        counted.set()

    async def since(self, request: RowsSince) -> JsonObject:
        """Return the changes since a revision, see ``RowsSince``; without any, wait for the next count. Cancel-safe.
        Raises NotReady before the first count."""
        revision, begun = 0, 0
        if request.incarnation == self._incarnation:
            revision, begun = request.revision, request.begun
        if revision == self._log.revision or not self._at:
            try:
                async with asyncio.timeout(WAIT_MAX_S):
                    await self._counted.wait()
            except TimeoutError:
                pass
        if not self._at:
            raise NotReady("The broker has not counted its topics yet")
        changes = self._log.since(revision, begun)
        return {"at": self._at, "incarnation": self._incarnation, **changes._asdict()}


class Sweep:
    """Visits to all of ``topics`` in turn, for changes that touch no topic."""

    def __init__(self, topics: Callable[[], Iterable[Topic]]) -> None:
        self._topics = topics
        self._ahead: Iterator[Topic] = iter(())
        self._due = 0.0

    def visit(self, share: float) -> Iterator[Topic]:
        """Yield the next topics of a round that visits ``share`` topics on average. They may have been unloaded."""
        self._due += share
        while self._due >= 1:
            self._due -= 1
            topic = next(self._ahead, None)
            if topic is None:
                self._ahead = iter(self._topics())
            else:
                yield topic
