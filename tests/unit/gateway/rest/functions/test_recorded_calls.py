"""Calls of functions, sources, sinks and packages that were recorded on Apache Pulsar 4.0.8, made to our gateway."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.admin.gateway_client import Gateway
from tests.support.functions.functions_gateway import FunctionsWorld

GOLDEN = Path(__file__).parents[4] / "golden" / "functions"
GROUPS = ("functions-v3", "sources-v3", "sinks-v3", "packages-v3")
WORKER_OFF = "feature off / default"
OURS: dict[tuple[str, str], tuple[int, str]] = {
    ("functions-v3", "GET /admin/v3/functions/connectors"): (200, "connectors are built in"),
    ("sinks-v3", "GET /admin/v3/sinks/builtinsinks"): (200, "connectors are built in"),
    ("sources-v3", "GET /admin/v3/sources/builtinsources"): (200, "connectors are built in"),
    ("functions-v3", "GET /admin/v3/functions/zt/ns/nof/state/k"): (404, "state is always there"),
    ("sinks-v3", "GET /admin/v3/sinks/builtinsinks/nocon/configdefinition"): (404, "not a failure"),
    ("sources-v3", "GET /admin/v3/sources/builtinsources/nocon/configdefinition"): (
        404,
        "not a failure",
    ),
    ("packages-v3", "POST /admin/v3/packages/bogus/zt/ns/pk/v1"): (412, "not a failure"),
}
"""Calls with another status or body on purpose, with our status and the reason."""


def samples(group: str) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads((GOLDEN / f"{group}.json").read_text())["samples"]
    return recorded


def made(call: Gateway, sample: dict[str, Any]) -> Any:
    method, target = sample["request"].split(" ", 1)
    body = sample.get("request_body")
    return call(
        method,
        target,
        None if body is None else body.encode(),
        content_type=sample.get("request_content_type"),
        headers={"accept": sample.get("request_accept") or "application/json"},
    )


def without_times(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: value for key, value in body.items() if not key.endswith("Time")}
    return body


@pytest.mark.parametrize("group", GROUPS)
def test_recorded_calls_have_the_recorded_answers(
    call: Gateway, world: FunctionsWorld, group: str
) -> None:
    assert call("PUT", "/admin/v2/tenants/zt", {"allowedClusters": ["standalone"]}).status == 204
    assert call("PUT", "/admin/v2/namespaces/zt/ns").status == 204
    for sample in samples(group):
        if sample["case"] == WORKER_OFF:
            continue
        answer = made(call, sample)
        request, case = sample["request"], sample["case"]
        if (group, request) in OURS:
            assert answer.status == OURS[group, request][0], (request, case)
        elif group == "packages-v3" and case == "missing" and request.startswith("DELETE"):
            assert answer.status == 404  # a missing version is no failure
        else:
            assert answer.status == sample["status"], (request, case, answer.body)
            if "body_text" in sample:
                assert answer.body.decode() == sample["body_text"]
            elif "body" in sample:
                assert without_times(answer.json) == without_times(sample["body"]), (request, case)


@pytest.mark.parametrize("group", GROUPS[:3])
def test_without_a_worker_calls_are_refused_as_recorded(
    call: Gateway, world: FunctionsWorld, group: str
) -> None:
    world.switch_off()
    for sample in samples(group):
        if sample["case"] == WORKER_OFF and not sample["request"].endswith("/download"):
            answer = made(call, sample)
            assert (answer.status, answer.json) == (409, sample["body"]), sample["request"]
