"""Functions, sources and sinks by the console's API: listed, shown, started, stopped and deleted as previewed."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from admin_ui.functions.selectors import gathered
from admin_ui.models import AuditEntry
from engine.functions.connectors.connector_settings import MASK
from engine.functions.ports import OnInstances
from tests.support.admin.gateway_client import Gateway
from tests.support.functions.deployed import TROUBLE, WORKER, DeployedFunctions
from tests.unit.admin_ui.test_cluster_pages import API, Call
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

INPUT = "persistent://public/default/in"
SINK = {"name": "rows", "inputs": [INPUT], "archive": "builtin://postgres"}
CONFIGS = {"url": "postgresql://u@h/d", "password": "very-secret", "table": "t"}
ONE = f"{API}/functions/function/public/default/shout"


@pytest.fixture
def functions() -> DeployedFunctions:
    made = DeployedFunctions()
    made.add(
        "function",
        **{"name": "shout", "className": "shout.Shout", "py": "shout.py", "inputs": [INPUT]},
        **{"output": "persistent://public/default/out", "parallelism": 2, "runtime": "PYTHON"},
    )
    made.add("sink", **SINK, configs=CONFIGS)
    return made


@pytest.fixture
def link(functions: DeployedFunctions) -> Iterator[BenchLink]:
    with bench_link(workers=functions) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def listed(call: Call, query: str = "") -> Any:
    answer = call("GET", f"{API}/functions{query}")
    assert answer.status == 200
    return answer.json


def test_all_kinds_are_listed_with_the_sums_of_their_instances(call: Call) -> None:
    page = listed(call)
    assert (page["enabled"], page["workers"], page["total"]) == (True, [WORKER], 2)
    rows, shout = page["rows"]
    assert (rows["component"], rows["connector"], rows["inputs"]) == ("sink", "postgres", [INPUT])
    assert (shout["name"], shout["state"], shout["running"]) == ("shout", "running", 2)
    assert (shout["received_rate"], shout["failures"], shout["latency_ms"]) == (2.0, 4, 1.5)
    assert shout["output"] == "persistent://public/default/out"
    assert [row["name"] for row in listed(call, "?component=sink")["rows"]] == ["rows"]
    assert [row["name"] for row in listed(call, "?q=OUT%20default")["rows"]] == ["shout"]
    assert [row["name"] for row in listed(call, "?offset=1&limit=1")["rows"]] == ["shout"]
    by_rate = listed(call, "?sort=-received_rate&limit=1")
    assert (by_rate["rows"], by_rate["total"]) == ([shout], 2), "unknown figures are last"
    for field in ("component", "sort"):
        assert call("GET", f"{API}/functions?{field}=x").json["field"] == field


def test_instances_of_a_silent_worker_are_not_known_and_not_zero(
    call: Call, link: BenchLink, functions: DeployedFunctions
) -> None:
    functions.silent = {WORKER: "does not answer"}
    _, shout = listed(call)["rows"]
    assert (shout["state"], shout["running"], shout["unknown"]) == ("not known", 0, 2)
    assert (shout["received_rate"], shout["failures"]) == (None, None)
    functions.silent = {"another": "does not answer"}
    link.cluster.part(gathered).forget()
    _, shout = listed(call)["rows"]
    assert (shout["state"], shout["unknown"]) == ("running", 0)


def test_one_is_shown_with_its_instances_and_their_exceptions(call: Call) -> None:
    answer = call("GET", ONE).json
    first, second = answer["instances"]
    assert (first["instance"], first["running"], first["worker"]) == (0, True, WORKER)
    assert first["exceptions"] == [{"kind": "user", "text": TROUBLE.text, "at": 5}]
    assert (first["received"], first["failures"], first["restarts"]) == (60, 2, 1)
    assert first["latency_buckets"][-1] == {"up_to_ms": "+Inf", "count": 58}
    assert second["instance"] == 1
    assert answer["config"]["className"] == "shout.Shout"
    assert answer["guarantee"] is None
    assert call("GET", f"{API}/functions/function/public/default/none").status == 404
    assert call("GET", f"{API}/functions/sink/public/default/shout").status == 404
    assert call("GET", f"{API}/functions/thing/public/default/shout").status == 404


def test_secrets_of_a_connector_are_masked_and_its_guarantee_is_shown(call: Call) -> None:
    answer = call("GET", f"{API}/functions/sink/public/default/rows")
    assert answer.json["config"]["configs"]["password"] == MASK
    assert b"very-secret" not in answer.body
    assert answer.json["guarantee"]["promise"] == "effectively once"


def test_logs_are_those_of_the_instances_that_run(call: Call) -> None:
    logs = call("GET", f"{ONE}/log?lines=5").json["logs"]
    assert logs == [{"instance": n, "text": f"the last 5 lines of {n}"} for n in range(2)]
    assert call("GET", f"{ONE}/log?lines=0").status == 400


def test_connectors_are_listed_with_the_schemas_of_their_settings(call: Call) -> None:
    rows = {row["name"]: row for row in call("GET", f"{API}/connectors").json["connectors"]}
    password = rows["postgres"]["as_sink"]["settings"]["properties"]["password"]
    assert password["writeOnly"] is True
    assert rows["generator"]["as_sink"] is None


def test_instances_are_stopped_and_started_as_previewed(
    call: Call, functions: DeployedFunctions
) -> None:
    preview = call("POST", f"{ONE}/run", {"preview": True, "verb": "stop", "instance": 1}).json
    assert (preview["instances"], preview["verb"]) == (1, "stop")
    assert functions.calls == [], "a preview changes nothing"
    other = f"{API}/functions/sink/public/default/rows/run"
    assert call("POST", other, {"token": preview["token"]}).status == 400
    done = call("POST", f"{ONE}/run", {"token": preview["token"]})
    assert (done.status, done.json["verb"], done.json["instance"]) == (200, "stop", 1)
    ((action, of),) = functions.calls
    assert (action, of) == ("stop", OnInstances("function", of.namespace, "shout", 1))
    entry = AuditEntry.objects.latest("pk")
    assert (entry.method, entry.target.endswith("/run"), entry.status) == ("POST", True, 200)
    (shown,) = listed(call, "?component=function")["rows"]
    assert (shown["state"], shown["running"], shown["stopped"]) == ("running", 1, 1)
    token = call("POST", f"{ONE}/run", {"preview": True, "verb": "restart"}).json["token"]
    assert call("POST", f"{ONE}/run", {"token": token}).status == 200
    assert functions.calls[-1][0] == "restart"
    assert call("POST", f"{ONE}/run", {"preview": True, "verb": "go"}).json["field"] == "verb"
    wrong = {"preview": True, "verb": "stop", "instance": 7}
    assert call("POST", f"{ONE}/run", wrong).status == 404


def test_one_is_deleted_as_previewed(call: Call, functions: DeployedFunctions) -> None:
    preview = call("POST", f"{ONE}/delete", {"preview": True}).json
    assert (preview["instances"], preview["subscription"]) == (2, "public/default/shout")
    assert preview["deletes_subscription"] is True
    functions.stored["public/default/shout"].version += 1
    assert call("POST", f"{ONE}/delete", {"token": preview["token"]}).status == 409
    token = call("POST", f"{ONE}/delete", {"preview": True}).json["token"]
    assert call("POST", f"{ONE}/delete", {"token": token}).status == 200
    assert [row["name"] for row in listed(call)["rows"]] == ["rows"]


def test_a_connector_is_deployed_as_previewed(call: Call, functions: DeployedFunctions) -> None:
    path = f"{API}/functions/sink/public/default/new/deploy"
    wrong = {"inputs": [INPUT], "archive": "builtin://postgres", "configs": {"url": "x"}}
    refused = call("POST", path, {"preview": True, "config": wrong})
    assert (refused.status, "configs.table: is required" in refused.json["reason"]) == (400, True)
    config = {**wrong, "configs": CONFIGS}
    preview = call("POST", path, {"preview": True, "config": config}).json
    assert (preview["before"], preview["is_change"]) == (None, True)
    assert preview["after"]["configs"]["password"] == MASK
    assert "new" not in str(functions.stored.keys()), "a preview stores nothing"
    done = call("POST", path, {"token": preview["token"]})
    assert (done.status, done.json["created"]) == (200, True)
    stored = functions.stored["public/default/new"]
    assert stored.packageLocation.packagePath == "builtin://postgres"
    assert "very-secret" in stored.functionDetails.sink.configs
    assert call("POST", path, {"token": preview["token"]}).status == 409


def test_an_update_shows_its_difference_and_keeps_hidden_secrets(
    call: Call, functions: DeployedFunctions
) -> None:
    path = f"{API}/functions/sink/public/default/rows"
    config = call("GET", path).json["config"]
    same = call("POST", f"{path}/deploy", {"preview": True, "config": config}).json
    assert (same["is_change"], same["token"]) == (False, None)
    config["configs"]["table"] = "other"
    preview = call("POST", f"{path}/deploy", {"preview": True, "config": config}).json
    assert preview["before"]["configs"]["table"] == "t"
    assert preview["after"]["configs"]["table"] == "other"
    assert call("POST", f"{path}/deploy", {"token": preview["token"]}).status == 200
    configs = functions.stored["public/default/rows"].functionDetails.sink.configs
    assert '"other"' in configs
    assert "very-secret" in configs


def test_code_that_is_given_is_checked(call: Call) -> None:
    body = {
        "preview": True,
        "config": {"className": "f.F", "inputs": [INPUT]},
        "code": "no base64!",
    }
    path = f"{API}/functions/function/public/default/new/deploy"
    assert call("POST", path, body).json["field"] == "code"
    given = body | {"code": base64.b64encode(b"class F: ...").decode(), "file_name": "f.py"}
    preview = call("POST", path, given).json
    assert (preview["with_code"], preview["after"]["runtime"]) == (True, "PYTHON")
    without = call("POST", path, {"preview": True, "config": body["config"]})
    assert without.json["reason"] == "Function Package is not provided"


def test_without_a_worker_the_list_says_so(transactional_db: None) -> None:
    with bench_link() as link:
        page = listed(Gateway(link.cluster))
        assert (page["enabled"], page["rows"]) == (False, [])
