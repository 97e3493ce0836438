"""A small HTTP/1.1 server over the Network seam, for private pages: metrics, readiness, remote procedure calls.

One request at a time per connection, bodies by Content-Length only, no TLS, no files. It exists because a full server
costs a broker three times its imports and sockets that a simulator cannot replace.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from engine.base.log import bound
from engine.base.tasks import TaskScope
from engine.net.listener import Listener
from engine.net.network import Network

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 4 << 20
REQUEST_TIMEOUT_S = 10.0
"""Time a client has to send a request once it began."""
CLOSE_DEADLINE_S = 1.0
"""Time answers have to leave when the server closes."""

JSON = "application/json"


class Request(NamedTuple):
    """``path`` as sent, without the query; header names in lower case; ``body`` complete."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Response(NamedTuple):
    """``body`` is sent with its length; the status line's text is HTTP's own."""

    status: int
    body: bytes = b""
    content_type: str = JSON


Handler = Callable[[Request], Awaitable[Response]]


def json_response(status: int, value: Any) -> Response:
    """A JSON answer."""
    return Response(status, json.dumps(value, separators=(",", ":")).encode())


class HttpServer:
    """Listens and hands requests to ``handler``, whose errors become 500. ``connections_max`` as a Listener's."""

    def __init__(self, network: Network, handler: Handler, *, connections_max: int) -> None:
        self._handler = handler
        self._listener = Listener(
            network, lambda: _Connection(self), connections_max=connections_max
        )
        self._tasks = TaskScope("http")
        self._log = bound(__name__)

    async def listen(self, host: str, port: int) -> int:
        """Start accepting; the port bound. Raises OSError when it is taken."""
        await self._listener.start(host, port)
        return self._listener.port

    @property
    def refused(self) -> int:
        """Connections refused above the cap."""
        return self._listener.refused

    async def close(self) -> None:
        """Stop accepting and drop connections; requests being answered are cancelled."""
        self._listener.stop_accepting()
        await self._tasks.close()
        await self._listener.drain(CLOSE_DEADLINE_S)

    def _take(self, connection: "_Connection", request: Request) -> None:
        if self._tasks.closed:
            connection.close()
            return
        self._tasks.spawn("request", self._answer(connection, request))

    async def _answer(self, connection: "_Connection", request: Request) -> None:
        try:
            response = await self._handler(request)
        except Exception:  # the boundary: one request's failure must not end the server
            self._log.exception("request failed path=%s", request.path)
            response = json_response(500, {"reason": "Internal error, see the broker's log"})
        connection.answer(response)


class _Refused(Exception):
    """The request cannot be taken; the connection ends after the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._busy = False
        self._ending = False
        self._timer: asyncio.TimerHandle | None = None
        self.on_gone: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._transport = None
        if self.on_gone is not None:
            self.on_gone()

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        self._received += data
        if len(self._received) > HEAD_BYTES_MAX + BODY_BYTES_MAX:
            self.close()
        elif not self._busy:
            self._next()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        try:
            request = self._cut()
        except _Refused as error:
            self._ending = True
            self.answer(json_response(error.status, {"reason": str(error)}))
            return
        if request is not None:
            self._stop_timer()
            self._busy = True
            self._ending = request.headers.get("connection", "").lower() == "close"
            self._server._take(self, request)
        elif self._received and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(REQUEST_TIMEOUT_S, self.close)

    def _cut(self) -> Request | None:
        """Take one whole request off what was received; None when more must come. Raises _Refused."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > HEAD_BYTES_MAX:
                raise _Refused(431, "Request head is too large")
            return None
        method, target, headers = _head(bytes(self._received[:end]))
        if "transfer-encoding" in headers:
            raise _Refused(411, "Content-Length is required")
        length = _length(headers.get("content-length", "0"))
        start = end + 4
        if len(self._received) < start + length:
            if headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body = bytes(self._received[start : start + length])
        del self._received[: start + length]
        path, _, query = target.partition("?")
        return Request(method, path, query, headers, body)

    def answer(self, response: Response) -> None:
        """Send the answer of the request being served and go on with what came meanwhile."""
        if self._transport is None:
            return
        phrase = HTTPStatus(response.status).phrase
        self._transport.write(
            f"HTTP/1.1 {response.status} {phrase}\r\nContent-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            f"Connection: {'close' if self._ending else 'keep-alive'}\r\n\r\n".encode()
            + response.body
        )
        self._busy = False
        if self._ending:
            self._transport.close()
        elif self._received:
            self._next()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _head(data: bytes) -> tuple[str, str, dict[str, str]]:
    lines = data.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Refused(400, "Malformed request line")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _Refused(400, "Malformed header")
        headers[name.lower()] = value.strip()
    return words[0], words[1], headers


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _Refused(400, "Content-Length is no number")
    if len(text) > 9 or int(text) > BODY_BYTES_MAX:
        raise _Refused(413, f"Body is larger than {BODY_BYTES_MAX} bytes")
    return int(text)
