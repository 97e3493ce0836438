"""One WebSocket connection, the same under every server: its handshake, frames, limits, close codes and end.

The protocol is websockets' own without its I/O; compression is never agreed on, so a message is as large as its bytes
say. A server hands over a connection that asks for an upgrade together with the request that it read, and what
arrives from then on. The application is called as ASGI says, with ``websocket.http.response`` for refusals and a
``gateway.http.socket_port.SocketPort`` for the work per message.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast
from urllib.parse import unquote

from websockets.datastructures import Headers
from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from engine.base.loop import last_call
from gateway.http import refusal
from gateway.http.socket_port import EXTENSION

log = logging.getLogger("gateway")

MESSAGE_BYTES_MAX = 1 << 20  # webSocketMaxTextFrameSize; bytes of one message, all its frames
UNSENT_BYTES_HIGH = 1 << 20
UNSENT_BYTES_LOW = 256 << 10
FLUSH_BYTES = 64 << 10
EARLY_BYTES_MAX = 64 << 10
MESSAGES_WAITING_MAX = 64
WAITING_BYTES_MAX = 1 << 20
"""Of messages that nobody listens for: with so many, or so much of them, the peer is not read until half is taken."""
REASON_BYTES_MAX = 123
LINGER_S = 5.0
"""How long a peer may take to hang up once a close frame or a refusal was sent."""
APPLICATION_END_S = 10.0
"""How long the application may go on once its socket ended."""
BEAT_S = 1.0
BEATS = 20
"""Each socket is looked after once in ``BEATS``: a ping then, unless it said nothing since the last one."""

_ENDPOINT, _INBOX, _UNREAD = 1, 2, 4
"""Why a peer is not read, as bits: its endpoint says so, too many messages wait for one, or it does not read itself."""

Event = dict[str, Any]
Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Event]], Callable[[Event], Awaitable[None]]],
    Awaitable[None],
]


class Protocol(ServerProtocol):
    """websockets' protocol of a server that says Pulsar's words about a message that is too large."""

    def __init__(self) -> None:
        super().__init__(max_size=MESSAGE_BYTES_MAX)

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        error = sys.exception()  # the parser fails a connection from where it caught what was wrong
        if isinstance(error, PayloadTooBig):
            size = (error.current_size or 0) + (error.size or 0)
            said = f"[{size}] is too large for configured max of [{MESSAGE_BYTES_MAX}]"
            reason = f"Resulting message size {said}"
        super().fail(code, reason)


class Sockets:
    """All WebSockets of one process. ``name`` goes into the ``Server`` header of answers to handshakes; ``on_lost`` is
    called with the address of each whose connection has ended."""

    def __init__(
        self,
        application: Application,
        name: str,
        on_lost: Callable[[str], None] = lambda address: None,
    ) -> None:
        self.on_lost = on_lost
        self.application = application
        self.name = name
        self._beats: list[set[Connection]] = [set() for _ in range(BEATS)]
        self._beat = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._made = 0

    def open(self) -> "Connection":
        """The protocol of one connection, on the running event loop."""
        if self._timer is None:
            self.call_last = last_call(asyncio.get_running_loop())
            self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._look)
        self._made += 1
        home = self._beats[self._made % BEATS]
        made = Connection(self, home)
        home.add(made)
        return made

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run an application for as long as it wants."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close all sockets with 1012 (the service restarts) and end their applications."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in [one for home in self._beats for one in home]:
            connection.close(CloseCode.SERVICE_RESTART, "the gateway stops")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LINGER_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self) -> None:
        self._beat = (self._beat + 1) % BEATS
        for connection in list(self._beats[self._beat]):
            connection.beat()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._look)


class Connection(asyncio.Protocol):
    """One connection: what the server calls (``asyncio.Protocol``), what ASGI calls, and the port of its endpoint."""

    __slots__ = (
        "_application_task",
        "_drains",
        "_early",
        "_flushing",
        "_heard",
        "_holds",
        "_home",
        "_inbox",
        "_inbox_bytes",
        "_listener",
        "_protocol",
        "_queued",
        "_receiver",
        "_refusal",
        "_response",
        "_sockets",
        "_text",
        "_transport",
        "_unread_bytes",
        "_whole",
        "closed",
        "ended",
        "writable",
    )

    def __init__(self, sockets: Sockets, home: set["Connection"]) -> None:
        self._sockets = sockets
        self._home = home
        self._protocol = Protocol()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._application_task: asyncio.Task[None] | None = None
        self._response: Response | None = None  # the handshake's, until the application decided
        self._refusal: tuple[int, list[tuple[bytes, bytes]], bytearray] | None = None
        self._early: bytearray | None = bytearray()  # what came before the handshake was answered
        self._inbox: deque[Event] = deque([{"type": "websocket.connect"}])
        self._inbox_bytes = 0
        self._receiver: asyncio.Future[None] | None = None
        self._listener: Callable[[list[str]], None] | None = None
        self._whole: bytearray | None = None  # of a message in several frames
        self._text = False
        self._queued = 0
        self._flushing = False
        self._drains: list[asyncio.Future[None]] = []
        self._heard = True
        self._holds = 0  # why the peer is not read
        self._unread_bytes = 0  # what waited for the peer at the last beat
        self.closed = False
        self.writable = True
        self.ended = False

    # what the server calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(UNSENT_BYTES_HIGH, UNSENT_BYTES_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self._home.discard(self)
        if self._transport is not None:
            self._sockets.on_lost(self._transport.get_extra_info("peername")[0])
        received = self._protocol.close_rcvd
        self._end(CloseCode.ABNORMAL_CLOSURE if received is None else received.code)
        self._transport = cast(asyncio.Transport, None)
        # No circles: the endpoint holds this connection, the parser its protocol with all that was not parsed yet, and
        # what is in a circle stays until the heap has doubled (engine.base.loop).
        self._listener = None
        self._protocol.parser.close()

    def eof_received(self) -> bool:
        return False  # the transport closes: a peer that sends no more frames is gone

    def pause_writing(self) -> None:
        self.writable = False
        self._hold(_UNREAD)  # W4: whatever it sends may have to be answered, pings too

    def resume_writing(self) -> None:
        self.writable = True
        self._let_go(_UNREAD)
        self._wake_drains()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._early is not None and self._response is not None:
            self._early += data
            if len(self._early) > EARLY_BYTES_MAX:
                self._transport.abort()
            return
        self._protocol.receive_data(data)
        texts: list[str] = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                if self.closed:
                    continue
                self._take(event, texts)
            elif isinstance(event, Request):
                self._begin(event)
        if texts:
            self._tell(texts)
        if self._protocol.close_rcvd is not None:
            self._end(self._protocol.close_rcvd.code)
        elif self._protocol.parser_exc is not None:
            sent = self._protocol.close_sent
            self._end(CloseCode.ABNORMAL_CLOSURE if sent is None else sent.code)
        self._flush()

    def shutdown(self) -> None:
        """The server stops."""
        self.close(CloseCode.SERVICE_RESTART, "the gateway stops")

    def beat(self) -> None:
        """Ping the peer, or give it up: when it was silent since the last ping; when it is not read because it does not
        read, and took nothing since the last beat; when its handshake takes too long."""
        if self.closed:
            return  # it lingers for LINGER_S
        before, self._unread_bytes = self._unread_bytes, self._transport.get_write_buffer_size()
        if self._response is not None:
            if not self._heard and self._application_task is not None:
                self._application_task.cancel()
            self._heard = False
        elif self._holds & _UNREAD:
            if not self._heard and self._unread_bytes >= before:
                self._transport.abort()
            self._heard = False
        elif self._heard or self._holds:
            self._heard = False
            self._protocol.send_ping(b"")
            self._flush()
        else:
            self._transport.abort()

    # the handshake

    def _begin(self, request: Request) -> None:
        response = self._protocol.accept(request)
        if response.status_code != 101:
            reason = response.body.decode(errors="replace")
            self._refuse(response.status_code, refusal.page(response.status_code, reason))
            return
        self._response = response
        scope = self._scope(request)
        self._application_task = self._sockets.spawn(self._run(scope))

    def _scope(self, request: Request) -> dict[str, Any]:
        raw, _, query = request.path.partition("?")
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.raw_items()
        ]
        names = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": unquote(raw),
            "raw_path": raw.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "subprotocols": [name.strip() for name in names.split(",") if name.strip()],
            "extensions": {"websocket.http.response": {}, EXTENSION: self},
        }

    def _accept(self, subprotocol: str | None, headers: Iterable[tuple[bytes, bytes]]) -> None:
        response, self._response = self._response, None
        assert response is not None
        # a beat during the handshake was no ping that a silent peer left unanswered
        self._heard = True
        response.headers["Server"] = self._sockets.name
        if subprotocol is not None:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        for name, value in headers:
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
        self._protocol.send_response(response)
        self._flush()
        early, self._early = self._early, None
        if early:
            self.data_received(bytes(early))

    def _refuse(
        self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] | None = None
    ) -> None:
        """Answer the handshake by an HTTP response; the peer hangs up, or is hung up on."""
        told = Headers({"Server": self._sockets.name})
        if headers is None:
            told["Content-Type"] = refusal.CONTENT_TYPE
        for name, value in headers or ():
            told[name.decode("latin-1").title()] = value.decode("latin-1")
        if "Content-Length" not in told:
            told["Content-Length"] = str(len(body))
        told["Connection"] = "close"
        self._response = None
        self._early = None
        self._protocol.send_response(Response(status, refusal.phrase_of(status), told, body))
        self._end(CloseCode.ABNORMAL_CLOSURE)
        self._flush()

    # what ASGI calls

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._sockets.application(scope, self.receive, self.send)
        except Exception as error:
            log.error("websocket failed path=%s error=%r", scope["path"], error, exc_info=error)
            if self._response is not None:
                self._refuse(500, refusal.page(500, ""))
            self.close(CloseCode.INTERNAL_ERROR)
        finally:
            if self._response is not None:
                self._refuse(503, refusal.page(503, ""))
            self.close()

    async def receive(self) -> Event:
        """ASGI's. Cancel-safe."""
        while not self._inbox:
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        event = self._inbox[0]
        if event["type"] == "websocket.disconnect":
            return event  # however often it is asked for
        self._inbox.popleft()
        self._inbox_bytes -= _size_of(event)
        many = len(self._inbox) > MESSAGES_WAITING_MAX // 2
        if not many and self._inbox_bytes <= WAITING_BYTES_MAX // 2:
            self._let_go(_INBOX)
        return event

    async def send(self, event: Event) -> None:
        """ASGI's; waits for a slow reader. Nothing is sent once the socket ended."""
        if self.ended:
            return
        match event["type"]:
            case "websocket.send":
                if not self.writable:
                    await self.drained()
                if (text := event.get("text")) is not None:
                    self.send_text(text)
                elif self._can_send:
                    self._queued += len(event["bytes"])
                    self._protocol.send_binary(event["bytes"])
                    self._flush()
            case "websocket.accept":
                self._accept(event.get("subprotocol"), event.get("headers", ()))
            case "websocket.close":
                if self._response is not None:
                    self._refuse(403, refusal.page(403, event.get("reason") or ""))
                else:
                    self.close(event.get("code") or 1000, event.get("reason") or "")
            case "websocket.http.response.start":
                self._refusal = event["status"], list(event.get("headers", ())), bytearray()
            case "websocket.http.response.body":
                assert self._refusal is not None
                status, headers, body = self._refusal
                body += event.get("body", b"")
                if not event.get("more_body", False):
                    self._refuse(status, bytes(body), headers)
            case other:
                raise ValueError(f"unknown ASGI event {other!r}")

    # the endpoint's port: gateway.http.socket_port.SocketPort

    @property
    def _can_send(self) -> bool:
        # A peer's close is answered as soon as it is parsed: before the listener has the texts that stood before it.
        return not self.closed and self._protocol.state is State.OPEN

    def send_text(self, text: str) -> None:
        if not self._can_send:
            return
        payload = text.encode()
        self._protocol.send_text(payload)
        self._queued += len(payload)
        if self._queued > FLUSH_BYTES:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self._sockets.call_last(self._flush)

    def buffered_bytes(self) -> int:
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._queued + waiting

    async def drained(self) -> None:
        while not (self.writable or self.closed):
            waiter = asyncio.get_running_loop().create_future()
            self._drains.append(waiter)
            await waiter

    def listen(self, on_texts: Callable[[list[str]], None]) -> None:
        self._listener = on_texts
        came = [event["text"] for event in self._inbox if "text" in event]
        self._inbox = deque(e for e in self._inbox if e["type"] != "websocket.receive")
        self._inbox_bytes = 0
        self._let_go(_INBOX)
        if came:
            self._tell(came)

    def pause_reading(self) -> None:
        self._hold(_ENDPOINT)

    def resume_reading(self) -> None:
        self._let_go(_ENDPOINT)

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self.closed or self._response is not None:
            return
        if self._can_send:
            cut = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
            self._protocol.send_close(code, cut)
        self.closed = True
        self._end(code)
        self._flush()

    def abort(self) -> None:
        if not self.closed and self._response is None:
            self._end(CloseCode.ABNORMAL_CLOSURE)
            self._flush()
            self._transport.close()

    # inside

    def _hold(self, why: int) -> None:
        """Do not read the peer until each reason is gone."""
        if self.closed:
            return
        if not self._holds:
            self._transport.pause_reading()
        self._holds |= why

    def _let_go(self, why: int) -> None:
        held, self._holds = self._holds, self._holds & ~why
        if held and not self._holds and self._transport is not None:
            self._transport.resume_reading()

    def _take(self, frame: Frame, texts: list[str]) -> None:
        """A frame of the peer's; whole texts go to ``texts``."""
        opcode = frame.opcode
        try:
            if opcode is Opcode.TEXT and frame.fin:
                texts.append(str(frame.data, "utf-8"))
            elif opcode is Opcode.TEXT or opcode is Opcode.BINARY:
                self._text = opcode is Opcode.TEXT
                self._whole = bytearray(frame.data)
                if frame.fin:
                    self._take_whole(texts)
            elif opcode is Opcode.CONT:
                assert self._whole is not None  # the protocol refuses a continuation of nothing
                self._whole += frame.data
                if frame.fin:
                    self._take_whole(texts)
        except UnicodeDecodeError as error:
            reason = f"text is not UTF-8: {error.reason} at byte {error.start}"
            self.close(CloseCode.INVALID_DATA, reason)

    def _take_whole(self, texts: list[str]) -> None:
        whole, self._whole = self._whole, None
        assert whole is not None
        if self._text:
            texts.append(whole.decode())
        elif self._listener is None:
            self._put({"type": "websocket.receive", "bytes": bytes(whole)})

    def _tell(self, texts: list[str]) -> None:
        if self._listener is None:
            for text in texts:
                self._put({"type": "websocket.receive", "text": text})
            return
        try:
            self._listener(texts)
        except Exception as error:
            log.error("websocket failed error=%r", error, exc_info=error)
            self.close(CloseCode.INTERNAL_ERROR)

    def _put(self, event: Event) -> None:
        self._inbox.append(event)
        self._inbox_bytes += _size_of(event)
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)
        if len(self._inbox) > MESSAGES_WAITING_MAX or self._inbox_bytes > WAITING_BYTES_MAX:
            self._hold(_INBOX)

    def _end(self, code: int) -> None:
        """Nothing more comes or goes, but for the close handshake. Safe to call twice."""
        self.closed = True
        if self.ended:
            return
        self.ended = True
        self._put({"type": "websocket.disconnect", "code": code})
        self._wake_drains()
        loop = asyncio.get_running_loop()
        if self._transport is not None:
            self._let_go(_ENDPOINT | _INBOX | _UNREAD)  # for the peer's half of the close handshake
            loop.call_later(LINGER_S, self._hang_up)
        if self._application_task is not None and not self._application_task.done():
            loop.call_later(APPLICATION_END_S, self._application_task.cancel)

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wake_drains(self) -> None:
        waiting, self._drains = self._drains, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _flush(self) -> None:
        """Give the transport all that is to be sent, in one write."""
        self._flushing = False
        self._queued = 0
        out = self._protocol.data_to_send()
        if not out or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(out))
        if out[-1] == b"":  # the protocol's last word
            if self._protocol.close_rcvd is not None:
                self._transport.close()
            elif self._transport.can_write_eof():
                # Closing at once would reset the connection under what the peer still sends, and lose our last frame.
                self._transport.write_eof()


def _size_of(event: Event) -> int:
    """Of what a peer sent, roughly in bytes."""
    return len(event.get("text") or event.get("bytes") or "")
