"""An HTTP/1.1 client that is light enough to load servers: prebuilt requests on connections that stay open."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEAD_BYTES_MAX = 65536


def build_request(method: str, path: str, body: bytes | None = None, token: str = "") -> bytes:
    """Return the bytes of a request; a body is JSON. It presents ``token`` unless that is empty."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def host_and_port(url: str) -> tuple[str, int]:
    """Return host and port of a URL that has a port. Raises ValueError."""
    parts = urlsplit(url)
    if not parts.hostname or not parts.port:
        raise ValueError(f"{url} has no host or no port")
    return parts.hostname, parts.port


def field_value(head: bytes, name: bytes) -> bytes | None:
    """Return the value of a header in ``head``, which is in lower case; None when it is missing."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    at += len(name) + 3
    end = head.find(b"\r\n", at)
    return head[at : end if end >= 0 else len(head)].strip()


class Answers:
    """The bytes that a server sends on one connection, cut into answers: status and body. No socket is touched."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = 0  # no answer is complete before so many bytes are there
        self._chunk_at = 0  # where the next chunk of a chunked body begins
        self._chunks: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Answers that ``data`` completes. Raises ValueError for what is not HTTP/1.1 with a length or chunks."""
        self._buffer += data
        while self._buffer and len(self._buffer) >= self._wanted:
            answer = self._cut()
            if answer is None:
                return
            self._wanted = self._chunk_at = 0
            yield answer

    def _cut(self) -> tuple[int, bytes] | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise ValueError(f"an answer's head has more than {HEAD_BYTES_MAX} bytes")
            return None
        head = bytes(self._buffer[:end]).lower()
        if not head.startswith(b"http/1.1 "):
            raise ValueError(f"no answer of HTTP/1.1: {head[:80]!r}")
        status, begin = int(head[9:12]), end + 4
        if status in (204, 304):
            return status, self._taken(begin, begin)
        length = field_value(head, b"content-length")
        if length is not None:
            self._wanted = begin + int(length)
            if len(self._buffer) < self._wanted:
                return None
            return status, self._taken(begin, self._wanted)
        if field_value(head, b"transfer-encoding") != b"chunked":
            raise ValueError(f"an answer without length: {head!r}")
        return self._chunked(status, begin)

    def _taken(self, begin: int, end: int) -> bytes:
        body = bytes(self._buffer[begin:end])
        del self._buffer[:end]
        return body

    def _chunked(self, status: int, begin: int) -> tuple[int, bytes] | None:
        at = self._chunk_at or begin
        while (line := self._buffer.find(b"\r\n", at)) >= 0:
            size = int(self._buffer[at:line].partition(b";")[0], 16)
            after = line + 2 + size + 2
            if len(self._buffer) < after:
                self._wanted = after
                break
            if size == 0:
                body = b"".join(self._chunks)
                self._chunks.clear()
                del self._buffer[:after]
                return status, body
            self._chunks.append(bytes(self._buffer[line + 2 : line + 2 + size]))
            at = after
        self._chunk_at = at
        return None


@dataclass
class Taken:
    """Times of one load: seconds of each request, and of all."""

    request_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    body: bytes = b""
    """The last answer's."""
    first_byte: float = 0.0
    """Seconds from the last request to the first byte of its answer."""


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._answers = Answers()
        self._load: Load | None = None
        self._asked = 0.0
        self._heard = True
        self._lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def begin(self, load: "Load") -> None:
        """Ask until the load has no more requests."""
        self._load = load
        if self._lost is not None:
            load.fail(self._lost)
        else:
            self._next(load)

    def _next(self, load: "Load") -> None:
        request = load.next_request()
        if request is None:
            self._load = None
            load.ended()
            return
        self._heard = False
        self._asked = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        now, load = time.perf_counter(), self._load
        if load is None:
            self._lost = ValueError(f"the server sent unasked: {data[:80]!r}")
            return
        if not self._heard:
            self._heard = True
            load.taken.first_byte = now - self._asked
        try:
            for status, body in self._answers.feed(data):
                load.answered(status, body, now - self._asked)
                self._next(load)
        except ValueError as error:
            load.fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = error or ConnectionResetError("the server closed the connection")
        if self._load is not None:
            self._load.fail(self._lost)


class Load:
    """Requests that several connections share. Ends with the last request, or after ``seconds``."""

    def __init__(self, requests: Iterable[bytes], connections: int, seconds: float) -> None:
        self.taken = Taken()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = iter(requests)
        self._busy = connections
        self._until = time.perf_counter() + seconds

    def next_request(self) -> bytes | None:
        if time.perf_counter() >= self._until or self.done.done():
            return None
        return next(self._requests, None)

    def answered(self, status: int, body: bytes, seconds: float) -> None:
        if not 200 <= status < 300:
            self.fail(RuntimeError(f"status {status}: {body[:300]!r}"))
        self.taken.request_s.append(seconds)
        self.taken.body = body

    def ended(self) -> None:
        self._busy -= 1
        if self._busy == 0 and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Pool:
    """Connections to one server, in order of their opening. An async context manager."""

    def __init__(self, url: str, count: int) -> None:
        self._where, self._count = host_and_port(url), count
        self._connections: list[Connection] = []

    async def __aenter__(self) -> "Pool":
        loop = asyncio.get_running_loop()
        for _ in range(self._count):
            _, connection = await loop.create_connection(Connection, *self._where)
            self._connections.append(connection)
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.transport.abort()

    async def run(self, requests: Iterable[bytes], seconds: float = 60.0) -> Taken:
        """Ask on all connections, on each one request at a time, for ``seconds`` at most.

        Raises RuntimeError for an answer that is no success, ValueError, OSError for a connection that broke; the pool
        is of no use after that, nor after a cancellation.
        """
        load = Load(requests, len(self._connections), seconds)
        began = time.perf_counter()
        for connection in self._connections:
            connection.begin(load)
        await load.done
        load.taken.seconds = time.perf_counter() - began
        return load.taken
