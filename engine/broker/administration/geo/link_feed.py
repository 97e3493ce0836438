"""The feed of rows of replicated topics: figures of each other cluster that a topic is sent to or received from.

Work is proportional to the number of touched topics; a topic of one cluster costs two lookups. Besides, each topic with
a row is read once in ``SWEEP_ROUNDS``, for changes that touch no topic.
"""

from engine.base.clock import Clock
from engine.broker.administration.change_feed import ChangeFeed, Sweep
from engine.broker.administration.reports import sources_of
from engine.broker.control.row_log import Row, RowLog
from engine.broker.topics.geo.replicator import Replicator
from engine.broker.topics.publish import Producer
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic

SWEEP_ROUNDS = 10
"""Rounds in which every replicated topic is read once."""
WHY_MAX = 300
"""Characters after which reasons are cut."""
LINK_BYTES = 120
"""Approximate bytes of a cluster in an answer, beside its reason."""


class LinkFeed(ChangeFeed):
    """The replication of loaded topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock, incarnation: str) -> None:
        super().__init__(RowLog(_row_bytes), clock, incarnation)
        self._registry = registry
        self._linked: dict[Topic, None] = {}
        self._sweep = Sweep(lambda: list(self._linked))

    def count(self, touched: list[Topic]) -> None:
        """Update the rows of touched topics, once a second; ``touched`` is what the registry's tick returned."""
        due = dict.fromkeys(touched)
        due |= dict.fromkeys(self._sweep.visit(len(self._linked) / SWEEP_ROUNDS))
        for topic in due:
            self._update(topic)
        self._notify()

    def _update(self, topic: Topic) -> None:
        name = topic.name.full
        loaded = self._registry.loaded(topic.name)
        if loaded is not topic:
            self._linked.pop(topic, None)
            if loaded is None and name in self._log:
                self._log.drop(name)
            return
        replicators, sources = topic.replication.replicators, sources_of(topic)
        if replicators or sources:
            self._linked[topic] = None
            links = [
                [cluster, _sent(replicators.get(cluster)), _received(sources.get(cluster))]
                for cluster in sorted(replicators.keys() | sources.keys())
            ]
            self._log.put([name, *links])
        elif name in self._log:
            self._linked.pop(topic, None)
            self._log.drop(name)


def _sent(replicator: Replicator | None) -> list[object] | None:
    if replicator is None:
        return None
    cause = replicator.cause
    return [
        replicator.backlog,
        replicator.oldest_ms(),
        round(replicator.sent.messages.per_second * 1000),
        round(replicator.sent.bytes.per_second * 1000),
        None if cause is None else cause.value,
        replicator.error[:WHY_MAX],
        0 if replicator.connected else replicator.stopped_ms,
    ]


def _received(source: Producer | None) -> list[object] | None:
    if source is None:
        return None
    published = source.published
    return [round(published.messages.per_second * 1000), round(published.bytes.per_second * 1000)]


def _row_bytes(row: Row) -> int:
    links = [link for link in row if isinstance(link, list)]
    return sum(LINK_BYTES + (len(link[1][5]) if link[1] else 0) for link in links)
