"""The gateway served by Daphne.

Importing this module installs Twisted's reactor, so only ``gateway.serve`` imports it, and only to serve by Daphne.
"""

import asyncio
import socket
from functools import partial
from io import BytesIO
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from django.conf import settings
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.internet.tcp import Port
from twisted.web import http

from engine.net.http import DROPPED_BYTES_MAX, LINGER_S
from engine.net.service_manager import notices
from gateway.http import exchange
from gateway.http.forms import uploads
from gateway.servers.connections import Addresses, answer
from gateway.servers.websocket import Application, Sockets

reactor: Any = _reactor
BUFFERED_BYTES_MAX = 1 << 18
"""Bytes of a long answer that may be buffered before its next piece is accepted."""
POLL_S = 0.02
IDLE_S = 60
"""See ``gateway.servers.on_uvicorn.IDLE_S``."""


class _Upload:
    """The body of an upload on its way to the application, which is called at the head and judges the caller before it
    takes a byte. Pieces that it has not taken are bounded: the connection is not read then.

    For Daphne it is the queue of the application's messages.
    """

    def __init__(self, channel: "_Channel") -> None:
        self._channel = channel
        self._messages: asyncio.Queue[exchange.Message] = asyncio.Queue()
        self._bytes = 0
        self.is_held_back = False
        self.is_expected = False
        """True while the client waits for ``100 Continue``."""
        self.is_complete = False

    def put_nowait(self, message: exchange.Message) -> None:
        """Pass on that the client has disconnected. Daphne's own message of a body is left out: it has none."""
        if message["type"] == "http.disconnect":
            self.is_held_back = False
            self._messages.put_nowait(message)

    def feed(self, data: bytes) -> None:
        """Pass on a piece that was received."""
        self._put(data, more=True)
        if self._bytes > BUFFERED_BYTES_MAX and not self.is_held_back:
            self.is_held_back = True
            self._channel.hold_back()

    def end(self) -> None:
        """Pass on that the body is complete."""
        self.is_complete = True
        self._put(b"", more=False)

    def _put(self, data: bytes, *, more: bool) -> None:
        self._bytes += len(data)
        self._messages.put_nowait({"type": "http.request", "body": data, "more_body": more})

    async def receive(self) -> exchange.Message:
        """Return the next message, as ASGI's ``receive`` does."""
        if self.is_expected:
            self.is_expected = False
            self._channel.invite()
        message = await self._messages.get()
        self._bytes -= len(message.get("body", b""))
        if self.is_held_back and self._bytes <= BUFFERED_BYTES_MAX // 2:
            self.is_held_back = False
            self._channel.go_on()
        return message


class _Request(WebRequest):  # type: ignore[misc]
    """Daphne's request. A body is in memory, where ``_Channel`` bounds it; that of an upload goes to the application in
    pieces, which Daphne would call only when it is complete."""

    upload: _Upload | None = None

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()

    @property
    def is_upload(self) -> bool:
        headers = self.requestHeaders
        if headers.hasHeader(b"Upgrade"):
            return False
        given = headers.getRawHeaders(b"Content-Type") or []
        return uploads.is_upload(
            {
                "method": self.channel._command.decode("latin-1"),
                "raw_path": self.channel._path,
                "headers": [(b"content-type", value) for value in given],
            }
        )

    def begin_upload(self, command: bytes, path: bytes, version: bytes) -> None:
        """Call the application now, not when the body is complete."""
        super().requestReceived(command, path, version)

    def handleContentChunk(self, data: bytes) -> None:
        if self.upload is None:
            super().handleContentChunk(data)
        else:
            self.upload.feed(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        if self.upload is None:
            super().requestReceived(command, path, version)
        else:
            self.upload.end()

    def handle_reply(self, message: exchange.Message) -> None:
        """See Daphne's. A connection is not kept behind an answer that comes before the end of the body."""
        is_early = self.upload is not None and not self.upload.is_complete
        if is_early and message["type"] == "http.response.start" and self.channel is not None:
            self.channel.persistent = 0
            self.responseHeaders.setRawHeaders(b"connection", [b"close"])
        super().handle_reply(message)


class _Channel(http.HTTPChannel):
    """Twisted's HTTP connection with bounds on received data (W5).

    A head has one deadline, however slowly its bytes arrive, and a body another one. A body above the application's
    limit, by its Content-Length or by the bytes received, is cut off; the application refuses it, and further data is
    dropped. So is what comes of an upload behind its answer. A head with a folded line is refused, and one whose
    transfer coding is not ``chunked``, as in uvicorn.
    """

    transport: Any

    def __init__(self, addresses: Addresses) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._addresses = addresses
        self._counted = False
        self._cut = False  # No more data of the current body is accepted.
        self._lingers = False
        self._dropped = 0

    def connectionMade(self) -> None:
        self.timeOut = IDLE_S
        self.requestFactory = _Request
        super().connectionMade()  # type: ignore[no-untyped-call]
        self._counted = self._addresses.enter(self.transport.getPeer().host)
        if not self._counted:
            reactor.callLater(LINGER_S, self.transport.abortConnection)

    def connectionLost(self, reason: Any = connectionDone) -> None:
        """Release the address. Not called for a connection that became a WebSocket."""
        if self._counted:
            self._addresses.leave(self.transport.getPeer().host)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def dataReceived(self, data: bytes) -> None:
        if self._lingers or self._cut:
            self._dropped += len(data)
            if self._dropped > DROPPED_BYTES_MAX:
                self.transport.abortConnection()
        elif not self._counted:
            # Only now: clients do not expect an answer before they have sent a request.
            self._refuse(self._addresses.refusal)
        else:
            super().dataReceived(data)  # type: ignore[no-untyped-call]

    def resetTimeout(self) -> None:
        """Keep the deadline, which Twisted would extend for all data received."""

    def lineReceived(self, line: bytes) -> None:
        if line[:1] in (b" ", b"\t"):
            self._respondToBadRequestAndDisconnect()  # type: ignore[no-untyped-call]
        else:
            super().lineReceived(line)  # type: ignore[no-untyped-call]

    def headerReceived(self, line: bytes) -> bool:
        """Store a header; refuse every transfer coding but ``chunked``.

        Twisted passes ``identity`` over, beside which a proxy in front may see another end of the body.
        """
        name, _, value = line.partition(b":")
        if name.lower() == b"transfer-encoding" and value.strip(b" \t").lower() != b"chunked":
            self._respondToBadRequestAndDisconnect()  # type: ignore[no-untyped-call]
            return False
        return bool(super().headerReceived(line))  # type: ignore[no-untyped-call]

    def allHeadersReceived(self) -> None:
        request = self.requests[-1]
        if request.is_upload:
            request.upload = _Upload(self)
            super().allHeadersReceived()  # type: ignore[no-untyped-call]
            self.setTimeout(IDLE_S)  # type: ignore[no-untyped-call]
            request.begin_upload(self._command, self._path, self._version)
            return
        if self.length is not None and self.length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self._cut = True
            self.length = 0  # The application refuses the request by its head.
            request.requestHeaders.removeHeader(b"Expect")
        super().allHeadersReceived()  # type: ignore[no-untyped-call]
        if self._cut:
            self.persistent = 0
        elif self.length != 0:
            self.setTimeout(exchange.BODY_TIMEOUT_S)  # type: ignore[no-untyped-call]

    def rawDataReceived(self, data: bytes) -> None:
        if self._cut:
            return  # Data of the same read as the head.
        receives = not self._handlingRequest
        super().rawDataReceived(data)
        if not receives or self._handlingRequest or not self.requests:
            return
        upload = self.requests[-1].upload
        if upload is not None:
            if not upload.is_held_back:
                self.setTimeout(IDLE_S)  # type: ignore[no-untyped-call]
        elif self.requests[-1].content.tell() > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self._cut = True
            self.persistent = 0
            self.allContentReceived()  # The application refuses the body by its size.

    def _send100Continue(self) -> None:
        upload = self.requests[-1].upload
        if upload is None:
            self.invite()
        else:
            upload.is_expected = True

    def invite(self) -> None:
        """Have the client send the body that it has announced."""
        super()._send100Continue()  # type: ignore[no-untyped-call]

    def hold_back(self) -> None:
        """Read nothing, until ``go_on``."""
        self._networkProducer.pauseProducing()  # type: ignore[misc]
        self.setTimeout(None)  # type: ignore[no-untyped-call]

    def go_on(self) -> None:
        """Read the rest of an upload."""
        self._networkProducer.resumeProducing()  # type: ignore[misc]
        self.setTimeout(IDLE_S)  # type: ignore[no-untyped-call]

    def allContentReceived(self) -> None:
        if not self.requests:
            return  # An upload without content was refused by its head.
        super().allContentReceived()  # type: ignore[no-untyped-call]
        self._savedTimeOut = IDLE_S

    def timeoutConnection(self) -> None:
        if self.line_mode or self._handlingRequest:
            super().timeoutConnection()  # type: ignore[no-untyped-call]
        elif self.requests[-1].upload is not None:
            self.transport.abortConnection()  # The application may be answering.
        else:
            reason = f"The request body did not arrive within {exchange.BODY_TIMEOUT_S:g} s"
            self._refuse(answer(408, reason))

    def requestDone(self, request: Any) -> None:
        """See Twisted's. An upload that is answered before its end is cut off."""
        if request.upload is not None and not request.upload.is_complete:
            self._cut = True
            self.persistent = 0
        super().requestDone(request)  # type: ignore[no-untyped-call]

    def loseConnection(self) -> None:
        if self._cut:
            self._linger()
        else:
            super().loseConnection()  # type: ignore[no-untyped-call]

    def _refuse(self, refusal: bytes) -> None:
        self.transport.write(refusal)
        self._linger()

    def _linger(self) -> None:
        """Close the connection after the peer had time to read the answer."""
        if not self._lingers:
            self._lingers = True
            self.setTimeout(None)  # type: ignore[no-untyped-call]
            self._networkProducer.unregisterProducer()
            self.transport.loseWriteConnection()
            reactor.callLater(LINGER_S, self.transport.abortConnection)


class _Transport(asyncio.Transport):
    """Twisted's transport with the methods of asyncio's that a ``SocketConnection`` uses."""

    def __init__(self, transport: Any, owner: asyncio.Protocol) -> None:
        self._transport = transport
        self._owner = owner

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set ``high``. ``low`` is ignored: Twisted resumes when the buffer is empty."""
        self._transport.unregisterProducer()  # The producer of the HTTP channel is registered.
        self._transport.bufferSize = high
        self._transport.registerProducer(self, True)

    def pauseProducing(self) -> None:
        self._owner.pause_writing()

    def resumeProducing(self) -> None:
        self._owner.resume_writing()

    def stopProducing(self) -> None:
        """Do nothing. Twisted calls it when the connection is lost."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write at once when nothing is buffered.

        Twisted would make two more system calls first and write in the next turn of the loop.
        """
        if not _buffered_bytes(self._transport) and not self.is_closing():
            sent = self._transport.writeSomeData(data)
            # Else it is the error of a lost connection, which the next write reports.
            if isinstance(sent, int):
                data = memoryview(data)[sent:]
        if data:
            self._transport.write(bytes(data))

    def get_write_buffer_size(self) -> int:
        return _buffered_bytes(self._transport)

    def pause_reading(self) -> None:
        self._transport.pauseProducing()

    def resume_reading(self) -> None:
        self._transport.resumeProducing()

    def is_closing(self) -> bool:
        return bool(self._transport.disconnecting or self._transport.disconnected)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._transport.loseWriteConnection()

    def close(self) -> None:
        self._transport.unregisterProducer()  # Twisted waits for a registered producer before it closes.
        self._transport.loseConnection()

    def abort(self) -> None:
        self._transport.abortConnection()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name not in ("peername", "sockname"):
            return default
        address = self._transport.getPeer() if name == "peername" else self._transport.getHost()
        return str(address.host), int(address.port)


def _socket_of(sockets: Sockets) -> type:
    class Socket:
        """The protocol that Daphne passes an upgraded connection to, together with the bytes of its request."""

        factory: Any = None

        def makeConnection(self, transport: Any) -> None:
            self._transport = transport
            self._connection = sockets.open()
            self._connection.connection_made(_Transport(transport, self._connection))

        def dataReceived(self, data: bytes) -> None:
            self._connection.data_received(data)

        def connectionLost(self, reason: Any) -> None:
            clean = reason.check(ConnectionDone) is not None
            self._connection.connection_lost(None if clean else reason.value)
            # The HTTP channel before the upgrade is in a reference cycle with its request and holds the transport.
            # Data that was not sent is released now and not with the cycle.
            self._transport.dataBuffer, self._transport._tempDataBuffer = b"", []

    return Socket


class _Server(Server):  # type: ignore[misc]
    """Daphne's server, whose ``send`` waits while a client does not read a long answer, and which calls the application
    at the head of an upload."""

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """See Daphne's."""
        upload = protocol.upload
        if upload is None:
            return super().create_application(protocol, scope)
        scope |= {"asgi": {"version": "3.0"}, "extensions": {uploads.LINGERS: {}}}
        call = self.application(scope, upload.receive, partial(self.handle_reply, protocol))
        self.connections[protocol]["application_instance"] = asyncio.ensure_future(call)
        return upload

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Send a message and wait until its bytes fit the buffer. A cancellation closes the connection."""
        await super().handle_reply(protocol, message)
        if not message.get("more_body"):
            return
        transport = protocol.transport
        try:
            # Polled, since Twisted notifies only when the buffer is empty.
            while not transport.disconnected and _buffered_bytes(transport) > BUFFERED_BYTES_MAX:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        except asyncio.CancelledError:
            transport.abortConnection()
            raise


def _buffered_bytes(transport: Any) -> int:
    """Return the bytes buffered by Twisted's transport."""
    return len(transport.dataBuffer) - int(transport.offset) + int(transport._tempDataLen)


def loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of Twisted's reactor."""
    event_loop: asyncio.AbstractEventLoop = reactor._asyncioEventloop
    return event_loop


def serve(
    application: Application,
    listeners: list[socket.socket],
    name: str,
    *,
    connections_per_address: int,
) -> None:
    """Serve connections of ``listeners``, which it takes over, until SIGINT or SIGTERM."""
    # Twisted would accept all pending connections, and none would be left for processes that share the listener.
    Port.numberAccepts = property(lambda port: 1, lambda port, number: None)  # type: ignore[assignment]
    addresses = Addresses(connections_per_address)

    def channel(factory: Any) -> Any:
        http_channel: Any = _Channel(addresses)
        return http._GenericHTTPChannelProtocol(http_channel)

    HTTPFactory.protocol = channel
    sockets = Sockets(application, name, on_lost=addresses.leave)
    WebSocketFactory.protocol = _socket_of(sockets)

    def stop() -> "Deferred[None]":
        notices.stopping()
        return Deferred.fromFuture(loop().create_task(sockets.close()))

    reactor.addSystemEventTrigger("before", "shutdown", stop)
    _Server(
        application=application,
        # Twisted closes the descriptors. A listener that still had one would close it again at the process's end, when
        # a thread that reads a file or a folder may have the same number.
        endpoints=[f"fd:fileno={listener.detach()}" for listener in listeners],
        server_name=name,
        proxy_forwarded_address_header=None,
        request_buffer_size=65536,
        verbosity=1,
    ).run()
