"""Pages of other origins: refused, unless a setting names them; what is no origin is refused as well."""

import json
from typing import Any

import pytest

from gateway.http.security import AllowedOriginSockets
from tests.support.net.socket_pair import SocketPair
from tests.unit.gateway.http.conftest import Client

TENANT = "/admin/v2/tenants/t1"
BODY = json.dumps({"allowedClusters": ["standalone"]}).encode()
PAGE = "http://localhost:3000"
ASKS = (b"access-control-request-method", b"PUT")


def from_page(method: str, origin: str, *headers: tuple[bytes, bytes]) -> Client:
    return Client(method, TENANT, (b"origin", origin.encode()), *headers)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("origin", [PAGE, "null", "http://[", "http://127.0.0.1:9"])
async def test_a_change_by_a_page_of_another_origin_is_refused_and_the_setting_named(
    origin: str,
) -> None:
    for client in (from_page("PUT", origin).say(BODY), from_page("OPTIONS", origin, ASKS).say()):
        await client.served()
        assert client.status == 403
        assert "MAGNETAR_ALLOWED_ORIGINS" in json.loads(client.body)["reason"]
    read = await from_page("GET", origin).say().served()
    assert read.status == 404
    assert "access-control-allow-origin" not in read.headers


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("origin", [PAGE, "null"])
async def test_a_page_of_an_allowed_origin_changes_and_reads(settings: Any, origin: str) -> None:
    settings.ALLOWED_ORIGINS = frozenset({PAGE, "null"})
    wanted = (b"access-control-request-headers", b"content-type, x-a")
    asked = await from_page("OPTIONS", origin, ASKS, wanted).say().served()
    assert asked.status == 204
    assert "PUT" in asked.headers["access-control-allow-methods"]
    assert asked.headers["access-control-allow-headers"] == "content-type, x-a"
    changed = await from_page("PUT", origin).say(BODY).served()
    read = await from_page("GET", origin).say().served()
    assert (changed.status, read.status) == (204, 200)
    for client in (asked, changed, read):
        assert client.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in client.headers
        assert "Origin" in client.headers["vary"]
    other = await from_page("GET", "http://other:1").say().served()
    assert "access-control-allow-origin" not in other.headers


async def accepts(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


async def answered(origin: str) -> tuple[int, str]:
    pair = await SocketPair(AllowedOriginSockets(accepts), "/ws/x", {"Origin": origin}).opened()
    assert pair.response is not None
    await pair.hang_up()
    return pair.response.status_code, bytes(pair.response.body or b"").decode()


@pytest.mark.parametrize("origin", [PAGE, "null", "http://["])
async def test_a_socket_of_a_page_of_another_origin_is_refused_and_the_setting_named(
    origin: str,
) -> None:
    status, page = await answered(origin)
    assert status == 403
    assert "MAGNETAR_ALLOWED_ORIGINS" in page


async def test_a_socket_of_an_allowed_or_the_own_origin_is_accepted(settings: Any) -> None:
    settings.ALLOWED_ORIGINS = frozenset({PAGE, "null"})
    for origin in (PAGE, PAGE.upper(), "null", "http://127.0.0.1:8080"):
        assert (await answered(origin))[0] == 101
