"""Status and statistics of instances in the form of Pulsar's REST interface. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from engine.admin.api.arguments import JsonObject
from engine.functions.ports import Component
from engine.functions.runtime.ports import (
    InstanceStats,
    InstanceStatus,
    InstanceTrouble,
    IntervalStats,
)

NOT_SCHEDULED = "The instance is not assigned to a worker yet"


def status_of(
    component: Component, status: InstanceStatus, restarts: int, worker: str
) -> JsonObject:
    """Return the status of an instance. The lists of exceptions are absent where it does not run, as Apache's are."""
    running = status.running
    system = {
        "numSystemExceptions": status.system_exceptions,
        **_latest("latestSystemExceptions", status.latest_system_exceptions, running),
    }
    head: JsonObject = {"running": running, "error": status.error, "numRestarts": restarts}
    if status.cpu_limit:
        head["cpuLimit"] = status.cpu_limit
    if component == "function":
        return {
            **head,
            "numReceived": status.received,
            "numSuccessfullyProcessed": status.processed,
            "numUserExceptions": status.user_exceptions,
            **_latest("latestUserExceptions", status.latest_user_exceptions, running),
            **system,
            "averageLatency": status.average_latency_ms or 0.0,
            "lastInvocationTime": status.last_invocation_ms or 0,
            "workerId": worker,
        }
    if component == "sink":
        return {
            **head,
            "numReadFromPulsar": status.received,
            **system,
            "numSinkExceptions": status.sink_exceptions,
            **_latest("latestSinkExceptions", status.latest_sink_exceptions, running),
            "numWrittenToSink": status.written,
            "lastReceivedTime": status.last_invocation_ms or 0,
            "workerId": worker,
        }
    return {
        **head,
        "numReceivedFromSource": status.received,
        **system,
        "numSourceExceptions": status.source_exceptions,
        **_latest("latestSourceExceptions", status.latest_source_exceptions, running),
        "numWritten": status.written,
        "lastReceivedTime": status.last_invocation_ms or 0,
        "workerId": worker,
    }


def not_running(component: Component, error: str, restarts: int, worker: str) -> JsonObject:
    """Return the status of an instance that does not run; ``error`` is empty for a stopped one."""
    return status_of(component, InstanceStatus(running=False, error=error), restarts, worker)


def status_of_all(instances: Mapping[int, JsonObject]) -> JsonObject:
    """Return FunctionStatus, SourceStatus or SinkStatus."""
    return {
        "numInstances": len(instances),
        "numRunning": sum(bool(status["running"]) for status in instances.values()),
        "instances": [
            {"instanceId": instance, "status": status}
            for instance, status in sorted(instances.items())
        ],
    }


def stats_of(stats: InstanceStats) -> JsonObject:
    """Return the metrics of an instance."""
    return {
        **_interval(stats.total),
        "1min": _interval(stats.last_minute),
        "lastInvocation": stats.last_invocation_ms,
        "userMetrics": dict(stats.user_metrics),
        "latencyBuckets": dict(stats.latency_buckets),
    }


def stats_of_all(instances: Mapping[int, JsonObject]) -> JsonObject:
    """Return FunctionStats: sums, which are null while one is not known, and averages of what was processed."""
    total = _sum(instances.values())
    minute = _sum(metrics["1min"] for metrics in instances.values())
    last = [at for metrics in instances.values() if (at := metrics["lastInvocation"])]
    return {
        **total,
        "1min": minute,
        "lastInvocation": max(last, default=None),
        "instances": [
            {"instanceId": instance, "metrics": metrics}
            for instance, metrics in sorted(instances.items())
        ],
    }


def _interval(stats: IntervalStats) -> JsonObject:
    return {
        "receivedTotal": stats.received,
        "processedSuccessfullyTotal": stats.processed,
        "systemExceptionsTotal": stats.system_exceptions,
        "userExceptionsTotal": stats.user_exceptions,
        "avgProcessLatency": stats.average_latency_ms,
    }


_COUNTS = (
    *("receivedTotal", "processedSuccessfullyTotal"),
    *("systemExceptionsTotal", "userExceptionsTotal"),
)


def _sum(intervals: Iterable[JsonObject]) -> JsonObject:
    rows = list(intervals)
    averages = [row["avgProcessLatency"] for row in rows if row["avgProcessLatency"] is not None]
    return {
        **{name: _total([row[name] for row in rows]) for name in _COUNTS},
        "avgProcessLatency": sum(averages) / len(averages) if averages else None,
    }


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum; None when one of the counts is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _latest(name: str, troubles: Sequence[InstanceTrouble], running: bool) -> JsonObject:
    if not running and not troubles:
        return {}
    rows = [{"exceptionString": item.text, "timestampMs": item.at_ms} for item in troubles]
    return {name: rows}


NO_STATS = stats_of(InstanceStats(IntervalStats(), IntervalStats()))
"""The metrics of an instance that does not run."""

UNKNOWN_STATS = {
    **NO_STATS,
    **dict.fromkeys(_COUNTS),
    "1min": {**NO_STATS["1min"], **dict.fromkeys(_COUNTS)},
}
"""The metrics of an instance that does not answer: null, which Pulsar's clients read as none."""
