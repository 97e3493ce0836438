"""An HTTP/1.1 client over the Network seam: reused connections, one request at a time on each, bounded answers; and
answers that are read while they arrive (``open``), each on a connection of its own.

h11 parses and writes the protocol, except for an answer in one piece (``plain_http``). Redirects are returned like
other answers, and no request is sent a second time: the caller knows which may be repeated, and the errors distinguish
whether the request may have been served.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from engine.net.http_stream import (
    AnswerLostError,
    HttpError,
    NotReachedError,
    StreamedAnswer,
    UnusableAnswerError,
)
from engine.net.network import Network, ProtocolFactory
from engine.net.plain_http import HEAD_BYTES_MAX, parse_response
from engine.net.tls import ContextSource

__all__ = [
    "Answer",
    "AnswerLostError",
    "HttpClient",
    "HttpError",
    "NotReachedError",
    "StreamedAnswer",
    "UnusableAnswerError",
]

CONNECTIONS_MAX = 100
"""Connections of one client to one address, so that an address that does not answer delays no request to another.
Requests above the bound wait, within their timeout."""
IDLE_MAX = 16
"""Idle connections kept to one address."""
HEADS_MAX = 1_000
"""Cached heads of requests."""
IDLE_S = 15.0
"""Time that an idle connection is kept, less than servers keep it, so that a request rarely meets its end."""


Fields = tuple[tuple[bytes, bytes], ...]
"""Header fields in their order; names are in lower case."""


class Answer(NamedTuple):
    """An answer with its complete body; ``fields`` are kept only on request."""

    status: int
    body: bytes
    fields: Fields = ()


Address = tuple[str, int, bool]
"""Host, port, and whether TLS is used."""


class _Head(NamedTuple):
    """A request's head without the length of its body, as values and as bytes."""

    address: Address
    method: str
    target: str
    lines: list[tuple[str, str]]
    data: bytes


class HttpClient:
    """A client for one event loop. A request takes at most ``timeout_s``, including waits for a connection; the body of
    its answer has at most ``answer_bytes_max`` bytes. ``tls`` returns the context for https."""

    def __init__(
        self,
        network: Network,
        *,
        timeout_s: float,
        answer_bytes_max: int = 64 << 20,
        tls: ContextSource | None = None,
    ) -> None:
        self._network = network
        self._timeout_s = timeout_s
        self._answer_bytes_max = answer_bytes_max
        self._tls = tls
        self._slots: defaultdict[Address, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(CONNECTIONS_MAX)
        )
        self._idle: defaultdict[Address, dict[_Link, None]] = defaultdict(dict)
        self._links: dict[_Link, None] = {}
        self._streams: dict[StreamedAnswer, None] = {}
        self._heads: dict[tuple[str, str, tuple[tuple[str, str], ...]], _Head] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        with_fields: bool = False,
    ) -> Answer:
        """Send a request and return its answer, whatever the status; ``with_fields``: with its header fields.

        Raises HttpError, ValueError for a bad URL. A cancellation ends the connection; the request may have been
        served.
        """
        head = self._cached_head(method, url, headers)
        try:
            async with asyncio.timeout(self._timeout_s), self._slots[head.address]:
                idle = self._idle[head.address]
                link = idle.popitem()[0] if idle else await self._open(head.address)
                answer = await link.request(head, body, with_fields)
                if link.reusable and len(idle) < IDLE_MAX:
                    idle[link] = None
                else:
                    link.abort()
                return answer
        except TimeoutError as error:
            raise self._too_late(head) from error

    async def open(
        self, method: str, url: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> StreamedAnswer:
        """Send a request and return its answer once its head has arrived, within ``timeout_s``; the body may last for
        any time and have any size. The caller closes the answer. Raises HttpError, ValueError for a bad URL.

        The connection is not among those that CONNECTIONS_MAX bounds. A cancellation ends it.
        """
        head = self._cached_head(method, url, headers)
        lines = [*head.lines, ("Content-Length", str(len(body)))]
        request = h11.Request(method=head.method, target=head.target, headers=lines)
        answer = StreamedAnswer(head.lines[0][1], request, body)
        self._streams[answer] = None
        answer.on_lost = partial(self._streams.pop, answer, None)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connect(head.address, lambda: answer)
                await answer.begin()
        except BaseException as error:
            self._streams.pop(answer, None)
            answer.close()
            if isinstance(error, TimeoutError):
                raise self._too_late(head) from error
            raise
        return answer

    def close(self) -> None:
        """End all connections; pending requests fail."""
        for link in list(self._links):
            link.abort()
        for answer in list(self._streams):
            answer.close()

    def _cached_head(self, method: str, url: str, headers: Sequence[tuple[str, str]]) -> _Head:
        """Return the head of a request, cached. Raises ValueError for a bad URL."""
        key = (method, url, tuple(headers))
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            head = self._heads[key] = _head(method, url, headers)
        return head

    def _too_late(self, head: _Head) -> UnusableAnswerError:
        return UnusableAnswerError(
            f"{head.lines[0][1]} gave no answer within {self._timeout_s:g} s"
        )

    async def _open(self, address: Address) -> "_Link":
        host, port, _ = address
        link = _Link(f"{host}:{port}", self._answer_bytes_max, partial(self._on_lost, address))
        await self._connect(address, lambda: link)
        self._links[link] = None
        return link

    async def _connect(self, address: Address, factory: ProtocolFactory) -> None:
        """Open a connection. Raises NotReachedError."""
        host, port, secure = address
        tls = self._tls() if secure and self._tls is not None else None
        if secure and tls is None:
            raise NotReachedError(f"{host}:{port} needs TLS, for which there is no context")
        try:
            await self._network.connect(host, port, factory, tls=tls)
        except OSError as error:
            raise NotReachedError(f"{host}:{port} cannot be reached: {error}") from error

    def _on_lost(self, address: Address, link: "_Link") -> None:
        self._links.pop(link, None)
        self._idle[address].pop(link, None)


def _head(method: str, url: str, headers: Sequence[tuple[str, str]]) -> _Head:
    """Build the head of a request. Raises ValueError for a bad URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an HTTP URL")
    secure = parts.scheme == "https"
    address = (parts.hostname, parts.port or (443 if secure else 80), secure)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [("Host", parts.netloc), *headers]
    request = h11.Request(method=method, target=target, headers=lines)
    data = h11.Connection(h11.CLIENT).send(request) or b""
    return _Head(address, method, target, lines, data.removesuffix(b"\r\n"))


class _Link(asyncio.Protocol):
    """One connection, which carries one request at a time and is kept for a while between requests."""

    def __init__(
        self, name: str, answer_bytes_max: int, on_lost: Callable[["_Link"], None]
    ) -> None:
        self._name = name
        self._answer_bytes_max = answer_bytes_max
        self._on_lost = on_lost
        self._pending: tuple[_Head, bytes] | None = None
        """Head and body of the pending request."""
        self._http: h11.Connection | None = None
        """Parser of an answer that is not plain."""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._status = 0
        self._with_fields = False
        self._fields: Fields = ()
        self._body = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def reusable(self) -> bool:
        """True while the connection is established and no request is pending."""
        transport = self._transport
        established = transport is not None and not transport.is_closing()
        return established and self._pending is None

    async def request(self, head: _Head, body: bytes, with_fields: bool) -> Answer:
        """Send a request on the idle connection and return its answer. Raises AnswerLostError, UnusableAnswerError. A
        cancellation ends the connection."""
        self._stop_timer()
        if self._transport is None:
            raise AnswerLostError(f"{self._name} ended the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._pending = head, body
        self._with_fields, self._fields = with_fields, ()
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head.data, len(body), body))
        try:
            return await self._answer
        finally:
            if not self.reusable:
                self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # bytes without a pending request
            return
        plain = parse_response(data) if self._http is None and self._expects_plain() else None
        if plain is not None and len(plain.body) <= self._answer_bytes_max:
            self._complete(Answer(*plain), reusable=True)
        else:
            self._receive(data)

    def eof_received(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._receive(b"")  # an answer may last until the end of its connection

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self._fail(AnswerLostError(f"{self._name} ended the connection before its answer"))
        self._on_lost(self)

    def _expects_plain(self) -> bool:
        if self._with_fields or self._pending is None:  # a plain parse leaves the fields out
            return False
        return self._pending[0].method in ("GET", "POST")

    def _new_parser(self) -> h11.Connection:
        """Return an h11 connection in the state after it has sent the pending request."""
        assert self._pending is not None
        head, body = self._pending
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        lines = [*head.lines, ("Content-Length", str(len(body)))]
        parser.send(h11.Request(method=head.method, target=head.target, headers=lines))
        parser.send(h11.Data(data=body))
        parser.send(h11.EndOfMessage())
        return parser

    def _receive(self, data: bytes) -> None:
        if self._http is None:
            self._http = self._new_parser()
        http = self._http
        http.receive_data(data)
        try:
            while True:
                event = http.next_event()
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                    if self._with_fields:
                        self._fields = tuple(event.headers)
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > self._answer_bytes_max:
                        self._refuse(f"answer is larger than {self._answer_bytes_max} bytes")
                        return
                elif isinstance(event, h11.EndOfMessage):
                    answer = Answer(self._status, bytes(self._body), self._fields)
                    self._body.clear()
                    reusable = http.states == _DONE and not any(http.trailing_data)
                    self._complete(answer, reusable=reusable)
                    return
                elif not isinstance(event, h11.InformationalResponse):
                    return
        except h11.RemoteProtocolError as error:
            if http.trailing_data[1]:  # the connection ended too early: connection_lost reports it
                return
            self._refuse(f"malformed answer: {error}")

    def _complete(self, answer: Answer, *, reusable: bool) -> None:
        assert self._answer is not None
        if reusable:
            self._pending = self._http = None
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.abort)
        self._answer.set_result(answer)

    def _refuse(self, reason: str) -> None:
        self._fail(UnusableAnswerError(f"{self._name}: {reason}"))
        self.abort()

    def _fail(self, error: HttpError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_DONE = {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}
