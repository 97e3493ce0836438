"""Callers by what they present: credentials that are bad are refused, and few pages are open to all."""

import time
from typing import Any

import pytest

from engine.auth.credentials import AuthenticationFailed
from engine.base.clock import SystemClock
from engine.metadata.store import StoreUnavailableError
from engine.tenancy.access.revoked_tokens import RevokedTokens, revoke_token
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters
from gateway.http.auth.callers import Callers
from gateway.services.engine_link import Engine, EngineLink
from tests.support.access.callers import bearer, by_token, token
from tests.support.admin.gateway_client import Gateway

TENANTS = "/admin/v2/tenants"
HEALTH = "/admin/v2/brokers/health"
JETTY = {
    "servlet": "magnetar",
    "message": "Authentication required",
    "url": TENANTS,
    "status": "401",
}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer bad"},
        {"authorization": f"bearer {token('app')}"},
        {"authorization": f"Bearer {token('app', exp=1)}"},
        {"authorization": "Basic YXBwOnNlY3JldA=="},
        {**bearer("app"), "x-pulsar-auth-method-name": "sasl"},
        {"x-pulsar-auth-method-name": "token"},
    ],
)
def test_a_caller_without_good_credentials_is_answered_as_by_apaches_container(
    headers: dict[str, str], gateway: Gateway, settings: Any
) -> None:
    settings.IDENTITY = by_token()
    answer = gateway("GET", TENANTS, headers={**headers, "accept": "application/json"})
    assert (answer.status, answer.json) == (401, JETTY)
    assert "www-authenticate" not in answer.headers
    console = gateway("GET", "/api/v1/environment", headers=headers)
    assert (console.status, console.json) == (401, {"reason": "Authentication required"})


def test_a_caller_with_good_credentials_is_served(gateway: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    assert gateway("GET", TENANTS, headers=bearer("app")).status == 200


def test_bad_credentials_are_refused_where_others_are_anonymous(
    gateway: Gateway, settings: Any
) -> None:
    settings.IDENTITY = by_token(anonymous_user_role="guest")
    assert gateway("GET", TENANTS).status == 200
    assert gateway("GET", TENANTS, headers={"authorization": "Bearer bad"}).status == 401


@pytest.mark.parametrize(("guarded", "status"), [(True, 401), (False, 200)])
def test_metrics_need_credentials_where_the_setting_says_so(
    guarded: bool, status: int, gateway: Gateway, settings: Any
) -> None:
    settings.IDENTITY = by_token(authenticate_metrics_endpoint=guarded)
    assert gateway("GET", "/metrics").status == status
    assert gateway("GET", "/metrics", headers=bearer("app")).status == 200


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("127.0.0.1", {"authorization": "Bearer bad"}, 401),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.9"}, 401),
        ("10.0.0.9", {}, 401),
    ],
)
def test_the_health_check_of_this_machine_needs_no_credentials(
    client: str,
    headers: dict[str, str],
    status: int,
    gateway: Gateway,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def healthy(engine: Engine, broker: str | None) -> None:
        assert engine.principal == ""

    monkeypatch.setattr("gateway.services.admin.brokers.health", healthy)
    settings.IDENTITY = by_token()
    assert gateway("GET", HEALTH, headers=headers, client=client).status == status


def test_the_caller_is_the_principal_of_calls_to_brokers(
    gateway: Gateway, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    principals: list[str] = []

    async def healthy(engine: Engine, broker: str | None) -> None:
        principals.append(engine.principal)

    monkeypatch.setattr("gateway.services.admin.brokers.health", healthy)
    settings.IDENTITY = by_token()
    assert gateway("GET", "/admin/v2/brokers/ready", headers=bearer("app")).status == 200
    assert principals == ["app"]


CERTIFICATE = {
    "subject": ((("commonName", "app"),),),
    "notAfter": "Jan  1 00:00:00 2100 GMT",
}


@pytest.mark.parametrize(
    ("headers", "shown_only", "role"),
    [
        ({}, False, "app"),
        ({}, True, None),
        ({"x-pulsar-auth-method-name": "tls"}, True, "app"),
        (bearer("other"), False, "other"),
    ],
)
async def test_a_certificate_counts_behind_headers_and_a_session(
    headers: dict[str, str], shown_only: bool, role: str | None, settings: Any, cluster: Cluster
) -> None:
    settings.IDENTITY = by_token(authentication_providers="token,tls")
    callers = Callers(Clusters(cluster))
    identity = await callers.identity(headers, "", CERTIFICATE, shown_only=shown_only)
    assert (None if identity is None else identity.role) == role


async def test_a_bad_token_is_not_mended_by_a_certificate(settings: Any, cluster: Cluster) -> None:
    settings.IDENTITY = by_token(authentication_providers="token,tls")
    callers = Callers(Clusters(cluster))
    with pytest.raises(AuthenticationFailed):
        await callers.identity({"authorization": "Bearer bad"}, "", CERTIFICATE)


def test_a_revoked_token_is_refused_at_once_although_it_was_verified_before(
    gateway: Gateway, engine: EngineLink, settings: Any
) -> None:
    settings.IDENTITY = by_token()
    shown = {"authorization": f"Bearer {token('app', jti='one')}"}
    other = {"authorization": f"Bearer {token('app', jti='other')}"}
    assert gateway("GET", TENANTS, headers=shown).status == 200
    engine.run(lambda link: revoke_token(link.store, "one", expires_at=None, clock=SystemClock()))
    deadline = time.monotonic() + 60
    while gateway("GET", TENANTS, headers=shown).status != 401:
        assert time.monotonic() < deadline
    assert gateway("GET", TENANTS, headers=other).status == 200


def test_no_token_is_accepted_before_it_is_known_which_are_revoked(
    gateway: Gateway, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(self: RevokedTokens) -> None:
        raise StoreUnavailableError("no server")

    monkeypatch.setattr(RevokedTokens, "load", lost)
    settings.IDENTITY = by_token(anonymous_user_role="guest")
    assert gateway("GET", TENANTS, headers=bearer("app")).status == 503
    assert gateway("GET", TENANTS).status == 200
    monkeypatch.undo()
    settings.IDENTITY = by_token(anonymous_user_role="guest")
    assert gateway("GET", TENANTS, headers=bearer("app")).status == 200
