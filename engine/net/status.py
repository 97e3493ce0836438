"""A few pages over HTTP for machines: ``/metrics`` and ``/ready`` of a process that needs no web framework.

One GET or HEAD per connection, then it is closed. Everything a stranger controls is bounded: head size,
time to send it, number of connections.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.base.metrics import METRICS_TYPE
from engine.net.listener import Listener
from engine.net.network import Network

HEAD_BYTES_MAX = 8192
HEAD_DEADLINE_S = 10.0
ANSWER_DEADLINE_S = 30.0
CONNECTIONS_MAX = 64

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What a path answers."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def metrics_page(render: Callable[[], bytes]) -> Callable[[], Page]:
    """``/metrics`` from a function that gives Prometheus' text format."""
    return lambda: Page(200, render(), METRICS_TYPE)


def ready_page(why_not: Callable[[], str | None]) -> Callable[[], Page]:
    """``/ready``: 200 ``ok``, or 503 and the reason that ``why_not`` gives."""

    def page() -> Page:
        reason = why_not()
        return Page(200, b"ok\n") if reason is None else Page(503, reason.encode() + b"\n")

    return page


class StatusServer:
    """Serves ``pages`` (by path, query ignored). Page functions run on the event loop and must be quick."""

    def __init__(self, network: Network, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._pages = dict(pages)
        self._listener = Listener(network, lambda: _Exchange(self), connections_max=CONNECTIONS_MAX)

    @property
    def port(self) -> int:
        """The port bound; 0 before ``start``."""
        return self._listener.port

    async def start(self, host: str, port: int) -> None:
        """Raises OSError when the address is taken."""
        await self._listener.start(host, port)

    async def close(self) -> None:
        """Stop serving; exchanges under way are cut."""
        await self._listener.drain(0)

    def answer(self, head: bytes) -> bytes:
        """The whole answer to a request head (up to and with its empty line)."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _render(Page(400, b"not an HTTP/1 request\n"), True)
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            return _render(Page(405, b"only GET and HEAD\n"), True)
        make = self._pages.get(target.split(b"?", 1)[0].decode("latin-1"))
        return _render(Page(404, b"no such page\n") if make is None else make(), method == b"GET")


def _render(page: Page, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {_REASONS.get(page.status, 'Unknown')}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
        f"{'Allow: GET, HEAD' + chr(13) + chr(10) if page.status == 405 else ''}"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.body if with_body else b"")


class _Exchange(asyncio.Protocol):
    """One connection: a head in, an answer out."""

    def __init__(self, server: StatusServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._answered = False
        self._timer: asyncio.TimerHandle | None = None
        self.on_gone: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._timer = asyncio.get_running_loop().call_later(HEAD_DEADLINE_S, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        self._head += data[: HEAD_BYTES_MAX + 1]
        stop = self._head.find(b"\r\n\r\n")
        if len(self._head if stop < 0 else self._head[: stop + 4]) > HEAD_BYTES_MAX:
            self._reply(_render(Page(431, b"request head above 8192 bytes\n"), True))
        elif stop >= 0:
            try:
                answer = self._server.answer(self._head[: stop + 4])
            except Exception:
                self._reply(_render(Page(500, b"the page could not be made\n"), True))
                raise
            self._reply(answer)

    def _reply(self, answer: bytes) -> None:
        self._answered = True
        assert self._transport is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(ANSWER_DEADLINE_S, self.abort)
        self._transport.write(answer)
        self._transport.close()

    def close(self) -> None:
        """One under way has nothing worth waiting for."""
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.on_gone is not None:
            self.on_gone()
