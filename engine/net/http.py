"""An HTTP/1.1 server over the Network seam, for private pages: metrics, readiness, remote procedure calls.

h11 parses and writes the protocol, except for a request that arrives in one piece (``plain_http``). This module adds
timeouts, bounds and connections. A connection serves one request at a time, whose body is complete before it is
handled. Long responses may be sent in pieces.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import h11

from engine.auth.credentials import PeerCertificate
from engine.base.errors import NotReady
from engine.base.log import bound
from engine.base.metrics import METRICS_TYPE
from engine.base.tasks import TaskScope
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.plain_http import parse_request

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 4 << 20
REQUEST_TIMEOUT_S = 10.0
"""Time in which a new connection must begin a request, and in which a request must be complete after its first byte."""
IDLE_TIMEOUT_S = 60.0
"""Time that a connection is kept between requests. Clients should close it earlier."""
ANSWER_TIMEOUT_S = 30.0
"""Time in which a client must read a response before its connection is aborted."""
LINGER_S = 2.0
"""Time that a refused client may continue to send. Closing the socket at once would reset the connection, and the
client would not read the reason."""
DROPPED_BYTES_MAX = 64 << 20
"""Bytes that a refused client may send in LINGER_S; they are dropped."""
CLOSE_DEADLINE_S = 1.0
"""Time in which responses must be sent when the server closes."""

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A complete request. ``path`` is as sent, without the query; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    certificate: PeerCertificate | None = None
    """The trusted certificate that the client presented on its TLS connection."""
    address: str = ""
    """The client's ``host:port``."""


class Response(NamedTuple):
    """A response. ``body`` is sent with its length, or ``pieces`` instead of it, one after the other as the client
    reads them. The status line has HTTP's phrase for ``status``."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    pieces: AsyncIterator[bytes] | None = None


Handler = Callable[[Request], Awaitable[Response]]
Page = Callable[[], Awaitable[Response]]
"""Returns the response to a GET of one path. It runs on the event loop, so a long page must yield in between."""


def json_response(status: int, value: Any) -> Response:
    """Return a JSON response."""
    return Response(status, json.dumps(value, separators=(",", ":")).encode())


def metrics_page(render: Callable[[], AsyncIterator[bytes]]) -> Page:
    """Return the page ``/metrics`` for a function that yields Prometheus' text format in pieces."""

    async def page() -> Response:
        return Response(200, content_type=METRICS_TYPE, pieces=render())

    return page


def ready_page(why_not: Callable[[], str | None]) -> Page:
    """Return the page ``/ready``: 200 ``ok``, or 503 and the reason that ``why_not`` returns. A page ``/live``, which
    is always 200, shows that the event loop turns: a service manager restarts a process that does not answer it.
    """

    async def page() -> Response:
        reason = why_not()
        if reason is None:
            return Response(200, b"ok\n", TEXT)
        return Response(503, reason.encode() + b"\n", TEXT)

    return page


def pages(by_path: Mapping[str, Page]) -> Handler:
    """Return a handler of GET and HEAD of each path, with any query; other requests are answered 404 or 405."""

    async def answer(request: Request) -> Response:
        page = by_path.get(request.path)
        if page is None:
            return json_response(404, {"reason": "No such page"})
        if request.method not in ("GET", "HEAD"):
            refusal = json_response(405, {"reason": "Only GET is served here"})
            return refusal._replace(headers=(("Allow", "GET, HEAD"),))
        return await page()

    return answer


class HttpServer:
    """A server that passes requests to ``handler``, whose errors become 500. ``connections_max`` and
    ``per_address_max`` are a Listener's: a connection above them is answered 503 and closed. Bodies above
    ``body_bytes_max`` are refused before they are read."""

    def __init__(
        self,
        network: Network,
        handler: Handler,
        *,
        connections_max: int,
        per_address_max: int = 0,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self.body_bytes_max = body_bytes_max
        self._handler = handler
        self._listener = Listener(
            network,
            lambda: _Connection(self),
            connections_max=connections_max,
            per_address_max=per_address_max,
            refusal=_too_many,
        )
        self._tasks = TaskScope("http")
        self._log = bound(__name__)

    async def listen(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Start accepting on another address, in TLS if ``tls`` is given, and return the bound port. Raises OSError
        when it is in use."""
        return await self._listener.start(host, port, tls=tls)

    @property
    def port(self) -> int:
        """The first bound port; 0 before ``listen``."""
        return self._listener.port

    @property
    def refused(self) -> int:
        """Number of connections refused above the bounds."""
        return self._listener.refused

    async def close(self) -> None:
        """Stop accepting, cancel the requests being handled and close the connections."""
        self._listener.stop_accepting()
        await self._tasks.close()
        await self._listener.drain(CLOSE_DEADLINE_S)

    def handle(self, connection: "_Connection", request: Request) -> None:
        """Start to handle a complete request."""
        if self._tasks.closed:
            connection.close()
            return
        self._tasks.spawn("request", self._answer(connection, request))

    async def _answer(self, connection: "_Connection", request: Request) -> None:
        try:
            response = await self._handler(request)
        except Exception:  # the boundary: one request's failure must not end the server
            self._log.exception("request failed path=%s", request.path)
            response = json_response(500, {"reason": "Internal error, see the server's log"})
        if response.pieces is None:
            connection.answer(response)
            return
        try:
            await connection.stream(response, response.pieces)
        except Exception:  # as above
            # A part of the response may have been sent, so no error can be sent instead.
            self._log.exception("request failed path=%s", request.path)
            connection.abort()


class _Refused(Exception):
    """The request is refused; the connection ends after the response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Connection(asyncio.Protocol):
    """One connection, which reads a request only after the response to the one before."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._certificate: PeerCertificate | None = None
        self._peer_name = ""
        self._head: h11.Request | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._idle = True
        """True while no byte of the next request has arrived."""
        self._answering = False
        self._plain = False
        """True while the request being answered was parsed without h11."""
        self._sent = False
        """True once the response to the current request was written."""
        self._ending = False
        self._dropped = 0
        self._paused = False
        """True while the client reads less than was sent to it."""
        self._timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        """Completes when the client has read what was sent, or has disconnected."""
        self.on_gone: Callable[[], None] | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._certificate = transport.get_extra_info("peercert") or None
        peer = transport.get_extra_info("peername")
        self._peer_name = f"{peer[0]}:{peer[1]}" if peer else ""
        self._set_timer(REQUEST_TIMEOUT_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._transport = None
        self._resume()
        if self.on_gone is not None:
            self.on_gone()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if self._ending:
            self._dropped += len(data)
            if self._dropped > DROPPED_BYTES_MAX:
                self.abort()
            return
        if self._idle and not self._answering and self._receive_plain(data):
            return
        self._http.receive_data(data)
        if self._answering:  # pipelined bytes are kept by h11, and later ones stay in the kernel
            self._transport.pause_reading()
        else:
            self._receive()

    def eof_received(self) -> bool:
        if not self._ending:
            self._http.receive_data(b"")
        # A client that has finished sending may still wait for a response; TLS has no half-closed connections.
        return self._answering and self._transport is not None and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._resume()
        if self._answering and self._sent:
            self._finish_request()

    def close(self) -> None:
        """End the connection after the queued responses were sent."""
        if self._transport is not None:
            self._ending = True
            self._transport.close()
            self._set_timer(ANSWER_TIMEOUT_S, self.abort)

    def _linger(self) -> None:
        """End the connection once the client has read the refusal and closed its side, or after LINGER_S."""
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.can_write_eof():  # TLS has no half-closed connections
                self._transport.write_eof()
            self._set_timer(LINGER_S, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Receiving

    def _receive_plain(self, data: bytes) -> bool:
        """Handle ``data`` if it is exactly one plain request; return whether it is."""
        plain = parse_request(data)
        if plain is None or len(plain.body) > self._server.body_bytes_max:
            return False
        self._stop_timer()
        self._answering = self._plain = True
        path, _, query = plain.target.partition("?")
        request = Request(
            plain.method,
            path,
            query,
            plain.headers,
            plain.body,
            self._certificate,
            self._peer_name,
        )
        self._server.handle(self, request)
        return True

    def _receive(self) -> None:
        """Parse the received bytes and handle the request once it is complete."""
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._begin_request(event)
                elif isinstance(event, h11.Data):
                    self._add_body(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    self._handle()
                    return
                elif isinstance(event, h11.ConnectionClosed):
                    self.close()
                    return
                else:
                    break
        except h11.RemoteProtocolError as error:
            reason = f"Malformed request: {error}"
            if error.error_status_hint == 431:
                reason = f"Request head is larger than {HEAD_BYTES_MAX} bytes"
            self._refuse(error.error_status_hint, reason)
            return
        except _Refused as error:
            self._refuse(error.status, str(error))
            return
        if self._idle and (self._head is not None or self._http.trailing_data[0]):
            self._idle = False
            self._set_timer(REQUEST_TIMEOUT_S, self._too_slow)

    def _begin_request(self, head: h11.Request) -> None:
        self._head = head
        lines = head.headers.raw_items()
        if len(head.target) + sum(len(name) + len(value) for name, value in lines) > HEAD_BYTES_MAX:
            raise _Refused(431, f"Request head is larger than {HEAD_BYTES_MAX} bytes")
        if head.http_version not in (b"1.1", b"1.0"):
            raise _Refused(505, "HTTP/1.1 and HTTP/1.0 are served here")
        self._headers = {
            name.decode("ascii").lower(): value.decode("latin-1") for name, value in lines
        }
        self._check_length(int(self._headers.get("content-length", "0")))
        if self._http.they_are_waiting_for_100_continue and self._transport is not None:
            interim = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._transport.write(self._http.send(interim) or b"")

    def _add_body(self, data: bytes) -> None:
        self._body += data
        self._check_length(len(self._body))

    def _check_length(self, length: int) -> None:
        if length > self._server.body_bytes_max:
            raise _Refused(413, f"Body is larger than {self._server.body_bytes_max} bytes")

    def _handle(self) -> None:
        assert self._head is not None
        self._stop_timer()
        self._answering = True
        path, _, query = self._head.target.decode("latin-1").partition("?")
        body = bytes(self._body)
        self._body.clear()
        method = self._head.method.decode("ascii")
        request = Request(
            method, path, query, self._headers, body, self._certificate, self._peer_name
        )
        self._server.handle(self, request)

    def _too_slow(self) -> None:
        if self._idle:
            self.close()
        else:
            self._refuse(408, f"The request was not complete within {REQUEST_TIMEOUT_S:g} s")

    # Answering

    def answer(self, response: Response) -> None:
        """Send the response to the current request and continue with the bytes that arrived meanwhile."""
        if self._transport is None:
            return
        self._transport.write(_encode(response) if self._plain else self._by_h11(response))
        self._response_sent()

    async def stream(self, response: Response, pieces: AsyncIterator[bytes]) -> None:
        """Send a response in ``pieces``, as ``answer`` does. Raises what they raise, with a part of them sent already.
        Cancel-safe."""
        if self._transport is not None:
            self._transport.write(self._chunked_head(response))
        is_head = self._head is not None and self._head.method == b"HEAD"
        async for piece in pieces:
            if self._transport is None or is_head:
                break
            if piece:
                self._transport.write(self._chunk(piece))
            if self._paused:
                await self._wait_drained()
        if self._transport is not None:
            end = b"0\r\n\r\n" if self._plain else self._http.send(h11.EndOfMessage())
            self._transport.write(end or b"")
            self._response_sent()

    def _chunked_head(self, response: Response) -> bytes:
        lines = _chunked_header_lines(response)
        if self._plain:
            return _encode_head(response.status, lines)
        phrase = HTTPStatus(response.status).phrase.encode()
        head = h11.Response(status_code=response.status, reason=phrase, headers=lines)
        return self._http.send(head) or b""

    def _chunk(self, piece: bytes) -> bytes:
        if self._plain:
            return b"%x\r\n%b\r\n" % (len(piece), piece)
        return self._http.send(h11.Data(data=piece)) or b""

    async def _wait_drained(self) -> None:
        """Wait until the client has read what was sent; abort after ANSWER_TIMEOUT_S."""
        self._drained = asyncio.get_running_loop().create_future()
        self._set_timer(ANSWER_TIMEOUT_S, self.abort)
        await self._drained
        self._stop_timer()

    def _resume(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _response_sent(self) -> None:
        """Finish the request, once the client has read so much that the connection is writable."""
        self._sent = True
        if self._paused:
            self._set_timer(ANSWER_TIMEOUT_S, self.abort)
        else:
            self._finish_request()

    def _by_h11(self, response: Response) -> bytes:
        head = h11.Response(
            status_code=response.status,
            reason=HTTPStatus(response.status).phrase.encode(),
            headers=_header_lines(response),
        )
        parts = [self._http.send(head) or b""]
        if response.body and not (self._head is not None and self._head.method == b"HEAD"):
            parts.append(self._http.send(h11.Data(data=response.body)) or b"")
        parts.append(self._http.send(h11.EndOfMessage()) or b"")
        return b"".join(parts)

    def _refuse(self, status: int, reason: str) -> None:
        self._ending = self._answering = True
        refusal = json_response(status, {"reason": reason})
        self.answer(refusal._replace(headers=(("Connection", "close"),)))

    def _finish_request(self) -> None:
        """Wait for the next request, or end the connection, after the client has read the response."""
        plain, self._plain = self._plain, False
        self._answering = self._sent = False
        if self._ending:
            self._linger()
            return
        if self._transport is None or not (plain or self._http.our_state is h11.DONE):
            self.close()
            return
        if not plain:
            self._http.start_next_cycle()
        self._head = None
        self._idle = True
        # A request that h11 has kept restarts the timer below.
        self._set_timer(IDLE_TIMEOUT_S, self._too_slow)
        if not self._transport.is_reading():
            self._transport.resume_reading()
        if any(self._http.trailing_data):
            self._receive()

    # Time

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """Call ``then`` after ``seconds``, instead of the callback that was due before."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _too_many(reason: str) -> bytes:
    """Return the bytes sent to a client above a bound of connections."""
    refusal = json_response(503, {"code": NotReady.code, "reason": reason})
    return _encode(refusal._replace(headers=(("Connection", "close"),)))


def _header_lines(response: Response) -> list[tuple[str, str]]:
    return [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        *response.headers,
    ]


def _chunked_header_lines(response: Response) -> list[tuple[str, str]]:
    named = ("Content-Type", response.content_type)
    return [named, ("Transfer-Encoding", "chunked"), *response.headers]


def _encode(response: Response) -> bytes:
    """Return the bytes of a response as h11 writes it."""
    return _encode_head(response.status, _header_lines(response)) + response.body


def _encode_head(status: int, lines: list[tuple[str, str]]) -> bytes:
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    head += [f"{name}: {value}" for name, value in lines]
    assert not any("\r" in line or "\n" in line for line in head)
    return "\r\n".join([*head, "", ""]).encode("latin-1")


PageTable = Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]]
"""Pages by method, GET or PUT, and by path below their prefix."""


def text(status: int, value: str) -> Response:
    return Response(status, value.encode(), TEXT)


CHANGES_REFUSED = "Changes are refused: see the setting http_server_changes_enabled"


async def answered(
    pages: PageTable, prefix: str, request: Request, *, changes: bool
) -> Response | None:
    """Answer a request by its page; None without one. A change is refused unless ``changes`` are allowed."""
    method = "GET" if request.method == "HEAD" else request.method
    page = pages.get((method, request.path.removeprefix(prefix)))
    if page is None or not request.path.startswith(prefix):
        return None
    if method in ("PUT", "DELETE") and not changes:
        return text(403, CHANGES_REFUSED)
    try:
        return await page(request)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        return text(400, f"Request body or query is not as expected: {error}")
