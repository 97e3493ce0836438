"""``/admin/v2/functions``: the older form of the calls of functions, as Apache's broker answers them."""

import json
from typing import Any

from engine.functions.definitions.functions_pb2 import ProcessingGuarantees
from gateway.rest.functions.older_interface import older_status
from tests.support.admin.gateway_client import Gateway
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part, text_part
from tests.support.functions.functions_gateway import FunctionsWorld

F = "/admin/v2/functions/public/default/ex"
CODE = b"def process(x):\n    return x\n"
DETAILS: dict[str, Any] = {
    "tenant": "public",
    "namespace": "default",
    "name": "ex",
    "className": "ex.Ex",
    "runtime": "PYTHON",
    "autoAck": True,
    "parallelism": 1,
    "source": {"inputSpecs": {"persistent://public/default/in": {}}},
    "sink": {"topic": "persistent://public/default/out"},
    "unknownToUs": 1,
}


def sent(call: Gateway, details: Any, method: str = "POST", *parts: bytes) -> tuple[int, bytes]:
    # As text, too: the type of the part does not matter here.
    body = form(text_part("functionDetails", json.dumps(details)), *parts)
    answer = call(method, F, body, content_type=FORM_TYPE)
    return answer.status, answer.body


def test_a_function_is_created_shown_changed_and_deleted(
    call: Gateway, world: FunctionsWorld
) -> None:
    assert sent(call, DETAILS, "POST", file_part(CODE)) == (200, b"")
    assert call("GET", "/admin/v2/functions/public/default").json == ["ex"]
    shown = call("GET", F)
    assert shown.json["className"] == "ex.Ex"
    assert shown.json["resources"]["ram"] == str(1 << 30), "64 bits are a text"
    assert "processingGuarantees" not in shown.json, "a default value is left out"
    assert shown.body.startswith(b'{\n  "tenant": "public"')
    assert sent(call, DETAILS | {"parallelism": 3}, "PUT") == (200, b"")
    assert call("GET", "/admin/v3/functions/public/default/ex").json["parallelism"] == 3
    assert call("DELETE", F).status == 200
    assert call("GET", F).json == {"reason": "Function ex doesn't exist"}


def test_details_that_are_none_are_refused(call: Gateway, world: FunctionsWorld) -> None:
    status, body = sent(call, {"parallelism": "many"}, "POST", file_part(CODE))
    assert (status, b"functionDetails: is no FunctionDetails in JSON" in body) == (400, True)
    answer = call("POST", F, form(file_part(CODE)), content_type=FORM_TYPE)
    assert (answer.status, answer.json["reason"]) == (400, "Function config is not provided")
    typed = form(json_part("functionDetails", DETAILS), file_part(CODE))
    assert call("POST", F, typed, content_type=FORM_TYPE).status == 200
    assert ProcessingGuarantees.ATLEAST_ONCE == 0


def test_statuses_are_in_the_older_form() -> None:
    status = {
        "running": True,
        "error": "",
        "numRestarts": 0,
        "numReceived": 7,
        "latestUserExceptions": [{"exceptionString": "no", "timestampMs": 5}],
        "averageLatency": 0.5,
        "workerId": "w",
    }
    assert older_status(2, status) == {
        "running": True,
        "numReceived": "7",
        "latestUserExceptions": [{"exceptionString": "no", "msSinceEpoch": "5"}],
        "averageLatency": 0.5,
        "instanceId": "2",
        "workerId": "w",
    }


def test_without_a_worker_all_calls_are_refused(call: Gateway, world: FunctionsWorld) -> None:
    world.switch_off()
    for path in (F, "/admin/v2/functions/connectors", "/admin/v2/functions/public/default"):
        answer = call("GET", path)
        assert (answer.status, "Function Worker is not enabled" in answer.json["reason"]) == (
            409,
            True,
        )
