"""Runs of analyses are for those who may read what was analysed: lists, results, files and live pushes alike."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.forms import model_to_dict

from engine.base.names import NamespaceName
from engine.tenancy.grants import grant, revoke
from gateway.access.issued_tokens import _key, _signed
from gateway.clusters.cluster import Cluster
from gateway.jobs import outputs, services
from gateway.jobs.models import JobRun, RunState
from gateway.services.engine_link import Engine
from spark_jobs.analysis import AlsoReads, Analysis, AnalysisTarget
from tests.support.access.callers import KEY, SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Answer, Gateway, call, cluster, engine, gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.admin_ui.access.test_rights_pages import filled

__all__ = ["call", "cluster", "engine", "gateway"]
TOPIC, FOREIGN = "persistent://t1/n/p", "persistent://t2/n/p"
NAMESPACE = NamespaceName.of("t1", "n")
FILE = "keys.parquet"


@pytest.fixture
def served(
    call: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Gateway:
    """The gateway with runs of a topic of each tenant, and of the cluster.

    ``reader`` has consume on the namespace of the first, ``writer`` produce, ``one`` consume on the topic alone.
    """

    async def granted(engine: Engine) -> None:
        await filled(engine)
        await grant(engine.store, NAMESPACE, "reader", ["consume"])
        await grant(engine.store, NAMESPACE, "writer", ["produce"])
        await grant(engine.store, NAMESPACE, "one", ["consume"], topic=NAMESPACE.topic("p"))

    cluster.link.run(granted)
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    monkeypatch.setattr(outputs, "file_of", lambda run, name: tmp_path / name)
    (tmp_path / FILE).write_bytes(b"PAR1")
    for number, (kind, target) in enumerate(
        [("topic", TOPIC), ("topic", FOREIGN), ("cluster", "")]
    ):
        JobRun.objects.create(
            id=f"run{number}",
            analysis="topic-profile",
            kind=kind,
            title=f"title {number}",
            target=target,
            parameters={},
            state=RunState.SUCCEEDED,
            created_at=number,
            result={"found": number},
            downloads=[{"name": FILE, "bytes": 4}],
        )
    return call


def ids(answer: Answer) -> list[str]:
    assert answer.json["total"] == len(answer.json["rows"])
    return [row["id"] for row in answer.json["rows"]]


SEES = {
    SUPERUSER: ["run2", "run1", "run0"],
    "ann": ["run0"],
    "reader": ["run0"],
    "one": ["run0"],
    "writer": [],
    "stranger": [],
}
"""Runs that each role sees, the newest first."""


@pytest.mark.parametrize("role", SEES)
def test_lists_results_and_files_are_for_those_who_may_read_the_target(
    role: str, served: Gateway
) -> None:
    headers = bearer(role)
    assert ids(served("GET", "/api/v1/runs", headers=headers)) == SEES[role]
    first = served("GET", "/api/v1/runs?limit=1", headers=headers).json
    assert (first["total"], len(first["rows"])) == (len(SEES[role]), min(len(SEES[role]), 1))
    for run in ("run0", "run1", "run2", "missing"):
        answers = [
            served("GET", f"/api/v1/runs/{run}", headers=headers),
            served("GET", f"/api/v1/runs/{run}/downloads/{FILE}", headers=headers),
            served("POST", f"/api/v1/runs/{run}/cancel", headers=headers),
        ]
        shown = run in SEES[role]
        assert [answer.status for answer in answers] == [200 if shown else 404] * 3
        if shown:
            assert answers[0].json["result"] == {"found": int(run[-1])}
            assert answers[1].body == b"PAR1"
        else:
            # As for a run that does not exist.
            assert {answer.json["reason"] for answer in answers} == {f"there is no run {run!r}"}


def test_a_table_of_a_result_is_read_in_pages(served: Gateway) -> None:
    table = {"key": "shown_rows", "columns": [{"key": "n"}], "rows": [[n] for n in range(250)]}
    JobRun.objects.filter(id="run0").update(result={"tables": [table]})
    path, headers = "/api/v1/runs/run0/downloads/shown_rows.json", bearer("reader")
    assert len(served("GET", path, headers=headers).json) == 250
    pages = [
        served("GET", f"{path}?offset={offset}&limit=100", headers=headers).json
        for offset in (0, 100, 200, 300)
    ]
    assert [len(page) for page in pages] == [100, 100, 50, 0]
    assert pages[1][0] == {"n": 100}
    for name, query, field in (
        *((FILE, "offset=1", "offset"), ("result.json", "limit=1", "offset")),
        *(("shown_rows.csv", "limit=1001", "limit"), ("shown_rows.csv", "offset=-1", "offset")),
    ):
        refused = served("GET", f"/api/v1/runs/run0/downloads/{name}?{query}", headers=headers)
        assert (refused.status, refused.json["field"]) == (400, field)


def token(role: str, level: str) -> dict[str, str]:
    import base64

    claims = {"gateway_role": role, "gateway_level": level}
    return {"authorization": f"Bearer {_signed(claims, _key(base64.b64encode(KEY).decode()))}"}


@pytest.mark.parametrize(
    ("role", "level", "status"),
    [
        *(("reader", "operate", 201), ("ann", "full", 201), (SUPERUSER, "operate", 201)),
        *(("reader", "read", 403), ("writer", "full", 403), ("stranger", "full", 403)),
    ],
)
def test_an_analysis_is_launched_at_level_operate_by_those_who_may_read_its_target(
    role: str, level: str, status: int, served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def completed(engine: Any, kind: Any, parameters: Any, field: str = "") -> Any:
        return parameters

    monkeypatch.setattr("admin_ui.analyses.api.targets.completed", completed)
    monkeypatch.setattr(services, "in_background", lambda work: None)
    body = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}}
    answer = served("POST", "/api/v1/runs", body, headers=token(role, level))
    assert answer.status == status, answer.body
    assert JobRun.objects.count() == (4 if status == 201 else 3)
    place = f"/api/v1/clusters/standalone/may?topic={TOPIC}"
    may = served("GET", place, headers=token(role, level)).json["actions"]["startRun"]
    assert may["allowed"] is (status == 201)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"analysis": "nope", "parameters": {"topic": TOPIC}}, 422, "analysis"),
        ({"analysis": "topic-profile"}, 400, "parameters"),
        ({"analysis": "topic-profile", "parameters": {}}, 422, "parameters.topic"),
        ({"analysis": "topic-profile", "parameters": {"topic": 3}}, 422, "parameters.topic"),
        ({"analysis": "topic-profile", "parameters": {"topic": "a://b"}}, 422, "parameters.topic"),
    ],
)
def test_a_launch_that_names_no_target_is_refused_by_its_field(
    body: dict[str, Any], status: int, field: str, served: Gateway
) -> None:
    for role in (SUPERUSER, "stranger"):
        answer = served("POST", "/api/v1/runs", body, headers=bearer(role))
        assert (answer.status, answer.json["field"]) == (status, field)


@pytest.mark.parametrize(
    ("role", "launched", "shown"), [(SUPERUSER, 201, 200), ("one", 403, 404), ("both", 201, 200)]
)
def test_a_run_that_reads_a_second_topic_needs_the_right_to_both(
    role: str,
    launched: int,
    shown: int,
    served: Gateway,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def completed(engine: Any, kind: Any, parameters: Any, field: str = "") -> Any:
        return parameters

    async def granted(engine: Engine) -> None:
        for tenant in ("t1", "t2"):
            await grant(engine.store, NamespaceName.of(tenant, "n"), "both", ["consume"])

    cluster.link.run(granted)
    monkeypatch.setattr("admin_ui.analyses.api.targets.completed", completed)
    monkeypatch.setattr(services, "in_background", lambda work: None)
    names = ("topic", "other_topic", "other_cluster")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    compare = Analysis(
        *("compare", "Compare", "What differs?", (AnalysisTarget.TOPIC,), schema, "nowhere"),
        also_reads=(AlsoReads("other_topic", "other_cluster"),),
    )
    monkeypatch.setitem(services.ANALYSES, "compare", compare)
    given = {"topic": TOPIC, "other_topic": FOREIGN}
    body = {"analysis": "compare", "parameters": given}
    answer = served("POST", "/api/v1/runs", body, headers=bearer(role))
    assert answer.status == launched, answer.body
    if launched != 201:
        answer = served("POST", "/api/v1/runs", body, headers=bearer(SUPERUSER))
    run = answer.json
    assert run["also_reads"] == [{"cluster": "standalone", "topic": FOREIGN}]
    assert served("GET", f"/api/v1/runs/{run['id']}", headers=bearer(role)).status == shown
    listed = served("GET", "/api/v1/runs", headers=bearer(role)).json["rows"]
    assert (run["id"] in {row["id"] for row in listed}) is (shown == 200)
    for wrong in ({"other_topic": "a://b"}, {"other_cluster": "none"}):
        body = {"analysis": "compare", "parameters": {**given, **wrong}}
        answer = served("POST", "/api/v1/runs", body, headers=bearer(SUPERUSER))
        assert (answer.status, answer.json["field"]) == (422, f"parameters.{next(iter(wrong))}")


async def subscribed(pair: SocketPair, **params: str) -> dict[str, Any]:
    """Return the first answer about a run."""
    request = {"op": "subscribe", "id": "r", "channel": "run", "params": params}
    pair.send(json.dumps(request))
    return await next_of(pair)


async def next_of(pair: SocketPair) -> dict[str, Any]:
    while (message := json.loads(await pair.receive())).get("id") != "r":
        pass
    return dict(message)


async def test_live_pushes_are_for_those_who_may_read_the_target(
    served: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_ui.live.BEATS", [])
    pairs = {
        role: await SocketPair(served.application, "/api/v1/live", bearer(role)).opened()
        for role in SEES
    }
    also = {"also_reads": [{"cluster": "", "topic": FOREIGN}]}
    run = await JobRun.objects.aget(id="run0")
    await JobRun.objects.acreate(**{**model_to_dict(run), "id": "run3", "created_at": 3, **also})
    target = {"kind": "topic", "target": TOPIC}
    for role, pair in pairs.items():
        answer = await subscribed(pair, id="run0", **target)
        assert ("data" in answer) is ("run0" in SEES[role]), role
        assert "error" in await subscribed(pair, id="run1", **target), "of another target"
        assert "error" in await subscribed(pair, id="run2", **target), "of the cluster"
        assert "error" in await subscribed(pair, id="run3", **target), "reads more"
        assert ("data" in await subscribed(pair, id="run1")) is (role == SUPERUSER)
    reader = pairs["reader"]
    assert "data" in await subscribed(reader, id="run0", **target)
    await cluster.link.arun(lambda engine: revoke(engine.store, NAMESPACE, "reader"))
    async with asyncio.timeout(30):
        while "error" not in await next_of(reader):
            pass
    for pair in pairs.values():
        await pair.hang_up()


@pytest.mark.parametrize("role", SEES)
def test_scripts_pins_and_comparisons_are_for_those_who_may_read_the_target(
    role: str, served: Gateway
) -> None:
    headers = bearer(role)
    figures = {"summary": [], "series": [], "tables": []}
    JobRun.objects.update(result=figures, log="5 1 reading\n")
    sees = "run0" in SEES[role]
    script = served("GET", "/api/v1/runs/run0/script", headers=headers)
    assert script.status == (200 if sees else 404)
    assert ("metadata.url" in script.body.decode()) is (role == SUPERUSER)
    pinned = served("PUT", "/api/v1/runs/run0/pin", headers=headers)
    assert pinned.status == (200 if sees else 404)
    listed = served("GET", "/api/v1/runs?pinned=true", headers=headers)
    assert ids(listed) == (["run0"] if sees else [])
    assert served("DELETE", "/api/v1/runs/run0/pin", headers=headers).status == pinned.status
    both = served("GET", "/api/v1/runs/run0/compare/run1", headers=headers)
    assert both.status == (200 if role == SUPERUSER else 404)
    log = served("GET", "/api/v1/runs/run0/log", headers=headers)
    assert log.status == (200 if role == SUPERUSER else 403)
    if role == SUPERUSER:
        assert log.json["lines"] == [{"at": 5, "attempt": 1, "text": "reading"}]
        JobRun.objects.filter(id="run1").update(analysis="other")
        both = served("GET", "/api/v1/runs/run0/compare/run1", headers=headers)
        assert (both.status, both.json["field"]) == (422, "other")


@pytest.mark.parametrize(
    ("role", "status", "sees"),
    [*((SUPERUSER, 201, True), ("reader", 201, True)), *(("writer", 403, False), ("", 401, False))],
)
def test_a_schedule_is_for_those_who_may_read_its_target(
    role: str, status: int, sees: bool, served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def completed(engine: Any, kind: Any, parameters: Any, field: str = "") -> Any:
        return parameters

    monkeypatch.setattr("admin_ui.analyses.api.targets.completed", completed)
    body = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}, "every_hours": 24}
    headers = bearer(role) if role else {}
    answer = served("POST", "/api/v1/schedules", body, headers=headers)
    assert answer.status == status, answer.body
    made = served("POST", "/api/v1/schedules", body, headers=bearer("ann")).json
    assert (made["owner"], made["target"], made["last_run"]) == ("ann", TOPIC, None)
    assert made["next_at"] > made["created_at"]
    listed = served("GET", "/api/v1/schedules", headers=headers)
    if role:
        assert (made["id"] in [row["id"] for row in listed.json["rows"]]) is sees
    path = f"/api/v1/schedules/{made['id']}"
    assert served("DELETE", path, headers=headers).status == (
        401 if not role else 204 if sees else 404
    )
    wrong = {**body, "cron": "* * * *", "every_hours": None}
    answer = served("POST", "/api/v1/schedules", wrong, headers=bearer(SUPERUSER))
    assert (answer.status, answer.json["field"]) == (422, "cron")


def test_a_run_repeats_one_of_the_same_analysis_that_its_owner_sees(
    served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def completed(engine: Any, kind: Any, parameters: Any, field: str = "") -> Any:
        return parameters

    monkeypatch.setattr("admin_ui.analyses.api.targets.completed", completed)
    monkeypatch.setattr(services, "in_background", lambda work: None)
    JobRun.objects.filter(id="run2").update(analysis="other")
    body = {"analysis": "topic-profile", "parameters": {"topic": TOPIC}}
    for role, earlier, status in (
        ("reader", "run0", 201),
        ("reader", "run1", 404),
        (SUPERUSER, "run2", 422),
    ):
        given = {**body, "rerun_of": earlier}
        answer = served("POST", "/api/v1/runs", given, headers=bearer(role))
        assert answer.status == status, answer.body
        assert status != 201 or answer.json["rerun_of"] == earlier
