"""The rows of the topics loaded here, for whoever keeps a list of them: what changed, as often as the broker counts.

Only topics of which something can have changed are looked at, and then only rows that differ are told. Gateways ask
again and again, each from where it stands; nothing is kept for them.
"""

import asyncio
from collections.abc import Iterator

from engine.admin.api import JsonObject, TopicRows
from engine.base.clock import Clock
from engine.base.errors import NotReady
from engine.base.names import TopicName
from engine.broker.administration.reports import topic_row
from engine.broker.control.row_log import RowLog
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic

WAIT_MAX_S = 1.5
"""An answer goes out after this time even when nothing was counted: it says how old its rows are."""
SWEEP_ROUNDS = 60
"""Every topic is looked at once in so many rounds, whether or not it was touched."""


class Teller:
    """Tells whoever asks what changed in ``log``, as often as the broker counts. ``incarnation``: a text that no other
    life of a broker has."""

    def __init__(self, log: RowLog, clock: Clock, incarnation: str) -> None:
        self._log = log
        self._clock = clock
        self._incarnation = incarnation
        self._at = 0
        self._counted = asyncio.Event()

    def _tell(self) -> None:
        """The rows are as of now."""
        self._at = self._clock.wall_ms()
        counted, self._counted = self._counted, asyncio.Event()
        counted.set()

    async def since(self, asked: TopicRows) -> JsonObject:
        """See ``TOPIC_ROWS``. Cancel-safe. Raises NotReady before the first count."""
        revision, begun = 0, 0
        if asked.incarnation == self._incarnation:
            revision, begun = asked.revision, asked.begun
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


class RowFeed(Teller):
    """The rows of topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock, incarnation: str) -> None:
        super().__init__(RowLog(), clock, incarnation)
        self._registry = registry
        self._swept: Iterator[Topic] = iter(())
        self._due = 0.0
        """Topics that the sweep has to look at now."""

    def count(self, touched: list[Topic]) -> None:
        """Once a second, with the topics that the registry's tick gave."""
        for name in dict.fromkeys(topic.name for topic in touched):
            self._look(name)
        self._sweep()
        self._tell()

    def _sweep(self) -> None:
        self._due += len(self._log) / SWEEP_ROUNDS
        while self._due >= 1:
            self._due -= 1
            topic = next(self._swept, None)
            if topic is None:
                self._swept = iter(self._registry)
            elif self._registry.loaded(topic.name) is topic:
                self._look(topic.name)

    def _look(self, name: TopicName) -> None:
        topic = self._registry.loaded(name)
        if topic is None:
            self._log.drop(name.full)
        else:
            self._log.put(topic_row(topic))
