"""Status and statistics have the fields of Pulsar's REST interface."""

import pytest

from engine.functions.ports import Component
from engine.functions.runtime.ports import (
    InstanceStats,
    InstanceStatus,
    InstanceTrouble,
    IntervalStats,
)
from engine.functions.worker.answering import instance_reports as reports

TROUBLES = [InstanceTrouble("Traceback", 5)]
FIELDS = {
    "function": {
        *("running", "error", "numRestarts", "numReceived", "numSuccessfullyProcessed"),
        *("numUserExceptions", "latestUserExceptions", "numSystemExceptions"),
        *("latestSystemExceptions", "averageLatency", "lastInvocationTime", "workerId"),
    },
    "sink": {
        *("running", "error", "numRestarts", "numReadFromPulsar", "numSystemExceptions"),
        *("latestSystemExceptions", "numSinkExceptions", "latestSinkExceptions"),
        *("numWrittenToSink", "lastReceivedTime", "workerId"),
    },
    "source": {
        *("running", "error", "numRestarts", "numReceivedFromSource", "numSystemExceptions"),
        *("latestSystemExceptions", "numSourceExceptions", "latestSourceExceptions"),
        *("numWritten", "lastReceivedTime", "workerId"),
    },
}


@pytest.mark.parametrize("component", ["function", "source", "sink"])
def test_a_running_instance_has_all_fields_and_a_stopped_one_no_lists(component: Component) -> None:
    running = reports.status_of(component, InstanceStatus(running=True), 1, "w")
    assert set(running) == FIELDS[component]
    stopped = reports.not_running(component, "", 1, "w")
    assert set(stopped) == {name for name in FIELDS[component] if not name.startswith("latest")}


def test_exceptions_have_text_and_time() -> None:
    status = InstanceStatus(running=True, user_exceptions=1, latest_user_exceptions=TROUBLES)
    shown = reports.status_of("function", status, 0, "w")
    assert shown["latestUserExceptions"] == [{"exceptionString": "Traceback", "timestampMs": 5}]


def test_the_status_of_all_counts_those_that_run() -> None:
    rows = {
        1: reports.not_running("function", "x", 0, "w"),
        0: reports.status_of("function", InstanceStatus(running=True), 0, "w"),
    }
    status = reports.status_of_all(rows)
    assert (status["numInstances"], status["numRunning"]) == (2, 1)
    assert [row["instanceId"] for row in status["instances"]] == [0, 1]


def test_statistics_are_sums_and_the_average_is_of_what_was_processed() -> None:
    busy = reports.stats_of(
        InstanceStats(
            IntervalStats(received=4, processed=3, average_latency_ms=2.0),
            IntervalStats(received=1),
            last_invocation_ms=9,
            user_metrics={"user_metric_m_count": 1.0},
        )
    )
    total = reports.stats_of_all({0: busy, 1: reports.NO_STATS})
    assert (total["receivedTotal"], total["1min"]["receivedTotal"]) == (4, 1)
    assert (total["avgProcessLatency"], total["lastInvocation"]) == (2.0, 9)
    assert total["instances"][0]["metrics"]["userMetrics"] == {"user_metric_m_count": 1.0}
    nothing = reports.stats_of_all({0: reports.NO_STATS})
    assert (nothing["avgProcessLatency"], nothing["lastInvocation"]) == (None, None)
