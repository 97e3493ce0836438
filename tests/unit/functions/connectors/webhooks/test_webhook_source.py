"""A request is answered once its message is stored, and refused when it cannot be."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.spi import ConnectorError
from engine.functions.connectors.webhooks import webhook_source
from engine.functions.connectors.webhooks.webhook_source import SOURCE_SETTINGS, WebhookSource
from engine.net import http
from engine.net.http_client import Answer, HttpClient, HttpError
from engine.net.network import LoopNetwork
from tests.support.functions.connector_host import FakeContext
from tests.support.ports import free_ports
from tests.support.waiting import until


class Caller:
    """A source and a client that calls it."""

    def __init__(self, source: WebhookSource, port: int) -> None:
        self.source = source
        self.client = HttpClient(LoopNetwork(), timeout_s=10)
        self.url = f"http://127.0.0.1:{port}"

    async def post(
        self, body: bytes, path: str = "/", method: str = "POST", **headers: str
    ) -> Answer:
        lines = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await self.client.request(method, self.url + path, headers=lines, body=body)


@asynccontextmanager
async def calling(**settings: object) -> AsyncIterator[Caller]:
    (port,) = free_ports(1)
    source = WebhookSource()
    await source.open(checked(SOURCE_SETTINGS, {"port": port, **settings}), FakeContext())
    caller = Caller(source, port)
    try:
        yield caller
    finally:
        await source.close()
        caller.client.close()


async def test_a_request_is_answered_when_its_message_is_stored() -> None:
    async with calling(headers=["X-Kind"], keyHeader="X-Key") as caller:
        post = asyncio.ensure_future(caller.post(b"hello", "/?a=1", X_Kind="order", X_Key="k"))
        (record,) = await caller.source.read()
        assert (record.value, record.key) == (b"hello", "k")
        assert record.properties == {"x-kind": "order", "query.a": "1"}
        assert not post.done()
        record.ack()
        assert (await post).status == 204


async def test_each_line_may_be_a_message_and_all_are_stored_first() -> None:
    async with calling(records="lines") as caller:
        post = asyncio.ensure_future(caller.post(b"a\n\nb\n"))
        first, second = await caller.source.read()
        assert (first.value, second.value) == (b"a", b"b")
        first.ack()
        await asyncio.sleep(0)
        assert not post.done()
        second.ack()
        assert (await post).status == 204
        assert (await caller.post(b"")).status == 204


async def test_a_message_that_is_not_stored_is_answered_with_a_failure() -> None:
    async with calling(timeoutSeconds=0.1) as caller:
        post = asyncio.ensure_future(caller.post(b"x"))
        (record,) = await caller.source.read()
        record.fail(ValueError("topic is full"))
        assert (await post).status == 503
        assert (await caller.post(b"x")).status == 504


async def test_requests_under_way_are_refused_when_the_source_stops() -> None:
    async with calling() as caller:
        post = asyncio.ensure_future(caller.post(b"x"))
        await caller.source.read()
        await caller.source.close()
        assert (await post).status == 503


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/other", "POST", {"Authorization": "Bearer t"}, 404),
        ("/in", "GET", {"Authorization": "Bearer t"}, 405),
        ("/in", "POST", {"Authorization": "Bearer wrong"}, 401),
        ("/in", "POST", {}, 401),
    ],
)
async def test_requests_without_path_method_or_token_are_refused(
    path: str, method: str, headers: dict[str, str], status: int
) -> None:
    async with calling(path="/in", token="t") as caller:
        assert (await caller.post(b"x", path, method, **headers)).status == status


async def test_more_than_may_wait_and_bodies_too_long_are_refused() -> None:
    async with calling(records="lines", maxPending=2, maxBytes=10) as caller:
        assert (await caller.post(b"a\nb\nc")).status == 503
        assert (await caller.post(b"x" * 11)).status == 413


async def test_a_port_in_use_is_named() -> None:
    async with calling() as caller:
        port = int(caller.url.rpartition(":")[2])
        with pytest.raises(ConnectorError, match=r"configs\.port"):
            await WebhookSource().open(checked(SOURCE_SETTINGS, {"port": port}), FakeContext())


async def test_bodies_that_wait_are_bounded_in_bytes() -> None:
    async with calling(maxPendingBytes=1 << 20, maxBytes=1 << 20) as caller:
        first = asyncio.ensure_future(caller.post(b"x" * 600_000))
        (record,) = await caller.source.read()
        assert (await caller.post(b"x" * 600_000)).status == 503
        record.ack()
        assert (await first).status == 204
        again = asyncio.ensure_future(caller.post(b"x" * 600_000))
        (record,) = await caller.source.read()
        record.ack()
        assert (await again).status == 204


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_100_megabytes_is_refused_before_it_is_held(chunked: bool) -> None:
    async with calling(maxBytes=1 << 20) as caller:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(caller.url.rpartition(":")[2])
        )
        kind = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {100 << 20}"
        writer.write(f"POST / HTTP/1.1\r\nHost: x\r\n{kind}\r\n\r\n".encode())
        piece = bytes(1 << 20)
        tracemalloc.start()
        try:
            sent = 0
            with suppress(ConnectionError):
                while sent < 100 and not reader.at_eof():
                    writer.write(b"100000\r\n%b\r\n" % piece if chunked else piece)
                    await writer.drain()
                    sent += 1
                    await asyncio.sleep(0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        with suppress(ConnectionError):
            assert b" 413 " in await reader.readline()
        writer.close()
    assert peak < 16 << 20


async def test_requests_that_never_end_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(http, "LINGER_S", 0.1)
    monkeypatch.setattr(webhook_source, "CONNECTIONS_MAX", 8)
    async with calling() as caller:
        port = int(caller.url.rpartition(":")[2])
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for _, writer in slow:
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")

        async def taken() -> bool:
            post = asyncio.ensure_future(caller.post(b"x"))
            reading = asyncio.ensure_future(caller.source.read())
            await asyncio.wait([post, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
                with suppress(HttpError):
                    assert (await post).status == 503
                return False
            for record in reading.result():
                record.ack()
            return (await post).status == 204

        await until(taken, "room for a request")
        for _, writer in slow:
            writer.close()
