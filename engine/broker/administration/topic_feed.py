"""The feed of rows of the topics that are loaded here."""

from engine.base.clock import Clock
from engine.base.names import TopicName
from engine.broker.administration.change_feed import ChangeFeed, Sweep
from engine.broker.administration.reports import topic_row
from engine.broker.control.row_log import RowLog
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic

SWEEP_ROUNDS = 60
"""Rounds in which every topic is read once, whether or not it was touched."""


class TopicFeed(ChangeFeed):
    """The rows of topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock, incarnation: str) -> None:
        super().__init__(RowLog(), clock, incarnation)
        self._registry = registry
        self._sweep = Sweep(lambda: registry)

    def count(self, touched: list[Topic]) -> None:
        """Update the rows of touched topics, once a second; ``touched`` is what the registry's tick returned."""
        for name in dict.fromkeys(topic.name for topic in touched):
            self._update(name)
        for topic in self._sweep.visit(len(self._log) / SWEEP_ROUNDS):
            if self._registry.loaded(topic.name) is topic:
                self._update(topic.name)
        self._notify()

    def _update(self, name: TopicName) -> None:
        topic = self._registry.loaded(name)
        if topic is None:
            self._log.drop(name.full)
        else:
            self._log.put(topic_row(topic))
