"""A run starts only while its owner may run analyses."""

from typing import Any

import pytest

from gateway.jobs import outputs, owners, spark, tasks
from gateway.jobs.models import JobRun, RunState
from tests.support.access.callers import SUPERUSER, by_token


@pytest.mark.parametrize(
    ("authorized", "owner", "runs"),
    [(False, "", True), (True, SUPERUSER, True), (True, "app", False), (True, "", False)],
)
def test_a_run_starts_for_a_superuser_alone(
    authorized: bool, owner: str, runs: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=authorized)
    started: list[str] = []
    ends: list[tuple[RunState, str]] = []

    def end(run: JobRun, heartbeat: Any, state: RunState, **outcome: Any) -> RunState:
        ends.append((state, outcome.get("error", "")))
        return state

    def run_analysis(run: JobRun, *rest: Any) -> dict[str, Any]:
        started.append(run.created_by)
        return {}

    monkeypatch.setattr(outputs, "create", lambda run: None)
    monkeypatch.setattr(outputs, "seal", lambda directory: [])
    monkeypatch.setattr(spark, "run_analysis", run_analysis)
    monkeypatch.setattr(tasks, "_close", end)
    heartbeat: Any = None
    tasks._attempt(JobRun(id="r", analysis="a", created_by=owner), heartbeat)
    assert bool(started) is runs
    [(state, error)] = ends
    assert state is (RunState.SUCCEEDED if runs else RunState.FAILED)
    assert runs or f"role {owner!r} may not run analyses" in error


def test_the_refusal_names_the_setting(settings: Any) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    with pytest.raises(owners.OwnerRefusedError, match="super_user_roles"):
        owners.check_owner(JobRun(created_by="app"))
