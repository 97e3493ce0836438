"""The bench's HTTP client: answers in any packets; a load ends with its requests, its time, or a refusal."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from tests.bench.gateway.http_client import Answers, Pool, build_request

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
)
REFUSED = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("size", range(1, 40))
def test_answers_are_the_same_however_they_arrive(size: int) -> None:
    sent = PLAIN + CHUNKED + EMPTY + REFUSED + PLAIN
    answers = Answers()
    received = [
        answer for at in range(0, len(sent), size) for answer in answers.feed(sent[at : at + size])
    ]
    hello = (200, b"hello")
    assert received == [hello, (200, b"hello world"), (204, b""), (503, b""), hello]


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_answers_without_a_length_are_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"HTTP/1\.1|length|bytes"):
        list(Answers().feed(sent))


def test_a_body_is_json() -> None:
    head, _, body = build_request("PUT", "/a", b"{}").partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /a HTTP/1.1\r\n")
    assert b"Content-Length: 2" in head
    assert body == b"{}"


class Server:
    """A server with prepared answers, one request at a time. ``paths``: those of the requests."""

    def __init__(self) -> None:
        self.paths: list[bytes] = []
        self.answers = itertools.repeat(PLAIN)
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.paths.append(head.split()[1])
                writer.write(next(self.answers))
        except (asyncio.IncompleteReadError, StopIteration, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    async with listener:
        yield server


async def test_connections_share_the_requests(server: Server) -> None:
    async with Pool(server.url, 3) as pool:
        taken = await pool.run(build_request("GET", f"/{i}") for i in range(20))
        assert sorted(server.paths, key=lambda path: int(path[1:])) == [
            b"/%d" % i for i in range(20)
        ]
        assert len(taken.request_s) == 20
        assert taken.body == b"hello"
        assert 0 < taken.first_byte <= taken.seconds
        again = await pool.run([build_request("GET", "/")])
        assert len(again.request_s) == 1


async def test_a_load_ends_in_time(server: Server) -> None:
    async with Pool(server.url, 2) as pool:
        taken = await pool.run(itertools.repeat(build_request("GET", "/")), 0.02)
        assert 0.02 <= taken.seconds < 1
        assert len(taken.request_s) == len(server.paths)


async def test_a_refusal_ends_a_load(server: Server) -> None:
    server.answers = itertools.chain([PLAIN], itertools.repeat(REFUSED))
    async with Pool(server.url, 1) as pool:
        with pytest.raises(RuntimeError, match="status 503"):
            await pool.run(itertools.repeat(build_request("GET", "/")))


async def test_a_lost_connection_ends_a_load(server: Server) -> None:
    server.answers = iter([PLAIN])
    async with Pool(server.url, 1) as pool:
        with pytest.raises(OSError, match="closed"):
            await pool.run(itertools.repeat(build_request("GET", "/")))
        with pytest.raises(OSError, match="closed"):
            await pool.run([build_request("GET", "/")])
