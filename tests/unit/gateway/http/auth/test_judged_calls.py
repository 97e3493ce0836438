"""Calls of roles with and without rights, judged by the tenants and policies that are stored."""

import asyncio
from typing import Any

import pytest

from engine.auth.identity import Identity
from engine.auth.viewer import ALL, Viewer
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.store import StoreUnavailableError
from engine.tenancy.grants import grant, revoke
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.clusters.cluster import Cluster
from gateway.http.auth.viewers import Viewers
from gateway.services.engine_link import Engine, EngineLink
from tests.support.access.callers import PROXY, SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Answer, Gateway

TOPICS = "/admin/v2/namespaces/t/n/topics"
TTL = "/admin/v2/namespaces/t/n/messageTTL"
TENANT = "/admin/v2/tenants/t"
NAMESPACE = NamespaceName.of("t", "n")
OTHER = NamespaceName.of("o", "n")


async def stored(engine: Engine) -> None:
    """Store the tenants ``t`` and ``o`` of the roles ``own`` and ``other``, each with a namespace ``n``."""
    for name, admin in (("t", "own"), ("o", "other")):
        info = {"adminRoles": [admin], "allowedClusters": ["standalone"]}
        await create_tenant(engine.store, name, info)
        await create_namespace(engine.store, NamespaceName.of(name, "n"), {}, cluster="standalone")


@pytest.fixture
def judged(gateway: Gateway, engine: EngineLink, settings: Any) -> Gateway:
    """A gateway that judges its callers."""
    settings.IDENTITY = by_token(
        authorization_enabled=True, super_user_roles=f"{SUPERUSER},{PROXY}"
    )
    engine.run(stored)
    return gateway


def status(answer: Answer) -> int:
    return answer.status


def test_a_grant_opens_a_call_and_its_end_closes_it(judged: Gateway, engine: EngineLink) -> None:
    def listed() -> int:
        return judged("GET", TOPICS, headers=bearer("app")).status

    assert listed() == 403
    engine.run(lambda link: grant(link.store, NAMESPACE, "app", ["produce"]))
    assert listed() == 200
    assert judged("GET", TTL, headers=bearer("app")).status == 403
    engine.run(lambda link: revoke(link.store, NAMESPACE, "app"))
    assert listed() == 403


@pytest.mark.parametrize(
    ("role", "answers"),
    [("own", (200, 401, 401)), ("other", (403, 401, 401)), (SUPERUSER, (200, 200, 200))],
)
def test_administrators_manage_their_tenant_and_superusers_the_cluster(
    role: str, answers: tuple[int, ...], judged: Gateway
) -> None:
    paths_ = (TTL, "/admin/v2/tenants", "/admin/v2/clusters/standalone")
    assert tuple(judged("GET", path, headers=bearer(role)).status for path in paths_) == answers


def test_a_proxy_gives_its_client_no_right_and_none_names_itself_another(judged: Gateway) -> None:
    def by(role: str, principal: str) -> int:
        headers = {**bearer(role), "x-original-principal": principal}
        return judged("GET", TTL, headers=headers).status

    assert by(PROXY, "own") == 200
    assert by(PROXY, "stranger") == 403
    assert by(PROXY, PROXY) == by(PROXY, "") == 401
    assert by("own", "own") == 200
    assert by("own", SUPERUSER) == by(SUPERUSER, "own") == 401


def test_a_header_spelled_with_underscores_names_no_client_of_a_proxy(judged: Gateway) -> None:
    # A proxy in front replaces the header that it knows, and passes others on.
    named = {"x_original_principal": "own", "x_original-principal": "own"}
    assert judged("GET", TTL, headers={**bearer(PROXY), **named}).status == 401
    client = {"x-original-principal": "stranger"}
    assert judged("GET", TTL, headers={**bearer(PROXY), **named, **client}).status == 403


def test_a_refusal_is_the_same_whether_what_it_names_exists(judged: Gateway) -> None:
    existing = judged("GET", TTL, headers=bearer("stranger"))
    missing = judged("GET", TTL.replace("/t/n/", "/t/gone/"), headers=bearer("stranger"))
    tenant = judged("GET", TTL.replace("/t/n/", "/gone/n/"), headers=bearer("stranger"))
    assert existing.status == missing.status == tenant.status == 403
    texts = {
        answer.json["reason"].replace(name, "NAME")
        for answer, name in ((existing, "t/n"), (missing, "t/gone"), (tenant, "gone/n"))
    }
    assert len(texts) == 1


def test_an_unknown_right_while_the_store_is_unavailable_is_no_refusal(
    judged: Gateway, engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: Any, **named: Any) -> Any:
        raise StoreUnavailableError("away")

    opened = engine.opened
    assert judged("GET", TOPICS, headers=bearer("own")).status == 200
    assert engine.opened is not None
    for name in ("get", "exists", "children"):
        monkeypatch.setattr(engine.opened.store, name, away)
    for name in ("read_tenant", "read_namespace"):
        monkeypatch.setattr(f"engine.tenancy.access.access_records.{name}", away)
    answer = judged("GET", TTL.replace("/t/n/", "/o/n/"), headers=bearer("app"))
    assert answer.status == 503, opened
    assert "metadata store" in answer.json["reason"]


def test_only_a_superuser_changes_the_clusters_of_a_tenant(
    call: Gateway, judged: Gateway, engine: EngineLink
) -> None:
    same = {"adminRoles": ["own", "more"], "allowedClusters": ["standalone"]}
    other = {"adminRoles": ["own"], "allowedClusters": ["standalone", "global"]}
    assert call("POST", TENANT, same, headers=bearer("own")).status == 204
    refused = call("POST", TENANT, other, headers=bearer("own"))
    assert (refused.status, refused.json["reason"]) == (
        403,
        "Only a superuser changes the clusters that a tenant is allowed",
    )
    assert judged("GET", TENANT, headers=bearer(SUPERUSER)).json["allowedClusters"] == [
        "standalone"
    ]
    assert call("POST", TENANT, other, headers=bearer(SUPERUSER)).status == 204
    console = "/api/v1/clusters/standalone/tenants/t"
    body = {"admin_roles": ["own"], "allowed_clusters": ["standalone"]}
    assert call("PUT", console, body, headers=bearer("own")).status == 403
    assert call("PUT", console, body, headers=bearer(SUPERUSER)).status == 200


def test_lists_of_the_console_contain_what_the_caller_may_see(judged: Gateway) -> None:
    def tenants(role: str) -> list[str]:
        answer = judged("GET", "/api/v1/clusters/standalone/tenants", headers=bearer(role))
        return [row["name"] for row in answer.json["rows"]]

    assert tenants("own") == ["t"]
    assert tenants("stranger") == []
    assert {"t", "o", "public"} <= set(tenants(SUPERUSER))


async def test_a_viewer_follows_the_policies(
    cluster: Cluster, judged: Gateway, engine: EngineLink
) -> None:
    viewers = cluster.part(Viewers)
    app = Identity("app", method="token")
    assert await viewers.of(Identity(SUPERUSER)) is ALL
    assert await viewers.of(Identity("own")) == Viewer(tenants=frozenset({"t"}))
    assert await viewers.of(app) == Viewer()
    await engine.arun(lambda link: grant(link.store, NAMESPACE, "app", ["consume"]))
    assert await viewers.of(app) == Viewer(frozenset({"t/n"}))
    await engine.arun(lambda link: grant(link.store, OTHER, "app", ["produce"]))
    assert await viewers.of(app) == Viewer(frozenset({"t/n", "o/n"}))
    await engine.arun(lambda link: revoke(link.store, NAMESPACE, "app"))
    assert await viewers.of(app) == Viewer(frozenset({"o/n"}))
    assert await viewers.of(Identity(PROXY, "app")) == Viewer(frozenset({"o/n"}))
    made = NamespaceName.of("o", "made")
    await engine.arun(lambda link: create_namespace(link.store, made, {}, cluster="standalone"))
    await engine.arun(lambda link: grant(link.store, made, "app", ["produce"]))
    assert await viewers.of(app) == Viewer(frozenset({"o/n", "o/made"}))
    await engine.arun(lambda link: link.store.put(paths.namespace_policies("o/n"), b"damaged"))
    assert await viewers.of(app) == Viewer(frozenset({"o/made"}))


async def test_watchers_of_policies_are_notified(
    cluster: Cluster, judged: Gateway, engine: EngineLink
) -> None:
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = await cluster.part(Viewers).watch(lambda: loop.call_soon_threadsafe(changed.set))
    await engine.arun(lambda link: grant(link.store, NAMESPACE, "app", ["consume"]))
    await asyncio.wait_for(changed.wait(), 60)
    stop()
