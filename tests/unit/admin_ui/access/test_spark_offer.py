"""The console's offer to install Spark: for superusers, recorded, and refused before a download that is of no use."""

from typing import Any

import pytest
from django.conf import settings

from gateway.jobs import installation, services
from gateway.jobs.models import JobRun
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]
REDIS = "no Redis found. Mend it with: sudo apt install redis-server"
MISSING = {**installation.ELSEWHERE, "state": "missing", "command": "make spark"}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The supervisor's answer, and the verbs that it received."""
    known: dict[str, Any] = {"answer": MISSING, "verbs": []}

    def ask(verb: str) -> dict[str, Any]:
        known["verbs"].append(verb)
        return dict(known["answer"])

    monkeypatch.setattr(installation, "_ask", ask)
    return known


@pytest.mark.django_db
@pytest.mark.parametrize("role", [SUPERUSER, "stranger"])
def test_only_a_superuser_begins_the_installation(
    call: Gateway, monkeypatch: pytest.MonkeyPatch, requests: dict[str, Any], role: str
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    assert call("GET", "/api/v1/spark", headers=bearer(role)).json["state"] == "missing"
    answer = call("POST", "/api/v1/spark", headers=bearer(role))
    assert answer.status == (202 if role == SUPERUSER else 403)
    assert ("install-spark" in requests["verbs"]) is (role == SUPERUSER)


@pytest.mark.django_db
def test_an_installation_that_would_be_of_no_use_is_refused_with_the_remedy(
    call: Gateway, requests: dict[str, Any]
) -> None:
    requests["answer"] = {**MISSING, "problems": [REDIS]}
    answer = call("POST", "/api/v1/spark")
    assert (answer.status, answer.json["reason"]) == (412, REDIS)
    assert "install-spark" not in requests["verbs"]


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["installing", "installed"])
def test_an_installation_that_runs_or_is_complete_is_not_begun_again(
    call: Gateway, requests: dict[str, Any], state: str
) -> None:
    requests["answer"] = {**MISSING, "state": state}
    answer = call("POST", "/api/v1/spark")
    assert (answer.status, answer.json["state"]) == (202, state)
    assert requests["verbs"] == ["spark-setup"]


@pytest.mark.django_db
def test_a_run_without_spark_is_refused_and_not_queued(
    call: Gateway, requests: dict[str, Any]
) -> None:
    body = {"analysis": "topic-profile", "parameters": {"topic": "persistent://public/default/t"}}
    answer = call("POST", "/api/v1/runs", body)
    assert answer.status == 412
    assert answer.json["reason"].startswith("Spark is not installed. A superuser installs it")
    assert not JobRun.objects.exists()


def test_nothing_is_started_to_warm_spark_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, requests: dict[str, Any]
) -> None:
    started: list[str] = []
    monkeypatch.setattr(services, "need_worker", lambda: started.append("worker"))
    warming = services.Warming(None)
    warming._sending.acquire()
    warming._send()
    assert started == []


@pytest.mark.django_db
def test_a_gateway_without_a_supervisor_leaves_spark_to_its_workers(call: Gateway) -> None:
    assert call("GET", "/api/v1/spark").json["state"] == "elsewhere"
    answer = call("POST", "/api/v1/spark")
    assert answer.status == 412
