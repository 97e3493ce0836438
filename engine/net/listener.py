"""Incoming connections: accepted up to a cap, counted, and drained at the end."""

import asyncio
from collections.abc import Callable

from engine.net.network import Network, Server
from engine.net.transport import Connection


class Listener:
    """Accepts connections made by ``make`` on one address.

    Beyond ``connections_max`` a newcomer gets ``refusal`` (whole frames, may be empty) and is closed; ``refused``
    counts those.
    """

    def __init__(
        self,
        network: Network,
        make: Callable[[], Connection],
        *,
        connections_max: int,
        refusal: bytes = b"",
    ) -> None:
        if connections_max < 1:
            raise ValueError(f"connections_max is {connections_max}, at least 1")
        self._network = network
        self._make = make
        self._refusal = refusal
        self._server: Server | None = None
        self._emptied: asyncio.Event = asyncio.Event()
        self._connections: dict[Connection, None] = {}
        self.connections_max = connections_max
        self.refused = 0

    @property
    def port(self) -> int:
        """The port bound; 0 before ``start``."""
        return self._server.port if self._server is not None else 0

    @property
    def connections(self) -> list[Connection]:
        """Those accepted and not gone yet, oldest first."""
        return list(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Bind and accept. Raises OSError when the address is taken."""
        assert self._server is None, "a listener starts once"
        self._server = await self._network.listen(host, port, self._accept)

    def _accept(self) -> asyncio.BaseProtocol:
        if len(self._connections) >= self.connections_max:
            self.refused += 1
            return _Refused(self._refusal)
        connection = self._make()
        self._connections[connection] = None
        connection.on_gone = lambda: self._gone(connection)
        return connection

    def _gone(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._emptied.set()

    def stop_accepting(self) -> None:
        """Close the listening socket; connections live on. Safe to repeat."""
        if self._server is not None:
            self._server.close()

    async def drain(self, deadline_s: float) -> None:
        """Stop accepting, close all connections and wait until they are gone; those that are not in time are cut.

        Cancel-safe: a second call continues.
        """
        self.stop_accepting()
        for connection in self.connections:
            connection.close()
        try:
            async with asyncio.timeout(deadline_s):
                while self._connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            for connection in self.connections:
                connection.abort()
        if self._server is not None:
            await self._server.wait_closed()


class _Refused(asyncio.Protocol):
    """Tells a newcomer that there is no room, and closes."""

    def __init__(self, refusal: bytes) -> None:
        self._refusal = refusal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._refusal:
            transport.write(self._refusal)
        transport.close()
