"""Sums of partitions' statistics, as Pulsar's partitioned-stats route computes them. Pure."""

from collections import Counter
from typing import Any

Json = dict[str, Any]

# Values whose sum means nothing: the largest of the partitions' values is reported.
_LARGEST = frozenset(
    {
        "lastConsumedTimestamp", "lastAckedTimestamp", "lastConsumedFlowTimestamp", "lastExpireTimestamp",
        "lastMarkDeleteAdvancedTimestamp", "lastPublishTimeStamp", "topicCreationTimeStamp",
        "oldestBacklogMessageAgeSeconds", "backlogQuotaLimitSize", "backlogQuotaLimitTime", "lastOffloadLedgerId",
        "lastOffloadSuccessTimeStamp", "lastOffloadFailureTimeStamp", "topicEpoch", "lastSnapshotTimestamp",
        "lastUpdateSentTimestamp", "lastUpdateAppliedTimestamp", "lastCompactionSucceedTimestamp",
        "lastCompactionFailedTimestamp",
    }
)  # fmt: skip
_AGE, _OLDEST = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
_PUBLISHED = ("msgRateIn", "msgThroughputIn", "chunkedMessageRate")
_OF_PARTITION = frozenset(
    {"address", "connectedSince", "clientVersion", "metadata", "keyHashRangeArrays", "drainingHashes"}
)  # fmt: skip
"""Fields of a consumer that belong to one partition, and are left out of the sum."""
_OLDEST_AT = "oldestUnacknowledgedAt"
_EARLIEST = frozenset(
    {"earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog", _OLDEST_AT}
)
_UNKNOWN = -1
_UNKNOWN_OF_ONE = frozenset({_OLDEST_AT, "backlogSize"})
"""Values that are not known of the whole when they are not of one partition."""

_RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "averageMsgSize")
_COUNTS = (
    "bytesInCounter", "msgInCounter", "systemTopicBytesInCounter", "bytesOutCounter", "msgOutCounter",
    "bytesOutInternalCounter", "storageSize", "backlogSize", "backlogQuotaLimitSize", "backlogQuotaLimitTime",
    "oldestBacklogMessageAgeSeconds", "publishRateLimitedTimes", "earliestMsgPublishTimeInBacklogs",
    "offloadedStorageSize", "lastOffloadLedgerId", "lastOffloadSuccessTimeStamp", "lastOffloadFailureTimeStamp",
    "ongoingTxnCount", "abortedTxnCount", "committedTxnCount", "waitingPublishers",
    "nonContiguousDeletedMessagesRanges", "nonContiguousDeletedMessagesRangesSerializedSize",
    "delayedMessageIndexSizeInBytes",
)  # fmt: skip
_COMPACTED = (
    "lastCompactionRemovedEventCount", "lastCompactionSucceedTimestamp", "lastCompactionFailedTimestamp",
    "lastCompactionDurationTimeInMills",
)  # fmt: skip
_NOTHING = {
    **dict.fromkeys(_RATES, 0.0),
    **dict.fromkeys(_COUNTS, 0),
    "msgChunkPublished": False,
    "compaction": dict.fromkeys(_COMPACTED, 0),
}
"""The statistics of a topic none of whose partitions is served."""


def sum_stats(parts: list[Json]) -> Json:
    """Return one TopicStats for those of the partitions; ``publishers`` and consumers that have the same name, or
    index, in several partitions are merged."""
    if not parts:
        return _NOTHING | {"publishers": [], "subscriptions": {}, "replication": {}}
    total = _sum(parts)
    rates = total.get("msgRateIn") or 0.0
    total["averageMsgSize"] = total.get("msgThroughputIn", 0.0) / rates if rates else 0.0
    for name in ("ownerBroker", "deduplicationStatus"):
        total.pop(name, None)
    return total


def _sum(parts: list[Json]) -> Json:
    keys = dict.fromkeys(key for part in parts for key in part)
    total = {key: _merged(key, [part[key] for part in parts if key in part]) for key in keys}
    if _OLDEST in total:  # the name belongs to the age: both come from the same partition
        total[_OLDEST] = max(parts, key=lambda part: int(part.get(_AGE, -1))).get(_OLDEST)
    if _AGE in total:
        total[_AGE] = max(total[_AGE], 0)
    return total


def _publishers(parts: list[list[Json]]) -> list[Json]:
    """Merge the publishers of one producer: by name where the client may be attached to some partitions only, else by
    index."""
    groups: dict[str | int, list[Json]] = {}
    for part in parts:
        for index, publisher in enumerate(part):
            partial = publisher.get("supportsPartialProducer")
            key = publisher["producerName"] if partial else index
            groups.setdefault(key, []).append(publisher)
    publishers = []
    for key, group in groups.items():
        merged: Json = {name: sum(publisher[name] for publisher in group) for name in _PUBLISHED}
        rate = merged["msgRateIn"]
        merged["averageMsgSize"] = merged["msgThroughputIn"] / rate if rate else 0.0
        merged |= {"producerId": 0, "supportsPartialProducer": isinstance(key, str)}
        publishers.append(merged | ({"producerName": key} if isinstance(key, str) else {}))
    return publishers


def _consumers(parts: list[list[Json]]) -> list[Json]:
    """Merge the consumers of the same name, the n-th of a name with the n-th in other partitions."""
    groups: dict[tuple[str, int], list[Json]] = {}
    for part in parts:
        seen: Counter[str] = Counter()
        for consumer in part:
            name = consumer["consumerName"]
            groups.setdefault((name, seen[name]), []).append(consumer)
            seen[name] += 1
    return [_sum([_of_topic(consumer) for consumer in group]) for group in groups.values()]


def _of_topic(consumer: Json) -> Json:
    """Return a consumer's statistics without those of its partition alone."""
    kept = {name: value for name, value in consumer.items() if name not in _OF_PARTITION}
    return kept | {"avgMessagesPerEntry": 0}


def _merged(key: str, values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, bool):
        return any(values)
    if isinstance(first, int | float):
        if key in _UNKNOWN_OF_ONE and _UNKNOWN in values:
            return _UNKNOWN
        if key in _LARGEST:
            return max(values)
        if key in _EARLIEST:
            return min((value for value in values if value > 0), default=0)
        return sum(values)
    if key == "publishers":
        return _publishers(values)
    if key == "consumers":
        return _consumers(values)
    if isinstance(first, list):
        return [item for value in values for item in value]
    if key in ("subscriptions", "replication"):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    if isinstance(first, dict) and key == "compaction":
        return _sum(values)
    return first
