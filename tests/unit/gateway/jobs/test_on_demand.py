"""Start of a worker with the first analysis."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.conf import settings

from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState
from gateway.standalone import control
from tests.unit.gateway.jobs.bench import Bench

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


def idle() -> None:
    services._sender.submit(lambda: None).result(60)


def test_a_run_is_sent_after_its_worker_was_requested(bench: Bench) -> None:
    requests = supervised(bench, lambda: {"children": []})
    bench.patch.setattr(services, "SEND_S", 0.1)
    services._send(services.WARM, ())
    assert requests == [("need", "worker")]


def test_a_worker_that_cannot_be_started_is_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    supervised(bench, lambda: {"error": "worker was stopped by a request"})
    services._need_worker()

    def ended() -> Answer:
        raise control.NotRunningError("no instance answers")

    supervised(bench, ended)
    services._need_worker()
    assert [record.getMessage() for record in caplog.records] == [
        "the supervisor did not start a worker: worker was stopped by a request",
        "the supervisor did not start a worker: no instance answers",
    ]


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
