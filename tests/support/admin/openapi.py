"""An OpenAPI document of the resources that are built, for tools that try every call of a document."""

from typing import Any

from gateway.rest.routes import NON_PERSISTENT, shape
from gateway.rest.urls import table

KNOWN = {
    "tenant": "fuzzed",
    "namespace": "ns",
    "topic": "t",
    "cluster": "standalone",
    "subName": "s",
    "subscription": "s",
}
"""Names that exist: half of the calls use them."""
SWITCHED_OFF = "/admin/v3/transactions"
"""Calls that every Pulsar without transactions answers with 503."""
STATUSES = (200, 204, 307, 400, 404, 405, 406, 409, 412, 415, 422, 501)
"""Statuses that a call may have on an intact instance: none that reports a failure of the server."""


SAME_VIEWS = (NON_PERSISTENT, "/admin/persistent/", "/admin/non-persistent/")
"""Trees whose calls are those of the persistent topics."""


def parameter(name: str, *, is_number: bool) -> dict[str, Any]:
    any_value = {"type": "integer"} if is_number else {"type": "string", "minLength": 1}
    values = [{"enum": [KNOWN[name]]}] if name in KNOWN else []
    return {"name": name, "in": "path", "required": True, "schema": {"anyOf": [*values, any_value]}}


def document() -> dict[str, Any]:
    """Return the paths and methods that are built as OpenAPI 3.0; bodies are any JSON."""
    paths: dict[str, Any] = {}
    body = {"content": {"application/json": {"schema": {}}}}
    for route, view, _ in table():
        if route.template.startswith(SAME_VIEWS):
            continue
        statuses = (*STATUSES, 503) if route.template.startswith(SWITCHED_OFF) else STATUSES
        responses = {str(status): {"description": ""} for status in statuses}
        numbers = shape(route.template).split("/")
        parameters = [
            parameter(part[1:-1], is_number=number == "{number}")
            for part, number in zip(route.template.split("/"), numbers, strict=True)
            if part.startswith("{")
        ]
        for method in sorted(route.methods):
            name = method.lower()
            if not hasattr(view, name):
                continue
            call = {"parameters": parameters, "responses": responses}
            with_body = {"requestBody": body} if name in ("post", "put") else {}
            paths.setdefault(route.template, {})[name] = {**call, **with_body}
    return {"openapi": "3.0.3", "info": {"title": "Admin REST", "version": "2"}, "paths": paths}
