"""Sums of partitions' statistics, as Pulsar's partitioned-stats route forms them. Pure."""

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
_EARLIEST = frozenset({"earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog"})


def sum_stats(parts: list[Json]) -> Json:
    """One TopicStats out of those of the partitions; ``publishers`` and consumers are listed one after the other."""
    if not parts:
        return {
            "msgRateIn": 0.0, "msgThroughputIn": 0.0, "msgRateOut": 0.0, "msgThroughputOut": 0.0, "bytesInCounter": 0,
            "msgInCounter": 0, "bytesOutCounter": 0, "msgOutCounter": 0, "averageMsgSize": 0.0, "storageSize": 0,
            "backlogSize": 0, "publishers": [], "subscriptions": {}, "replication": {},
        }  # fmt: skip
    total = _sum(parts)
    rates = total.get("msgRateIn") or 0.0
    total["averageMsgSize"] = total.get("msgThroughputIn", 0.0) / rates if rates else 0.0
    total.pop("ownerBroker", None)
    return total


def _sum(parts: list[Json]) -> Json:
    keys = dict.fromkeys(key for part in parts for key in part)
    found = {key: _merged(key, [part[key] for part in parts if key in part]) for key in keys}
    if _OLDEST in found:
        found[_OLDEST] = max(parts, key=lambda part: int(part.get(_AGE, -1))).get(_OLDEST)
    return found


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
    if isinstance(first, list):
        return [item for value in values for item in value]
    if key in ("subscriptions", "replication"):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    if isinstance(first, dict) and key == "compaction":
        return _sum(values)
    return first
