"""Start of a worker with the first analysis."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.conf import settings

from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState
from gateway.standalone import control
from tests.unit.gateway.jobs.bench import Bench

enqueue = services.enqueue

Answer = dict[str, object]


def supervised(bench: Bench, answer: Callable[[], Answer]) -> list[tuple[str, str]]:
    """Let a supervisor answer that starts workers on demand; return the requests to it."""
    requests: list[tuple[str, str]] = []

    def send_request(path: object, verb: str, name: str, timeout_s: float) -> Answer:
        requests.append((verb, name))
        return answer()

    environment = replace(settings.ENVIRONMENT, workers_on_demand=True, control_socket="/nowhere")
    bench.patch.setattr(settings, "ENVIRONMENT", environment)
    bench.patch.setattr(control, "send_request", send_request)
    return requests


def stage(run_id: str) -> str:
    return services.stage_of(services.get(run_id=run_id))


def idle() -> None:
    services._sender.submit(lambda: None).result(60)


def sent(bench: Bench) -> list[str]:
    """Use the shipped ``enqueue``; return the ids of the runs that are sent."""
    runs: list[str] = []

    def send(task: str, arguments: tuple[object, ...], **options: object) -> bool:
        runs.append(str(arguments[0]))
        return True

    bench.patch.setattr(services, "send", send)
    bench.patch.setattr(services, "enqueue", enqueue)
    return runs


def test_a_run_is_sent_after_its_worker_was_requested(bench: Bench) -> None:
    requests = supervised(bench, lambda: {"children": []})
    runs = sent(bench)
    run = bench.create()
    assert (requests, runs) == ([("need", "worker")], [run.id])
    assert stage(run.id) == "waiting for a worker"


@pytest.mark.parametrize(
    ("problem", "child"),
    [
        ("worker was stopped by a request", "worker"),
        ("redis, which worker needs, was stopped by a request", "redis"),
        ("worker ended twice while it started (exit 1: " + "x" * 500, "worker"),
    ],
)
def test_a_run_without_a_worker_shows_why_and_what_starts_one(
    bench: Bench, problem: str, child: str
) -> None:
    supervised(bench, lambda: {"error": problem})
    runs = sent(bench)
    run = bench.create()
    assert runs == [run.id], "it is done when a worker runs again"
    text = stage(run.id)
    assert text.startswith(f"waiting for a worker: {problem[:80]}")
    assert text.endswith(f"; start it with: .venv/bin/magnetar start {child}")
    services.recover()  # as a worker that runs does
    assert stage(run.id) == "waiting for a worker"


def test_a_worker_that_cannot_be_started_is_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    supervised(bench, lambda: {"error": "worker was stopped by a request"})
    services.need_worker()

    def ended() -> Answer:
        raise control.NotRunningError("no instance answers")

    supervised(bench, ended)
    services.need_worker()
    assert [record.getMessage() for record in caplog.records] == [
        "the supervisor did not start a worker: worker was stopped by a request",
        "the supervisor did not start a worker: no instance answers",
    ]


@pytest.mark.parametrize("at_start", [True, False])
def test_spark_is_started_with_the_gateway_where_a_setting_says_so(
    bench: Bench, at_start: bool
) -> None:
    requests = supervised(bench, lambda: {"children": []})
    bench.patch.setattr(services.installation, "is_missing", lambda: False)
    environment = replace(settings.ENVIRONMENT, spark_at_start=at_start)
    bench.patch.setattr(settings, "ENVIRONMENT", environment)
    tasks: list[str] = []
    bench.patch.setattr(services, "send", lambda task, *_, **__: not tasks.append(task))
    services.Warming(None).begin()
    idle()
    assert requests == ([("need", "worker")] if at_start else [])
    assert tasks == ([services.WARM] if at_start else [])


@pytest.mark.parametrize(
    ("state", "is_needed"),
    [(RunState.QUEUED, True), (RunState.RUNNING, True), (RunState.SUCCEEDED, False), (None, False)],
)
def test_a_gateway_starts_with_a_worker_only_for_runs_that_are_not_over(
    bench: Bench, state: RunState | None, is_needed: bool
) -> None:
    requests = supervised(bench, lambda: {"children": []})
    if state is not None:
        JobRun.objects.create(analysis="topic-profile", parameters={}, created_at=1, state=state)
    services.resume()
    idle()
    assert requests == ([("need", "worker")] if is_needed else [])
