"""Questions of a run's job to the brokers of its cluster."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import Forbidden, NotFound, NotReady
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.memory import MemoryServer
from engine.metadata.store import StoreUnavailableError
from gateway.environment import ClusterSettings
from gateway.jobs import spark, stores
from gateway.jobs.models import JobRun
from gateway.services.engine_link import Engine

T = "persistent://t/n/x"
NAMES = [(T, "own"), (T, "gone"), (f"{T}-partition-1", "away"), (T, "closed"), (T, "own")]


class Brokers:
    """Brokers that know one subscription."""

    def __init__(self) -> None:
        self.principals: set[str] = set()
        self.open = True

    async def call(self, operation: Any, args: Any, *, principal: str = "") -> Any:
        assert operation.name == "holders"
        self.principals.add(principal)
        if args.subscription == "own":
            return {"consumers": [], "asked": str(args.topic)}
        if args.subscription == "silent":
            await asyncio.Event().wait()
        raise {
            "gone": NotFound("not found"),
            "away": NotReady("moving"),
            "closed": Forbidden("no"),
        }[args.subscription]

    def close(self) -> None:
        self.open = False


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> Brokers:
    known = Brokers()
    settings.CLUSTERS = (ClusterSettings("home", StoreUrls("zk:h:2181"), tmp_path, tmp_path),)

    async def opened(cluster: ClusterSettings) -> Engine:
        assert cluster.name == "home"
        admin: Any = known
        return Engine(MemoryServer().session(), admin, cluster.name)

    monkeypatch.setattr(stores, "open_engine", opened)
    return known


def test_brokers_are_asked_for_the_owner_and_each_reason_is_kept(brokers: Brokers) -> None:
    answers = stores.holders_for(JobRun(created_by="app"))(NAMES)
    assert answers == [
        {"consumers": [], "asked": T},
        *("not found", "moving", "no"),
        {"consumers": [], "asked": T},
    ]
    assert (brokers.principals, brokers.open) == ({"app"}, False)


def test_a_silent_broker_is_not_waited_for(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "ASK_S", 0.2)
    answers = stores.holders_for(JobRun())([(T, "own"), (T, "silent")])
    assert answers == [{"consumers": [], "asked": T}, stores.SILENT]
    assert not brokers.open


def test_without_the_metadata_store_no_holder_is_known(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(cluster: ClusterSettings) -> Engine:
        raise StoreUnavailableError("cannot be reached")

    monkeypatch.setattr(stores, "open_engine", away)
    assert stores.holders_for(JobRun())(NAMES[:2]) == ["cannot be reached"] * 2


@pytest.mark.parametrize(("analysis", "asks"), [("who-is-behind", True), ("usage", False)])
def test_only_jobs_that_ask_are_given_the_way_to_brokers(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, analysis: str, asks: bool, tmp_path: Path
) -> None:
    given: dict[str, Any] = {}

    class Shown:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def __call__(self, *_: Any) -> None:
            pass

    def job(*_: Any, **named: Any) -> dict[str, Any]:
        given.update(named)
        return {}

    monkeypatch.setattr(spark, "session", lambda *_: Shown())
    monkeypatch.setattr(type(spark.ANALYSES[analysis]), "load", lambda self: job)
    spark.run_analysis(JobRun(analysis=analysis, parameters={}), tmp_path, Shown())
    assert ("holders" in given) == asks
