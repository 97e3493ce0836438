"""Payload rules hide messages from people, and every reveal is recorded before it is made."""

import asyncio
from typing import Any

import pytest
from django.db import OperationalError

from admin_ui.audit.audit_writer import AuditWriter, NotRecordedError
from admin_ui.models import AuditEntry
from gateway.access.models import PayloadRule
from gateway.access.payload_rules import PayloadRules, covers, shows
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import declared_rights, reads
from gateway.rest.urls import table
from gateway.services.engine_link import EngineLink
from gateway.sign_in import AccessLevel
from tests.support.access.browser import Browser
from tests.support.access.callers import bearer
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.access.test_http_doors import console_path, console_routes, rest_path
from tests.unit.access.test_socket_doors import never
from tests.unit.gateway.people.conftest import (
    AddPerson,
    add,
    browser,
    call,
    cluster,
    door,
    engine,
    gateway,
    root,
)

__all__ = ["add", "browser", "call", "cluster", "door", "engine", "gateway", "root"]
PEEK = "/admin/v2/persistent/t/n/p/subscription/s/position/1"
REVEALING = {
    "GET PeekResource",
    "GET ExamineResource",
    "GET MessageByIdResource",
    "POST RehearsalView",
    "POST TryFunctionView",
    "GET MessagesView",
    "GET DeadLettersView",
    "GET MessagesExportView",
    "GET MessageView",
    "GET MessageValueView",
}
"""Views whose answers have payloads of messages."""
HIDDEN = "Payloads of {} are hidden from role {} at level {}"


def rule(role: str, level: str, namespace: str, shown: bool) -> PayloadRule:
    return PayloadRule(role=role, level=level, namespace=namespace, shown=shown)


def test_the_first_rule_that_matches_decides_and_without_any_the_level() -> None:
    rules = [
        rule("audit", "", "t/secret", False),
        rule("audit", "read", "t/*", True),
        rule("", "full", "t2/*", False),
        rule("root", "", "*", True),
    ]
    assert shows(rules, "audit", "read", "t/n")
    assert not shows(rules, "audit", "read", "t/secret")
    assert not shows(rules, "audit", "full", "t/secret")
    assert not shows(rules, "audit", "operate", "t/n")
    assert not shows(rules, "any", "full", "t2/n")
    assert not shows(rules, "root", "full", "t2/n")
    assert shows(rules, "root", "read", "t3/n")
    assert [shows([], "any", level, "t/n") for level in ("read", "operate", "full")] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "damaged",
    [{"shown": "no"}, {"shown": None}, {"level": "all"}, {"namespace": 5}, {"role": None}],
)
def test_a_damaged_rule_hides_what_no_rule_before_it_decides(damaged: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"role": "", "level": "", "namespace": "*", "shown": True} | damaged
    rules = [rule("", "", "t/n", True), rule(**fields)]
    assert shows(rules, "any", "read", "t/n")
    assert not shows(rules, "any", "full", "t2/n")


def test_a_pattern_covers_a_namespace_a_tenant_or_all() -> None:
    assert covers("t/n", "t/n")
    assert not covers("t/n", "t/n2")
    assert covers("t/*", "t/c/n")
    assert not covers("t/*", "t2/n")
    assert covers("*", "t/n")
    assert covers("*", "")
    assert not covers("t/*", "")


def test_the_views_that_show_payloads_are_listed() -> None:
    views = {view for _, view, _ in table()} | {view for _, view in console_routes()}
    assert {f"{method} {view.__name__}" for view in views for method in view.shows_payloads} == (
        REVEALING
    )


def revealing_calls() -> list[tuple[str, str]]:
    calls = [
        (method, rest_path(route.template, {"tenant": "t", "namespace": "n", "topic": "p"}))
        for route, view, _ in table()
        for method in view.shows_payloads
        if route.template.startswith("/admin/v2/persistent")
    ]
    for pattern, view in console_routes():
        calls += [(method, console_path(pattern)) for method in view.shows_payloads]
    return calls


def test_every_call_that_shows_payloads_is_refused_to_people_from_whom_they_are_hidden(
    browser: Browser, add: AddPerson, engine: EngineLink
) -> None:
    engine.arun = engine.on_loop = never  # type: ignore[method-assign, assignment]
    for level in ("read", "operate"):
        add(f"ann-{level}", f"root:{level}")
        browser.sign_in(f"ann-{level}")
        for method, path in revealing_calls():
            answer = browser(method, path, {} if method == "POST" else None)
            assert answer.status == 403, path
            if path.endswith("/try"):  # who runs code needs the level of those who deploy it
                assert "this needs level full" in answer.json["reason"]
                continue
            assert "Payloads of" in answer.json["reason"], path
            assert f"are hidden from role root at level {level}" in answer.json["reason"]
    assert browser("HEAD", PEEK).status == 403


def test_each_reveal_is_recorded_with_the_person_and_the_topic(
    browser: Browser, root: Any, cluster: Cluster
) -> None:
    browser.sign_in("root")
    AuditEntry.objects.all().delete()
    assert browser("GET", PEEK).status == 404, "there is no such topic"
    (entry,) = AuditEntry.objects.all()
    assert (entry.actor, entry.role, entry.method) == ("root", "root", "GET")
    assert (entry.topic, entry.status) == ("persistent://t/n/p", 404)
    assert entry.operation.endswith("/subscription/{subName}/position/{messagePosition}")


def test_a_reveal_that_cannot_be_recorded_is_not_made(
    browser: Browser, root: Any, engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.sign_in("root")

    async def fail(*given: Any) -> None:
        raise NotRecordedError("no space")

    monkeypatch.setattr(AuditWriter, "begin", fail)
    engine.arun = never  # type: ignore[method-assign]
    answer = browser("GET", PEEK)
    assert (answer.status, "audit log" in answer.json["reason"]) == (503, True)


def test_programs_are_neither_hidden_from_nor_recorded(door: Gateway) -> None:
    PayloadRule.objects.create(position=0, namespace="*", shown=False)
    assert door("GET", PEEK, headers=bearer("app")).status == 404
    assert not AuditEntry.objects.exists()


def test_rules_are_replaced_together_recorded_and_in_force_at_once(
    browser: Browser, root: Any, add: AddPerson
) -> None:
    browser.sign_in("root")
    assert browser("GET", "payload-rules").json == {"rows": []}
    assert browser("GET", PEEK).status == 404
    rules = [
        {"role": "root", "level": "", "namespace": "t/n", "shown": False},
        {"role": "", "level": "read", "namespace": "t/*", "shown": True},
    ]
    answer = browser("PUT", "payload-rules", {"rules": rules, "expected": []})
    assert (answer.status, answer.json) == (200, {"rows": rules})
    refused = browser("GET", PEEK)
    assert refused.json["reason"].startswith(HIDDEN.format("t/n", "root", "full"))
    assert "a superuser can show them, by a payload rule" in refused.json["reason"]
    assert browser("GET", "payload-rules").json == {"rows": rules}
    stale = browser("PUT", "payload-rules", {"rules": [], "expected": []})
    assert stale.status == 409
    entry = AuditEntry.objects.filter(operation="setPayloadRules", status=200).get()
    assert '"where": "payload rules"' in entry.changes
    add("ann", "billing:read")
    ann = Browser(browser.gateway)
    ann.sign_in("ann")
    assert ann("GET", PEEK).status == 404, "shown by the second rule"
    assert ann("PUT", "payload-rules", {"rules": [], "expected": rules}).status == 403


@pytest.mark.parametrize(
    ("field", "value"), [("namespace", "a/b/c/d"), ("namespace", "/*"), ("level", "some")]
)
def test_a_wrong_rule_is_refused(field: str, value: str, browser: Browser, root: Any) -> None:
    browser.sign_in("root")
    good = {"role": "", "level": "", "namespace": "*", "shown": True}
    body = {"rules": [good | {field: value}], "expected": []}
    assert browser("PUT", "payload-rules", body).status in (400, 412)
    assert not PayloadRule.objects.exists()


def test_payloads_are_hidden_while_the_rules_are_not_known(
    browser: Browser, root: Any, engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.sign_in("root")

    async def fail(_: Any) -> Any:
        raise OperationalError("locked")

    monkeypatch.setattr(PayloadRules, "current", fail)
    engine.arun = never  # type: ignore[method-assign]
    assert browser("GET", PEEK).status == 503


READER = "/ws/v2/reader/persistent/t/n/p"


async def handshake(gateway: Gateway, path: str) -> tuple[int, str]:
    pair = await SocketPair(gateway.application, path, headers=bearer("billing")).opened()
    assert pair.response is not None
    await pair.hang_up()
    return pair.response.status_code, (pair.response.body or b"").decode()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sockets that came as far as the broker, which refuses them."""
    reached: list[str] = []

    def client(self: Any) -> Any:
        reached.append(self.name)
        raise TimeoutError

    monkeypatch.setattr(Cluster, "client", property(client))
    return reached


def test_a_reader_at_a_lower_level_follows_the_rules_and_is_recorded(
    door: Gateway, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(handshake(door, READER))
    assert opened.pop()
    assert not AuditEntry.objects.exists(), "a program is not concerned"
    monkeypatch.setattr("gateway.ws.sockets.level_of_socket", lambda scope: AccessLevel.READ)
    status, text = asyncio.run(handshake(door, READER))
    assert status == 403, text
    assert "Payloads of t/n are hidden" in text
    assert opened == []
    assert not AuditEntry.objects.exists()
    PayloadRule.objects.create(position=0, role="billing", namespace="t/n", shown=True)
    door.clusters.part(PayloadRules).renew()
    asyncio.run(handshake(door, READER))
    assert opened
    (entry,) = AuditEntry.objects.all()
    about = (entry.actor, entry.operation, entry.topic, entry.status)
    assert about == ("billing", "WebSocket", "persistent://t/n/p", 101)
    assert asyncio.run(handshake(door, "/ws/v2/consumer/persistent/t/n/p/s"))[0] == 403


def test_a_live_tail_follows_the_rules_and_is_recorded(
    door: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = "/api/v1/tail?topic=persistent://t/n/p"
    monkeypatch.setattr("admin_ui.messages.tail.level_of_socket", lambda scope: AccessLevel.READ)
    status, text = asyncio.run(handshake(door, tail))
    assert (status, "Payloads of t/n are hidden" in text) == (403, True)
    assert not AuditEntry.objects.exists()
    PayloadRule.objects.create(position=0, role="billing", namespace="t/n", shown=True)
    door.clusters.part(PayloadRules).renew()
    asyncio.run(handshake(door, tail))
    (entry,) = AuditEntry.objects.all()
    about = (entry.actor, entry.operation, entry.topic, entry.status)
    assert about == ("billing", "WebSocket", "persistent://t/n/p", 101)


def test_an_operation_that_would_show_hidden_payloads_is_closed(
    browser: Browser, add: AddPerson
) -> None:
    add("ann", "root:read")
    browser.sign_in("ann")
    path = "clusters/standalone/may?topic=persistent://t/n/p"
    closed = browser("GET", path).json["actions"]["rehearseSchema"]
    assert not closed["allowed"]
    assert closed["why"].startswith(HIDDEN.format("t/n", "root", "read"))
    PayloadRule.objects.create(position=0, role="root", namespace="t/n", shown=True)
    browser.gateway.clusters.part(PayloadRules).renew()
    assert browser("GET", path).json["actions"]["rehearseSchema"]["allowed"]


def test_reads_alone_show_payloads() -> None:
    for _, view, _ in table():
        assert all(reads(view, method) for method in view.shows_payloads)
        assert view.shows_payloads <= declared_rights(view).keys()
