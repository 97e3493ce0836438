"""Pages about rights: who may do what at a place, what a role may do, and what the caller may do."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from engine.auth.actions import KINDS, UNJUDGED, Action
from engine.auth.authorization.evaluator import AccessRules
from engine.auth.authorization.reasons import ACTIONS
from engine.base.names import NamespaceName
from engine.tenancy import grants
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.clusters.cluster import Cluster
from gateway.http import view
from gateway.services.engine_link import Engine
from gateway.sign_in import AccessLevel
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Answer, Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]
CONSOLE = "/api/v1/clusters/standalone"
TOPIC = "persistent://t1/n/p"
Ask = Callable[[str, str], Answer]


async def filled(engine: Engine) -> None:
    for tenant, admin in (("t1", "ann"), ("t2", "bob")):
        given = {"adminRoles": [admin], "allowedClusters": ["standalone"]}
        await create_tenant(engine.store, tenant, given)
        name = NamespaceName.parse(f"{tenant}/n")
        await create_namespace(engine.store, name, None, cluster="standalone")
        await grants.grant(engine.store, name, "app", ["produce", "consume"])
        await grants.grant(engine.store, name, f"secret-{tenant}", ["produce"])
        await grants.grant_on_subscription(engine.store, name, "s", ["app"])


@pytest.fixture
def ask(call: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """``ask(role, path)`` is a GET of the console by a role; rights are judged."""
    cluster.link.run(filled)
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    return lambda role, path: call("GET", f"{CONSOLE}/{path}", headers=bearer(role))


def rows(answer: Answer, key: str = "role") -> dict[str, Any]:
    assert answer.status == 200, answer.body
    return {row[key]: row for row in answer.json["rows"]}


def actions(row: Any) -> dict[str, str]:
    return {action["action"]: action["why"] for action in row["actions"]}


def test_an_administrator_sees_who_may_do_what_in_its_tenant_and_why(ask: Ask) -> None:
    here = rows(ask("ann", f"access?topic={TOPIC}"))
    assert here.keys() == {"ann", "app", "secret-t1", SUPERUSER}
    assert actions(here["app"])["consume"] == "consume is granted to app on t1/n"
    assert actions(here["ann"])["tenant admin"] == "ann is an administrator of tenant t1"
    assert actions(here["secret-t1"]).keys() == {"lookup", "produce"}
    body = ask("ann", "access?tenant=t1&namespace=n").json
    assert (body["judged"], body["prefixed"]) == (True, False)
    assert body["subscriptions"] == [{"name": "s", "roles": ["app"]}]
    basis = rows(ask("ann", "access?tenant=t1"))["ann"]["actions"][0]["because"][0]
    assert (basis["given_by"], basis["kind"], basis["tenant"]) == ("tenant admin", "tenant", "t1")


@pytest.mark.parametrize(
    ("role", "place"),
    [
        ("ann", "tenant=t2"),
        ("ann", "tenant=t2&namespace=n"),
        ("ann", "topic=persistent://t2/n/p"),
        ("ann", "topic=persistent://t2/n/p&subscription=s"),
        ("ann", "tenant=nope"),
        ("ann", ""),
        ("app", f"topic={TOPIC}"),
    ],
)
def test_only_who_administers_a_place_sees_its_rights(role: str, place: str, ask: Ask) -> None:
    answer = ask(role, f"access?{place}")
    assert answer.status == 403
    assert "secret" not in answer.body.decode()
    assert ask(SUPERUSER, f"access?{place}").status == (404 if "nope" in place else 200)


@pytest.mark.parametrize(
    ("query", "field"), [("namespace=n", "namespace"), ("subscription=s", "subscription")]
)
def test_an_incomplete_place_is_refused_by_name(query: str, field: str, ask: Ask) -> None:
    answer = ask(SUPERUSER, f"access?{query}")
    assert (answer.status, answer.json["field"]) == (400, field)


def test_roles_are_those_of_the_callers_own_tenants(ask: Ask) -> None:
    assert rows(ask("ann", "roles")).keys() == {"ann", "app", "secret-t1"}
    everyone = rows(ask(SUPERUSER, "roles"))
    assert everyone.keys() >= {"ann", "bob", "app", "secret-t1", "secret-t2", SUPERUSER}
    assert everyone["app"]["grants"] == 2
    assert rows(ask("ann", "roles"))["app"]["grants"] == 1
    assert rows(ask("app", "roles")) == {}
    assert rows(ask(SUPERUSER, "roles?q=SECRET&limit=1")).keys() == {"secret-t1"}


def test_the_rights_of_a_role_are_shown_only_for_the_callers_tenants(ask: Ask) -> None:
    def reached(asking: str, role: str) -> set[str]:
        return rows(ask(asking, f"roles/{role}"), "resource").keys()

    everywhere = {"t1/n", "t2/n", "subscription s of t1/n", "subscription s of t2/n"}
    assert reached(SUPERUSER, "app") == everywhere
    assert reached("app", "app") == everywhere, "its own rights"
    assert reached("ann", "app") == {"t1/n", "subscription s of t1/n"}
    assert reached("ann", "secret-t2") == set()
    assert reached("ann", SUPERUSER) == {"the cluster"}
    refused = ask("app", "roles/ann")
    assert (refused.status, "administrator" in refused.json["reason"]) == (403, True)


def test_a_grant_is_shown_as_soon_as_it_is_made(ask: Ask, cluster: Cluster) -> None:
    async def grant(engine: Engine) -> None:
        await grants.grant(engine.store, NamespaceName.parse("t1/n"), "new", ["consume"])

    assert "new" not in rows(ask("ann", "roles"))
    cluster.link.run(grant)
    assert rows(ask("ann", "roles/new"), "resource").keys() == {"t1/n"}
    assert "new" in rows(ask("ann", "access?tenant=t1&namespace=n"))


def test_the_caller_learns_which_operations_it_may_make_and_what_is_missing(ask: Ask) -> None:
    may = ask("app", f"may?topic={TOPIC}&subscription=s").json["actions"]
    assert may["skipAll"] == {"allowed": True, "why": ""}
    assert may["getTopic"]["allowed"]
    assert may["deleteTopic"] == {
        "allowed": False,
        "why": "role app is no administrator of tenant t1; a superuser can make it one",
    }
    assert not may["createTopic"]["allowed"]
    assert "super_user_roles" in may["unloadBroker"]["why"]
    may = ask("ann", "may?tenant=t1&namespace=n").json["actions"]
    assert may["createTopic"]["allowed"]
    assert not {"deleteTopic", "skipAll"} & may.keys(), "they need a topic"
    may = ask("ann", "may?tenant=t1&namespace=n&policy=retention").json["actions"]
    assert may["setNamespacePolicy"]["allowed"]
    assert may["getAccess"]["allowed"]
    may = ask("ann", "may").json["actions"]
    assert not may["getAccess"]["allowed"]
    assert not may["createTenant"]["allowed"]
    assert "createTopic" not in may, "its body names the place"
    assert ask("ann", f"may?topic={TOPIC}").json["actions"]["getHistory"]["allowed"]


def test_actions_that_a_level_closes_are_absent_from_the_callers_rights(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "level_of", lambda request: AccessLevel.READ)
    may = ask("ann", f"may?topic={TOPIC}&subscription=s").json["actions"]
    assert may["getTopic"]["allowed"]
    assert "at level read, and this needs level operate" in may["skipAll"]["why"]
    assert "at level read, and this needs level full" in may["deleteTopic"]["why"]
    monkeypatch.setattr(view, "level_of", lambda request: AccessLevel.OPERATE)
    may = ask("ann", f"may?topic={TOPIC}&subscription=s").json["actions"]
    assert may["skipAll"]["allowed"]
    assert "this needs level full" in may["deleteTopic"]["why"]


def test_the_callers_listed_rights_agree_with_the_answers_of_calls(ask: Ask, call: Gateway) -> None:
    """Compare with the calls themselves: those that may not be made are refused for the same reason."""
    at = f"{CONSOLE}/topics/persistent/t1/n/p"
    for role in ("app", "ann", "stranger", SUPERUSER):
        may = ask(role, f"may?topic={TOPIC}").json["actions"]
        for name, method, path in (
            ("deleteTopic", "POST", f"{at}/delete"),
            ("getTopicPolicies", "GET", f"{at}/policies"),
            ("lastChanges", "GET", f"{at}/changes"),
            ("createTenant", "POST", f"{CONSOLE}/tenants"),
            ("listBrokers", "GET", f"{CONSOLE}/brokers"),
        ):
            answer = call(method, path, {} if method == "POST" else None, headers=bearer(role))
            assert (answer.status != 403) is may[name]["allowed"], (role, name, answer.body)
            if answer.status == 403:
                assert answer.json["reason"] == may[name]["why"]


def test_where_rights_are_not_judged_everything_is_allowed(call: Gateway) -> None:
    body = call("GET", f"{CONSOLE}/access?tenant=public").json
    assert body["judged"] is False
    may = call("GET", f"{CONSOLE}/may?topic={TOPIC}").json["actions"]
    assert all(action["allowed"] for action in may.values())


def test_the_actions_that_are_shown_are_those_of_the_judge() -> None:
    for kind, shown in ACTIONS.items():
        judged = {action for action, kinds in KINDS.items() if kind in kinds} - UNJUDGED
        assert judged <= set(shown) | {Action.AUTHENTICATED}, kind
    assert AccessRules().wildcards is False
