"""The feed of rows of the topics that are loaded here: the changed rows, at every count of the broker.

Only topics that can have changed are read, and only rows that differ are sent. Gateways request changes repeatedly,
each from the revision that it has; the broker keeps no state for them.
"""

import asyncio
from collections.abc import Iterator

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import TopicRows
from engine.base.clock import Clock
from engine.base.errors import NotReady
from engine.base.names import TopicName
from engine.broker.administration.reports import topic_row
from engine.broker.control.row_log import RowLog
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic

WAIT_MAX_S = 1.5
"""Time after which an answer is sent without a new count; it has the time of the last one."""
SWEEP_ROUNDS = 60
"""Rounds in which every topic is read once, whether or not it was touched."""


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

    async def since(self, request: TopicRows) -> JsonObject:
        """Return the changes since a revision, see ``TOPIC_ROWS``; without any, wait for the next count. Cancel-safe.
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


class RowFeed(ChangeFeed):
    """The rows of topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock, incarnation: str) -> None:
        super().__init__(RowLog(), clock, incarnation)
        self._registry = registry
        self._swept: Iterator[Topic] = iter(())
        self._due = 0.0
        """Number of topics that the sweep has to read now."""

    def count(self, touched: list[Topic]) -> None:
        """Update the rows of touched topics, once a second; ``touched`` is what the registry's tick returned."""
        for name in dict.fromkeys(topic.name for topic in touched):
            self._update(name)
        self._sweep()
        self._notify()

    def _sweep(self) -> None:
        self._due += len(self._log) / SWEEP_ROUNDS
        while self._due >= 1:
            self._due -= 1
            topic = next(self._swept, None)
            if topic is None:
                self._swept = iter(self._registry)
            elif self._registry.loaded(topic.name) is topic:
                self._update(topic.name)

    def _update(self, name: TopicName) -> None:
        topic = self._registry.loaded(name)
        if topic is None:
            self._log.drop(name.full)
        else:
            self._log.put(topic_row(topic))
