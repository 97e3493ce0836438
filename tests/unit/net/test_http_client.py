"""The HTTP client: against the shipped server, and against servers that follow a script, byte by byte."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.net import http_client, http_stream
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.http_client import (
    AnswerLostError,
    HttpClient,
    NotReachedError,
    UnusableAnswerError,
)
from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from tests.support.net.certificates import Authority
from tests.support.waiting import until


class Service:
    """A server: ``/echo`` returns its request, ``/wait`` answers once ``let_go`` is set and ``/large`` has 1 MiB."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.under_way = 0
        self.server = HttpServer(LoopNetwork(), self.answer, connections_max=0)

    async def answer(self, request: Request) -> Response:
        if request.path == "/wait":
            self.under_way += 1
            await self.let_go.wait()
        if request.path == "/large":
            return Response(200, b"x" * (1 << 20))
        if request.path == "/moved":
            return json_response(307, {"location": "http://127.0.0.1:9"})
        echo = [request.method, request.query, request.headers["host"], request.body.decode()]
        return json_response(200, echo)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    await made.server.listen("127.0.0.1", 0)
    yield made
    await made.server.close()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(LoopNetwork(), timeout_s=5.0, answer_bytes_max=2 << 20)
    yield made
    made.close()


def url(service: Service, path: str) -> str:
    return f"http://127.0.0.1:{service.server.port}{path}"


def open_connections(service: Service) -> int:
    return len(service.server._listener.connections)


async def test_consecutive_requests_share_one_kept_connection(
    service: Service, client: HttpClient
) -> None:
    host = f"127.0.0.1:{service.server.port}"
    for body in (b"", b"first", b"second"):
        answer = await client.request("POST", url(service, "/echo?a=b"), body=body)
        assert answer.status == 200
        assert json.loads(answer.body) == ["POST", "a=b", host, body.decode()]
    assert len((await client.request("GET", url(service, "/large"))).body) == 1 << 20
    assert (await client.request("GET", url(service, "/moved"))).status == 307
    assert open_connections(service) == 1


async def test_concurrent_requests_have_a_connection_each_up_to_the_bound(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(http_client, "IDLE_MAX", 2)
    client = HttpClient(LoopNetwork(), timeout_s=5.0)
    asked = [asyncio.ensure_future(client.request("GET", url(service, "/wait"))) for _ in range(9)]
    await until(lambda: service.under_way == 4)
    assert open_connections(service) == 4
    service.let_go.set()
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
    await until(lambda: open_connections(service) == 2)
    client.close()
    await until(lambda: open_connections(service) == 0)


async def test_pending_requests_to_one_address_do_not_delay_another(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "CONNECTIONS_MAX", 4)
    client, other = HttpClient(LoopNetwork(), timeout_s=5.0), Service()
    await other.server.listen("127.0.0.1", 0)
    asked = [asyncio.ensure_future(client.request("GET", url(service, "/wait"))) for _ in range(9)]
    await until(lambda: service.under_way == 4)
    assert (await client.request("GET", url(other, "/echo"))).status == 200
    service.let_go.set()
    await asyncio.gather(*asked)
    client.close()
    await other.server.close()


async def test_an_idle_connection_is_ended(
    service: Service, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "IDLE_S", 0.02)
    await client.request("GET", url(service, "/echo"))
    await until(lambda: open_connections(service) == 0)
    assert (await client.request("GET", url(service, "/echo"))).status == 200


async def test_a_restarted_server_is_connected_to_again(client: HttpClient) -> None:
    first = Service()
    port = await first.server.listen("127.0.0.1", 0)
    await client.request("GET", url(first, "/echo"))
    await first.server.close()
    await until(lambda: not client._links)
    with pytest.raises(NotReachedError, match=str(port)):
        await client.request("GET", url(first, "/echo"))
    second = Service()
    await second.server.listen("127.0.0.1", port)
    assert (await client.request("GET", url(second, "/echo"))).status == 200
    await second.server.close()


async def test_a_request_cancelled_or_too_late_ends_its_connection(service: Service) -> None:
    client = HttpClient(LoopNetwork(), timeout_s=0.1)
    with pytest.raises(UnusableAnswerError, match=r"no answer within 0\.1 s"):
        await client.request("GET", url(service, "/wait"))
    asked = asyncio.ensure_future(client.request("GET", url(service, "/wait")))
    await until(lambda: service.under_way == 2)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    service.let_go.set()
    await until(lambda: open_connections(service) == 0)
    assert (await client.request("GET", url(service, "/echo"))).status == 200
    client.close()


async def test_an_answer_above_the_bound_is_refused(service: Service) -> None:
    client = HttpClient(LoopNetwork(), timeout_s=5.0, answer_bytes_max=1000)
    with pytest.raises(UnusableAnswerError, match="answer is larger than 1000 bytes"):
        await client.request("GET", url(service, "/large"))
    await until(lambda: open_connections(service) == 0)


@pytest.mark.parametrize("address", ["ftp://a/b", "127.0.0.1:80", "http:///x"])
async def test_an_address_must_be_of_http(client: HttpClient, address: str) -> None:
    with pytest.raises(ValueError, match="is not an HTTP URL"):
        await client.request("GET", address)


class Script(asyncio.Protocol):
    """Gives ``answers``, one after the other, to a connection's first bytes, then ends it."""

    on_gone: Callable[[], None] | None = None

    def __init__(self, answers: tuple[bytes, ...]) -> None:
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for index, answer in enumerate(self._answers):
            loop.call_later(0.01 * index, self._transport.write, answer)
        loop.call_later(0.01 * len(self._answers), self._transport.close)

    def close(self) -> None:
        self._transport.abort()

    abort = close

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.on_gone is not None
        self.on_gone()


@asynccontextmanager
async def scripted(*answers: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Yield the address of a server that gives ``answers``."""
    listener = Listener(LoopNetwork(), lambda: Script(answers), connections_max=0)
    await listener.start("127.0.0.1", 0, tls=tls)
    yield f"http{'s' if tls else ''}://127.0.0.1:{listener.port}/"
    await listener.drain(1.0)


@pytest.mark.parametrize(
    ("answers", "body"),
    [
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"], b"ab"),
        ([b"HTTP/1.1 200 OK\r\n\r\na", b"b"], b"ab"),
        ([b"HTTP/1.0 200 OK\r\n\r\n"], b""),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r", b"\n0\r\n\r\n"], b"a"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc"], b"a"),
    ],
)
async def test_answers_come_in_any_of_the_protocols_forms(
    client: HttpClient, answers: list[bytes], body: bytes
) -> None:
    async with scripted(*answers) as address:
        answer = await client.request("GET", address)
        assert (answer.status, answer.body) == (200, body)


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [b"HTTP/1.1 200"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"],
    ],
)
async def test_an_answer_cut_short_is_lost(client: HttpClient, answers: list[bytes]) -> None:
    async with scripted(*answers) as address:
        with pytest.raises(AnswerLostError):
            await client.request("GET", address)


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (17 << 10),
    ],
)
async def test_a_malformed_answer_is_refused(client: HttpClient, answer: bytes) -> None:
    async with scripted(answer) as address:
        with pytest.raises(UnusableAnswerError, match="malformed answer"):
            await client.request("GET", address)


async def test_https_uses_the_given_context(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ServerFiles(*authority.issue("broker", "127.0.0.1")).context()
    async with scripted(b"HTTP/1.1 204 No Content\r\n\r\n", tls=context) as address:
        client = HttpClient(LoopNetwork(), timeout_s=5.0, tls=ClientFiles(authority.cert).context)
        assert (await client.request("GET", address)).status == 204
        with pytest.raises(NotReachedError, match="no context"):
            await HttpClient(LoopNetwork(), timeout_s=5.0).request("GET", address)
        stranger = ClientFiles(Authority(tmp_path, "stranger").cert).context
        with pytest.raises(NotReachedError, match="certificate"):
            await HttpClient(LoopNetwork(), timeout_s=5.0, tls=stranger).request("GET", address)
        client.close()


async def test_a_streamed_answer_is_read_while_it_arrives(client: HttpClient) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with scripted(head + b"3\r\nabc\r\n", b"2\r\nde\r\n1\r\nf", b"\r\n0\r\n\r\n") as address:
        answer = await client.open("POST", address, body=b"x")
        assert answer.status == 200
        assert await answer.read() == b"abc"
        pieces = [await answer.read() for _ in range(3)]
        assert (b"".join(pieces), pieces[-1]) == (b"def", b"")
        assert await answer.read() == b""
    assert not client._streams


async def test_a_streamed_answer_cut_short_is_lost_behind_what_arrived(client: HttpClient) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with scripted(head + b"3\r\nabc\r\n") as address:
        answer = await client.open("POST", address)
        assert await answer.read() == b"abc"
        for _ in range(2):
            with pytest.raises(AnswerLostError):
                await answer.read()


async def test_a_malformed_piece_ends_a_streamed_answer(client: HttpClient) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with scripted(head + b"1\r\na\r\n", b"zz\r\n") as address:
        answer = await client.open("POST", address)
        assert await answer.read() == b"a"
        with pytest.raises(UnusableAnswerError, match="malformed"):
            await answer.read()
        await until(lambda: not client._streams)


async def test_a_streamed_answer_without_a_head_is_too_late(service: Service) -> None:
    client = HttpClient(LoopNetwork(), timeout_s=0.1)
    with pytest.raises(UnusableAnswerError, match=r"no answer within 0\.1 s"):
        await client.open("GET", url(service, "/wait"))
    service.let_go.set()
    await until(lambda: open_connections(service) == 0)


async def test_an_unread_streamed_answer_is_bounded_and_closing_it_ends_its_connection(
    service: Service, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_stream, "BUFFER_BYTES_MAX", 10_000)
    answer = await client.open("GET", url(service, "/large"))
    await until(lambda: not answer._transport.is_reading())  # type: ignore[union-attr]
    assert answer._buffered < 10_000 + (256 << 10)
    size = 0
    while piece := await answer.read():
        size += len(piece)
    assert size == 1 << 20
    second = await client.open("GET", url(service, "/large"))
    second.close()
    client.close()
    await until(lambda: open_connections(service) == 0)


async def test_fields_of_an_answer_are_returned_on_request_and_by_every_connection(
    client: HttpClient,
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Where: K\xf6ln\r\n\r\na"
    async with scripted(head) as address:
        answer = await client.request("GET", address, with_fields=True)
        assert (answer.status, answer.body) == (200, b"a")
        assert dict(answer.fields)[b"x-where"] == "Köln".encode("latin-1")
    async with scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Where: k\r\n\r\na") as address:
        assert (await client.request("GET", address)).fields == ()
