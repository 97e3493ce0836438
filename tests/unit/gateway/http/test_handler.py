"""The handler of HTTP: bodies within bounds, changes that are finished, readings that are given up."""

import asyncio
import base64
import json
import logging
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.urls import URLPattern, URLResolver, get_resolver

from admin_ui.models import AuditEntry
from gateway.http import exchange, handler
from gateway.http.forms import uploads
from gateway.rest.messages import message_answer
from tests.support.admin.gateway_client import audited
from tests.support.waiting import stays
from tests.unit.gateway.http.conftest import HOST, Client, HeldStore

TENANTS = "/admin/v2/tenants"
MIB = 1 << 20
TENANT = json.dumps({"allowedClusters": ["standalone"]}).encode()
pytestmark = pytest.mark.usefixtures("store")


async def names() -> Any:
    return json.loads((await Client("GET", TENANTS).say().served()).body)


async def test_a_body_whose_length_is_too_large_is_refused_before_the_client_sends_it() -> None:
    length = (b"content-length", str(MIB + 1).encode())
    client = Client("PUT", f"{TENANTS}/t1", length, (b"expect", b"100-continue"))
    await client.served()
    assert client.status == 413
    assert client.received == 0
    assert client.headers["connection"] == "close"
    assert "larger than 1 MiB" in json.loads(client.body)["reason"]


async def test_of_a_refused_body_a_bounded_part_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "DROPPED_BYTES_MAX", MIB)
    client = Client("PUT", f"{TENANTS}/t1", (b"transfer-encoding", b"chunked"))
    for _ in range(80):
        client.say(b" " * 65_536, more=True)
    await client.served()
    assert client.status == 413
    assert client.received == 2 * (MIB // 65_536 + 1)


async def test_a_body_in_pieces_is_put_together() -> None:
    client = Client("PUT", f"{TENANTS}/t1").say(TENANT[:9], more=True).say(TENANT[9:], more=True)
    assert (await client.say().served()).status == 204
    assert "t1" in await names()


async def test_a_body_that_does_not_arrive_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "BODY_TIMEOUT_S", 0.01)
    client = await Client("PUT", f"{TENANTS}/t1").say(TENANT[:9], more=True).served()
    assert client.status == 408
    assert client.headers["connection"] == "close"
    assert "did not arrive within 0.01 s" in client.body.decode()


async def test_an_upload_that_does_not_arrive_in_time_is_refused_with_its_own_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uploads, "TIMEOUT_S", 0.02)
    form = (b"content-type", b"multipart/form-data; boundary=x")
    client = Client("POST", "/admin/v3/packages/function/public/default/p/v1", form)
    await client.say(b"--x", more=True).served()
    assert client.status == 408
    assert "did not arrive within 0.02 s" in client.body.decode()


async def test_a_client_that_leaves_before_its_body_is_complete_changes_nothing() -> None:
    client = Client("PUT", f"{TENANTS}/t1").say(TENANT, more=True)
    client.leave()
    await client.served()
    assert client.sent == []
    assert "t1" not in await names()
    assert not await AuditEntry.objects.aexists()


@pytest.mark.parametrize("coding", [b"gzip", b"deflate, gzip", b"br"])
async def test_a_compressed_body_is_refused(coding: bytes) -> None:
    client = await Client("PUT", f"{TENANTS}/t1", (b"content-encoding", coding)).say(b"x").served()
    assert client.status == 415
    assert "Content-Encoding" in json.loads(client.body)["reason"]


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_change_that_has_begun_is_finished_and_audited(
    store: HeldStore, leaves: bool
) -> None:
    """Finish a change whose client disconnects, and one whose request the server gives up."""
    store.open.clear()
    client = Client("PUT", f"{TENANTS}/t1").say(TENANT)
    served = asyncio.get_running_loop().create_task(client.served())
    await store.waiting.wait()
    if leaves:
        client.leave()
    else:
        served.cancel()
        await asyncio.wait([served])
    store.open.set()
    await audited(204)
    assert "t1" in await names()
    await asyncio.wait([served])


async def test_a_reading_is_given_up_when_its_client_leaves(
    store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "WATCH_AFTER_S", 0)
    store.open.clear()
    client = Client("GET", TENANTS).say()
    served = asyncio.get_running_loop().create_task(client.served())
    await store.waiting.wait()
    client.leave()
    async with asyncio.timeout(60):
        await served
    assert client.sent == []


async def test_a_reading_continues_while_its_client_waits(
    store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "WATCH_AFTER_S", 0)
    store.open.clear()
    client = Client("GET", TENANTS).say()
    served = asyncio.get_running_loop().create_task(client.served())
    await store.waiting.wait()
    await stays(lambda: not served.done(), 0.01)
    store.open.set()
    await served
    assert client.status == 200


async def test_head_has_the_headers_of_get_and_no_body() -> None:
    got = await Client("GET", TENANTS).say().served()
    head = await Client("HEAD", TENANTS).say().served()
    assert head.headers == got.headers
    assert int(head.headers["content-length"]) == len(got.body)
    assert head.body == b""


async def test_options_answers_the_methods_without_a_body() -> None:
    client = await Client("OPTIONS", f"{TENANTS}/t1").say().served()
    assert (client.status, client.body) == (200, b"")
    assert "DELETE" in client.headers["allow"]


async def test_a_request_without_a_host_is_refused() -> None:
    client = Client("GET", TENANTS)
    client.scope["headers"] = [field for field in client.scope["headers"] if field != HOST]
    assert (await client.say().served()).status == 400


async def test_a_query_that_is_no_text_is_refused_and_named() -> None:
    client = await Client("GET", f"{TENANTS}?x=\xff").say().served()
    assert client.status == 400
    assert json.loads(client.body)["field"] == "query"


async def test_a_client_that_reads_nothing_is_disconnected(
    store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "READER_TIMEOUT_S", 0.01)
    monkeypatch.setattr(exchange, "PIECE_BYTES", 4)
    client = Client("GET", TENANTS).say()
    loop = asyncio.get_running_loop()

    async def send(message: Any) -> None:
        client.sent.append(message)
        if len(client.sent) == 3:
            await asyncio.Event().wait()

    client._send = send  # type: ignore[method-assign]
    await asyncio.wait_for(loop.create_task(client.served()), 60)
    assert all(message.get("more_body") for message in client.sent[1:])


async def test_exceptions_of_middleware_are_logged_and_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client("GET", "/").say()
    log = logging.getLogger("gateway.http.errors")
    log.addHandler(caplog.handler)
    try:
        client.scope["raw_path"] = 7  # no server sends that
        await client.served()
    finally:
        log.removeHandler(caplog.handler)
    assert client.status == 500
    assert json.loads(client.body)["request_id"] in caplog.text


def views(resolver: URLResolver) -> list[URLPattern]:
    patterns: list[URLPattern] = []
    for item in resolver.url_patterns:
        patterns += views(item) if isinstance(item, URLResolver) else [item]
    return patterns


def test_every_route_is_served_by_a_coroutine() -> None:
    routes = views(get_resolver())
    assert len(routes) > 300
    assert [item for item in routes if not iscoroutinefunction(item.callback)] == []


async def test_a_header_that_is_given_several_times_is_sent_so() -> None:
    answer = message_answer(
        {
            "headers": {"X-One": "a", "X-Many": ["b", "c\nd"]},
            "body": base64.b64encode(b"v").decode(),
        }
    )
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await exchange.send_answer(answer, send, head=False)
    fields = [field for field in sent[0]["headers"] if field[0].startswith(b"X-")]
    named = [(name, value) for name, value in fields if name in (b"X-One", b"X-Many")]
    assert named == [(b"X-One", b"a"), (b"X-Many", b"b"), (b"X-Many", b"c d")]
    assert sent[1]["body"] == b"v"
