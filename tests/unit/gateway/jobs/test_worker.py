"""A worker beside its work: heartbeats, interruptions, announcements, progress."""

import threading
from pathlib import Path
from typing import Any

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import OperationalError

from gateway.jobs import outputs, services, tasks
from gateway.jobs.models import JobRun, RunState
from tests.unit.gateway.jobs.bench import Bench, Shown, until


@pytest.fixture
def quick(bench: Bench) -> Bench:
    """Hearts beat fast, and a lease is over after 50 ms without a beat."""
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
    return [one.name for one in threading.enumerate() if one.name.startswith("heart-")]


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


def test_a_worker_without_room_for_files_lets_go_of_the_run(bench: Bench) -> None:
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


def test_a_run_is_done_while_nobody_can_be_told_of_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis refuses connections: the layer is the shipped one."""
    layer = RedisPubSubChannelLayer(hosts=["redis://127.0.0.1:1"])
    monkeypatch.setattr("channels.layers.get_channel_layer", lambda: layer)
    run = bench.create()
    bench.work()
    assert Shown(run).check_one_attempt() == "attempt 1 by worker 1."
