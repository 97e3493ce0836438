"""One WebSocket connection, the same for every server: handshake, frames, limits, close codes and end.

The protocol is that of the library websockets, without its I/O. Compression is never negotiated, so a message is as
large as its bytes on the wire. A server passes a connection that requests an upgrade, with the bytes of the request and
all further data. The application is called by ASGI's events, with ``websocket.http.response`` for refusals, and handles
messages by a ``gateway.http.socket_port.SocketPort``.
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
from gateway.servers.connections import extensions_of

log = logging.getLogger("gateway")

MESSAGE_BYTES_MAX = 1 << 20
"""Bytes of all frames of a message; the default of Pulsar's webSocketMaxTextFrameSize."""
UNSENT_BYTES_HIGH = 1 << 20
UNSENT_BYTES_LOW = 256 << 10
FLUSH_BYTES = 64 << 10
EARLY_BYTES_MAX = 64 << 10
MESSAGES_WAITING_MAX = 64
WAITING_BYTES_MAX = 1 << 20
"""Limits of messages received before a listener is set: at one of them, reading is paused until half is consumed."""
REASON_BYTES_MAX = 123
LINGER_S = 5.0
"""Time within which a peer must close the connection once a close frame or a refusal was sent."""
APPLICATION_END_S = 10.0
"""Time within which the application must end once its socket has ended."""
BEAT_S = 1.0
BEATS = 20
"""Number of beats in which each socket is checked once: it is pinged, or closed if silent since the last ping."""

_ENDPOINT, _INBOX, _UNREAD = 1, 2, 4
"""Reasons to pause reading, as bits: the endpoint's request, a full inbox, or a peer that does not read itself."""

Event = dict[str, Any]
Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Event]], Callable[[Event], Awaitable[None]]],
    Awaitable[None],
]


class _Protocol(ServerProtocol):
    """websockets' protocol of a server, with Pulsar's text for a message that is too large."""

    def __init__(self) -> None:
        super().__init__(max_size=MESSAGE_BYTES_MAX)

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        error = sys.exception()  # The parser calls ``fail`` while it handles the error.
        if isinstance(error, PayloadTooBig):
            size = (error.current_size or 0) + (error.size or 0)
            text = f"[{size}] is too large for configured max of [{MESSAGE_BYTES_MAX}]"
            reason = f"Resulting message size {text}"
        super().fail(code, reason)


class Sockets:
    """All WebSockets of one process.

    ``name`` is the ``Server`` header of answers to handshakes. ``on_lost`` is called with the peer's address when a
    connection has ended.
    """

    def __init__(
        self,
        application: Application,
        name: str,
        on_lost: Callable[[str], None] = lambda address: None,
    ) -> None:
        self.on_lost = on_lost
        self.application = application
        self.name = name
        self._groups: list[set[SocketConnection]] = [set() for _ in range(BEATS)]
        """Open connections by the beat that checks them, so that a beat visits only a part of them."""
        self._beat = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened = 0

    def open(self) -> "SocketConnection":
        """Return the protocol of a new connection, on the running event loop."""
        if self._timer is None:
            self.call_last = last_call(asyncio.get_running_loop())
            self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._run_beat)
        self._opened += 1
        group = self._groups[self._opened % BEATS]
        connection = SocketConnection(self, group)
        group.add(connection)
        return connection

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Start a task that runs an application to its end."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close all sockets with 1012 (the service restarts) and end their applications."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in [connection for group in self._groups for connection in group]:
            connection.close(CloseCode.SERVICE_RESTART, "the gateway stops")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LINGER_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run_beat(self) -> None:
        self._beat = (self._beat + 1) % BEATS
        for connection in list(self._groups[self._beat]):
            connection.beat()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._run_beat)


class SocketConnection(asyncio.Protocol):
    """One connection: a protocol for the server, ``receive`` and ``send`` for ASGI, and a port for its endpoint."""

    __slots__ = (
        "_address",
        "_application_task",
        "_drains",
        "_early",
        "_flushing",
        "_fragments",
        "_group",
        "_inbox",
        "_inbox_bytes",
        "_listener",
        "_paused_for",
        "_protocol",
        "_queued",
        "_received",
        "_receiver",
        "_refusal",
        "_response",
        "_sockets",
        "_text",
        "_transport",
        "_unread_bytes",
        "closed",
        "ended",
        "writable",
    )

    def __init__(self, sockets: Sockets, group: set["SocketConnection"]) -> None:
        self._sockets = sockets
        self._group = group
        self._protocol = _Protocol()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._address = ""
        self._application_task: asyncio.Task[None] | None = None
        # The handshake's response, until the application accepts or refuses it.
        self._response: Response | None = None
        self._refusal: tuple[int, list[tuple[bytes, bytes]], bytearray] | None = None
        # Data received before the handshake was answered.
        self._early: bytearray | None = bytearray()
        self._inbox: deque[Event] = deque([{"type": "websocket.connect"}])
        self._inbox_bytes = 0
        self._receiver: asyncio.Future[None] | None = None
        self._listener: Callable[[list[str]], None] | None = None
        self._fragments: bytearray | None = None  # Of a message in several frames.
        self._text = False  # Whether ``_fragments`` are a text message.
        self._queued = 0  # Bytes of messages that were not yet passed to the transport.
        self._flushing = False  # Whether a flush is scheduled for the end of this turn of the loop.
        self._drains: list[asyncio.Future[None]] = []
        self._received = True  # Whether data was received since the last beat.
        self._paused_for = 0  # The reasons for which reading is paused.
        self._unread_bytes = 0  # Bytes that were buffered for the peer at the last beat.
        self.closed = False
        self.writable = True
        self.ended = False

    # --- called by the server ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Kept, since a transport in TLS has no address any more when the connection is lost.
        self._address = self._transport.get_extra_info("peername")[0]
        self._transport.set_write_buffer_limits(UNSENT_BYTES_HIGH, UNSENT_BYTES_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self._group.discard(self)
        if self._transport is not None:
            self._sockets.on_lost(self._address)
        received = self._protocol.close_rcvd
        self._end(CloseCode.ABNORMAL_CLOSURE if received is None else received.code)
        self._transport = cast(asyncio.Transport, None)
        # Break reference cycles: the endpoint holds this connection, and the parser holds its protocol with all data
        # that is not parsed yet. Cycles are collected only when the heap has doubled (engine.base.loop).
        self._listener = None
        self._protocol.parser.close()

    def eof_received(self) -> bool:
        # The transport is closed, since the peer cannot even answer a close frame any more.
        return False

    def pause_writing(self) -> None:
        self.writable = False
        self._pause(_UNREAD)  # All received data may have to be answered, pings too (W4).

    def resume_writing(self) -> None:
        self.writable = True
        self._resume(_UNREAD)
        self._wake_drains()

    def data_received(self, data: bytes) -> None:
        self._received = True
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
                self._handle_frame(event, texts)
            elif isinstance(event, Request):
                self._begin_handshake(event)
        if texts:
            self._deliver(texts)
        if self._protocol.close_rcvd is not None:
            self._end(self._protocol.close_rcvd.code)
        elif self._protocol.parser_exc is not None:
            sent = self._protocol.close_sent
            self._end(CloseCode.ABNORMAL_CLOSURE if sent is None else sent.code)
        self._flush()

    def shutdown(self) -> None:
        """Close the socket, since the server stops."""
        self.close(CloseCode.SERVICE_RESTART, "the gateway stops")

    def beat(self) -> None:
        """Ping the peer, or close its connection.

        It is closed when it was silent since the last ping, or when it does not read and the buffer has not become
        smaller since the last beat. An application that has not answered the handshake in time is cancelled.
        """
        if self.closed:
            return  # The connection is closed after LINGER_S at the latest.
        before, self._unread_bytes = self._unread_bytes, self._transport.get_write_buffer_size()
        if self._response is not None:
            if not self._received and self._application_task is not None:
                self._application_task.cancel()
            self._received = False
        elif self._paused_for & _UNREAD:
            if not self._received and self._unread_bytes >= before:
                self._transport.abort()
            self._received = False
        elif self._received or self._paused_for:
            self._received = False
            self._protocol.send_ping(b"")
            self._flush()
        else:
            self._transport.abort()

    # --- the handshake ----------------------------------------------------------------------------

    def _begin_handshake(self, request: Request) -> None:
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
        encryption = extensions_of(self._transport)
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "wss" if encryption else "ws",
            "path": unquote(raw),
            "raw_path": raw.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "subprotocols": [name.strip() for name in names.split(",") if name.strip()],
            "extensions": {"websocket.http.response": {}, EXTENSION: self, **encryption},
        }

    def _accept(self, subprotocol: str | None, headers: Iterable[tuple[bytes, bytes]]) -> None:
        response, self._response = self._response, None
        assert response is not None
        # A beat during the handshake sent no ping, so the peer could not answer one.
        self._received = True
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
        """Answer the handshake with an HTTP response; the connection is closed by the peer, or after LINGER_S."""
        fields = Headers({"Server": self._sockets.name})
        if headers is None:
            fields["Content-Type"] = refusal.CONTENT_TYPE
        for name, value in headers or ():
            fields[name.decode("latin-1").title()] = value.decode("latin-1")
        if "Content-Length" not in fields:
            fields["Content-Length"] = str(len(body))
        fields["Connection"] = "close"
        self._response = None
        self._early = None
        self._protocol.send_response(Response(status, refusal.phrase_of(status), fields, body))
        self._end(CloseCode.ABNORMAL_CLOSURE)
        self._flush()

    # --- called by the ASGI application -----------------------------------------------------------

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
        """Return the next ASGI event; the same ``websocket.disconnect`` for ever at the end. Cancel-safe."""
        while not self._inbox:
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        event = self._inbox[0]
        if event["type"] == "websocket.disconnect":
            return event
        self._inbox.popleft()
        self._inbox_bytes -= _size_of(event)
        few = len(self._inbox) <= MESSAGES_WAITING_MAX // 2
        if few and self._inbox_bytes <= WAITING_BYTES_MAX // 2:
            self._resume(_INBOX)
        return event

    async def send(self, event: Event) -> None:
        """Handle an event of the ASGI application; wait while the peer does not read. Ignored once the socket ended."""
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

    # --- called by the endpoint: gateway.http.socket_port.SocketPort ------------------------------

    @property
    def _can_send(self) -> bool:
        # A close frame is answered when it is parsed, which is before the listener receives the texts before it.
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
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._queued + buffered

    async def drained(self) -> None:
        while not (self.writable or self.closed):
            waiter = asyncio.get_running_loop().create_future()
            self._drains.append(waiter)
            await waiter

    def listen(self, on_texts: Callable[[list[str]], None]) -> None:
        self._listener = on_texts
        texts = [event["text"] for event in self._inbox if "text" in event]
        self._inbox = deque(e for e in self._inbox if e["type"] != "websocket.receive")
        self._inbox_bytes = 0
        self._resume(_INBOX)
        if texts:
            self._deliver(texts)

    def pause_reading(self) -> None:
        self._pause(_ENDPOINT)

    def resume_reading(self) -> None:
        self._resume(_ENDPOINT)

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

    # --- internals --------------------------------------------------------------------------------

    def _pause(self, reason: int) -> None:
        """Stop reading from the peer, until all reasons are resumed."""
        if self.closed:
            return
        if not self._paused_for:
            self._transport.pause_reading()
        self._paused_for |= reason

    def _resume(self, reason: int) -> None:
        before, self._paused_for = self._paused_for, self._paused_for & ~reason
        if before and not self._paused_for and self._transport is not None:
            self._transport.resume_reading()

    def _handle_frame(self, frame: Frame, texts: list[str]) -> None:
        """Handle a frame of the peer; append complete text messages to ``texts``."""
        opcode = frame.opcode
        try:
            if opcode is Opcode.TEXT and frame.fin:
                texts.append(str(frame.data, "utf-8"))
            elif opcode is Opcode.TEXT or opcode is Opcode.BINARY:
                self._text = opcode is Opcode.TEXT
                self._fragments = bytearray(frame.data)
                if frame.fin:
                    self._complete_message(texts)
            elif opcode is Opcode.CONT:
                # The protocol refuses a continuation frame without a first frame.
                assert self._fragments is not None
                self._fragments += frame.data
                if frame.fin:
                    self._complete_message(texts)
        except UnicodeDecodeError as error:
            reason = f"text is not UTF-8: {error.reason} at byte {error.start}"
            self.close(CloseCode.INVALID_DATA, reason)

    def _complete_message(self, texts: list[str]) -> None:
        message, self._fragments = self._fragments, None
        assert message is not None
        if self._text:
            texts.append(message.decode())
        elif self._listener is None:
            self._put({"type": "websocket.receive", "bytes": bytes(message)})

    def _deliver(self, texts: list[str]) -> None:
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
            self._pause(_INBOX)

    def _end(self, code: int) -> None:
        """End the socket for its endpoint; only the close handshake follows. Safe to call twice."""
        self.closed = True
        if self.ended:
            return
        self.ended = True
        self._put({"type": "websocket.disconnect", "code": code})
        self._wake_drains()
        loop = asyncio.get_running_loop()
        if self._transport is not None:
            # The peer's half of the close handshake must be read, whatever paused reading before.
            self._resume(_ENDPOINT | _INBOX | _UNREAD)
            loop.call_later(LINGER_S, self._abort_transport)
        if self._application_task is not None and not self._application_task.done():
            loop.call_later(APPLICATION_END_S, self._application_task.cancel)

    def _abort_transport(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wake_drains(self) -> None:
        waiters, self._drains = self._drains, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _flush(self) -> None:
        """Pass all pending bytes of the protocol to the transport in one write."""
        self._flushing = False
        self._queued = 0
        out = self._protocol.data_to_send()
        if not out or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"".join(out))
        if out[-1] == b"":  # The protocol's end of file: no more data follows.
            if self._protocol.close_rcvd is not None:
                self._transport.close()
            elif self._transport.can_write_eof():
                # Closing at once resets the connection if the peer still sends, and the last frame would be lost.
                self._transport.write_eof()


def _size_of(event: Event) -> int:
    """Return the approximate size of a message event in bytes."""
    return len(event.get("text") or event.get("bytes") or "")
