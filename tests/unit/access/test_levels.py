"""Levels close calls that the judge allows: every change at level read, at level operate all but daily operations."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.auth.actions import Action
from gateway.clusters.cluster import Cluster
from gateway.http import view as views
from gateway.http.auth import access
from gateway.http.auth.access import declared_rights, reads, rights_of
from gateway.http.auth.levels import needed_level
from gateway.rest.urls import table
from gateway.services.engine_link import EngineLink
from gateway.sign_in import AccessLevel
from gateway.ws.paths import KINDS
from tests.support.access.judges import DenyAll
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.access.test_console_rights import named
from tests.unit.access.test_http_doors import (
    BODIES,
    EXISTING,
    console_path,
    console_routes,
    rest_path,
)
from tests.unit.access.test_socket_doors import ENDPOINTS, never

Call = Callable[..., Answer]
OPERATOR_CALLS = {
    *(f"POST TOPIC/subscriptions/<seg:subscription>/{name}" for name in ("skip-all", "skip")),
    *(f"POST TOPIC/subscriptions/<seg:subscription>/{name}" for name in ("reset", "undo")),
    *(f"POST TOPIC/subscriptions/<seg:subscription>/{name}" for name in ("delete", "disconnect")),
    "POST TOPIC/subscriptions/<seg:subscription>/acknowledge",
    "PUT TOPIC/subscriptions/<seg:subscription>/age-target",
    "POST TOPIC/copies",
    *(f"POST copies/<seg:copy_id>/{name}" for name in ("stop", "resume", "undo")),
    "POST TOPIC/unload",
    "POST NAMESPACE/unload",
    "POST connections/<seg:broker>/<seg:connection>/disconnect",
    "POST transactions/<seg:coordinator>/<seg:number>/abort",
    "POST FUNCTION/run",
    "POST brokers/<seg:broker>/unload",
    "POST brokers/<seg:broker>/drain",
    "POST brokers/<seg:broker>/drain/end",
    "POST repair/switch",
    "POST repair/delay",
    "POST repair/audit",
    "POST bookies/<seg:bookie>/decommission",
    "POST bookies/<seg:bookie>/decommission/withdraw",
    "POST bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>/transfer",
    "POST bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>/unload",
    "POST runs",
    "POST runs/<str:run_id>/cancel",
    *("PUT runs/<str:run_id>/pin", "DELETE runs/<str:run_id>/pin"),
    "POST alerts/firings/<number:row_id>/acknowledge",
    *("POST alerts/silences", "DELETE alerts/silences/<number:row_id>"),
    *("POST schedules", "DELETE schedules/<str:schedule_id>"),
}
"""Changes of the console that the level operate allows."""
READER_CALLS: set[str] = {
    "POST session/sign-out",
    "POST session/acting-role",
    "POST session/view-as",
    "POST session/password",
    "DELETE session/sessions/<seg:session_id>",
    "POST session/tokens",
    "DELETE session/tokens/<number:token_id>",
}
"""Changes of the console that every level allows, since they are of the caller's own session."""
OPERATOR_REST = {
    "BundleUnloadResource",
    "CompactionResource",
    "ExpireAllResource",
    "ExpireResource",
    "ExpireToPositionResource",
    "NamespaceClearBacklogResource",
    "NamespaceUnloadResource",
    "ResetToPositionResource",
    "ResetToTimeResource",
    "SkipAllResource",
    "SkipResource",
    "SubscriptionResource",
    "TopicUnloadResource",
    "FunctionTriggerResource",
    *(
        f"{component}{action}Resource"
        for component in ("Function", "Source", "Sink")
        for action in ("Start", "Stop", "Restart")
    ),
    *("OlderTriggerResource", "OlderStopResource", "OlderRestartResource"),
}
"""Views of REST with a change that the level operate allows."""


def rest_calls() -> Iterator[tuple[str, str, type[Any]]]:
    """Yield method, template and view of each call of REST that may change something."""
    for route, view, _ in table():
        for method in sorted(route.methods):
            if not reads(view, method) and any(right.judged for right in rights_of(view, method)):
                yield method, route.template, view


def console_calls() -> Iterator[tuple[str, str, type[Any]]]:
    for pattern, view in console_routes():
        for method in declared_rights(view):
            judged = any(right.judged for right in rights_of(view, method))
            if judged and not reads(view, method):
                yield method, pattern, view


def test_the_changes_that_a_lower_level_allows_are_listed() -> None:
    by_level: dict[AccessLevel, set[str]] = {level: set() for level in AccessLevel}
    for method, pattern, view in console_calls():
        by_level[needed_level(view, method)].add(f"{method} {named(pattern)}")
    assert by_level[AccessLevel.OPERATE] == OPERATOR_CALLS
    assert by_level[AccessLevel.READ] == READER_CALLS
    assert len(by_level[AccessLevel.FULL]) > 20
    of_rest: dict[AccessLevel, set[str]] = {level: set() for level in AccessLevel}
    for method, _, view in rest_calls():
        of_rest[needed_level(view, method)].add(view.__name__)
    assert of_rest[AccessLevel.OPERATE] == OPERATOR_REST
    assert of_rest[AccessLevel.READ] == set()


def test_a_level_includes_the_lower_ones_alone() -> None:
    order = [AccessLevel.READ, AccessLevel.OPERATE, AccessLevel.FULL]
    for position, level in enumerate(order):
        assert [level.includes(needed) for needed in order] == [n <= position for n in range(3)]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[AccessLevel], None]:
    """``at(level)`` makes each caller act at this level, with a judge that allows everything."""
    judge = DenyAll(*Action)
    monkeypatch.setattr(access, "judge_of", lambda cluster: judge)
    return lambda level: monkeypatch.setattr(views, "level_of", lambda request: level)


LEVELS = (AccessLevel.READ, AccessLevel.OPERATE)


@pytest.mark.parametrize("level", LEVELS)
def test_each_change_of_rest_is_closed_at_a_lower_level(
    level: AccessLevel, call: Call, engine: EngineLink, at: Callable[[AccessLevel], None]
) -> None:
    at(level)
    engine.arun = engine.on_loop = never  # type: ignore[method-assign, assignment]
    checked = set()
    for method, template, view in rest_calls():
        if level.includes(needed_level(view, method)) or (method, view) in checked:
            continue
        checked.add((method, view))
        path = rest_path(template, {**EXISTING, "domain": "persistent"})
        answer = call(method, path, BODIES.get(path))
        assert answer.status == 403, (method, path)
        assert f"at level {level}, and this needs level" in answer.json["reason"], (method, path)
        assert "a superuser can give it" in answer.json["reason"]
    assert len(checked) > 100


@pytest.mark.parametrize("level", LEVELS)
def test_each_change_of_the_console_is_closed_at_a_lower_level(
    level: AccessLevel, call: Call, engine: EngineLink, at: Callable[[AccessLevel], None]
) -> None:
    at(level)
    engine.arun = engine.on_loop = never  # type: ignore[method-assign, assignment]
    checked = 0
    for method, pattern, view in console_calls():
        if level.includes(needed_level(view, method)):
            continue
        path = console_path(pattern)
        answer = call(method, path, BODIES.get(path))
        assert answer.status == 403, (method, path)
        assert f"at level {level}, and this needs level" in answer.json["reason"], (method, path)
        checked += 1
    assert checked > 20
    assert set(AuditEntry.objects.values_list("status", flat=True)) == {403}


def test_an_operator_unloads_and_a_reader_reads(
    call: Call, at: Callable[[AccessLevel], None]
) -> None:
    at(AccessLevel.OPERATE)
    unload = "/admin/v2/persistent/public/default/t/unload"
    assert call("PUT", unload).status == 404, "the topic does not exist"
    assert call("DELETE", "/admin/v2/persistent/public/default/t").status == 403
    at(AccessLevel.READ)
    assert call("PUT", unload).status == 403
    assert call("GET", "/admin/v2/namespaces/public").status == 200


PATHS = {kind: next(path for path in ENDPOINTS if f"/{kind}/" in path) for kind in KINDS}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["producer", "consumer"])
async def test_no_producer_and_no_consumer_opens_at_a_lower_level(
    kind: str, level: AccessLevel, call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "client", property(never))
    monkeypatch.setattr("gateway.ws.sockets.level_of_socket", lambda scope: level)
    pair = await SocketPair(call.application, PATHS[kind]).opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    assert f"at level {level}" in (pair.response.body or b"").decode()
    await pair.hang_up()


def test_the_endpoint_of_an_unknown_kind_needs_the_level_full() -> None:
    assert set(KINDS) == {"producer", "consumer", "reader"}
    assert json.dumps({"level": AccessLevel.READ}) == '{"level": "read"}'
