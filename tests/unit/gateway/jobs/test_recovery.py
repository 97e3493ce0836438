"""Lost workers, lost messages and cancellations, with several workers looking after them at once."""

import pytest
from kombu.exceptions import OperationalError

from gateway.celery import app
from gateway.jobs import services, tasks
from gateway.jobs.models import JobRun, RunState
from gateway.services.clock import now_ms
from tests.unit.gateway.jobs.bench import Bench, Shown


def stored(run: JobRun) -> JobRun:
    return JobRun.objects.get(id=run.id)


def running(bench: Bench) -> JobRun:
    """Return a run whose worker was killed after its claim."""
    run = bench.create()
    services.claim(run_id=run.id, attempt=1)
    bench.messages.clear()
    return run


def test_two_workers_that_find_the_same_lost_run_queue_it_once(bench: Bench) -> None:
    run = running(bench)
    bench.age()
    real = services._worker_lost
    others: list[list[str]] = []

    def second_first(row: JobRun) -> bool:
        bench.patch.setattr(services, "_worker_lost", real)
        others.append(services.recover())
        return real(row)

    bench.patch.setattr(services, "_worker_lost", second_first)
    assert services.recover() == []
    assert others == [[run.id]]
    assert bench.messages == [(run.id, 2)]
    assert stored(run).attempt == 2


def test_two_workers_that_find_the_same_lost_message_send_it_once(bench: Bench) -> None:
    run = bench.create()
    bench.messages.clear()
    bench.age()
    real = services._as_read

    def second_first(row: JobRun) -> object:
        bench.patch.setattr(services, "_as_read", real)
        services.recover()
        return real(row)

    bench.patch.setattr(services, "_as_read", second_first)
    assert services.recover() == []
    assert bench.messages == [(run.id, 1)]


def test_a_run_whose_worker_is_silent_shows_it_until_it_is_retried(bench: Bench) -> None:
    run = running(bench)
    services.report(
        run=stored(run), stage="waiting for Spark to begin the first task", done=0, total=3
    )
    assert Shown(run).body["stage"].startswith("waiting for Spark")
    renewed = now_ms() - 5_500
    JobRun.objects.filter(id=run.id).update(lease_until_ms=renewed + services.LEASE_MS)
    assert Shown(run).body["stage"] == (
        "its worker has not answered for 5 s; if it does not return, the run is tried again"
    )
    services.cancel(run_id=run.id)
    assert Shown(run).body["stage"].endswith("if it does not return, it ends as cancelled")
    assert services.recover() == [], "it has until the lease is over"
    bench.recover()
    assert Shown(run).state == "cancelled"
    assert Shown(run).body["stage"].startswith("waiting for Spark"), "where it stopped"


def test_a_heartbeat_just_before_the_recovery_keeps_the_run(bench: Bench) -> None:
    """Renew an expired lease between its check and the recovery of the run."""
    run = running(bench)
    bench.age()
    real = services._worker_lost

    def beats_first(row: JobRun) -> bool:
        assert services.beat(run=run)
        return real(row)

    bench.patch.setattr(services, "_worker_lost", beats_first)
    assert services.recover() == []
    assert (stored(run).state, stored(run).attempt) == (RunState.RUNNING, 1)


def test_a_run_that_is_claimed_while_its_message_is_sought_keeps_its_lease(bench: Bench) -> None:
    """Let the late message arrive between the read of the queued runs and the write that depends on it."""
    run = bench.create()
    bench.age()
    real = services._as_read

    def claimed_first(row: JobRun) -> object:
        assert services.claim(run_id=run.id, attempt=1) is not None
        return real(row)

    bench.patch.setattr(services, "_as_read", claimed_first)
    assert services.recover() == []
    bench.patch.setattr(services, "_as_read", real)
    assert services.recover() == [], "the worker that has just begun is not taken for lost"
    assert (stored(run).state, stored(run).attempt) == (RunState.RUNNING, 1)


def test_a_run_that_is_cancelled_while_it_is_recovered_ends_as_cancelled(bench: Bench) -> None:
    run = running(bench)
    bench.age()
    real = services._worker_lost

    def cancelled_first(row: JobRun) -> bool:
        services.cancel(run_id=run.id)
        return real(row)

    bench.patch.setattr(services, "_worker_lost", cancelled_first)
    services.recover()
    assert bench.settle(run).state == RunState.CANCELLED
    assert bench.works == []


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_cancellation_is_not_lost_between_a_worker_and_the_next(bench: Bench, state: str) -> None:
    run = running(bench) if state == "running" else bench.create()

    def moves_on() -> None:
        bench.recover()

    with bench.between_statements(moves_on):
        assert services.cancel(run_id=run.id).cancel_requested
    assert bench.settle(run).state == RunState.CANCELLED
    assert bench.works == []


def test_a_worker_stalled_within_its_claim_does_not_claim_the_next_attempt(
    bench: Bench,
) -> None:
    run = bench.create()

    def overtaken() -> None:
        bench.recover()
        assert services.claim(run_id=run.id, attempt=2) is not None

    with bench.between_statements(overtaken):
        claimed = services.claim(run_id=run.id, attempt=1)
    assert claimed is None, "the second attempt is another worker's"


@pytest.fixture
def broker_gone(bench: Bench) -> None:
    """Make Celery fail as it does when Redis refuses its connection."""

    def refused(*_: object, **__: object) -> None:
        raise OperationalError("Error 111 connecting to 127.0.0.1:6379. Connection refused.")

    bench.patch.setattr(app, "send_task", refused)
    bench.patch.setattr(services, "enqueue", bench.real_enqueue)


def broker_back(bench: Bench) -> None:
    def taken(task: str, arguments: tuple[str, int], **_: object) -> None:
        assert task in app.tasks, "a worker knows it"
        if task == tasks.execute.name:
            bench.messages.append(arguments)
        else:
            bench.warmed.append(1)

    bench.patch.setattr(app, "send_task", taken)


@pytest.mark.usefixtures("broker_gone")
def test_a_run_whose_message_could_not_be_sent_is_queued_and_done_later(bench: Bench) -> None:
    run = bench.create()
    assert Shown(run).state == "queued", "it is stored and will be done"
    bench.recover()  # the broker is still unavailable
    assert stored(run).state == RunState.QUEUED
    broker_back(bench)
    assert bench.recover() == [run.id]
    assert bench.messages == [(run.id, 1)]
    bench.work()
    Shown(run).check_one_attempt()


@pytest.mark.usefixtures("broker_gone")
def test_a_lost_worker_while_the_broker_is_gone_costs_one_attempt(bench: Bench) -> None:
    run = running(bench)
    for _ in range(5):
        bench.recover()
    assert (stored(run).state, stored(run).attempt) == (RunState.QUEUED, 2)
    broker_back(bench)
    bench.settle(run)
    Shown(run).check_one_attempt()


@pytest.mark.usefixtures("broker_gone")
def test_the_message_of_every_waiting_run_is_sent_when_the_broker_is_back(bench: Bench) -> None:
    runs = {bench.create().id for _ in range(5)}
    bench.recover()
    broker_back(bench)
    bench.recover()
    assert {run_id for run_id, _ in bench.messages} == runs


@pytest.mark.usefixtures("broker_gone")
def test_warming_spark_is_requested_again_after_a_request_that_failed(bench: Bench) -> None:
    warming = services.Warming(None)
    warming.request()
    broker_back(bench)
    warming.request()
    warming.request()  # just asked
    assert bench.warmed == [1]
