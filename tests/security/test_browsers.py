"""Attacks through a browser: forged changes, foreign origins and hosts, redirects, frames, invented sessions."""

import asyncio
import json
from typing import Any

import pytest
from django.conf import settings as configured

from gateway.jobs.services import Warming
from gateway.people.models import PersonSession
from tests.support.access.callers import bearer, by_token
from tests.support.access.sessions import CSRF_TOKEN, session
from tests.support.admin.gateway_client import Gateway
from tests.unit.gateway.http.conftest import Client

TENANTS = "/admin/v2/tenants"
TENANT = f"{TENANTS}/t1"
BODY = json.dumps({"allowedClusters": ["standalone"]}).encode()
EVIL = "evil.example"


async def tenants() -> list[str]:
    names: list[str] = json.loads((await Client("GET", TENANTS).say().served()).body)
    return names


@pytest.mark.usefixtures("store")
async def test_each_method_that_changes_needs_the_token_of_the_session() -> None:
    cookie = (b"cookie", (await session()).encode())
    before = await tenants()
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for target in (TENANT, f"{TENANTS}/public", "/api/v1/views"):
            refused = await Client(method, target, cookie).say(BODY).served()
            assert refused.status == 403
            assert "CSRF" in json.loads(refused.body)["reason"]
    assert await tenants() == before


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("referer", ["", f"https://{EVIL}/", "http://127.0.0.1:8080/", "about:"])
async def test_in_tls_a_change_of_a_session_needs_the_referer_of_this_page(referer: str) -> None:
    cookie = (b"cookie", (await session()).encode())
    headers = [cookie, (b"x-csrftoken", CSRF_TOKEN.encode())]
    headers += [(b"referer", referer.encode())] if referer else []
    client = Client("PUT", TENANT, *headers)
    client.scope["scheme"] = "https"
    assert (await client.say(BODY).served()).status == 403
    assert "t1" not in await tenants()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", ""])
def test_a_read_by_a_page_of_another_site_starts_nothing(
    call: Gateway, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(Warming, "request", lambda _: started.append(site))
    headers = {"sec-fetch-site": site} if site else {}
    assert call("GET", "/api/v1/analyses", headers=headers).status == 200
    assert started == ([] if site.endswith("-site") else [site])


@pytest.mark.parametrize(("role", "starts"), [("root", True), ("admin", True), ("stranger", False)])
def test_spark_starts_only_for_callers_who_may_launch_an_analysis(
    call: Gateway, role: str, starts: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)
    tenant: dict[str, Any] = {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}
    assert call("PUT", TENANT, tenant, headers=bearer("root")).status < 300
    started: list[str] = []
    monkeypatch.setattr(Warming, "request", lambda _: started.append(role))
    assert call("GET", "/api/v1/analyses", headers=bearer(role)).status == 200
    assert started == ([role] if starts else [])


SIGN_INS = ("/login", "/accounts/login/", "/admin/login/", "/api-auth/login/")
RESETS = ("/password_reset", "/accounts/password_reset/", "/accounts/reset/MQ/token/")


@pytest.mark.parametrize("path", [*SIGN_INS, *RESETS])
def test_no_form_begins_a_session_or_resets_a_password(call: Gateway, path: str) -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    for method in ("GET", "POST"):
        answer = call(method, path, b"username=ann&password=x&token=x", **form)
        assert answer.status in (404, 405)
        assert "set-cookie" not in answer.headers
    assert not PersonSession.objects.exists()


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("PUT", TENANT), ("POST", "/api/v1/views"), ("POST", "/api/v1/runs")),
        ("POST", "/api/v1/clusters/standalone/topics"),
    ],
)
def test_forms_and_texts_are_no_bodies(call: Gateway, method: str, path: str, kind: str) -> None:
    assert call(method, path, BODY, content_type=kind).status == 415


PAGE = "http://console.example"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        f"{PAGE}.{EVIL}",
        f"http://evil{PAGE.removeprefix('http://')}",
        "http://sub.console.example",
        "https://console.example",
        f"{PAGE}:81",
        f"{PAGE}@{EVIL}",
        f"{PAGE}/",
        f"{PAGE} http://{EVIL}",
        "",
    ],
)
async def test_an_origin_that_looks_like_an_allowed_one_is_foreign(
    origin: str, settings: Any
) -> None:
    settings.ALLOWED_ORIGINS = frozenset({PAGE})
    shown = (b"origin", origin.encode())
    asks = (b"access-control-request-method", b"PUT")
    read = await Client("GET", TENANTS, shown).say().served()
    change = await Client("PUT", TENANT, shown).say(BODY).served()
    preflight = await Client("OPTIONS", TENANT, shown, asks).say().served()
    assert (change.status, preflight.status) == (403, 403)
    for client in (read, change, preflight):
        assert not [name for name in client.headers if name.startswith("access-control-")]
    assert "t1" not in await tenants()


@pytest.mark.parametrize(
    "host",
    [
        EVIL,
        f"127.0.0.1.{EVIL}",
        f"127.0.0.1@{EVIL}",
        f"{EVIL}#127.0.0.1",
        f"127.0.0.1:8080, {EVIL}",
        f"127.0.0.1:8080 {EVIL}",
        "127.0.0.1:x",
        "localhost/",
        "[::2]",
        "",
    ],
)
def test_a_forged_host_is_refused(call: Gateway, host: str) -> None:
    for path in ("/", TENANTS, "/api/v1/environment", "/static/x.js"):
        answer = call("GET", path, headers={"host": host})
        assert (answer.status, EVIL in answer.body.decode()) == (400, False)


@pytest.mark.usefixtures("store")
async def test_a_second_host_is_refused() -> None:
    assert (await Client("GET", TENANTS, (b"host", EVIL.encode())).say().served()).status == 400


def test_forwarded_names_are_in_no_answer(call: Gateway) -> None:
    forged = dict.fromkeys(("x-forwarded-host", "x-forwarded-server", "x-original-url"), EVIL)
    forged |= {"forwarded": f"for=127.0.0.1;host={EVIL};proto=https", "x-forwarded-proto": "https"}
    for path in (
        "/",
        TENANTS,
        "/api/v1/environment",
        "/lookup/v2/topic/persistent/public/default/t",
    ):
        answer = call("GET", path, headers=forged)
        assert EVIL not in answer.body.decode()
        assert EVIL not in str(answer.headers)
        assert "strict-transport-security" not in answer.headers


@pytest.mark.parametrize(
    "target",
    [
        f"//{EVIL}",
        f"//{EVIL}/%2e%2e",
        f"/%2F%2F{EVIL}/",
        f"/%5C{EVIL}",
        f"/?next=https://{EVIL}",
        f"/login?next=//{EVIL}",
        "/c/standalone/topics?next=javascript:alert(1)",
        f"{TENANTS}/?next=//{EVIL}",
        f"/static//{EVIL}",
        f"http://{EVIL}/",
    ],
)
def test_no_answer_leads_to_another_site(call: Gateway, target: str) -> None:
    for method in ("GET", "POST"):
        answer = call(method, target)
        assert not 300 <= answer.status < 400
        assert not {"location", "refresh"} & answer.headers.keys()


@pytest.mark.parametrize(
    "path", ["/", TENANTS, "/api/v1/environment", "/nosuch", "/static/nosuch.js"]
)
def test_no_page_is_shown_in_a_frame_or_runs_foreign_scripts(call: Gateway, path: str) -> None:
    headers = call("GET", path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert headers["x-frame-options"] == "DENY"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["default-src"] == policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["object-src"] == policy["base-uri"] == "'none'"


@pytest.mark.usefixtures("store")
async def test_a_session_id_that_a_client_invents_begins_no_session() -> None:
    for path in ("/", TENANTS, "/api/v1/environment"):
        cookie = f"{configured.SESSION_COOKIE_NAME}=chosenbytheattacker"
        answer = await Client("GET", path, (b"cookie", cookie.encode())).say().served()
        assert answer.headers.get("set-cookie", "").count("chosenbytheattacker") == 0
    assert not await PersonSession.objects.aexists()


def test_scripts_and_other_sites_do_not_see_the_cookie_of_a_session() -> None:
    assert configured.SESSION_COOKIE_HTTPONLY
    assert configured.SESSION_COOKIE_SAMESITE == configured.CSRF_COOKIE_SAMESITE == "Strict"
    assert configured.SESSION_COOKIE_DOMAIN is None


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("target", "stored"),
    [
        (TENANTS, "private, no-cache"),
        ("/api/v1/environment", "private, no-cache"),
        (f"{TENANTS}/nosuch", "no-store"),
        ("/api/v1/nosuch", "no-store"),
        ("/api/v1/clusters/standalone/topics/export?format=csv", "no-store"),
        ("/metrics", "no-store"),
    ],
)
async def test_no_shared_cache_stores_an_answer(target: str, stored: str, settings: Any) -> None:
    settings.IDENTITY = by_token()
    shown = [(name.encode(), value.encode()) for name, value in bearer("app").items()]
    answer = await Client("GET", target, *shown).say().served()
    assert answer.headers["cache-control"] == stored
    refused = await Client("GET", TENANTS).say().served()
    assert (refused.status, refused.headers["cache-control"]) == (401, "no-store")
    tag = answer.headers.get("etag", "x").encode()
    stranger = await Client("GET", TENANTS, (b"if-none-match", tag)).say().served()
    assert stranger.status == 401


@pytest.mark.usefixtures("store")
async def test_a_change_that_is_sent_twice_at_once_has_one_effect() -> None:
    view = json.dumps({"name": "mine", "resource": "topics", "query": {"q": "x"}}).encode()
    made = await both(Client("PUT", TENANT).say(BODY), Client("PUT", TENANT).say(BODY))
    assert made == [204, 409]
    path = "/api/v1/views"
    made = await both(Client("POST", path).say(view), Client("POST", path).say(view))
    # The database in memory of tests refuses a second writer for a moment.
    assert made in ([201, 409], [201, 503])
    stored = json.loads((await Client("GET", path).say().served()).body)["rows"]
    assert [row["name"] for row in stored] == ["mine"]


async def both(*clients: Client) -> list[int]:
    """Return the statuses of calls that are made at once, in order of size."""
    served = await asyncio.gather(*(client.served() for client in clients))
    return sorted(client.status for client in served)
