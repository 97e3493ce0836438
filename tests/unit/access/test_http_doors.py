"""A judge that allows nothing: every path of REST answers as Apache refuses, and of the console the judge's reason, for
existing names or not."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import AccessCheck
from engine.auth.rights import AUTHENTICATED, PUBLIC
from gateway.http.auth import access
from gateway.http.auth.access import declared_rights
from gateway.http.view import RestView
from gateway.rest.routes import converter
from gateway.rest.urls import table
from gateway.services.engine_link import EngineLink
from tests.support.access.judges import REASON, DenyAll
from tests.support.admin.gateway_client import Answer

Call = Callable[..., Answer]
REFUSALS = {(check.status, check.text[:20]) for check in AccessCheck}
"""Status and beginning of the text of Apache's refusals."""
EXISTING = {"tenant": "public", "property": "public", "namespace": "default"}
GONE = {"tenant": "nope", "namespace": "gone"}
LAUNCH = {
    "analysis": "topic-profile",
    "parameters": {"topic": "persistent://public/default/t"},
}
BODIES: dict[str, Any] = {
    "/admin/v2/namespaces/grantPermissionsOnTopics": [
        {"topic": "persistent://public/default/t", "role": "r", "actions": ["produce"]}
    ],
    "/admin/v2/namespaces/revokePermissionsOnTopics": [
        {"topic": "persistent://public/default/t", "role": "r"}
    ],
    "/api/v1/clusters/standalone/topics": {
        "domain": "persistent",
        "tenant": "public",
        "namespace": "default",
        "topic": "t",
    },
    "/api/v1/runs": LAUNCH,
    "/api/v1/schedules": LAUNCH,
    "/api/v1/analyses/topic-profile/estimate": LAUNCH,
}
"""Bodies that name the resource."""
HEALTH = "/brokers/health"
"""Open to checks from the gateway's own machine, as those of these tests."""
OWN_SESSION = "/api/v1/session"
COPIES = "/api/v1/clusters/<seg:cluster>/copies"
BEGIN_A_SESSION = {f"{OWN_SESSION}/sign-in", f"{OWN_SESSION}/set-up"}
BY_PROVIDER = {"/sign-in/<seg:provider>", "/sign-in/<seg:provider>/callback"}
"""Paths open to every caller: who it is, and sign-in by a password or by the code of the first person."""
NO_DATA = {"/metrics", "/status.html", "/api/v1/schema", "/"}
"""Paths open to every caller: figures for scrapers, a page for load balancers, the OpenAPI document, and the
page of the console, which holds no data; so are the console's other routes and the 405 of WebSocket paths."""


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> DenyAll:
    made = DenyAll()
    monkeypatch.setattr(access, "judge_of", lambda cluster: made)
    return made


def rest_path(template: str, names: dict[str, str]) -> str:
    return re.sub(
        r"\{(\w+)\}",
        lambda match: names.get(match[1], "1" if converter(match[1]) == "number" else "x"),
        template,
    )


def test_each_rest_path_refuses_before_it_calls_the_engine(
    call: Call, engine: EngineLink, judge: DenyAll
) -> None:
    """Answer alike for a namespace that exists and for one that does not, without a call of the engine.

    The paths of a cluster by its name end in the same views: they are called with the namespace that does not exist.
    """

    async def asked(*args: Any, **named: Any) -> Any:
        raise AssertionError("the engine was called")

    engine.arun = asked  # type: ignore[method-assign]
    checked = 0
    for route, _, _ in table():
        if route.template in NO_DATA or route.template.endswith(HEALTH):
            continue
        path = rest_path(route.template, {**EXISTING, "domain": "persistent"})
        assert resolve(path).func is resolve(f"/clusters/standalone{path}").func, path
        for method in sorted(route.methods):
            for names, prefix in ((EXISTING, ""), (GONE, "/clusters/standalone")):
                path = rest_path(route.template, {**names, "domain": "persistent"})
                target = f"{prefix}{path}"
                answer = call(method, target, BODIES.get(path))
                assert (answer.status, answer.json["reason"][:20]) in REFUSALS, target
                checked += 1
    assert checked > 1500


def console_routes() -> Iterator[tuple[str, type[RestView]]]:
    from admin_ui.urls import api_patterns

    for item in api_patterns:
        view = getattr(item.callback, "view_class", None)
        if view is not None:
            yield f"/api/v1/{item.pattern}", view


def console_path(pattern: str) -> str:
    values = {"cluster": "standalone", "domain": "persistent", **EXISTING}
    values |= {"analysis": "topic-profile", "component": "function"}
    return re.sub(
        r"<(\w+):(\w+)>",
        lambda match: values.get(match[2], "1" if match[1] == "number" else "x"),
        pattern,
    )


def test_each_console_call_refuses_before_it_calls_the_engine(
    call: Call, engine: EngineLink, judge: DenyAll
) -> None:
    async def asked(*args: Any, **named: Any) -> Any:
        raise AssertionError("the engine was called")

    engine.arun = engine.on_loop = asked  # type: ignore[method-assign, assignment]
    checked = 0
    for pattern, view in console_routes():
        path = console_path(pattern)
        for method, rights in declared_rights(view).items():
            if PUBLIC in rights:
                continue
            answer = call(method, path, BODIES.get(path))
            assert (answer.status, answer.json) == (403, {"reason": REASON}), (method, path)
            checked += 1
    assert checked > 60


def walk(patterns: list[Any], prefix: str = "/") -> Iterator[tuple[str, Any]]:
    for item in patterns:
        if isinstance(item, URLResolver):
            yield from walk(item.url_patterns, prefix + str(item.pattern))
        elif isinstance(item, URLPattern):
            yield prefix + str(item.pattern), item.callback


def test_every_url_states_rights_and_open_urls_are_listed() -> None:
    open_paths = set()
    for path, callback in walk(get_resolver().url_patterns):
        view = getattr(callback, "view_class", None)
        if view is None:
            assert getattr(callback, "rights", None) == (PUBLIC,), path
            open_paths.add(path)
            continue
        for method, rights in declared_rights(view).items():
            if PUBLIC in rights:
                assert method == "GET" or path in BEGIN_A_SESSION
                open_paths.add(path)
    patterns = {path for path in open_paths if path.startswith("/^")}
    other = {path.replace("/clusters/<seg:served_cluster>", "") for path in open_paths - patterns}
    assert other == NO_DATA | BEGIN_A_SESSION | BY_PROVIDER | {OWN_SESSION}
    assert sorted(pattern[:8] for pattern in patterns) == ["/^(?:clu", "/^(?:c|c", "/^docs(?"]


OF_A_SESSION = ("sign-out", "acting-role", "view-as", "password")
"""Changes of the caller's own session."""
OF_CHANGE_SETS = (
    *("GET changes", "POST changes", "GET changes/<str:set_id>"),
    *(f"POST changes/<str:set_id>/{verb}" for verb in ("confirm", "stop", "retry")),
    "GET changes/<str:set_id>/items",
    *("GET definitions", "POST definitions/diff", "POST definitions/apply"),
)
"""Calls about the caller's own change sets; each object is judged when it is previewed and when it is changed."""
OF_A_VIEWER = (
    *("overview", "topics", "topics/export", "subscriptions", "scopes", "bundles", "tenants"),
    *("roles", "roles/<seg:role>", "may", "addresses", "geo/links/<seg:remote>"),
)
"""Lists that contain what the caller may see, its own rights, and the addresses of brokers."""


def test_calls_that_need_only_an_authenticated_caller_are_listed() -> None:
    calls = {
        (method, pattern)
        for pattern, view in console_routes()
        for method, rights in declared_rights(view).items()
        if rights == (AUTHENTICATED,)
    }
    assert calls == {
        *(("POST", f"{OWN_SESSION}/{path}") for path in OF_A_SESSION),
        ("GET", f"{OWN_SESSION}/sessions"),
        ("DELETE", f"{OWN_SESSION}/sessions/<seg:session_id>"),
        ("GET", "/api/v1/environment"),
        ("GET", "/api/v1/health"),
        # Each cluster's links are judged by what the caller sees of that cluster.
        ("GET", "/api/v1/geo"),
        ("GET", "/api/v1/analyses"),
        # Functions are those of namespaces that the caller has; the catalogue of connectors is everybody's.
        ("GET", "/api/v1/clusters/<seg:cluster>/functions"),
        ("GET", "/api/v1/clusters/<seg:cluster>/connectors"),
        ("GET", "/api/v1/spark"),
        # Each run is judged by what it reads, once it is known.
        ("GET", "/api/v1/runs"),
        ("GET", "/api/v1/runs/<str:run_id>"),
        ("POST", "/api/v1/runs/<str:run_id>/cancel"),
        ("PUT", "/api/v1/runs/<str:run_id>/pin"),
        ("DELETE", "/api/v1/runs/<str:run_id>/pin"),
        ("GET", "/api/v1/runs/<str:run_id>/compare/<str:other>"),
        ("GET", "/api/v1/runs/<str:run_id>/script"),
        # Each copy is judged by what it reads and writes, once it is known.
        *(("GET", f"{COPIES}{path}") for path in ("", "/<seg:copy_id>")),
        *(("POST", f"{COPIES}/<seg:copy_id>/{verb}") for verb in ("stop", "resume", "undo")),
        # The topics are those that the caller sees, and their messages are read by its rights.
        ("GET", "/api/v1/clusters/<seg:cluster>/dead-letters"),
        ("GET", "/api/v1/schedules"),
        ("DELETE", "/api/v1/schedules/<str:schedule_id>"),
        ("GET", "/api/v1/runs/<str:run_id>/downloads/<str:name>"),
        *(("GET", f"/api/v1/clusters/<seg:cluster>/{path}") for path in OF_A_VIEWER),
        *(
            (call.split()[0], f"/api/v1/clusters/<seg:cluster>/{call.split()[1]}")
            for call in OF_CHANGE_SETS
        ),
        ("GET", "/api/v1/session/tokens"),
        ("POST", "/api/v1/session/tokens"),
        ("DELETE", "/api/v1/session/tokens/<number:token_id>"),
        ("GET", "/api/v1/views"),
        ("POST", "/api/v1/views"),
        ("PUT", "/api/v1/views/<number:view_id>"),
        ("DELETE", "/api/v1/views/<number:view_id>"),
    }


def test_no_view_states_a_right_that_is_not_judged_but_the_open_ones() -> None:
    for _, callback in walk(get_resolver().url_patterns):
        view = getattr(callback, "view_class", None)
        for rights in declared_rights(view).values() if view else ():
            assert Action.OPENED not in {right.action for right in rights}
