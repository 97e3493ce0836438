"""Network seam: connections and listeners as asyncio transports and protocols, replaced by pipes in the simulator."""

import asyncio
import os
import resource
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
PARTS_MAX = 1024
"""One vectored write takes at most this many parts on Linux."""
TLS_HANDSHAKE_TIMEOUT_S = 10.0
"""Time the other side has for its part of a TLS handshake."""


class Server(Protocol):
    """A bound listener."""

    @property
    def port(self) -> int:
        """The port bound, also when 0 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting; connections already accepted live on."""
        ...

    async def wait_closed(self) -> None: ...


class Network(Protocol):
    """The one way to reach another process. Hosts are names or addresses, ports 0..65535.

    With ``tls`` (a context of ``engine.net.tls``) a protocol's connection is made once the handshake is over. One that
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
        """Open a connection. Raises OSError when refused or unreachable, ssl.SSLError (an OSError too) when the
        handshake fails or the other side's certificate is not good for ``host``; cancel-safe."""
        ...

    async def listen(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Server:
        """Accept connections. Raises OSError when the port is taken."""
        ...


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
    """Real sockets of the running event loop."""

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
    """Let the process have as many sockets and files open as the system allows: the soft limit is often 1024, less than
    the connections that the settings allow."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))


def read_at_most(transport: asyncio.Transport, size: int) -> None:
    """Let a transport of a plain socket take so many bytes from it at once; others take what they take."""
    transport.max_size = size  # type: ignore[attr-defined]


def write_parts(transport: asyncio.Transport, parts: Sequence[bytes | memoryview]) -> None:
    """Give ``parts`` to a transport in order; what the kernel takes at once is not copied before.

    Python 3.11's own ``writelines`` joins everything first. An error of the socket is met again, and reported, by the
    transport's next write.
    """
    taken = 0
    socket = transport.get_extra_info("socket")
    plain = transport.get_extra_info("sslcontext") is None
    if socket is not None and plain and not transport.get_write_buffer_size():
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
