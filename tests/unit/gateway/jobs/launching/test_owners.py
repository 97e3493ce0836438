"""A run starts only while its owner may read what the analysis reads."""

from typing import Any

import pytest

from engine.base.names import NamespaceName
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.tenancy.grants import grant
from engine.tenancy.namespaces import bootstrap, create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.jobs import outputs, owners, spark, tasks
from gateway.jobs.models import JobRun, RunState
from tests.support.access.callers import SUPERUSER, by_token

TOPIC = "persistent://t/n/x"


ALSO = {"cluster": "", "topic": "persistent://t/other/x"}


async def stored(*args: Any, **named: Any) -> MetadataStore:
    """Return a store in which ``own`` administers the tenant and ``app`` and ``writer`` have grants."""
    store = MemoryServer().session()
    urls = {"broker_url": "pulsar://b:6650", "web_url": "http://b:8080"}
    await bootstrap(store, cluster="standalone", **urls)
    await create_tenant(store, "t", {"adminRoles": ["own"], "allowedClusters": ["standalone"]})
    namespace = NamespaceName.of("t", "n")
    await create_namespace(store, namespace, {}, cluster="standalone")
    await create_namespace(store, NamespaceName.of("t", "other"), {}, cluster="standalone")
    await grant(store, namespace, "app", ["consume"])
    await grant(store, namespace, "writer", ["produce"])
    return store


async def away(*args: Any, **named: Any) -> MetadataStore:
    raise StoreUnavailableError("cannot be reached")


@pytest.mark.parametrize(
    ("authorized", "owner", "runs"),
    [
        *((False, "", True), (True, SUPERUSER, True), (True, "app", True), (True, "own", True)),
        *((True, "writer", False), (True, "stranger", False), (True, "", False)),
    ],
)
def test_a_run_starts_while_its_owner_may_read_its_target(
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
    monkeypatch.setattr(tasks, "note", lambda run, text: None)
    monkeypatch.setattr(owners, "connect_stores", stored)
    heartbeat: Any = None
    run = JobRun(id="r", analysis="topic-profile", kind="topic", target=TOPIC, created_by=owner)
    tasks._attempt(run, heartbeat)
    assert bool(started) is runs
    [(state, error)] = ends
    assert state is (RunState.SUCCEEDED if runs else RunState.FAILED)
    assert runs or f"role {owner!r} may not run this analysis" in error


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (JobRun(kind="topic", target=TOPIC, created_by="writer"), "lacks consume"),
        (JobRun(kind="cluster", created_by="own"), "no superuser"),
        (JobRun(kind="topic", target=TOPIC, also_reads=[ALSO], created_by="app"), "lacks consume"),
        (JobRun(kind="topic", target=TOPIC, cluster="far", created_by="own"), "cluster far"),
    ],
)
def test_the_refusal_says_what_is_missing(
    run: JobRun, words: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    monkeypatch.setattr(owners, "connect_stores", stored)
    with pytest.raises(owners.OwnerRefusedError, match=words):
        owners.check_owner(run)


def test_a_run_does_not_start_while_the_right_is_not_known(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    monkeypatch.setattr(owners, "connect_stores", away)
    with pytest.raises(StoreUnavailableError):
        owners.check_owner(JobRun(kind="topic", target=TOPIC, created_by="app"))
