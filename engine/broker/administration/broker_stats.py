"""Statistics of a broker's topics: a topic's line in ``broker-stats/topics``, sums by namespace."""

from collections import defaultdict
from collections.abc import Iterable

from engine.admin.api.arguments import JsonObject
from engine.admin.api.statistics import TopicStats
from engine.broker.administration import reports
from engine.broker.topics.topic import Topic

_TOPIC = {
    "publishers": "publishers",
    "replication": "replication",
    "averageMsgSize": "averageMsgSize",
    "msgRateIn": "msgRateIn",
    "msgRateOut": "msgRateOut",
    "msgInCount": "msgInCounter",
    "bytesInCount": "bytesInCounter",
    "msgOutCount": "msgOutCounter",
    "bytesOutCount": "bytesOutCounter",
    "msgThroughputIn": "msgThroughputIn",
    "msgThroughputOut": "msgThroughputOut",
    "storageSize": "storageSize",
    "backlogSize": "backlogSize",
}
"""Fields of a topic's line, with their names in TopicStats."""
_PUBLISHER = (
    *("msgRateIn", "msgThroughputIn", "averageMsgSize", "address", "producerId", "producerName"),
    *("connectedSince", "clientVersion", "metadata"),
)
_SUBSCRIPTION = (
    *("consumers", "msgBacklog", "msgRateExpired", "msgRateOut", "messageAckRate"),
    *("msgThroughputOut", "msgRateRedeliver", "type"),
    *(f"filter{what}MsgCount" for what in ("Processed", "Accepted", "Rejected", "Rescheduled")),
)
_CONSUMER = (
    *("address", "consumerName", "availablePermits", "connectedSince", "msgRateOut"),
    *("msgThroughputOut", "msgRateRedeliver", "avgMessagesPerEntry", "messageAckRate"),
    *("clientVersion", "metadata"),
)


def topic_line(topic: Topic, owner: str) -> JsonObject:
    """Return a topic's line with Pulsar's fields."""
    stats = reports.topic_stats(topic, TopicStats(topic.name), owner)
    line = {name: stats[stats_name] for name, stats_name in _TOPIC.items()}
    line["publishers"] = [_only(publisher, _PUBLISHER) for publisher in stats["publishers"]]
    line["producerCount"] = len(line["publishers"])
    line["subscriptions"] = {
        name: _subscription_line(subscription)
        for name, subscription in stats["subscriptions"].items()
    }
    return {
        **line,
        "pendingAddEntriesCount": topic.log.stats().pending_entries,
        "filteredEntriesCount": 0,
    }


def _subscription_line(stats: JsonObject) -> JsonObject:
    return {
        **_only(stats, _SUBSCRIPTION),
        "consumers": [_only(consumer, _CONSUMER) for consumer in stats["consumers"]],
        "totalNonContiguousDeletedMessagesRange": stats["nonContiguousDeletedMessagesRanges"],
    }


def _only(stats: JsonObject, names: Iterable[str]) -> JsonObject:
    return {name: stats[name] for name in names if name in stats}


class _Sums:
    """Sums of the statistics of several topics."""

    def __init__(self) -> None:
        self.topics = self.producers = self.consumers = self.subscriptions = 0
        self.backlog = self.storage = self.replicators = self.not_replicated = 0
        self.rate_in = self.bytes_in = self.rate_out = self.bytes_out = 0.0

    def add(self, topic: Topic) -> None:
        self.topics += 1
        self.producers += len(topic.producers)
        self.rate_in += topic.published.messages.per_second
        self.bytes_in += topic.published.bytes.per_second
        self.storage += topic.log.stats().size
        for replicator in topic.replication.replicators.values():
            self.replicators += 1
            self.not_replicated += replicator.backlog
        for subscription in topic.subscriptions.values():
            self.subscriptions += 1
            self.consumers += len(subscription.consumers)
            self.backlog += subscription.cursor.backlog_entries()
            messages, size = reports.rate_out(subscription)
            self.rate_out += messages
            self.bytes_out += size


def namespace_metrics(topics: Iterable[Topic]) -> list[JsonObject]:
    """Return Pulsar's Metrics of each namespace."""
    by_namespace: dict[str, _Sums] = defaultdict(_Sums)
    for topic in topics:
        by_namespace[str(topic.name.namespace)].add(topic)
    return [
        {
            "metrics": {
                "brk_in_rate": sums.rate_in,
                "brk_in_tp_rate": sums.bytes_in,
                "brk_out_rate": sums.rate_out,
                "brk_out_tp_rate": sums.bytes_out,
                "brk_no_of_producers": sums.producers,
                "brk_no_of_consumers": sums.consumers,
                "brk_no_of_subscriptions": sums.subscriptions,
                "brk_no_of_replicators": sums.replicators,
                "brk_msg_backlog": sums.backlog,
                "brk_storage_size": sums.storage,
                "brk_replication_backlog": sums.not_replicated,
            },
            "dimensions": {"namespace": namespace},
        }
        for namespace, sums in sorted(by_namespace.items())
    ]
