"""The network seam: connections and listeners as asyncio transports and protocols; the simulator has pipes instead."""

import asyncio
import os
import resource
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
PARTS_MAX = 1024
"""Parts of one vectored write at most, a limit of Linux."""
JOINED_BYTES_MAX = 64 * 1024
"""Bytes up to which parts are joined before a write to a TLS transport."""
READ_BYTES_MAX = 256 * 1024
"""Bytes that a transport of a plain socket reads at once, asyncio's own limit."""
TLS_HANDSHAKE_TIMEOUT_S = 10.0
"""Time in which a peer must complete a TLS handshake."""


class Server(Protocol):
    """A bound listener."""

    @property
    def port(self) -> int:
        """The bound port, also when port 0 was requested."""
        ...

    def close(self) -> None:
        """Stop accepting; accepted connections stay open."""
        ...

    async def wait_closed(self) -> None: ...


class Network(Protocol):
    """The only access to other processes. Hosts are names or addresses, ports 0..65535.

    With ``tls`` (a context of ``engine.net.tls``) ``connection_made`` is called after the handshake. A handshake that
    fails, or takes longer than TLS_HANDSHAKE_TIMEOUT_S, ends the connection.
    """

    async def connect(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection. Raises OSError when refused or unreachable, ssl.SSLError (also an OSError) when the
        handshake fails or the peer's certificate is not valid for ``host``. Cancel-safe."""
        ...

    async def start_tls(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.Protocol,
        tls: ssl.SSLContext,
        *,
        host: str | None = None,
    ) -> None:
        """Continue a connection with TLS: as a client of ``host``, or as the server when None.

        From now on nothing of the connection reaches the transport's present protocol. ``protocol``, which may be the
        same, is passed the encrypted transport by ``connection_made``. Raises OSError as ``connect`` does, when the
        connection ends first as well; on failure and on cancellation the connection is aborted, and ``protocol`` is not
        called.
        """
        ...

    async def listen(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Server:
        """Accept connections. Raises OSError when the port is in use."""
        ...


class Interim(asyncio.Protocol):
    """Protocol of a transport while its TLS handshake is under way. It keeps what arrives behind the handshake until
    ``hand_over``, and passes on what follows."""

    def __init__(self) -> None:
        self.lost = False
        self._early = bytearray()
        self._protocol: asyncio.Protocol | None = None

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._protocol is not None:
            self._protocol.connection_lost(exc)

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Make ``protocol`` the transport's. It receives what arrived early at once: in the loop's next turn that would
        follow what the loop has already read in this one."""
        self._protocol = protocol
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(bytes(self._early))


class _LoopServer:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._port = int(server.sockets[0].getsockname()[1])  # a closed server has no sockets

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        self._server.close()

    async def wait_closed(self) -> None:
        await self._server.wait_closed()


class LoopNetwork:
    """The network of real sockets, on the running event loop."""

    async def connect(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        limit_s = None if tls is None else TLS_HANDSHAKE_TIMEOUT_S
        return await asyncio.get_running_loop().create_connection(
            factory, host, port, ssl=tls, ssl_handshake_timeout=limit_s
        )

    async def start_tls(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.Protocol,
        tls: ssl.SSLContext,
        *,
        host: str | None = None,
    ) -> None:
        interim = Interim()
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport,
                interim,
                tls,
                server_side=host is None,
                server_hostname=host,
                ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT_S,
            )
            if encrypted is None or interim.lost:
                raise ConnectionResetError("the connection ended during the TLS handshake")
        except BaseException:
            transport.abort()
            raise
        try:
            interim.hand_over(encrypted, protocol)
        except BaseException:
            transport.abort()  # as the event loop does for a protocol that raises
            raise

    async def listen(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Server:
        limit_s = None if tls is None else TLS_HANDSHAKE_TIMEOUT_S
        server = await asyncio.get_running_loop().create_server(
            factory, host, port, backlog=128, ssl=tls, ssl_handshake_timeout=limit_s
        )
        return _LoopServer(server)


def raise_socket_limit() -> None:
    """Raise the process's limit of open sockets and files to the hard limit. The soft limit is often 1024, fewer than
    the connections that the settings allow."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))


def read_at_most(transport: asyncio.Transport, size: int) -> None:
    """Limit how many bytes a transport of a plain socket reads at once. Other transports are not affected."""
    transport.max_size = size  # type: ignore[attr-defined]


def name_peer(transport: asyncio.Transport, host: str, port: int) -> None:
    """Make ``get_extra_info("peername")`` of a transport this address, which a load balancer stated, also for the TLS
    transport that may follow it."""
    transport._extra["peername"] = (host, port)  # type: ignore[attr-defined]


def write_parts(transport: asyncio.Transport, parts: Sequence[bytes | memoryview]) -> None:
    """Write ``parts`` to a transport in order, without a copy of what the kernel accepts at once.

    Python 3.11's own ``writelines`` joins all parts first. A socket error is ignored here, because the transport's next
    write meets and reports it again.
    """
    if transport.get_extra_info("sslcontext") is not None:
        _write_joined(transport, parts)
        return
    taken = 0
    socket = transport.get_extra_info("socket")
    if socket is not None and not transport.get_write_buffer_size():
        try:
            taken = os.writev(socket.fileno(), parts[:PARTS_MAX])
        except OSError:
            taken = 0
    for part in parts:
        if taken >= len(part):
            taken -= len(part)
        elif taken:
            transport.write(memoryview(part)[taken:])
            taken = 0
        else:
            transport.write(part)


def _write_joined(transport: asyncio.Transport, parts: Sequence[bytes | memoryview]) -> None:
    """Write ``parts`` joined into pieces of at most JOINED_BYTES_MAX; a longer part is a piece of its own.

    Each write to a TLS transport is encrypted into records of its own and sent at once.
    """
    joined: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        if joined and size + len(part) > JOINED_BYTES_MAX:
            transport.write(b"".join(joined))
            joined, size = [], 0
        joined.append(part)
        size += len(part)
    if joined:
        transport.write(joined[0] if len(joined) == 1 else b"".join(joined))
