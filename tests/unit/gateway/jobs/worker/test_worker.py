"""A worker beside its work: heartbeats, interruptions, announcements, progress."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import OperationalError

from gateway.jobs import outputs, services, spark, tasks
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench, Shown, until


@pytest.fixture
def quick(bench: Bench) -> Bench:
    """A bench with frequent heartbeats, whose leases expire after 50 ms without one."""
    bench.patch.setattr(tasks, "BEAT_S", 0.005)
    bench.patch.setattr(services, "LEASE_MS", 50)
    return bench


def locked(*_: Any, **__: Any) -> bool:
    raise OperationalError("database is locked")


def until_interrupted(bench: Bench, *, obeys: bool) -> Any:
    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        until(bench.interrupted.is_set)
        if obeys:
            raise RuntimeError("OPERATION_CANCELED")
        return bench.two_files(run, directory, progress)

    return work


def hearts() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat-")]


@pytest.mark.parametrize("obeys", [True, False])
def test_a_worker_that_cannot_renew_its_lease_stops_and_closes_nothing(
    quick: Bench, obeys: bool
) -> None:
    run = quick.create()
    quick.analysis = until_interrupted(quick, obeys=obeys)
    with quick.patch.context() as once:
        once.setattr(services, "beat", locked)
        quick.work()
    assert Shown(run).state == "running", "another worker's to decide"
    Shown(run).check_nothing()
    quick.analysis = quick.two_files
    quick.settle(run)
    assert Shown(run).check_one_attempt().startswith("attempt 2")


def test_a_worker_that_lost_its_lease_renews_it_no_more(quick: Bench) -> None:
    beats: list[bool] = []

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        until(quick.interrupted.is_set)
        quick.patch.setattr(services, "beat", lambda *, run: beats.append(True) or True)
        quick.interrupted.clear()
        until(quick.interrupted.is_set)  # the next beat, or what is in its place
        return {}

    run = quick.create()
    quick.analysis = work
    quick.patch.setattr(services, "beat", locked)
    quick.work()
    assert beats == []
    assert Shown(run).state == "running"


def test_a_beat_that_fails_now_and_then_costs_nothing(bench: Bench) -> None:
    bench.patch.setattr(tasks, "BEAT_S", 0.005)
    beats: list[int] = []
    real = services.beat

    def every_other(*, run: JobRun) -> bool:
        beats.append(1)
        return locked() if len(beats) % 2 else real(run=run)

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        until(lambda: len(beats) > 6)
        assert not bench.interrupted.is_set()
        return bench.two_files(run, directory, progress)

    bench.patch.setattr(services, "beat", every_other)
    bench.analysis = work
    run = bench.create()
    bench.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."


@pytest.mark.parametrize("obeys", [True, False])
def test_a_cancellation_interrupts_spark(quick: Bench, obeys: bool) -> None:
    run = quick.create()
    inner = until_interrupted(quick, obeys=obeys)

    def work(*given: Any) -> Any:
        services.cancel(run_id=run.id)
        return inner(*given)

    quick.analysis = work
    quick.work()
    assert Shown(run).state == "cancelled"
    Shown(run).check_nothing()


def test_a_cancelled_run_that_waits_without_spark_ends_at_its_next_report(
    quick: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    run = quick.create()

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        services.cancel(run_id=run.id)
        while True:
            progress("waiting for new messages", 0, 0)
            time.sleep(0.01)

    quick.analysis = work
    quick.work()
    assert Shown(run).state == "cancelled"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert "Traceback" not in JobRun.objects.get(id=run.id).log
    Shown(run).check_nothing()


@pytest.mark.parametrize("hangs", [True, False])
def test_a_cancelled_run_is_closed_though_its_attempt_continues(
    quick: Bench, hangs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Close the run also when Spark does not confirm the interruption."""
    quick.patch.setattr(tasks, "CANCEL_PATIENCE_S", 0.05)
    answer = threading.Event()
    if hangs:
        quick.patch.setattr(spark, "interrupt", lambda run: answer.wait(60))
    run = quick.create()

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        progress("reading the topic", 3, 9)
        services.cancel(run_id=run.id)
        assert (Shown(run).body["cancelling"], Shown(run).state) == (True, "running")
        until(lambda: Shown(run).state == "cancelled")
        progress("too late", 9, 9)
        return quick.two_files(run, directory, progress)

    quick.analysis = work
    quick.work()
    answer.set()
    shown = Shown(run)
    assert (shown.state, shown.body["cancelling"]) == ("cancelled", False)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert shown.body["stage"] == "reading the topic"
    shown.check_nothing()


def test_a_cancelled_run_that_hangs_gives_its_slot_back(quick: Bench) -> None:
    """Stay in a call to a Spark that does not answer, which only the end of the process ends."""
    quick.patch.setattr(tasks, "CANCEL_PATIENCE_S", 0.02)
    quick.patch.setattr(tasks, "END_PATIENCE_S", 0.05)
    run = quick.create()

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        services.cancel(run_id=run.id)
        until(lambda: quick.ended)
        return {}

    quick.analysis = work
    quick.work()
    assert quick.ended[0] == f"run {run.id}"
    assert Shown(run).state == "cancelled", "closed before the process ends"


def test_a_run_without_a_sign_of_life_from_spark_fails_and_gives_its_slot_back(
    quick: Bench,
) -> None:
    quick.patch.setattr(tasks, "END_PATIENCE_S", 0.05)
    run = quick.create()

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        progress("asking Spark", 0, 0)
        quick.patch.setattr(tasks, "SILENT_S", 0.02)
        until(lambda: quick.ended)
        return {}

    quick.analysis = work
    quick.work()
    shown = Shown(run)
    assert (shown.state, shown.body["stage"]) == ("failed", "asking Spark")
    assert shown.body["error"].startswith("Spark has given no sign of life for")
    shown.check_nothing()


def test_a_long_run_whose_progress_spark_reports_continues(quick: Bench) -> None:
    now = [0.0]
    quick.patch.setattr(tasks.time, "monotonic", lambda: now[0])
    beats: list[int] = []
    real = services.beat
    quick.patch.setattr(services, "beat", lambda *, run: (beats.append(1), real(run=run))[1])

    def work(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        for _ in range(10):
            progress.sign(stages=(), inflight_tasks=1, operation_id="", done=False)
            now[0] += tasks.SILENT_S * 0.9
            seen = len(beats)
            before = real_monotonic() + 60
            while len(beats) < seen + 2 and real_monotonic() < before:
                tasks.time.sleep(0.001)
        return quick.two_files(run, directory, progress)

    real_monotonic = time.perf_counter
    quick.patch.setattr(services, "LEASE_MS", 15_000)
    quick.analysis = work
    run = quick.create()
    quick.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."


@pytest.mark.parametrize("hangs", [True, False])
def test_starting_a_hanging_spark_releases_its_slot(bench: Bench, hangs: bool) -> None:
    bench.patch.setattr(tasks, "WARM_S", 0.02 if hangs else 600)
    bench.patch.setattr(spark, "session", lambda: hangs and until(lambda: bench.ended))
    bench.patch.setattr(spark, "warm", lambda session: None)
    tasks.warm()
    assert bench.ended == (["warming Spark"] if hangs else [])


def test_a_run_that_is_wanted_is_not_closed_by_its_heart(quick: Bench) -> None:
    assert not services.close_cancelled(run=quick.create())


def test_a_stopped_run_keeps_its_stage_and_progress(bench: Bench) -> None:
    def fails(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        progress("reading the topic", 3, 9)
        raise RuntimeError("the bookie is away")

    bench.analysis = fails
    run = bench.create()
    bench.work()
    body = Shown(run).body
    assert (body["state"], body["stage"]) == ("failed", "reading the topic")
    assert body["progress"] == {"done": 3, "total": 9}
    waiting = bench.create()
    services.cancel(run_id=waiting.id)
    body = Shown(waiting).body
    assert (body["state"], body["stage"]) == ("cancelled", "waiting for a worker")


def test_an_error_of_a_task_is_reported_by_its_cause() -> None:
    trace = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 1, in read
    raise ReadError("x: y")
engine.ledger.errors.ReadError: entry 7 of ledger 0.1: nothing in time

JVM stacktrace:
org.apache.spark.SparkException: Job aborted: x
"""
    explanation = spark.explain(RuntimeError(trace))
    assert explanation == "ReadError: entry 7 of ledger 0.1: nothing in time"
    lost = RuntimeError(
        "[RESPONSE_ALREADY_RECEIVED] INVALID_HANDLE.SESSION_NOT_FOUND on the server"
    )
    assert spark.explain(lost).startswith("Spark was stopped or restarted while the run")
    assert spark.explain(ValueError("no topic\n  at java")) == "ValueError: no topic"


def test_an_overtaken_attempt_is_interrupted(quick: Bench) -> None:
    run = quick.create()
    inner = until_interrupted(quick, obeys=True)

    def work(*given: Any) -> Any:
        JobRun.objects.filter(id=run.id).update(state=RunState.QUEUED, attempt=2)
        return inner(*given)

    quick.analysis = work
    quick.work()
    assert Shown(run).state == "queued"
    Shown(run).check_nothing()


def test_a_worker_without_room_for_files_releases_the_run(bench: Bench) -> None:
    def full(run: JobRun) -> Path:
        raise OSError(28, "No space left on device")

    bench.patch.setattr(outputs, "create", full)
    run = bench.create()
    bench.work()
    assert Shown(run).state == "failed"
    assert hearts() == []


@pytest.mark.parametrize("function", ["claim", "finish"])
def test_a_database_that_fails_once_costs_at_most_an_attempt(bench: Bench, function: str) -> None:
    run = bench.create()
    with bench.patch.context() as once:
        once.setattr(services, function, locked)
        with pytest.raises(OperationalError):
            bench.work()
    assert hearts() == []
    bench.settle(run)
    Shown(run).check_one_attempt()


def test_an_end_that_was_stored_though_its_answer_was_lost_counts(bench: Bench) -> None:
    run = bench.create()
    bench.at("done", locked)
    with pytest.raises(OperationalError):
        bench.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."


def test_progress_that_cannot_be_stored_costs_nothing(bench: Bench) -> None:
    bench.patch.setattr(services, "report", locked)
    run = bench.create()
    bench.work()
    Shown(run).check_one_attempt()


def test_a_run_is_done_while_its_state_cannot_be_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the shipped layer, with a Redis that refuses connections."""
    layer = RedisPubSubChannelLayer(hosts=["redis://127.0.0.1:1"])
    monkeypatch.setattr("channels.layers.get_channel_layer", lambda: layer)
    run = bench.create()
    bench.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."
