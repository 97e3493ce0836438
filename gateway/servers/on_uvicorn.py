"""The gateway served by uvicorn with httptools, with bounds that Daphne has: on heads of requests and on idle peers."""

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from engine.net.http import LINGER_S
from engine.net.network import LoopNetwork
from engine.net.service_manager import notices
from engine.net.tls_handshakes import Arrival, TlsHandshakes
from gateway.servers.connections import Addresses, extensions_of
from gateway.servers.websocket import Application, SocketConnection, Sockets

HEAD_BYTES_MAX = 16 << 10
HEADERS_MAX = 500
IDLE_S = 60
"""Time from a connection's start, or from its last answer, to the end of the next request's head; and between two
pieces of a body."""
CHECK_INTERVAL_S = 5.0
BACKLOG = 1024
ACCEPTS = 1
"""Connections accepted in a turn of the loop. If a process accepted all pending ones, none would be left for the others
that share the listener."""
END_S = 5
"""Time within which open requests must end once the server stops."""


class Http(HttpToolsProtocol):
    """uvicorn's protocol of one connection. A head longer than a bound is answered with 400 (W5)."""

    _in_head = False
    _head_bytes = 0
    _since = 0.0

    def __init__(self, *args: Any, addresses: Addresses, **named: Any) -> None:
        super().__init__(*args, **named)
        self._addresses = addresses
        self._counted = False
        self._refused = False
        self._extensions: dict[str, Any] = {}
        self._address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._extensions = extensions_of(transport)
        self._since = self.loop.time()
        # Kept, since a transport in TLS has no address any more when the connection is lost.
        self._address = transport.get_extra_info("peername")[0]
        self._counted = self._addresses.enter(self._address)
        if not self._counted:
            self.loop.call_later(LINGER_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the count of its address. Not called for a connection that became a WebSocket."""
        if self._counted:
            self._addresses.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._counted:
            if not self._refused:
                # Only now: clients do not expect an answer before they have sent a request.
                self._refused = True
                self.transport.write(self._addresses.refusal)
                if self.transport.can_write_eof():
                    self.transport.write_eof()
            return
        if self._in_head:
            # httptools reports a header when it is complete, and buffers its bytes until then without a bound.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response("The head of the request is too long.")
                return
        else:
            self._since = self.loop.time()
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._extensions:
            self.scope["extensions"] = self._extensions
        self._in_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX or len(self.headers) > HEADERS_MAX:
            # httptools turns it into an error of the parser, which is answered with 400.
            raise ValueError("the head of the request is too long")

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def end_if_idle(self, now: float) -> None:
        """Close a connection that has sent nothing for ``IDLE_S`` of an expected head or body."""
        between_requests = self._in_head or self.cycle is None or self.cycle.response_complete
        if (between_requests or self.cycle.more_body) and now - self._since > IDLE_S:
            self.transport.close()


class _Server(Server):
    """uvicorn's server on a given event loop. A signal ends it gracefully and is not raised again afterwards.

    ``encrypted`` are the listeners that serve in TLS.
    """

    def __init__(
        self,
        config: Config,
        sockets: Sockets,
        encrypted: Sequence[socket.socket],
        tls: ssl.SSLContext | None,
        addresses: Addresses,
    ) -> None:
        super().__init__(config)
        # One above the limit may complete the handshake, to be sent the reason; others are closed at once.
        self._handshakes = TlsHandshakes(
            LoopNetwork(), lambda address: addresses.admits(address, spare=1)
        )
        addresses.handshakes = self._handshakes.of
        self._sockets = sockets
        self._encrypted = encrypted
        self._tls = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        self._close_idle()
        try:
            yield
        finally:
            self._timer.cancel()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CHECK_INTERVAL_S, self._close_idle)
        now = loop.time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Http):
                connection.end_if_idle(now)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in self._encrypted:
            assert self._tls is not None
            begin = partial(self._handshakes.begin, self._tls, self._arrived)
            server = await asyncio.get_running_loop().create_server(
                partial(Arrival, begin), sock=sock, backlog=ACCEPTS
            )
            self.servers.append(server)
        for sock in (*(sockets or ()), *self._encrypted):
            sock.listen(BACKLOG)  # asyncio has set the backlog to ACCEPTS.

    def _arrived(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Serve a connection in TLS as uvicorn does others, and return its protocol."""
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        notices.stopping()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._handshakes.close()
        await self._sockets.close()
        await super().shutdown(sockets)


def serve(
    application: Application,
    listeners: list[socket.socket],
    name: str,
    loop: asyncio.AbstractEventLoop,
    *,
    connections_per_address: int,
    encrypted: Sequence[socket.socket] = (),
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve connections of ``listeners``, and in TLS those of ``encrypted``, on ``loop`` until SIGINT or SIGTERM."""
    addresses = Addresses(connections_per_address)
    sockets = Sockets(application, name, on_lost=addresses.leave)

    def upgraded(**_: Any) -> SocketConnection:
        return sockets.open()

    config = Config(
        application,
        http=partial(Http, addresses=addresses),  # type: ignore[arg-type]
        ws=upgraded,  # type: ignore[arg-type]
        loop="asyncio",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("Server", name)],
        backlog=ACCEPTS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=END_S,
    )
    asyncio.set_event_loop(loop)
    try:
        server = _Server(config, sockets, encrypted, tls, addresses)
        loop.run_until_complete(server.serve(sockets=listeners))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
