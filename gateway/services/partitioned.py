"""Sums of partitions' statistics, as Pulsar's partitioned-stats route forms them. Pure."""

from collections import Counter
from typing import Any

Json = dict[str, Any]

# What means nothing when added up: the largest, or the first, of the partitions' values stands for all.
_LARGEST = frozenset(
    {
        "lastConsumedTimestamp", "lastAckedTimestamp", "lastConsumedFlowTimestamp", "lastExpireTimestamp",
        "lastMarkDeleteAdvancedTimestamp", "lastPublishTimeStamp", "topicCreationTimeStamp",
        "oldestBacklogMessageAgeSeconds", "backlogQuotaLimitSize", "backlogQuotaLimitTime", "lastOffloadLedgerId",
        "lastOffloadSuccessTimeStamp", "lastOffloadFailureTimeStamp", "topicEpoch",
    }
)  # fmt: skip
_AGE, _OLDEST = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
_PUBLISHED = ("msgRateIn", "msgThroughputIn", "chunkedMessageRate")
_OF_ONE = frozenset(
    {"address", "connectedSince", "clientVersion", "metadata", "keyHashRangeArrays", "drainingHashes"}
)  # fmt: skip
"""What a consumer has in each partition for itself."""
_EARLIEST = frozenset({"earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog"})

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
"""Of a topic none of whose partitions is served."""


def sum_stats(parts: list[Json]) -> Json:
    """One TopicStats out of those of the partitions; ``publishers`` and consumers that have the same name, or
    place, in several partitions are one."""
    if not parts:
        return _NOTHING | {"publishers": [], "subscriptions": {}, "replication": {}}
    total = _sum(parts)
    rates = total.get("msgRateIn") or 0.0
    total["averageMsgSize"] = total.get("msgThroughputIn", 0.0) / rates if rates else 0.0
    for name in ("ownerBroker", "deduplicationStatus", "oldestUnacknowledgedAt"):
        total.pop(name, None)
    return total


def _sum(parts: list[Json]) -> Json:
    keys = dict.fromkeys(key for part in parts for key in part)
    found = {key: _merged(key, [part[key] for part in parts if key in part]) for key in keys}
    if _OLDEST in found:
        found[_OLDEST] = max(parts, key=lambda part: int(part.get(_AGE, -1))).get(_OLDEST)
    if _AGE in found:
        found[_AGE] = max(found[_AGE], 0)
    return found


def _publishers(parts: list[list[Json]]) -> list[Json]:
    """Those of one producer as one: by name where the client says that some partitions may have none of it, else those
    at the same place."""
    groups: dict[str | int, list[Json]] = {}
    for part in parts:
        for place, one in enumerate(part):
            partial = one.get("supportsPartialProducer")
            groups.setdefault(one["producerName"] if partial else place, []).append(one)
    found = []
    for key, group in groups.items():
        merged: Json = {name: sum(one[name] for one in group) for name in _PUBLISHED}
        rate = merged["msgRateIn"]
        merged["averageMsgSize"] = merged["msgThroughputIn"] / rate if rate else 0.0
        merged |= {"producerId": 0, "supportsPartialProducer": isinstance(key, str)}
        found.append(merged | ({"producerName": key} if isinstance(key, str) else {}))
    return found


def _consumers(parts: list[list[Json]]) -> list[Json]:
    """Those of the same name as one, the n-th of a name with the n-th in other partitions."""
    groups: dict[tuple[str, int], list[Json]] = {}
    for part in parts:
        seen: Counter[str] = Counter()
        for one in part:
            name = one["consumerName"]
            groups.setdefault((name, seen[name]), []).append(one)
            seen[name] += 1
    return [_sum([_without(one, _OF_ONE) for one in group]) for group in groups.values()]


def _without(one: Json, names: frozenset[str]) -> Json:
    return {name: value for name, value in one.items() if name not in names} | {
        "avgMessagesPerEntry": 0
    }


def _merged(key: str, values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, bool):
        return any(values)
    if isinstance(first, int | float):
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
