"""Selection of recorded calls: all that may change something, whatever their path, unless their view has a preview.

The walk is over the URL table itself, so a route that is added is judged, too.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver

from admin_ui.audit.recording import is_change
from admin_ui.calls import PreviewedView
from gateway.http.view import CHANGING_METHODS

CONSOLE = Path(__file__).parents[4] / "frontend" / "openapi.json"
_CONVERTED = re.compile(r"<(?:\w+:)?(\w+)>")
ONLY_READ = {
    "admin/v2/persistent/x/x/x/backlogSize": {"PUT"},
    "admin/v2/persistent/x/x/x/subscription/x/analyzeBacklog": {"POST"},
    "admin/v2/schemas/x/x/x/compatibility": {"POST"},
    "admin/v2/schemas/x/x/x/version": {"POST"},
    "api/v1/clusters/x/topics/x/x/x/x/schemas/verdict": {"POST"},
    "api/v1/clusters/x/topics/x/x/x/x/schemas/rehearsal": {"POST"},
    "api/v1/analyses/x/estimate": {"POST"},
    "api/v1/clusters/x/alerts/preview": {"POST"},
    "api/v1/clusters/x/definitions/diff": {"POST"},
    "mcp": {"POST"},
    # What begins a session is recorded when it has begun.
    "api/v1/session/sign-in": {"POST"},
    "api/v1/session/set-up": {"POST"},
    "topics/persistent/x/x/x": {"POST"},
    "topics/persistent/x/x/x/partitions/1": {"POST"},
}
"""Methods by path that change nothing although HTTP counts them as changes, or that only publish messages. ``trees``
adds the equivalent paths."""


def is_recorded(method: str, path: str, body: Any) -> bool:
    return is_change(RequestFactory().generic(method, path, json.dumps(body), "application/json"))


def templates(
    resolver: URLResolver | None = None, before: str = ""
) -> Iterator[tuple[str, URLPattern]]:
    for entry in (resolver or get_resolver()).url_patterns:
        where = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from templates(entry, where)
        else:
            yield where, entry


def named(template: str, name: str) -> str:
    """Return the template's path with ``name`` in place of every named part."""
    path = template.replace("<two:namespace>", f"{name}/{name}")
    return _CONVERTED.sub(lambda match: "1" if "<number:" in match[0] else name, path)


def trees(path: str) -> set[str]:
    """Return the path with its equivalents in the other domain and for four-part names."""
    paths = {path, path.replace("/persistent/", "/non-persistent/")}
    legacy = {
        re.sub(r"^admin/v2/(persistent|non-persistent|schemas)/x/x/", r"admin/\1/x/x/x/", path)
        for path in paths
    }
    return paths | legacy


def test_every_route_records_changes_and_only_the_listed_reads_are_left_out() -> None:
    """Include names that are equal to a segment of another path, and bodies with ``preview``."""
    left_out: dict[str, set[str]] = {}
    for path, methods in ONLY_READ.items():
        for equivalent in trees(path):
            left_out[equivalent] = methods
    seen = 0
    for template, pattern in templates():
        if template.startswith("^"):
            continue  # pages and sockets have no method that changes something
        view = getattr(pattern.callback, "view_class", None)
        for method in CHANGING_METHODS:
            seen += 1
            path = named(template, "x").removeprefix("clusters/x/")  # of any cluster
            expected = method not in left_out.get(path, set())
            assert is_recorded(method, "/" + named(template, "x"), {}) == expected, template
            previewed = view is not None and issubclass(view, PreviewedView)
            asked = is_recorded(method, "/" + named(template, "x"), {"preview": True})
            assert asked == (expected and not previewed), template
    assert seen > 1_000
    unknown = left_out.keys() - {named(template, "x") for template, _ in templates()}
    assert not unknown, "these routes are gone"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/clusters/c/topics/persistent/t/n/policies/properties"),
        ("POST", "/api/v1/clusters/c/topics/persistent/t/n/policies/schemas"),
        ("DELETE", "/api/v1/clusters/c/topics/persistent/t/n/policies/schemas"),
        ("PUT", "/api/v1/clusters/c/tenants/t/namespaces/policies/properties"),
        ("PUT", "/admin/persistent/t/c/n/backlogSize"),
        ("DELETE", "/admin/persistent/t/c/n/backlogSize"),
        ("PUT", "/admin/v2/persistent/compatibility/version/version"),
    ],
)
def test_names_that_look_like_a_read_only_call_hide_no_change(method: str, path: str) -> None:
    assert is_recorded(method, path, {"preview": True})


def test_the_described_calls_with_a_preview_are_those_that_are_not_recorded_by_it() -> None:
    document = json.loads(CONSOLE.read_text())
    described = set()
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            content = call.get("requestBody", {}).get("content", {})
            of = content.get("application/json", {}).get("schema", {}).get("$ref", "/none")
            body = document["components"]["schemas"].get(of.rpartition("/")[2], {})
            if "preview" in body.get("properties", {}):
                described.add((method.upper(), re.sub(r"\{\w+\}", "x", path)))
    assert described
    for method, path in described:
        assert not is_recorded(method, path, {"preview": True}), path
        assert is_recorded(method, path, {"preview": False}), path


@pytest.mark.parametrize("preview", ["true", 1, [True], None])
def test_only_the_json_value_true_requests_a_preview(preview: Any) -> None:
    path = "/api/v1/clusters/c/topics/persistent/t/n/x/delete"
    assert is_recorded("POST", path, {"preview": preview})
    twice = RequestFactory().generic("POST", path, b'{"preview":true,"preview":false}')
    assert is_change(twice)
