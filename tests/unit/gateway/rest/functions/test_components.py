"""Functions, sources and sinks by REST: forms of all tools, code of every kind, updates, and what is refused."""

from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.judge import Verdict
from engine.base.errors import Conflict, InvalidRequest, NotReady
from engine.base.names import TopicName
from engine.packages.package_store import PART_BYTES_MAX
from gateway.http.auth.access import AccessRefusedError
from gateway.rest.functions import components
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part, text_part
from tests.support.functions.functions_gateway import FunctionsWorld

F = "/admin/v3/functions/public/default/ex"
SINK = "/admin/v3/sinks/public/default/k"
CONFIG = {"className": "ex.Ex", "runtime": "PYTHON", "inputs": ["in"], "output": "out"}
CODE = b"def process(x):\n    return x\n"
GO_HEAD = (
    b'Content-Disposition: form-data; name="functionConfig" \r\nContent-Type: application/json'
)


def sent(call: Gateway, body: bytes, method: str = "POST", path: str = F) -> Answer:
    return call(method, path, body, content_type=FORM_TYPE)


def created(call: Gateway, **changes: Any) -> Answer:
    config = {key: value for key, value in (CONFIG | changes).items() if value is not None}
    return sent(call, form(json_part("functionConfig", config), file_part(CODE)))


def updated(call: Gateway, config: dict[str, Any], *parts: bytes) -> Answer:
    return sent(call, form(json_part("functionConfig", config), *parts), "PUT")


def package_url(world: FunctionsWorld, name: str = "ex", component: str = "function") -> str:
    metadata = world.workers.functions[component, "public/default", name]
    url: str = metadata.packageLocation.packagePath
    return url


def test_a_function_is_created_listed_shown_and_deleted(
    call: Gateway, world: FunctionsWorld
) -> None:
    assert (created(call).status, created(call).body) == (
        204,
        b'{"reason": "Function ex already exists"}',
    )
    assert call("GET", "/admin/v3/functions/public/default").json == ["ex"]
    shown = call("GET", F).json
    assert (shown["className"], list(shown["inputSpecs"])) == (
        "ex.Ex",
        ["persistent://public/default/in"],
    )
    assert package_url(world) == "function://public/default/ex@0"
    metadata = world.workers.functions["function", "public/default", "ex"]
    assert metadata.packageLocation.originalFileName == "ex.py"
    assert call("GET", "/admin/v3/packages/function/public/default").json == ["ex"]
    download = call("GET", f"{F}/download")
    assert (download.status, download.body) == (200, CODE)
    assert download.headers["content-type"] == "application/octet-stream"
    assert call("DELETE", F).status == 204
    assert call("GET", F).status == 404


def test_the_form_of_the_go_library_is_read(call: Gateway) -> None:
    part = GO_HEAD + b'\r\n\r\n{"className": "ex.Ex", "py": "/home/me/ex.py", "inputs": ["in"]}'
    go_file = file_part(CODE).replace(b'name="data"', b'name="data" ', 1)
    assert sent(call, form(part, go_file)).status == 204


def test_json_alone_with_a_package_creates_a_function(call: Gateway, world: FunctionsWorld) -> None:
    assert created(call).status == 204
    other = F.replace("/ex", "/two")
    given = CONFIG | {"packageUrl": "function://public/default/ex@latest", "runtime": None}
    assert call("POST", other, given, content_type="application/json").status == 204
    assert package_url(world, "two") == "function://public/default/ex@0"
    metadata = world.workers.functions["function", "public/default", "two"]
    assert metadata.packageLocation.originalFileName == "ex.py"


def test_code_of_many_parts_is_stored_whole(call: Gateway, world: FunctionsWorld) -> None:
    code = bytes(range(256)) * (PART_BYTES_MAX // 128) + b"end"
    body = form(json_part("functionConfig", CONFIG), file_part(code, "ex.whl"))
    assert sent(call, body).status == 204
    assert call("GET", f"{F}/download").body == code
    assert len(world.ledgers.ledgers) == 3


CONFIG_PART = json_part("functionConfig", CONFIG)
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no config": (form(file_part(CODE)), 400, "Function config is not provided"),
    "config of another type": (
        form(json_part("functionConfig", CONFIG, "text/plain"), file_part(CODE)),
        400,
        "Function config is not provided: the part functionConfig must have the type application/json, not text/plain",
    ),
    "config that is no JSON": (
        form(CONFIG_PART.replace(b"{", b"[", 1), file_part(CODE)),
        400,
        "functionConfig: is not JSON",
    ),
    "no code": (form(CONFIG_PART), 400, "Function Package is not provided"),
    "empty code": (form(CONFIG_PART, file_part(b"")), 400, "Function Package is not provided"),
    "a file URL": (
        form(CONFIG_PART, text_part("url", "file:///etc/passwd")),
        400,
        "Function Package url is not valid.supported url (http/https/file)",
    ),
    "a URL that no pattern permits": (
        form(CONFIG_PART, text_part("url", "http://127.0.0.1/ex.py")),
        400,
        "Function Package url is not valid.supported url (http/https/file)",
    ),
    "a missing package": (
        form(CONFIG_PART, text_part("url", "function://public/default/x@1")),
        400,
        "Package 'function://public/default/x@1' metadata does not exist",
    ),
    "a URL that is none": (
        form(CONFIG_PART, text_part("url", "function://x")),
        400,
        "Invalid package name 'function://x'",
    ),
    "file and URL": (
        form(CONFIG_PART, file_part(CODE), text_part("url", "function://public/default/x@1")),
        400,
        "data: must not be given together with a url",
    ),
    "another language": (
        form(json_part("functionConfig", CONFIG | {"runtime": "JAVA"}), file_part(CODE, "x.jar")),
        400,
        "Function ex cannot be admitted:- the runtime JAVA is not offered; PYTHON is",
    ),
    "another file": (
        form(CONFIG_PART, file_part(CODE, "ex.sh")),
        400,
        "data: must be a file .py, .whl, .zip, not 'ex.sh'",
    ),
    "a part twice": (form(CONFIG_PART, CONFIG_PART), 400, "functionConfig: is given twice"),
    "a form that ends early": (
        form(CONFIG_PART, file_part(CODE))[:-9],
        400,
        "body: ends within a part",
    ),
    "an unknown built-in function": (
        form(json_part("functionConfig", CONFIG | {"functionType": "builtin://x"})),
        400,
        "No Function x found",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_function_leaves_nothing(call: Gateway, world: FunctionsWorld, case: str) -> None:
    body, status, reason = REFUSED[case]
    answer = sent(call, body)
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert (world.workers.functions, world.ledgers.ledgers) == ({}, {})


def test_a_missing_tenant_and_a_missing_namespace_are_named(call: Gateway) -> None:
    for tenant, namespace, reason in (
        ("no", "default", "Tenant does not exist"),
        ("public", "no", "Namespace does not exist"),
    ):
        path = f"/admin/v3/functions/{tenant}/{namespace}/ex"
        answer = sent(call, form(CONFIG_PART, file_part(CODE)), path=path)
        assert (answer.status, answer.json["reason"]) == (400, reason)


def test_the_package_of_a_function_that_the_workers_refuse_is_deleted(
    call: Gateway, world: FunctionsWorld
) -> None:
    world.workers.failing["create"] = NotReady("not now")
    assert created(call).status == 503
    assert world.ledgers.ledgers == {}


def test_code_has_a_bound_that_is_named(call: Gateway, settings: Any) -> None:
    bound = 1 << 10
    settings.ENVIRONMENT = _with(settings.ENVIRONMENT, package_bytes_max=bound)
    answer = sent(call, form(CONFIG_PART, file_part(bytes(bound + 1))))
    reason = f"data: must have at most {bound} bytes (package_bytes_max)"
    assert (answer.status, answer.json["reason"]) == (400, reason)
    answer = sent(call, form(CONFIG_PART, file_part(bytes(3 << 20))))
    assert answer.status == 413
    assert "(package_bytes_max)" in answer.json["reason"]


def _with(environment: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(environment, **changes)


# Updates


def test_an_update_keeps_the_code_unless_it_brings_another(
    call: Gateway, world: FunctionsWorld
) -> None:
    assert created(call).status == 204
    assert updated(call, {"parallelism": 2}).status == 204
    assert package_url(world) == "function://public/default/ex@0"
    assert updated(call, {}, file_part(b"new")).status == 204
    assert package_url(world) == "function://public/default/ex@1"
    assert call("GET", "/admin/v3/packages/function/public/default/ex").json == ["1"]
    assert call("GET", F).json["parallelism"] == 2


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "Update contains no change"),
        ({"parallelism": 1, "output": "out"}, "Update contains no change"),
        ({"inputs": ["other"]}, "Input Topics cannot be altered"),
        ({"processingGuarantees": "MANUAL"}, "Processing Guarantees cannot be altered"),
    ],
)
def test_an_update_is_refused_with_apaches_text(
    call: Gateway, config: dict[str, Any], reason: str
) -> None:
    assert created(call).status == 204
    answer = updated(call, config)
    assert (answer.status, answer.json["reason"]) == (400, reason)


def test_an_update_without_a_change_may_be_asked_for(call: Gateway, world: FunctionsWorld) -> None:
    assert created(call).status == 204
    assert updated(call, {}, json_part("updateOptions", {"updateAuthData": True})).status == 204
    assert world.workers.functions["function", "public/default", "ex"].version == 1


def test_the_new_package_of_a_lost_race_is_deleted(call: Gateway, world: FunctionsWorld) -> None:
    assert created(call).status == 204
    world.workers.failing["update"] = Conflict("it was changed meanwhile")
    assert updated(call, {}, file_part(b"new")).status == 409
    assert call("GET", "/admin/v3/packages/function/public/default/ex").json == ["0"]


# Actions


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
def test_instances_are_started_and_stopped(
    call: Gateway, world: FunctionsWorld, action: str
) -> None:
    assert created(call).status == 204
    assert call("POST", f"{F}/{action}").status == 204
    assert call("POST", f"{F}/0/{action}").status == 204
    assert [
        getattr(of, "instance", None) for name, of, _ in world.workers.calls if name == action
    ] == [
        None,
        0,
    ]
    answer = call("POST", f"{F}/9/{action}")
    assert (answer.status, answer.json["reason"]) == (400, "Operation not permitted")
    assert call("POST", f"{F}/-1/{action}").status == 400


def test_status_and_statistics_are_the_workers(call: Gateway) -> None:
    assert created(call).status == 204
    assert call("GET", f"{F}/status").json == {"numInstances": 1}
    assert call("GET", f"{F}/0/status").json == {"running": True}
    for path in ("stats", "0/stats"):
        assert call("GET", f"{F}/{path}").json == {"receivedTotal": 0, "avgProcessLatency": None}


def test_a_triggered_function_answers_its_output_as_it_is(
    call: Gateway, world: FunctionsWorld
) -> None:
    assert created(call).status == 204
    for data in (text_part("data", "hi"), file_part(b"hi", name="dataStream")):
        answer = sent(call, form(data, text_part("topic", "in")), path=f"{F}/trigger")
        assert (answer.status, answer.body) == (200, b"hi!")
        assert answer.headers["content-type"] == "application/json"
    answer = sent(call, form(text_part("topic", "in")), path=f"{F}/trigger")
    assert (answer.status, answer.json["reason"]) == (400, "Trigger Data is not provided")
    world.workers.failing["trigger"] = NotReady("The function gave no output within 30 s")
    answer = sent(call, form(text_part("data", "hi")), path=f"{F}/trigger")
    assert (answer.status, answer.json["reason"]) == (408, "Request Timed Out")
    world.workers.failing["trigger"] = InvalidRequest(
        "Function in trigger function has unidentified topic"
    )
    assert sent(call, form(text_part("data", "hi")), path=f"{F}/trigger").status == 400


def test_a_function_is_triggered_by_those_who_may_publish(
    call: Gateway, world: FunctionsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert created(call).status == 204
    asked: list[Any] = []

    async def refuse(rights: Any, view: Any, identity: Any, cluster: Any) -> None:
        asked.extend((right.action, right.of(view)) for right in rights)
        raise AccessRefusedError(
            identity, Action.PRODUCE, asked[0][1][0], Verdict(False, "no grant")
        )

    monkeypatch.setattr(components, "authorize", refuse)
    answer = sent(call, form(text_part("data", "hi")), path=f"{F}/trigger")
    reason = "Client is not authorized to perform operation"
    assert (answer.status, answer.json["reason"]) == (401, reason)
    assert asked == [(Action.PRODUCE, (TopicName.parse("in"),))]
    assert "trigger" not in [name for name, _, _ in world.workers.calls]


def test_state_is_put_by_a_form_and_read(call: Gateway) -> None:
    assert created(call).status == 204
    state = {"key": "a b", "numberValue": 5}
    put = sent(call, form(json_part("state", state)), path=f"{F}/state/a%20b")
    assert put.status == 204
    assert call("GET", f"{F}/state/a%20b").json == state
    assert call("POST", f"{F}/state/a%20b", state).status == 204
    answer = call("POST", f"{F}/state/other", state)
    assert (answer.status, answer.json["reason"]) == (400, "Path key doesn't match key in json")
    answer = call("GET", f"{F}/state/no")
    assert (answer.status, answer.json["reason"]) == (404, "'no' is not found")


# Sources, sinks and connectors


@pytest.mark.parametrize("tree", ["source", "sources", "sink", "sinks"])
def test_sources_and_sinks_have_code_of_their_own(
    call: Gateway, world: FunctionsWorld, tree: str
) -> None:
    component = tree.removesuffix("s")
    config = {"className": "ex.C", "inputs": ["in"], "topicName": "out", "configs": {"a": 1}}
    path = f"/admin/v3/{tree}/public/default/k"
    body = form(json_part(f"{component}Config", config), file_part(CODE))
    assert sent(call, body, path=path).status == 204
    assert call("GET", f"/admin/v3/{component}s/public/default").json == ["k"]
    assert call("GET", path).json["configs"] == {"a": 1}
    assert package_url(world, "k", component) == f"{component}://public/default/k@0"
    assert call("POST", f"{path}/0/restart").status == 204
    assert call("GET", f"{path}/status").status == 200


def test_a_class_is_required_of_code_that_is_given(call: Gateway) -> None:
    body = form(json_part("sinkConfig", {"inputs": ["in"]}), file_part(CODE))
    answer = sent(call, body, path=SINK)
    assert (answer.status, answer.json["reason"]) == (400, "Sink class name is not provided")


GENERATED = {"topicName": "out", "archive": "builtin://generator"}


def test_a_built_in_connector_is_deployed_by_its_name(call: Gateway, world: FunctionsWorld) -> None:
    path = "/admin/v3/sources/public/default/g"
    assert call("POST", path, GENERATED).status == 204
    assert call("GET", path).json["archive"] == "builtin://generator"
    assert package_url(world, "g", "source") == "builtin://generator"
    assert world.ledgers.ledgers == {}
    by_url = form(
        json_part("sourceConfig", {"topicName": "out"}), text_part("url", "builtin://generator")
    )
    assert sent(call, by_url, path=path + "2").status == 204
    answer = call("GET", f"{path}/download".replace("sources", "functions"))
    assert answer.status == 404


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"archive": "builtin://no"}, "archive: no built-in source 'no'"),
        ({"configs": {"unknown": 1}}, "configs.unknown: no setting of this connector"),
    ],
)
def test_settings_of_a_built_in_connector_are_checked(
    call: Gateway, changes: dict[str, Any], reason: str
) -> None:
    answer = call("POST", "/admin/v3/sources/public/default/g", GENERATED | changes)
    assert answer.status == 400
    assert answer.json["reason"].startswith(reason)


def test_the_catalogue_is_listed_with_its_settings(call: Gateway) -> None:
    known = call("GET", "/admin/v3/sources/builtinsources").json
    assert "generator" in [connector["name"] for connector in known]
    assert known == [
        c for c in call("GET", "/admin/v3/functions/connectors").json if "sourceClass" in c
    ]
    fields = call("GET", "/admin/v3/sources/builtinsources/generator/configdefinition").json
    assert {"fieldName", "typeName", "attributes"} == set(fields[0])
    for path in (
        "sources/reloadBuiltInSources",
        "sinks/reloadBuiltInSinks",
        "functions/builtins/reload",
    ):
        assert call("POST", f"/admin/v3/{path}").status == 204


# Files of packages


def test_a_file_is_uploaded_to_the_name_of_a_package(call: Gateway) -> None:
    name = "function://public/default/a b@1"
    upload = form(file_part(b"abc", "a.py"), text_part("path", name))
    assert sent(call, upload, path="/admin/v3/functions/upload").status == 204
    path = "/admin/v3/functions/download?path=function%3A%2F%2Fpublic%2Fdefault%2Fa%20b%401"
    assert call("GET", path).body == b"abc"
    answer = call("GET", "/admin/v3/functions/download?path=my/path/x.bin")
    assert (answer.status, answer.json["reason"]) == (
        400,
        "path: Invalid package name 'my/path/x.bin'",
    )


def test_names_of_packages_are_escaped(call: Gateway) -> None:
    path = "/admin/v3/packages/function/public/default/a%20b.%C3%BC%25/v%201"
    metadata = json_part("metadata", {"description": "d", "properties": {"a": "b"}})
    assert sent(call, form(metadata, file_part(b"abc", name="file")), path=path).status == 204
    assert call("GET", "/admin/v3/packages/function/public/default").json == ["a b.ü%"]
    assert call("GET", path).body == b"abc"
    assert call("GET", f"{path}/metadata").json["properties"] == {"a": "b"}
    assert call("PUT", f"{path}/metadata", {"properties": {"a": 1}}).status == 400
    assert call("DELETE", path).status == 204
    assert call("GET", path).status == 404
    assert sent(call, form(file_part(b"abc", name="file")), path=path).status == 400
    bad = path.replace("a%20b", "a%2Fb")
    assert sent(call, form(metadata, file_part(b"abc", name="file")), path=bad).status == 412


def test_without_a_worker_code_is_not_received(call: Gateway, world: FunctionsWorld) -> None:
    world.switch_off()
    assert created(call).status == 409
    assert call("GET", "/admin/v3/functions/connectors").status == 409
    assert world.ledgers.ledgers == {}
