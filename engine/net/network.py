"""Network seam: connections and listeners as asyncio transports and protocols, replaced by pipes in the simulator."""

import asyncio
from collections.abc import Callable
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


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
    """The one way to reach another process. Hosts are names or addresses, ports 0..65535."""

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection. Raises OSError when refused or unreachable; cancel-safe."""
        ...

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Server:
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
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await asyncio.get_running_loop().create_connection(factory, host, port)

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Server:
        server = await asyncio.get_running_loop().create_server(factory, host, port, backlog=128)
        return _LoopServer(server)
