"""The status server: pages, refusals, limits."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.net.network import LoopNetwork
from engine.net.status import CONNECTIONS_MAX, StatusServer, metrics_page, ready_page


class Health:
    why_not: str | None = None


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def server(health: Health) -> AsyncIterator[StatusServer]:
    pages = {
        "/metrics": metrics_page(lambda: b"up 1\n"),
        "/ready": ready_page(lambda: health.why_not),
    }
    found = StatusServer(LoopNetwork(), pages)
    await found.start("127.0.0.1", 0)
    yield found
    await found.close()


async def ask(server: StatusServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_metrics_come_with_their_type_and_length(server: StatusServer) -> None:
    head, body = (await ask(server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")).split(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in head
    assert b"Content-Length: 5\r\n" in head
    assert body == b"up 1\n"


async def test_ready_says_why_not(server: StatusServer, health: Health) -> None:
    assert b" 200 OK" in await ask(server, b"GET /ready HTTP/1.0\r\n\r\n")
    health.why_not = "journal is replayed"
    answer = await ask(server, b"GET /ready HTTP/1.1\r\n\r\n")
    assert b" 503 " in answer
    assert answer.endswith(b"journal is replayed\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /ready HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /ready SPDY/3\r\n\r\n", b"400"),
        (b"GET /ready HTTP/1.1\r\nX: " + b"x" * 9000, b"431"),
    ],
)
async def test_other_requests_are_refused(
    server: StatusServer, request_bytes: bytes, status: bytes
) -> None:
    assert (await ask(server, request_bytes)).split(b" ")[1] == status


async def test_head_has_no_body_and_requests_may_come_in_pieces(server: StatusServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for piece in (b"HEAD /met", b"rics HTTP/1.1\r\n", b"\r\n"):
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 5" in answer
    writer.close()
    await writer.wait_closed()


async def test_connections_are_bounded_and_end_with_the_server(server: StatusServer) -> None:
    held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(CONNECTIONS_MAX)]
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    with pytest.raises(ConnectionError):
        await ended(reader)
    writer.close()
    await server.close()
    for reader, writer in held:
        with pytest.raises(ConnectionError):
            await ended(reader)
        writer.close()


async def ended(reader: asyncio.StreamReader) -> None:
    """Raises ConnectionError also when the end came in good order."""
    if await reader.read() == b"":
        raise ConnectionResetError
