"""The HTTP server: pages, calls, refusals, bounds of size and time; over real sockets, spoken to byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.net import http
from engine.net.http import (
    HEAD_BYTES_MAX,
    HttpServer,
    Request,
    Response,
    json_response,
    metrics_page,
    pages,
    ready_page,
)
from engine.net.listener import REASON
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from tests.support.net.certificates import Authority
from tests.support.waiting import stays, until

CONNECTIONS_MAX = 4
BODY_BYTES_MAX = 100_000
LONG = 64
"""Pieces of a MiB."""


class Service:
    """Pages, and ``/echo``, which returns its request once ``let_go`` is set."""

    def __init__(self) -> None:
        self.why_not: str | None = None
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.answered = 0
        self.pieces = 0
        self._pages = pages(
            {
                "/metrics": metrics_page(self._metrics),
                "/ready": ready_page(lambda: self.why_not),
                "/large": self._large,
                "/long": metrics_page(self._long),
                "/torn": metrics_page(self._torn),
                "/broken": self._broken,
            }
        )
        self.server = HttpServer(
            LoopNetwork(),
            self.answer,
            connections_max=CONNECTIONS_MAX,
            body_bytes_max=BODY_BYTES_MAX,
        )

    async def _metrics(self) -> AsyncIterator[bytes]:
        for piece in (b"up ", b"", b"1\n"):
            yield piece

    async def _long(self) -> AsyncIterator[bytes]:
        for _ in range(LONG):
            self.pieces += 1
            yield bytes(1 << 20)

    async def _torn(self) -> AsyncIterator[bytes]:
        yield b"up "
        raise RuntimeError("secret detail")

    async def _large(self) -> Response:
        return Response(200, bytes(8 << 20))

    async def _broken(self) -> Response:
        raise RuntimeError("secret detail")

    async def answer(self, request: Request) -> Response:
        self.answered += 1
        if request.path != "/echo":
            return await self._pages(request)
        await self.let_go.wait()
        echo = [request.method, request.query, request.headers.get("x-a"), len(request.body)]
        return json_response(200, echo)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    await made.server.listen("127.0.0.1", 0)
    yield made
    await made.server.close()


async def connect(service: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", service.server.port, limit=16 << 20)


async def ask(service: Service, request: bytes) -> bytes:
    """Send a request and return all bytes until the server ends the connection."""
    reader, writer = await connect(service)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if "transfer-encoding: chunked" in head:
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return int(head.split(" ")[1]), body
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    return int(head.split(" ")[1]), await reader.readexactly(length)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


LAST = "Connection: close"


async def test_metrics_come_with_their_type_in_pieces(service: Service) -> None:
    for more in ((), (LAST,)):  # read without h11, and by it
        reader, writer = await connect(service)
        writer.write(get("/metrics?x=1", *more))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Type: text/plain; version=0.0.4" in head
        assert await reader.readuntil(b"0\r\n\r\n") == b"3\r\nup \r\n2\r\n1\n\r\n0\r\n\r\n"
        if not more:
            writer.write(get("/ready"))
            assert await answer_of(reader) == (200, b"ok\n")
        writer.close()
    old = await ask(service, b"GET /metrics HTTP/1.0\r\n\r\n")
    assert old.endswith(b"\r\n\r\nup 1\n"), "HTTP/1.0 knows no chunks"


async def test_pieces_wait_until_the_client_reads(service: Service) -> None:
    reader, writer = await connect(service)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(get("/long") + get("/ready"))
    while service.pieces < 3:
        await asyncio.sleep(0.01)
    # not all pieces are made while the client does not read
    await stays(lambda: service.pieces < LONG, 0.1)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert len((await answer_of(reader))[1]) == LONG << 20
    assert await answer_of(reader) == (200, b"ok\n")
    writer.close()


async def test_a_client_that_reads_no_pieces_is_disconnected(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.1)
    reader, writer = await connect(service)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(get("/long"))
    await until(lambda: service.pieces and not service.server._listener.connections)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(LONG << 20)
    assert service.pieces < LONG
    writer.close()


async def test_pieces_that_fail_end_the_connection(service: Service) -> None:
    reader, writer = await connect(service)
    writer.write(get("/torn"))
    assert b"up " in await reader.readuntil(b"up ")
    with contextlib.suppress(ConnectionError):
        assert b"0\r\n" not in await reader.read(), "that would be a whole answer"
    writer.close()
    assert b" 200 OK" in await ask(service, get("/ready", LAST)), "others are served"


async def test_ready_gives_the_reason_when_it_is_not(service: Service) -> None:
    assert b" 200 OK" in await ask(service, b"GET /ready HTTP/1.0\r\n\r\n")
    service.why_not = "journal is replayed"
    answer = await ask(service, get("/ready", LAST))
    assert b" 503 " in answer
    assert answer.endswith(b"journal is replayed\n")


async def test_a_failing_page_reveals_nothing_and_the_connection_continues(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await connect(service)
    writer.write(get("/broken") + get("/ready"))
    status, body = await answer_of(reader)
    assert (status, json.loads(body)) == (500, {"reason": "Internal error, see the server's log"})
    assert "secret detail" in caplog.text
    assert await answer_of(reader) == (200, b"ok\n")
    writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status", "reason"),
    [
        (b"nonsense\r\n\r\n", 400, "Malformed request"),
        (b"GET / HTTP/2\r\n\r\n", 400, "Malformed request"),
        (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET / SPDY/3\r\n\r\n", 400, "Malformed request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (get("/", "bad header"), 400, "Malformed request"),
        (get("/echo", "Content-Length: -1"), 400, "Content-Length"),
        (get("/echo", "Content-Length: 1", "Content-Length: 2"), 400, "Content-Length"),
        (get("/echo", f"Content-Length: {BODY_BYTES_MAX + 1}"), 413, "larger than 100000 bytes"),
        (get("/echo", "Transfer-Encoding: gzip"), 501, "Transfer-Encoding"),
        (
            get("/echo", "Transfer-Encoding: chunked") + b"186A1\r\n" + bytes(100_001),
            413,
            "larger than 100000 bytes",
        ),
        (b"GET /" + b"x" * (HEAD_BYTES_MAX + 1), 431, "larger than 16384 bytes"),
        (get("/", f"X: {'x' * HEAD_BYTES_MAX}"), 431, "larger than 16384 bytes"),
    ],
)
async def test_unacceptable_requests_are_refused_and_end_the_connection(
    service: Service, request_bytes: bytes, status: int, reason: str
) -> None:
    answer = await ask(service, request_bytes)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Connection: close" in head
    assert reason in json.loads(body)["reason"]
    assert service.answered == 0


async def test_a_client_that_sends_a_refused_body_to_its_end_reads_why(service: Service) -> None:
    reader, writer = await connect(service)
    size = 20 << 20
    writer.write(get("/echo", f"Content-Length: {size}") + bytes(size))
    await writer.drain()  # the server has read nearly all of it
    assert (await answer_of(reader))[0] == 413
    assert await reader.read() == b""
    writer.close()


async def test_other_pages_and_methods_are_refused_and_the_connection_continues(
    service: Service,
) -> None:
    reader, writer = await connect(service)
    writer.write(get("/nothing") + get("/ready", "Content-Length: 0", method="POST"))
    assert (await answer_of(reader))[0] == 404
    refusal = await reader.readuntil(b"\r\n\r\n")
    assert refusal.startswith(b"HTTP/1.1 405 ")
    assert b"Allow: GET, HEAD\r\n" in refusal
    writer.close()


async def test_head_has_no_body_and_requests_may_come_in_pieces(service: Service) -> None:
    reader, writer = await connect(service)
    for piece in (b"HEAD /met", b"rics HTTP/1.1\r\nHost: x\r\n", b"Connection: close\r\n\r\n"):
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    assert answer.endswith(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in answer
    writer.close()


async def test_pipelined_and_split_requests_are_answered_in_order(service: Service) -> None:
    reader, writer = await connect(service)
    data = get("/echo?first", "X-A: b", "Content-Length: 4", method="POST") + b"body"
    data += get("/echo", "Transfer-Encoding: chunked", method="PUT")
    data += b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" + get("/ready", LAST)
    for index in range(0, len(data), 7):
        writer.write(data[index : index + 7])
        await writer.drain()
    assert json.loads((await answer_of(reader))[1]) == ["POST", "first", "b", 4]
    assert json.loads((await answer_of(reader))[1]) == ["PUT", "", None, 5]
    assert await answer_of(reader) == (200, b"ok\n")
    assert await reader.read() == b""
    writer.close()


async def test_requests_behind_one_being_answered_wait_unread(service: Service) -> None:
    service.let_go.clear()
    reader, writer = await connect(service)
    writer.write(get("/echo?first"))
    while not service.answered:
        await asyncio.sleep(0)
    writer.write(get("/echo?second") * 10)
    await stays(lambda: service.answered == 1, 0.05)
    service.let_go.set()
    queries = [json.loads((await answer_of(reader))[1])[1] for _ in range(11)]
    assert queries == ["first"] + ["second"] * 10
    writer.close()


async def test_a_client_that_expects_100_continue_receives_it(service: Service) -> None:
    reader, writer = await connect(service)
    writer.write(get("/echo", "Content-Length: 2", "Expect: 100-continue", method="POST"))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(b"ab")
    assert json.loads((await answer_of(reader))[1])[3] == 2
    writer.close()


async def test_a_half_closed_client_still_receives_the_answer(service: Service) -> None:
    reader, writer = await connect(service)
    writer.write(get("/echo"))
    writer.write_eof()
    assert (await answer_of(reader))[0] == 200
    assert await reader.read() == b""
    writer.close()


async def test_a_client_in_tls_that_leaves_before_its_answer_is_no_warning(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    context = ServerFiles(*authority.issue("server", "127.0.0.1")).context()
    port = await service.server.listen("127.0.0.1", 0, tls=context)
    trusting = ClientFiles(authority.cert).context()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    service.let_go.clear()
    writer.write(get("/echo"))
    await until(lambda: service.answered)
    writer.close()
    await until(lambda: not service.server._listener.connections)
    service.let_go.set()
    assert caplog.records == []


@pytest.mark.parametrize("started", [b"", get("/echo")[:20], get("/echo", "Content-Length: 9")])
async def test_a_request_that_does_not_arrive_in_time_ends_the_connection(
    service: Service, started: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.05)
    answer = await ask(service, started)
    assert answer[:13] == (b"HTTP/1.1 408 " if started else b"")


async def test_an_idle_connection_is_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_TIMEOUT_S", 0.05)
    assert (await ask(service, get("/ready"))).endswith(b"ok\n")


async def test_a_client_that_does_not_read_its_answer_is_disconnected(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.1)
    reader, writer = await connect(service)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(get("/large") * 3)
    await until(lambda: service.answered and not service.server._listener.connections)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.readexactly(8 << 20)
    assert service.answered == 1
    writer.close()


async def test_a_client_that_reads_a_large_answer_late_is_still_served(service: Service) -> None:
    reader, writer = await connect(service)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(get("/large") + get("/ready"))
    await asyncio.sleep(0.05)  # time: the client is late by this
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert len((await answer_of(reader))[1]) == 8 << 20
    assert await answer_of(reader) == (200, b"ok\n")
    writer.close()


async def test_connections_are_bounded_and_end_with_the_server(service: Service) -> None:
    service.let_go.clear()
    held = [await connect(service) for _ in range(CONNECTIONS_MAX)]
    held[0][1].write(get("/echo"))
    while not service.answered:
        await asyncio.sleep(0)
    reader, writer = await connect(service)
    status, body = await answer_of(reader)
    assert (status, json.loads(body)["reason"]) == (503, REASON)
    assert await reader.read() == b""
    assert service.server.refused == 1
    writer.close()
    await service.server.close()
    for reader, writer in held:
        assert await reader.read() == b""
        writer.close()


async def test_one_server_answers_in_clear_and_in_tls(service: Service, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ServerFiles(*authority.issue("server", "127.0.0.1")).context()
    port = await service.server.listen("127.0.0.1", 0, tls=context)
    assert service.server.port != port
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=ClientFiles(authority.cert).context()
    )
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await answer_of(reader) == (200, b"up 1\n")
    writer.close()
    assert b"200" in await ask(service, b"GET /ready HTTP/1.0\r\n\r\n")
