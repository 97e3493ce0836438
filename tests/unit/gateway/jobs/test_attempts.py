"""Failures of a worker at every step of an attempt: a run shows one attempt's result and files, or none."""

from pathlib import Path
from typing import Any

import pytest

from gateway.jobs import outputs, services, spark, tasks
from gateway.jobs.models import JobRun
from tests.unit.gateway.jobs.bench import STEPS, Bench, Killed, Shown


def test_a_run_shows_what_its_attempt_made(bench: Bench) -> None:
    run = bench.create()
    assert bench.messages == [(run.id, 1)]
    bench.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_dies_costs_an_attempt(bench: Bench, step: str) -> None:
    def dies() -> None:
        raise Killed

    run = bench.create()
    bench.at(step, dies)
    bench.work()
    assert Shown(run).state == {"claim": "queued", "done": "succeeded"}.get(step, "running")
    assert Shown(run).files == {} or step == "done"
    bench.settle(run)
    by = Shown(run).check_one_attempt()
    assert by.startswith("attempt 1" if step in ("claim", "done") else "attempt 2")


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_stood_still_past_its_lease_changes_nothing(bench: Bench, step: str) -> None:
    """Stop the first worker at ``step``, complete another attempt, then resume the first."""
    shown: list[dict[str, str]] = []

    def overtaken() -> None:
        bench.recover()
        while bench.messages:
            bench.work()
        shown.append(Shown(run).files)

    run = bench.create()
    bench.at(step, overtaken)
    bench.work()
    by = Shown(run).check_one_attempt()
    assert Shown(run).files == shown[0], "what was shown once stays"
    assert by.startswith("attempt 1" if step in ("claim", "done") else "attempt 2")


@pytest.mark.parametrize("step", STEPS)
def test_an_attempt_under_way_is_not_harmed_by_the_end_of_the_one_before(
    bench: Bench, step: str
) -> None:
    """Stop the first worker at ``step`` for good while the second is half-way; then a third process sweeps."""
    run = bench.create()

    def second_begins() -> None:
        bench.recover()
        bench.at("half", outputs.sweep)
        bench.work()
        raise Killed

    bench.at(step, second_begins if step != "done" else outputs.sweep)
    bench.work()
    Shown(run).check_one_attempt()


@pytest.mark.parametrize("step", STEPS)
def test_a_message_received_twice_is_processed_once(bench: Bench, step: str) -> None:
    run = bench.create()
    bench.at(step, lambda: tasks.execute(run.id, 1))
    bench.work()
    assert len(bench.works) == 1
    tasks.execute(run.id, 1)
    assert len(bench.works) == 1
    Shown(run).check_one_attempt()


@pytest.mark.parametrize("step", STEPS)
def test_a_cancellation_is_final(bench: Bench, step: str) -> None:
    run = bench.create()
    bench.at(step, lambda: services.cancel(run_id=run.id))
    bench.work()
    bench.settle(run)
    if step == "done":
        Shown(run).check_one_attempt()
    else:
        assert Shown(run).state == "cancelled"
        Shown(run).check_nothing()


@pytest.mark.parametrize("step", STEPS)
def test_a_cancelled_run_whose_worker_dies_is_not_tried_again(bench: Bench, step: str) -> None:
    def dies() -> None:
        services.cancel(run_id=run.id)
        raise Killed

    run = bench.create()
    bench.at(step, dies)
    bench.work()
    bench.settle(run)
    if step == "done":
        Shown(run).check_one_attempt()
    else:
        assert Shown(run).state == "cancelled"
        Shown(run).check_nothing()
        assert len(bench.works) <= 1


@pytest.mark.parametrize("step", ["create", "half", "seal"])
def test_an_attempt_that_fails_shows_why_and_leaves_nothing(bench: Bench, step: str) -> None:
    def fails() -> None:
        raise OSError(28, "No space left on device")

    run = bench.create()
    bench.at(step, fails)
    bench.work()
    shown = Shown(run)
    assert (shown.state, shown.body["error"]) == (
        "failed",
        "OSError: [Errno 28] No space left on device",
    )
    shown.check_nothing()


def test_a_result_that_cannot_be_stored_fails_the_run(bench: Bench) -> None:
    run = bench.create()
    bench.analysis = lambda *_: {"by": object()}
    bench.work()
    shown = Shown(run)
    assert shown.state == "failed"
    assert "not JSON serializable" in shown.body["error"]
    shown.check_nothing()


def test_a_run_that_loses_every_worker_fails_in_the_end(bench: Bench) -> None:
    def dies() -> None:
        raise Killed

    run = bench.create()
    for attempt in range(1, services.ATTEMPTS_MAX + 1):
        assert bench.messages == [(run.id, attempt)]
        bench.at("half", dies)
        bench.work()
        bench.recover()
    assert "lost 2 times" in Shown(run).body["error"]
    Shown(run).check_nothing()


def spark_ends(*_: object) -> dict[str, object]:
    raise RuntimeError("[INVALID_HANDLE.SESSION_NOT_FOUND] the handle is invalid")


def test_a_run_whose_spark_ended_is_tried_again_once(bench: Bench) -> None:
    run = bench.create()
    whole = bench.analysis

    def half(run: JobRun, directory: Path, progress: Any) -> dict[str, Any]:
        whole(run, directory, progress)
        return spark_ends()

    bench.analysis = half
    bench.work()
    assert (Shown(run).state, Shown(run).files) == ("queued", {})
    assert Shown(run).body["stage"] == "Spark was stopped or restarted, trying again"
    bench.analysis = whole
    bench.work()
    assert Shown(run).check_one_attempt() == "attempt 2 by worker 2.."
    assert bench.messages == []


def test_a_run_whose_spark_ends_each_time_fails(bench: Bench) -> None:
    run = bench.create()
    bench.analysis = spark_ends
    bench.work()
    bench.work()
    assert bench.messages == []
    assert (Shown(run).state, Shown(run).body["error"]) == ("failed", spark.RESTARTED)


def test_a_cancelled_run_whose_spark_ends_is_not_tried_again(bench: Bench) -> None:
    run = bench.create()

    def cancelled(*given: object) -> dict[str, object]:
        services.cancel(run_id=run.id)
        return spark_ends()

    bench.analysis = cancelled
    bench.work()
    assert (Shown(run).state, bench.messages) == ("cancelled", [])
