"""The user of a request: anonymous without a session cookie, else the session's, whose changes need a CSRF token."""

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from engine.auth.identity import Identity
from gateway.http.auth.identity import acting_in, identity_of
from tests.support.access.callers import bearer, by_token
from tests.support.access.sessions import CSRF_TOKEN, session
from tests.support.admin.gateway_client import Gateway
from tests.unit.gateway.http.conftest import Client

TENANTS = "/admin/v2/tenants"
TENANT = json.dumps({"allowedClusters": ["standalone"]}).encode()


async def call(
    method: str, target: str, cookie: str = "", token: str = "", authorization: str = ""
) -> Client:
    headers = [(b"cookie", cookie.encode())] if cookie else []
    headers += [(b"x-csrftoken", token.encode())] if token else []
    headers += [(b"authorization", authorization.encode())] if authorization else []
    return await Client(method, target, *headers).say(TENANT).served()


async def name_by(shown: str, cookie: str = "") -> str:
    """Return the name by which the console knows a caller, which presents a token of the role ``app`` if ``shown``."""
    authorization = bearer("app")["authorization"] if shown else ""
    answer = await call("GET", "/api/v1/environment", cookie, authorization=authorization)
    return str(json.loads(answer.body)["user"]["name"])


@pytest.mark.parametrize("cookie", ["", "other=1"])
def test_without_a_session_cookie_no_database_is_read(gateway: Gateway, cookie: str) -> None:
    """Rely on pytest-django, which refuses the database to tests that do not request it."""
    assert gateway("GET", TENANTS, headers={"cookie": cookie}).status == 200


@pytest.mark.usefixtures("store")
async def test_the_user_of_the_session_is_known() -> None:
    body = json.loads((await call("GET", "/api/v1/environment", await session())).body)
    assert body["user"] == {"name": "ann", "superuser": False}


@pytest.mark.usefixtures("store")
async def test_a_change_under_a_session_needs_its_token() -> None:
    cookie = await session()
    refused = await call("PUT", f"{TENANTS}/t1", cookie)
    assert refused.status == 403
    assert "CSRF" in json.loads(refused.body)["reason"]
    assert (await call("PUT", f"{TENANTS}/t1", cookie, CSRF_TOKEN)).status == 204


@pytest.mark.usefixtures("store")
async def test_a_session_serves_where_authentication_is_on(settings: Any) -> None:
    settings.IDENTITY = by_token()
    assert (await call("GET", TENANTS)).status == 401
    cookie = await session()
    assert (await call("GET", TENANTS, cookie)).status == 200
    assert (await call("PUT", f"{TENANTS}/t1", cookie)).status == 403
    assert (await call("PUT", f"{TENANTS}/t1", cookie, CSRF_TOKEN)).status == 204


@pytest.mark.usefixtures("store")
async def test_a_deleted_session_is_unauthenticated(settings: Any) -> None:
    settings.IDENTITY = by_token()
    assert (await call("GET", TENANTS, f"{settings.SESSION_COOKIE_NAME}=gone")).status == 401


@pytest.mark.usefixtures("store")
async def test_credentials_that_are_shown_count_before_a_session(settings: Any) -> None:
    settings.IDENTITY = by_token(anonymous_user_role="guest")
    cookie = await session()
    assert (await name_by("a token", cookie)) == "app"
    assert (await call("GET", TENANTS, cookie, authorization="Bearer bad")).status == 401
    assert (await name_by("", cookie)) == "ann"
    assert (await name_by("")) == "guest"


@pytest.mark.parametrize(
    ("superuser", "superusers", "role"),
    [(False, "root", "ann"), (True, "root,admin", "root"), (True, "", "ann")],
)
def test_a_superuser_of_the_console_has_the_role_of_one(
    superuser: bool, superusers: str, role: str, settings: Any
) -> None:
    settings.IDENTITY = by_token(super_user_roles=superusers)
    user = get_user_model()(username="ann", is_superuser=superuser)
    acting = acting_in(user, {})
    assert acting is not None
    assert identity_of(acting) == Identity(role, method="session")
    assert acting.level == "full"
    assert acting.superuser == superuser
