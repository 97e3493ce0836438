"""Values of the metrics of replication, by topic or namespace and remote cluster."""

from collections.abc import Iterator

from engine.base.metrics import labels_of
from engine.broker.administration.reports import sources_of
from engine.broker.topics.topic import Topic

_SUMMED = 9
"""Number of values that are summed over the topics of a namespace; of the last one the largest counts."""
Values = tuple[float, ...]
"""Values in the order of the families REPLICATION."""


def replication_values(topic: Topic) -> Iterator[tuple[str, Values]]:
    """Yield each cluster that the topic is sent to, with its values."""
    replicators = topic.replication.replicators
    sources = sources_of(topic) if replicators else {}
    for remote, replicator in replicators.items():
        source, sent = sources.get(remote), replicator.sent
        received = None if source is None else source.published
        yield (
            remote,
            (
                0.0 if received is None else received.messages.per_second,
                sent.messages.per_second,
                0.0 if received is None else received.bytes.per_second,
                sent.bytes.per_second,
                replicator.backlog,
                replicator.expired.per_second,
                int(replicator.connected),
                int(not replicator.connected),
                replicator.restarts,
                replicator.delay_s,
            ),
        )


class ReplicationRows:
    """Rows of the families REPLICATION: a topic's own, or of its namespace when ``topics`` is False."""

    def __init__(self, cluster: str, *, topics: bool) -> None:
        self._cluster = cluster
        self._topics = topics
        self._rows: dict[str, Values] = {}

    def add(self, topic: Topic) -> None:
        for remote, values in replication_values(topic):
            about = {"cluster": self._cluster, "namespace": str(topic.name.namespace)}
            if self._topics:
                about["topic"] = topic.name.full
            labels = labels_of(**about, remote_cluster=remote)
            before = self._rows.get(labels)
            self._rows[labels] = values if before is None else _joined(before, values)

    @property
    def rows(self) -> list[tuple[str, Values]]:
        """Labels and values."""
        return list(self._rows.items())


def _joined(a: Values, b: Values) -> Values:
    sums = tuple(x + y for x, y in zip(a[:_SUMMED], b[:_SUMMED], strict=True))
    return (*sums, max(a[_SUMMED], b[_SUMMED]))
